"""`torvyn check` and a project's own WIT."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from torvyn.link import ProjectLinker

Project = Callable[..., Path]

CONTRACTS = Path(__file__).parents[2] / "wit"


def test_wit_that_resolves_is_fine(project: Project) -> None:
    file = project('component = "source.wasm"', 'component = "sink.wasm"')
    shutil.copytree(CONTRACTS, file.parent / "wit")

    assert ProjectLinker.open(file).check() == ()


def test_wit_that_does_not_resolve_is_reported_with_its_location(project: Project) -> None:
    file = project('component = "source.wasm"', 'component = "sink.wasm"')
    (file.parent / "wit").mkdir()
    (file.parent / "wit" / "own.wit").write_text("package mine:thing;\n\nworld w { import no; }\n")

    (found,) = ProjectLinker.open(file).check()

    assert found.code == "sandbox.wit-invalid"
    assert found.location is not None
    assert (found.location.line, found.location.column) == (3, 18)
