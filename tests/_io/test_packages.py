"""A package that is missing is named as pip knows it, with the command that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torvyn._io.packages import import_package
from torvyn.errors import MissingError


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("torvyn_absent", "torvyn_absent"),
        ("torvyn_absent.inner", "torvyn_absent"),
        ("grpc", "grpcio"),
        ("google.protobuf", "protobuf"),
    ],
)
def test_a_missing_module_is_told_by_its_package(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingError) as caught:
        import_package(module, "a test", "grpc", "transport.package-missing")

    assert str(caught.value).startswith(f"a test needs the package `{package}`")
    assert caught.value.code == "transport.package-missing"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("install it: pip install ")


def test_a_package_that_lacks_another_one_names_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torvyn_half.py").write_text("import torvyn_absent.inner\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(MissingError, match="needs the package `torvyn_absent`"):
        import_package("torvyn_half", "a test", "grpc")
