"""`Batch`, native and in Python: the same sequence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import torvyn
from torvyn._contract.element import PureBatch

KINDS = pytest.mark.parametrize("kind", [torvyn.Batch, PureBatch])


@KINDS
def test_a_batch_is_a_sequence_of_elements(kind):
    batch = kind(["a", torvyn.Element("b", 7), b"c"])

    assert isinstance(batch, Sequence)
    assert [element.text for element in batch] == ["a", "b", "c"]
    assert (len(batch), batch[1].sequence, batch[-1].text) == (3, 7, "c")
    assert [element.text for element in batch[1:]] == ["b", "c"]
    assert batch[1] in batch
    with pytest.raises(IndexError):
        batch[3]


@KINDS
def test_texts_and_payloads_are_those_of_the_elements(kind):
    batch = kind(["ä", b"b"])

    assert batch.texts == ["ä", "b"]
    assert batch.payloads == ["ä".encode(), b"b"]
    assert repr(batch) == "Batch([Element('ä', sequence=0), Element(b'b', sequence=0)])"


@KINDS
def test_a_payload_that_is_not_text_is_invalid_input(kind):
    with pytest.raises(torvyn.InvalidInput, match="not UTF-8"):
        _ = kind(["a", b"\xff"]).texts
