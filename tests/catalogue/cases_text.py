"""One provocation for each code of the room `text`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from torvyn.text import TextStreamer, Vocabulary


def _load(text: str, name: str = "tokenizer.json") -> Callable[[Path], object]:
    def run(folder: Path) -> object:
        (folder / name).write_text(text)
        return Vocabulary.load(folder / name)

    return run


def _unreadable(folder: Path) -> object:
    """A socket can be seen and not opened, by root either."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("tokenizer.json")
        return Vocabulary.load(folder)


def _tail(_folder: Path) -> object:
    streamer = TextStreamer(tail="error")
    streamer.put(b"\xf0\x9f")
    return streamer.finish()


CASES: dict[str, Callable[[Path], object]] = {
    "text.bytes-invalid": lambda _: TextStreamer(bad_bytes="error").put(b"\xff"),
    "text.no-vocabulary": lambda _: TextStreamer().put(1),
    "text.tail-unfinished": _tail,
    "text.token-unknown": lambda _: TextStreamer(Vocabulary([b"a"])).put(1),
    "text.vocabulary-invalid": _load("{}"),
    "text.vocabulary-missing": lambda folder: Vocabulary.load(folder / "absent"),
    "text.vocabulary-too-large": _load('{"model": {"vocab": {"a": 999999999}}}'),
    "text.vocabulary-unreadable": _unreadable,
    "text.vocabulary-unsupported": _load(
        '{"model": {"vocab": {"a": 0}}, "decoder": {"type": "CTC"}}'
    ),
}
