"""`on_error`: the option of a flow or node -> `ErrorPolicy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torvyn.errors import Location
from torvyn.link.option_values import table_values
from torvyn.link.plan import ErrorPolicy
from torvyn.manifest.problems import Problems, quoted
from torvyn.manifest.schema.tables import ON_ERROR, POLICIES

CODE = "link.bad-policy"
FAIL_FAST: Final = ErrorPolicy()
SET_ASIDE: Final = ErrorPolicy("set-aside")


def parse_policy(
    option: str | Mapping[str, Any] | None,
    place: Location | None,
    problems: Problems,
    *,
    keeps_state: bool,
) -> ErrorPolicy:
    """The policy; fail-fast and a problem when the option is wrong. `keeps_state`: whether the flow
    has a folder, and so a place for its dead letters."""
    table: Mapping[str, Any] = {"policy": option} if isinstance(option, str) else option or {}
    if not table:
        return FAIL_FAST
    before = len(problems)
    values = table_values(ON_ERROR, table, CODE, place, problems)
    if len(problems) == before:
        _check_combination(table, place, problems, keeps_state)
    if len(problems) > before:
        return FAIL_FAST
    then = "set-aside" if keeps_state and "then" not in table else values["then"]
    return ErrorPolicy(
        values["policy"],
        values["max"],
        values["backoff"],
        then,
        values["to"],
        values["max_backoff"],
    )


def _check_combination(
    table: Mapping[str, Any], place: Location | None, problems: Problems, keeps_state: bool
) -> None:
    policy = table.get("policy")
    if policy is None:
        hint = f"it must be {quoted(POLICIES, 'or')}"
        problems.add(CODE, "`on_error` has no `policy`", place, hint)
    stray = [name for name in ("max", "backoff", "max_backoff", "then") if name in table]
    if policy != "retry" and stray:
        message = f'{quoted(stray)} of `on_error` needs `policy = "retry"`, not `{policy}`'
        problems.add(CODE, message, place)
    keeps_letters = "dead-letter" in (policy, table.get("then"))
    if keeps_letters and not (table.get("to") or (keeps_state and "to" not in table)):
        hint = 'write `to = "node"`, or the path of a file such as `to = "errors.jsonl"`'
        problems.add(CODE, "`dead-letter` needs `to`, the target of dead letters", place, hint)
    if "set-aside" in (policy, table.get("then")) and not keeps_state:
        message = "`set-aside` needs a flow that keeps state: this one has no place for elements"
        hint = 'write `carrier = "disk"` on an edge, or `checkpoint = "1s"` in the flow'
        problems.add(CODE, message, place, hint)
    if not keeps_letters and table.get("to") is not None:
        problems.add(CODE, f"`to` needs the policy `dead-letter`, not `{policy}`", place)
