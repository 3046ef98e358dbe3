"""`blocklist`: drops every token that is one of the listed words.

A token is compared as a whole: trimmed, and with ASCII letters taken as lower case. A word that is
split over several tokens passes.
"""

from __future__ import annotations

from typing import ClassVar, Final

from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Filter

SPEC = Spec(
    name="blocklist",
    role="filter",
    summary="Drops every token that is one of the listed words.",
    options=(
        Option(
            "words", "words", (), "The words to drop, whatever the case of their ASCII letters."
        ),
        Option(
            "mode",
            "choice",
            "element",
            "What is compared: each element by itself.",
            choices=("element",),
        ),
    ),
    main="words",
    example="""\
[flow.main.nodes.policy]
component = "blocklist"
config = "blocked_word, secret"
""",
)

# White space as the native stage has it: `str.strip()` alone also takes U+001C to U+001F.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Blocklist(Filter):
    spec: ClassVar[Spec] = SPEC

    filtered = 0
    """How many elements were dropped."""

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._words = frozenset(word.translate(_LOWER) for word in options["words"])
        self.filtered = 0

    def evaluate(self, element: Element) -> bool:
        word = element.text_lossy().strip(_WHITE_SPACE)
        word = word.lower() if word.isascii() else word.translate(_LOWER)
        if word in self._words:
            self.filtered += 1
            return False
        return True

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = parse_config(SPEC, config)
        return ("blocklist", {"words": list(options["words"])}) if type(self) is Blocklist else None
