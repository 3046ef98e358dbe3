"""`sentence`: joins tokens into whole sentences.

The rules are in the native splitter of `torvyn.text`. In normal mode the sentences, joined, equal
the input.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Aggregator
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec

if TYPE_CHECKING:
    from torvyn.text import SentenceSplitter

# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "gu", "he", "hi",
    "hu", "hy", "it", "ja", "ka", "kk", "km", "kn", "ko", "ml", "mr", "my", "nb", "ne", "nl", "nn",
    "no", "pa", "pl", "pt", "ro", "ru", "sk", "sv", "ta", "te", "th", "tr", "uk", "ur", "zh",
)
# fmt: on
"""A copy of `SentenceSplitter.languages()`, so that the native module is not needed."""

SPEC = Spec(
    name="sentence",
    role="aggregator",
    summary="Joins tokens into whole sentences.",
    options=(
        Option(
            "mode",
            "choice",
            "normal",
            "`normal` follows the rules of written language and trims nothing. `simple` ends a "
            "sentence after each token that ends in `.`, `!` or `?`, and trims it.",
            choices=("normal", "simple"),
        ),
        Option(
            "language",
            "text",
            "auto",
            "The language of the text as an ISO 639-1 code. It decides how some abbreviations and "
            "numbers are read. `auto` detects it. `simple` mode ignores it.",
        ),
        Option("first_min", "integer", 0, "The minimum length of the first sentence.", minimum=0),
        Option("min", "integer", 0, "The minimum length of the others.", minimum=0),
        Option("max", "integer", 0, "The maximum length; 0 means no limit.", minimum=0),
        Option(
            "idle_flush",
            "duration",
            0.0,
            "Sends buffered text when no token arrives for this long.",
        ),
    ),
    main="mode",
    example="""\
[flow.main.nodes.sentences]
component = "sentence"
config = { min = 20, max = 400 }
""",
)


class Sentence(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "sentences"

    _clock: Callable[[], float] = staticmethod(time.monotonic)

    def init(self, config: str) -> None:
        self._options = _parse(config)
        self._splitter = self._new_splitter(self._options["first_min"])
        self._idle_flush_s: float = self._options["idle_flush"]
        self._last_s: float | None = None

    def ingest(self, element: Element) -> list[str]:
        text = element.text
        rest = self._after_silence() if self._idle_flush_s else []
        return rest + self._splitter.put(text)

    def flush(self) -> list[str]:
        rest = self._splitter.finish()
        return [] if rest is None else [rest]

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options = _parse(config)
        if type(self) is not Sentence:
            return None
        options["idle_flush_s"] = options.pop("idle_flush")
        return "sentence", options

    def _after_silence(self) -> list[str]:
        """What a timer would have sent; a Python aggregator only runs when an element arrives."""
        now_s = self._clock()
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or now_s - last_s < self._idle_flush_s:
            return []
        rest = self.flush()
        self._splitter = self._new_splitter(self._options["min"])
        return rest

    def _new_splitter(self, first_min: int) -> SentenceSplitter:
        # Load the native module when a flow starts, not when components are listed.
        from torvyn.text import SentenceSplitter

        options = self._options
        return SentenceSplitter(
            mode=options["mode"],
            first_min=first_min,
            min=options["min"],
            max=options["max"],
            language=options["language"],
        )


def _parse(config: Any) -> dict[str, Any]:
    options = parse_config(SPEC, config)
    language = options["language"]
    if language not in ("auto", *LANGUAGES):
        hint = f"use `auto` or one of: {', '.join(LANGUAGES)}"
        raise wrong_config(SPEC, f"`language` {language!r} is not supported", hint)
    limit = options["max"]
    for name in ("first_min", "min"):
        if limit and options[name] > limit:
            raise wrong_config(SPEC, f"`{name}` is greater than `max`", f"`max` is {limit}")
    return options
