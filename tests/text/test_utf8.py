"""Bytes to text through the Python border, against Python's own decoder."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from torvyn.text import Utf8Decoder

broken = st.lists(
    st.text(max_size=3).map(str.encode)
    | st.binary(max_size=3)
    | st.characters(exclude_categories=["Cs"]).map(lambda c: c.encode()[:-1]),
    max_size=20,
)


@given(broken)
def test_every_split_decodes_to_what_the_whole_decodes_to(pieces: list[bytes]) -> None:
    decoder = Utf8Decoder()
    text = ""
    for piece in pieces:
        text += decoder.put(piece)
        assert decoder.held_bytes <= 3
    assert text + decoder.finish() == b"".join(pieces).decode(errors="replace")


def test_a_character_leaves_with_its_last_byte() -> None:
    decoder = Utf8Decoder()
    assert [decoder.put(bytes([byte])) for byte in "é😀".encode()] == ["", "é", "", "", "", "😀"]
    assert decoder.finish() == ""


def test_a_decoder_is_as_new_after_finish_and_clear() -> None:
    decoder = Utf8Decoder()
    decoder.put(b"\xf0\x9f")
    assert decoder.finish() == "\ufffd"
    decoder.put(b"\xf0\x9f")
    decoder.clear()
    assert decoder.put(b"ok") == "ok"
    assert decoder.finish() == ""


def test_the_room_imports_without_the_native_module() -> None:
    program = "import sys; sys.modules['torvyn._native'] = None; import torvyn.text"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
