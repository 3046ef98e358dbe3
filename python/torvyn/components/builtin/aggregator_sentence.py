"""`sentence`: tokens in, whole sentences out.

The rules live in the native splitter of `torvyn.text`; this class gives it text and hands on what
it finds. In normal mode the sentences, put together, are the input to the letter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.contract import Aggregator, Element

if TYPE_CHECKING:
    from torvyn.text import SentenceSplitter

# fmt: off
LANGUAGES = (
    "am", "ar", "bg", "bn", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "gu", "he", "hi",
    "hu", "hy", "it", "ja", "ka", "kk", "km", "kn", "ko", "ml", "mr", "my", "nb", "ne", "nl", "nn",
    "no", "pa", "pl", "pt", "ro", "ru", "sk", "sv", "ta", "te", "th", "tr", "uk", "ur", "zh",
)
# fmt: on
"""`SentenceSplitter.languages()`, known without the native module."""

SPEC = Spec(
    name="sentence",
    role="aggregator",
    summary="Tokens in, whole sentences out.",
    options=(
        Option(
            "mode",
            "choice",
            "normal",
            "The rules of written language, with nothing trimmed; or a sentence at each token "
            "that ends in `.`, `!` or `?`, trimmed.",
            choices=("normal", "simple"),
        ),
        Option(
            "language",
            "text",
            "auto",
            "The language of the text as an ISO 639-1 code, which decides how some abbreviations "
            "and numbers are read; `auto` detects it. In simple mode it has no meaning.",
        ),
        Option("first_min", "integer", 0, "The least characters of the first one.", minimum=0),
        Option("min", "integer", 0, "The least characters of each other one.", minimum=0),
        Option("max", "integer", 0, "The most characters of one; 0 is any number.", minimum=0),
        Option(
            "idle_flush", "duration", 0.0, "Send what is held after so long a silence; 0: never."
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
        """What an alarm would have sent. A Python aggregator has none: it speaks when spoken to."""
        now_s = self._clock()
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or now_s - last_s < self._idle_flush_s:
            return []
        rest = self.flush()
        self._splitter = self._new_splitter(self._options["min"])
        return rest

    def _new_splitter(self, first_min: int) -> SentenceSplitter:
        # The native module is loaded when a flow starts, never when components are listed.
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
        known = f"`language` takes auto or one of: {', '.join(LANGUAGES)}"
        raise wrong_config(SPEC, f"`language` has no rules for {language!r}", known)
    limit = options["max"]
    for name in ("first_min", "min"):
        if limit and options[name] > limit:
            raise wrong_config(SPEC, f"`{name}` is more than `max`", f"`max` is {limit}")
    return options
