"""`blocklist`: drops or replaces listed words, or blocks the stream.

`element` mode compares each whole element, trimmed and with ASCII letters in lower case; a word
split over several elements passes. `stream` mode finds split words too, and compares in a normal
form, so case, width, accents and invisible characters do not hide a word.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from torvyn._contract.element import Element
from torvyn._contract.enums import GuardAction, GuardRules
from torvyn._contract.signals import Verdict
from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_guard import KINDS_OPTION, POLICY_OPTION, Guard

_MATCH: Final = Option(
    "match",
    "choice",
    "word",
    "For `stream` mode: match whole words only, or also inside other words. In scripts without "
    "spaces, every character is a word boundary.",
    choices=("word", "substring"),
)
_HOMOGLYPHS: Final = Option(
    "homoglyphs",
    "boolean",
    False,
    "For `stream` mode: treat letters that look alike as equal, such as Cyrillic and Latin `a`.",
)

SPEC = Spec(
    name="blocklist",
    role="filter",
    summary="Drops or replaces the listed words, or blocks the stream.",
    options=(
        Option("words", "words", (), "The words to match, in any case."),
        Option(
            "allow_empty",
            "boolean",
            False,
            "Accept an empty list, which lets everything pass. Without it, an empty list is an "
            "error.",
        ),
        Option(
            "mode",
            "choice",
            "element",
            "`element` compares each element by itself, trimmed, ignoring the case of ASCII "
            "letters. `stream` compares the joined text in a normal form: it finds words that are "
            "split over elements, regardless of case, width and invisible characters.",
            choices=("element", "stream"),
        ),
        _MATCH,
        _HOMOGLYPHS,
        Option(
            "action",
            "choice",
            "drop",
            "What happens to a match; `block` ends the stream with `content_filter`.",
            choices=tuple(GuardAction),
        ),
        Option("replacement", "text", "***", "The text that replaces a match."),
        POLICY_OPTION,
        KINDS_OPTION,
    ),
    main="words",
    example="""\
[flow.main.nodes.policy]
component = "blocklist"
config = { words = ["blocked_word", "secret"], mode = "stream", action = "replace" }
""",
)

# The native stage's white space: `str.strip()` also removes U+001C to U+001F.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _require_words(options: dict[str, Any]) -> None:
    """Raises for an empty list, which a slip can leave and which guards nothing."""
    if not options["words"] and not options["allow_empty"]:
        hint = "list the words, or write `allow_empty = true` to let everything pass"
        raise wrong_config(SPEC, "`words` is empty", hint)


class Blocklist(Guard):
    spec: ClassVar[Spec] = SPEC

    filtered = 0
    """The number of elements dropped in `element` mode."""

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        _require_words(options)
        if options["mode"] == "stream":
            super().check_options(options)
            return
        for option in (_MATCH, _HOMOGLYPHS, POLICY_OPTION, KINDS_OPTION):
            # If it were ignored, the filter would guard less than its author believes.
            if options[option.name] != option.default:
                hint = 'write `mode = "stream"`'
                message = f"`{option.name}` works only in `stream` mode"
                raise wrong_config(SPEC, message, hint)

    def init(self, config: str) -> None:
        options = self._parse(config)
        self.filtered = 0
        self._by_element = options["mode"] == "element"
        if self._by_element:
            self.check_options(options)  # In `stream` mode, `start` checks them.
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
        if self._action == GuardAction.REPLACE:
            return Verdict.replace(self._replacement)
        if self._action == GuardAction.BLOCK:
            return Verdict.block("`blocklist` found a listed word")
        return False

    def start(self, options: dict[str, Any]) -> None:
        _require_words(options)
        if options["mode"] == "stream":
            return super().start(options)
        self._options, self._action, self._texts = options, options["action"], None
        return None

    def rules(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "rules": GuardRules.WORDS,
            "words": list(options["words"]),
            "whole": options["match"] == "word",
            "homoglyphs": options["homoglyphs"],
            "replacements": [options["replacement"]],
        }

    def rule_name(self, rule: int) -> str:
        return f"words[{rule}]"

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = self.parsed_options(config)
        if type(self) is not Blocklist:
            return None
        if options["mode"] == "stream":
            return self.native_guard(options)
        words: dict[str, object] = {"words": list(options["words"])}
        # The other actions are rare in this mode and run in Python.
        return ("blocklist", words) if options["action"] == GuardAction.DROP else None
