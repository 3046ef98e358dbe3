"""`on_error`: a policy as its author wrote it -> `ErrorPolicy`, and where dead letters go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from torvyn.contract.units import parse_duration_s
from torvyn.errors import Location
from torvyn.link.plan import ErrorPolicy
from torvyn.manifest.problems import Problems, quoted, suggestion
from torvyn.manifest.schema.tables import ON_ERROR, POLICIES

CODE = "link.bad-policy"


@dataclass(frozen=True, slots=True)
class Handling:
    """What a node does about errors."""

    policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    to: str | None = None
    """A node, or a file, for dead letters."""

    @property
    def keeps_letters(self) -> bool:
        return "dead-letter" in (self.policy.policy, self.policy.then)


FAIL_FAST: Final = Handling()


def read_policy(
    given: str | Mapping[str, Any] | None, place: Location | None, problems: Problems
) -> Handling:
    """The handling; when it is wrong, fail-fast and a problem."""
    table: Mapping[str, Any] = {"policy": given} if isinstance(given, str) else given or {}
    if not table:
        return FAIL_FAST
    before = len(problems)
    _check_names(table, place, problems)
    policy = _choice(table, "policy", place, problems)
    then = _choice(table, "then", place, problems)
    _check_fit(policy, then, table, place, problems)
    count = _count(table.get("max", 3), place, problems)
    pause = _pause(table.get("backoff", 0.1), place, problems)
    if len(problems) > before:
        return FAIL_FAST
    return Handling(ErrorPolicy(policy, count, pause, then), table.get("to"))


def _check_names(table: Mapping[str, Any], place: Location | None, problems: Problems) -> None:
    known = tuple(ON_ERROR.names())
    for name in table:
        if name not in known:
            hint = suggestion(str(name), known, f"its keys are {quoted(known)}")
            problems.add(CODE, f"`on_error` has no key `{name}`", place, hint)


def _choice(table: Mapping[str, Any], name: str, place: Location | None, problems: Problems) -> str:
    key = ON_ERROR.key(name)
    assert key is not None
    value = table.get(name, "fail-fast")
    if value not in key.choices:
        hint = suggestion(str(value), key.choices, f"it is {quoted(key.choices, 'or')}")
        problems.add(CODE, f"`{value}` is not a value of `{name}`", place, hint)
    return str(value)


def _check_fit(
    policy: str,
    then: str,
    table: Mapping[str, Any],
    place: Location | None,
    problems: Problems,
) -> None:
    if policy not in POLICIES:
        return
    if "policy" not in table:
        problems.add(CODE, "`on_error` has no `policy`", place, f"it is {quoted(POLICIES, 'or')}")
    stray = [name for name in ("max", "backoff", "then") if name in table]
    if policy != "retry" and stray:
        message = f'{quoted(stray)} of `on_error` needs `policy = "retry"`, not `{policy}`'
        problems.add(CODE, message, place)
    keeps = "dead-letter" in (policy, then)
    if keeps and not (isinstance(table.get("to"), str) and table["to"]):
        hint = 'write `to = "node"`, or the path of a file such as `to = "errors.jsonl"`'
        problems.add(CODE, "`dead-letter` does not say where letters go", place, hint)
    if not keeps and table.get("to") is not None:
        problems.add(CODE, f"`to` needs the policy `dead-letter`, not `{policy}`", place)


def _count(value: Any, place: Location | None, problems: Problems) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1000:
        return value
    problems.add(CODE, f"`max` is {value!r}; it is a number from 1 to 1000", place)
    return 1


def _pause(value: Any, place: Location | None, problems: Problems) -> float:
    try:
        return parse_duration_s(value)
    except ValueError as error:
        problems.add(CODE, f"`backoff` is wrong: {error}", place)
        return 0.0
