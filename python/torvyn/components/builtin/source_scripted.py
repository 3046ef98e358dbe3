"""`scripted`: a fixed list of tokens, for demonstrations, tests and benchmarks.

Without a delay, the native stage of the same name replaces this class. With one, this class waits
between tokens without blocking.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec

# fmt: off
DEFAULT_TOKENS = (
    "The", " quick", " brown", " fox", " jumped", " over", " the", " lazy", " dog", ".",
    " The", " blocked_word", " was", " filtered", ".",
    " Torvyn", " handles", " streaming", " tokens", ".",
)
# fmt: on

SPEC = Spec(
    name="scripted",
    role="source",
    summary="Sends a fixed list of tokens.",
    options=(
        Option("tokens", "tokens", DEFAULT_TOKENS, "The tokens, in order."),
        Option("text", "text", "", "Text instead of `tokens`; each word is a token."),
        Option("repeat", "integer", 1, "How many times to send the tokens.", minimum=1),
        Option("delay", "duration", 0.0, "The time between two tokens."),
    ),
    main="tokens",
    example="""\
[flow.main.nodes.model]
component = "scripted"
config = { tokens = ["Hello", ",", " world", "."], delay = "20ms" }
""",
    other_names={"script": "text", "delay_s": "delay"},
)


class Scripted(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "tokens"

    _clock: Callable[[], float] = staticmethod(time.monotonic)

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._tokens = _tokens(options)
        self._total = len(self._tokens) * int(options["repeat"])
        self._delay_s: float = options["delay"]
        self._sent = 0
        self._start_s: float | None = None

    def pull(self) -> str | Pending | None:
        sent = self._sent
        if sent == self._total:
            return None
        if self._delay_s:
            wait_s = self._wait_s()
            if wait_s > 0:
                return PENDING.after(wait_s)
        self._sent = sent + 1
        return self._tokens[sent % len(self._tokens)]

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        options: dict[str, Any] = parse_config(SPEC, config)
        if type(self) is not Scripted or options["delay"]:
            return None
        return "scripted", {"tokens": list(_tokens(options)), "repeat": options["repeat"]}

    def _wait_s(self) -> float:
        now_s = self._clock()
        if self._start_s is None:
            self._start_s = now_s
        return self._start_s + self._sent * self._delay_s - now_s


def words(text: str) -> tuple[str, ...]:
    """Words with the white space before them, as tokenizers split text."""
    return tuple(re.findall(r"\s*\S+|\s+\Z", text))


def _tokens(options: Mapping[str, Any]) -> tuple[str, ...]:
    return words(options["text"]) if options["text"] else options["tokens"]
