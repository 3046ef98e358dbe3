"""The native module. Text that a person reads is never made there: errors carry fields."""

from typing import Any, Literal, final

# text.rs
@final
class SentenceSplitter:
    """Text to sentences, as it streams.

    In normal mode the outputs joined are the input, and they are the same for every split of it;
    in simple mode each `put` is one token. Lengths are in characters, `max = 0` means none.
    """

    def __new__(
        cls,
        mode: Literal["normal", "simple"] = "normal",
        first_min: int = 0,
        min: int = 0,
        max: int = 0,
    ) -> SentenceSplitter: ...
    def put(self, text: str) -> list[str]:
        """The sentences that this piece completes."""

    def finish(self) -> str | None:
        """The input is over: the rest, if there is one. The splitter is as new."""

    def flush_idle(self) -> str | None:
        """No input for a while: what is held leaves, and the text goes on afterwards."""

    def clear(self) -> None:
        """Forgets everything."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait here."""

@final
class Utf8Decoder:
    """Bytes to text, as they stream.

    Joined it equals `bytes.decode(errors="replace")` of the whole for every split.
    """

    def __new__(cls) -> Utf8Decoder: ...
    def put(self, data: bytes) -> str:
        """Every character that these bytes complete; a bad byte is U+FFFD."""

    def finish(self) -> str:
        """The input is over: U+FFFD if a character never became whole. The decoder is as new."""

    def clear(self) -> None:
        """Forgets what waits."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for the rest of their character: 0 to 3."""

# toml.rs
class TomlError(ValueError):
    """`args` are `(kind, message, start, end)`; kind is `syntax` or `too-deep`, in bytes."""

    args: tuple[str, str, int, int]

def parse_toml(text: str) -> tuple[str, int, int, Any]:
    """A tree of `(kind, start, end, value)`; a table's value is `[(key, start, end, node)]`."""
