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


def parse_policy(
    option: str | Mapping[str, Any] | None, place: Location | None, problems: Problems
) -> ErrorPolicy:
    """The policy; fail-fast and a problem when the option is wrong."""
    table: Mapping[str, Any] = {"policy": option} if isinstance(option, str) else option or {}
    if not table:
        return FAIL_FAST
    before = len(problems)
    values = table_values(ON_ERROR, table, CODE, place, problems)
    if len(problems) == before:
        _check_combination(table, place, problems)
    if len(problems) > before:
        return FAIL_FAST
    return ErrorPolicy(
        values["policy"],
        values["max"],
        values["backoff"],
        values["then"],
        values["to"],
        values["max_backoff"],
    )


def _check_combination(
    table: Mapping[str, Any], place: Location | None, problems: Problems
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
    if keeps_letters and not table.get("to"):
        hint = 'write `to = "node"`, or the path of a file such as `to = "errors.jsonl"`'
        problems.add(CODE, "`dead-letter` needs `to`, the target of dead letters", place, hint)
    if not keeps_letters and table.get("to") is not None:
        problems.add(CODE, f"`to` needs the policy `dead-letter`, not `{policy}`", place)
