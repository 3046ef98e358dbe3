"""Pictures in the pages are what the project draws: none is edited by hand, and none is stale."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benches import plot, token_streaming
from benches.report import RESULTS
from pages import ROOT

PICTURES = [*ROOT.glob("docs/pictures/*.svg"), *RESULTS.glob("*.svg")]


def test_the_plot_shows_the_stored_results() -> None:
    stored = json.loads((RESULTS / "token_streaming.json").read_text())

    assert (RESULTS / "token_streaming.svg").read_text() == token_streaming.render_plot(stored)


def test_the_plot_shows_every_entry_with_its_figure() -> None:
    root = ElementTree.fromstring(
        plot.render("t", "n", "us", [plot.Dot("slow", 7.5), plot.Dot("ours", 0.12, True)])
    )

    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[-4:] == ["ours", "0.12 us", "slow", "7.5 us"]


def test_the_recording_is_of_what_a_newcomer_runs() -> None:
    recording = (ROOT / "docs" / "pictures" / "demo.svg").read_text()

    assert "$ make demo" in recording
    assert "Building the native core: done" in recording


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_valid_and_has_both_schemes(path: Path) -> None:
    text = path.read_text()

    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "@media (prefers-color-scheme:dark)" in text
    assert "<script" not in text
