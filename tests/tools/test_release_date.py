"""The date of a release becomes a part of its wheel."""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = runpy.run_path(str(ROOT / "tools" / "build_wheel.py"))
RELEASED = TOOLS["RELEASED"]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel as pip takes it, with one file."""
    path = tmp_path / "torvyn-1.0-py3-none-any.whl"
    facts = "Metadata-Version: 2.1\nName: torvyn\nVersion: 1.0\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torvyn/edge/channel/__init__.py", "")
        archive.writestr("torvyn-1.0.dist-info/METADATA", facts)
        archive.writestr("torvyn-1.0.dist-info/WHEEL", tags)
        archive.writestr("torvyn-1.0.dist-info/RECORD", "torvyn-1.0.dist-info/RECORD,,\n")
    return path


def test_the_date_is_installed_with_the_wheel(wheel: Path, tmp_path: Path) -> None:
    TOOLS["add_release_date"](wheel, 1_234_567)
    words = ["install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path / "site")]
    subprocess.run([sys.executable, "-m", "pip", *words, str(wheel)], check=True)

    assert (tmp_path / "site" / RELEASED).read_text() == "1234567\n"


def test_two_builds_of_one_commit_have_the_same_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert TOOLS["release_time_s"]() == TOOLS["release_time_s"]() > 1_600_000_000

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "99")
    assert TOOLS["release_time_s"]() == 99


def test_the_file_is_where_the_package_looks_for_it() -> None:
    from torvyn._deploy.trust import FILE

    assert FILE.as_posix().endswith(RELEASED)
