"""Every code of the catalogue is raised: the modules `cases_*.py` beside this one provoke them.

A module exposes `CASES`: code -> a callable that takes an empty folder and raises the error.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from torvyn.errors import CATALOGUE, TorvynError

Case = Callable[[Path], object]

COVERED_ROOMS = (
    "native",
    "broker",
    "contract",
    "component",
    "components",
    "text",
    "manifest",
    "link",
    "sandbox",
    "durable",
    "artifact",
    "reactor",
    "swap",
    "engine",
    "observe",
    "protocol",
    "transport",
    "edge",
    "client",
    "session",
    "cluster",
    "cli",
)
"""Rooms of which every code must have a case."""


def collect() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cases |= module.CASES
    return cases


CASES = collect()


@pytest.mark.parametrize("code", sorted(CASES))
def test_the_case_raises_its_code(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TorvynError) as caught:
        CASES[code](tmp_path)

    codes = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert code in codes
    assert set(codes) <= set(CATALOGUE), "an error has a code that the catalogue does not know"


@pytest.mark.parametrize("code", [c for c in CATALOGUE if c.partition(".")[0] in COVERED_ROOMS])
def test_a_code_has_a_case(code: str) -> None:
    assert code in CASES


def test_cases_are_about_codes_that_exist() -> None:
    assert set(CASES) <= set(CATALOGUE)


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_code_is_a_room_and_words_and_is_explained(code: str) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*", code)
    assert CATALOGUE[code].endswith(".")
