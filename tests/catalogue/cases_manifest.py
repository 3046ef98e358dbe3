"""Every `manifest.*` code, provoked by the smallest text that deserves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torvyn._manifest.parse import parse, read
from torvyn._manifest.settings import resolve

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
FLOW = '[flow.main.nodes.a]\ncomponent = "lines"\n'


def text(body: str) -> Callable[[Path], object]:
    return lambda _: parse(HEAD + body, environ={})


def data(content: bytes) -> Callable[[Path], object]:
    def read_file(folder: Path) -> object:
        (folder / "Torvyn.toml").write_bytes(content)
        return read("Torvyn.toml")

    return read_file


def a_folder_instead_of_a_file(folder: Path) -> object:
    (folder / "Torvyn.toml").mkdir()
    return read("Torvyn.toml")


CASES: dict[str, Callable[[Path], object]] = {
    "manifest.bad-duration": text(FLOW + 'call_timeout = "5 parsecs"\n'),
    "manifest.bad-name": text('[flow.main.nodes."a:b"]\ncomponent = "lines"\n'),
    "manifest.bad-size": text(FLOW + 'max_memory = "64MB"\n'),
    "manifest.bad-substitution": text(FLOW + 'unit = "${not closed"\n'),
    "manifest.bad-value": text(FLOW + '[flow.main]\npriority = "urgent"\n'),
    "manifest.duplicate-component": text(
        FLOW + '[[component]]\nname = "c"\npath = "c"\n[[component]]\nname = "c"\npath = "d"\n'
    ),
    "manifest.missing-key": text("[flow.main.nodes.a]\n"),
    "manifest.no-flow": text(""),
    "manifest.not-found": lambda _: read("Torvyn.toml"),
    "manifest.not-utf8": data(b'[torvyn]\nname = "caf\xe9"\n'),
    "manifest.setting-unknown": lambda _: resolve(environ={"TORVYN_RUNTIME__WORKERTHREADS": "2"}),
    "manifest.syntax": text("[flow.main\n"),
    "manifest.too-deep": text("x = " + "[" * 10_000),
    "manifest.unknown-key": text(FLOW + 'componnent = "lines"\n'),
    "manifest.unreadable": a_folder_instead_of_a_file,
    "manifest.unsupported": text(
        FLOW + '[[component]]\nname = "c"\npath = "c"\nlanguage = "zig"\n'
    ),
    "manifest.variable-undefined": text(FLOW + 'unit = "${TORVYN_TEST_UNSET}"\n'),
    "manifest.wrong-type": text(FLOW + "unit = 3\n"),
}
