"""`blocklist`: drops, replaces or stops at listed words, token by token or in the joined text.

In `element` mode a token is compared as a whole: trimmed, and with ASCII letters taken as lower
case; a word that is split over several tokens passes. In `stream` mode none does, and words are
compared in a normal form, in which case, width, accents and invisible characters do not hide them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import GUARDED, POLICY, Guard
from torvyn.contract import Element, Verdict

_MATCH: Final = Option(
    "match",
    "choice",
    "word",
    "In `stream` mode: whole words only, or also inside of others. Scripts that are "
    "written without spaces have a border at every character.",
    choices=("word", "substring"),
)
_HOMOGLYPHS: Final = Option(
    "homoglyphs",
    "boolean",
    False,
    "In `stream` mode: letters that look alike are the same, such as Cyrillic and Latin `a`.",
)

SPEC = Spec(
    name="blocklist",
    role="filter",
    summary="Drops, replaces or stops at the listed words.",
    options=(
        Option("words", "words", (), "The words, whatever their case."),
        Option(
            "mode",
            "choice",
            "element",
            "What is compared: each element by itself, trimmed, whatever the case of its ASCII "
            "letters; or the joined text in its normal form, so that a word is found however it "
            "is split over elements, and whatever its case, width and invisible characters.",
            choices=("element", "stream"),
        ),
        _MATCH,
        _HOMOGLYPHS,
        Option(
            "action",
            "choice",
            "drop",
            "What becomes of a match; `block` ends the stream with `content_filter`.",
            choices=("drop", "replace", "block"),
        ),
        Option("replacement", "text", "***", "What stands in the place of a match."),
        POLICY,
        GUARDED,
    ),
    main="words",
    example="""\
[flow.main.nodes.policy]
component = "blocklist"
config = { words = ["blocked_word", "secret"], mode = "stream", action = "replace" }
""",
)

# White space as the native stage has it: `str.strip()` alone also takes U+001C to U+001F.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Blocklist(Guard):
    spec: ClassVar[Spec] = SPEC

    filtered = 0
    """How many elements were dropped, in `element` mode."""

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        if options["mode"] == "stream":
            super().check_options(options)
            return
        for option in (_MATCH, _HOMOGLYPHS, POLICY, GUARDED):
            # Passed over in silence, it would guard less than its author believes.
            if options[option.name] != option.default:
                hint = 'write `mode = "stream"`'
                message = f"`{option.name}` is for the joined text of a stream"
                raise wrong_config(SPEC, message, hint)

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        if options["mode"] == "element":
            self.check_options(options)  # which making the rules is, in the other mode
        self.filtered = 0
        self._by_element = options["mode"] == "element"
        self._replacement: str = options["replacement"]
        self._words = frozenset(word.translate(_LOWER) for word in options["words"])
        self.start(options)

    def evaluate(self, element: Element) -> bool | Verdict:
        if not self._by_element:
            return super().evaluate(element)
        word = element.text_lossy().strip(_WHITE_SPACE)
        word = word.lower() if word.isascii() else word.translate(_LOWER)
        if word not in self._words:
            return True
        self.filtered += 1
        if self._action == "replace":
            return Verdict.replace(self._replacement)
        return Verdict.block("`blocklist` has found a word") if self._action == "block" else False

    def start(self, options: dict[str, Any]) -> None:
        if options["mode"] == "stream":
            return super().start(options)
        self._options, self._action, self._texts = options, options["action"], None
        return None

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "rules": "words",
            "words": list(options["words"]),
            "whole": options["match"] == "word",
            "homoglyphs": options["homoglyphs"],
            "replacements": [options["replacement"]],
        }

    def rule_name(self, rule: int) -> str:
        return f"words[{rule}]"

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.options_of(config)
        if type(self) is not Blocklist:
            return None
        if options["mode"] == "stream":
            return self.native_form(options)
        words: dict[str, object] = {"words": list(options["words"])}
        # The other actions are rare in this mode, and in Python.
        return ("blocklist", words) if options["action"] == "drop" else None
