"""`pattern`: takes out, replaces or stops at what regular expressions match in the joined text.

Matching takes linear time, so look-around and back-references are refused. What fits into the
window is found however it is split over elements; what has matched goes on as long as it matches.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import GUARDED, POLICY, Guard
from torvyn.contract import Element, Verdict

SPEC = Spec(
    name="pattern",
    role="filter",
    summary="Acts on what regular expressions match, in the joined text of the stream.",
    options=(
        Option(
            "patterns",
            "texts",
            None,
            "The regular expressions; `(?i)` in front ignores case. The leftmost match counts, of "
            "several there the first pattern's.",
            required=True,
        ),
        Option(
            "action",
            "choice",
            "replace",
            "What becomes of a match; `block` ends the stream with `content_filter`.",
            choices=("drop", "replace", "block"),
        ),
        Option("replacement", "text", "[removed]", "What stands in the place of a match."),
        POLICY,
        Option(
            "window",
            "integer",
            256,
            "The characters within which a match is surely found. A match may be longer, if no "
            "stretch of it this long is without an end of a shorter one.",
            minimum=1,
        ),
        GUARDED,
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
            raise wrong_config(SPEC, "there is no expression in `patterns`")
        return {
            "rules": "patterns",
            "patterns": list(options["patterns"]),
            "window": options["window"],
            "replacements": [options["replacement"]],
        }

    def rule_name(self, rule: int) -> str:
        return f"patterns[{rule}]"

    def evaluate(self, element: Element) -> bool | Verdict:
        return super().evaluate(element)

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.options_of(config)
        return self.native_form(options) if type(self) is Pattern else None

    def _refused(self, error: ValueError) -> Exception:
        index, reason = error.args
        hint = "it is matched in linear time, with the syntax of Rust's `regex`"
        return wrong_config(SPEC, f"`patterns[{index}]` is refused: {reason}", hint)
