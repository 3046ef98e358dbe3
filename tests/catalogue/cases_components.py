"""One provocation for each code that the built-in components raise."""

from collections.abc import Callable
from pathlib import Path

from torvyn._io.packages import import_package
from torvyn.components import File, Lines, RateLimit


def _wrong_config(_folder: Path) -> None:
    RateLimit().init('{"rat": 5}')


def _package_missing(_folder: Path) -> None:
    import_package("torvyn_absent_package", "`mqtt`", "mqtt")


def _file_missing(folder: Path) -> None:
    Lines().init(str(folder / "absent.txt"))


def _file_unreadable(folder: Path) -> None:
    Lines().init(str(folder))


def _file_unwritable(folder: Path) -> None:
    File().init(str(folder))


CASES: dict[str, Callable[[Path], None]] = {
    "contract.wrong-config": _wrong_config,
    "components.file-missing": _file_missing,
    "components.package-missing": _package_missing,
    "components.file-unreadable": _file_unreadable,
    "components.file-unwritable": _file_unwritable,
}
