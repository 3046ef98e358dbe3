"""A channel document that is cut after every single byte changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from channel_server import channel_server
from channels import NOW, publication, published, trust

from torvyn._deploy.source import FetchLimits, open_source
from torvyn._deploy.trust import accept
from torvyn.errors import TorvynError


def test_no_part_of_a_document_is_accepted() -> None:
    data = published(3)
    # The last byte is the end of the line.
    whole = len(data) - 1

    for count in range(whole):
        with pytest.raises(TorvynError) as caught:
            accept(data[:count], trust(), NOW)
        assert caught.value.code == "edge.channel-invalid", count
    assert accept(data[:whole], trust(), NOW)[0].version == 3


def test_no_byte_of_a_document_may_be_changed() -> None:
    data = published(3)
    same = publication(3).document.payload

    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        try:
            found, _ = accept(bytes(changed), trust(), NOW)
        except TorvynError:
            continue
        # Only what the signature does not cover may differ, such as a space or the hint of a key.
        assert found.serialize() == same, at


def test_a_download_of_a_document_may_be_cut_at_every_byte(tmp_path: Path) -> None:
    (tmp_path / "channel.json").write_bytes(data := published(3))
    with channel_server(tmp_path) as server:
        source = open_source(f"{server.url}/channel.json", FetchLimits(silence_s=5))
        for count in range(len(data)):
            server.cut_after(count)
            with pytest.raises(TorvynError) as caught:
                source.publication()
            assert caught.value.code == "edge.unreachable", count
        server.cut_after(None)
        assert source.publication() == data
