"""`pattern`: drops or replaces matches of regular expressions, or blocks the stream.

It matches the joined text, however that is split over elements. Matching takes linear time, so
look-around and back-references are errors.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.enums import GuardAction, GuardRules
from torvyn._contract.signals import Verdict
from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import KINDS_OPTION, POLICY_OPTION, Guard

SPEC = Spec(
    name="pattern",
    role="filter",
    summary="Acts on matches of regular expressions in the joined text of the stream.",
    options=(
        Option(
            "patterns",
            "texts",
            None,
            "The regular expressions; a leading `(?i)` ignores case. The leftmost match wins; at "
            "the same place, the first pattern wins.",
            required=True,
        ),
        Option(
            "action",
            "choice",
            "replace",
            "What happens to a match; `block` ends the stream with `content_filter`.",
            choices=tuple(GuardAction),
        ),
        Option("replacement", "text", "[removed]", "The text that replaces a match."),
        POLICY_OPTION,
        Option(
            "window",
            "integer",
            256,
            "The length in characters up to which every match is found. Longer matches are found "
            "if a shorter match ends within each stretch of this length.",
            minimum=1,
        ),
        KINDS_OPTION,
    ),
    main="patterns",
    example="""\
[flow.main.nodes.tickets]
component = "pattern"
config = { patterns = ['\\bTICKET-\\d{4,8}\\b'], replacement = "[ticket]" }
""",
)


class Pattern(Guard):
    spec: ClassVar[Spec] = SPEC

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        if not options["patterns"]:
            raise wrong_config(SPEC, "`patterns` is empty")
        return {
            "rules": GuardRules.PATTERNS,
            "patterns": list(options["patterns"]),
            "window": options["window"],
            "replacements": [options["replacement"]],
        }

    def rule_name(self, rule: int) -> str:
        return f"patterns[{rule}]"

    def evaluate(self, element: Element) -> bool | Verdict:
        return super().evaluate(element)

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.parsed_options(config)
        return self.native_guard(options) if type(self) is Pattern else None

    def _rules_error(self, error: ValueError) -> Exception:
        index, reason = error.args
        hint = "the syntax is that of Rust's `regex`, without look-around and back-references"
        return wrong_config(SPEC, f"`patterns[{index}]` is not valid: {reason}", hint)
