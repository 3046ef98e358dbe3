"""Runs every code block of every page and compares its output with the page."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import missing
import pytest
from pages import PAGES, ROOT, Block, Folder, blocks_of, packages_of, page_name, steps_of
from scale import sample

from torvyn._cluster.local_cluster import bring_down
from torvyn._manifest.parse import parse
from torvyn.errors import ManifestError

PICTURE = ("picture", None)
HEAD = '[torvyn]\nname = "page"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
STRIDES = {"command-line.md": sample(8, full=1)}
"""Of a page with 60 calls for help, each by itself, a run reads every so manieth."""
MAX_NOT_RUN = 0
"""Raise it if a block cannot run, and give the reason in its mark."""


class Reader:
    """Executes a page as a reader would: one namespace, one folder, block after block."""

    def __init__(self, root: Path, shell: Callable[..., str], same: Callable[..., None]) -> None:
        self._root = root
        self._shell = shell
        self._same = same
        self._names: dict[str, Any] = {"__name__": "page"}
        self._folders = 0
        self.printed: Callable[[], str] = str
        self.enter: Callable[[Path], None] = lambda folder: None
        self._last = ""
        self.open(Folder(None))

    def open(self, folder: Folder) -> None:
        self._folders += 1
        self.folder = self._root / f"project-{self._folders}"
        if folder.example is None:
            self.folder.mkdir()
        else:
            shutil.copytree(ROOT / folder.example, self.folder)
        self.enter(self.folder)

    def close(self) -> None:
        """Ends the servers and brokers of a page that failed before it stopped them."""
        for value in self._names.values():
            if isinstance(value, subprocess.Popen) and value.poll() is None:
                value.kill()
                value.communicate()
        for state in self._root.glob("*/.local/state/torvyn/cluster/state.json"):
            bring_down(state.parent)

    def read(self, block: Block) -> None:
        kind, value = block.mark or ("", None)
        if kind == "file" and value is not None:
            path = self.folder / value
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        if kind != "picture":
            getattr(self, f"read_{block.language or 'nothing'}")(block)

    def read_python(self, block: Block) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        # Padded with empty lines so that a traceback shows the line of the page.
        code = compile("\n" * block.line + block.text, block.place, "exec", flags)
        if block.mark is not None:
            return
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_awaited(code, self._names))
        else:
            exec(code, self._names)
        self._last = self.printed()

    def read_console(self, block: Block) -> None:
        for command, expected in commands(block.text):
            # The options of this run are not those of a reader.
            output = self._shell(f"unset PYTEST_ADDOPTS; {command}", self.folder)
            self._same(output, expected)

    def read_sh(self, block: Block) -> None:
        """The targets exist in the Makefile; the rest of the suite tests what they do."""
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        for line in block.text.splitlines():
            command = line.partition("#")[0].split()
            assert command[0] == "make", f"{block.place}: use `console` with `$ {line}`"
            assert set(command[1:]) <= set(targets)

    def read_toml(self, block: Block) -> None:
        if "[torvyn]" in block.text:
            parse(block.text, "Torvyn.toml", environ=_every_variable(block.text))
            return
        tomllib.loads(block.text)
        if block.mark is None and not _is_user_config(block.text):
            _parse_part(block.text)

    def read_json(self, block: Block) -> None:
        json.loads(block.text)

    def read_text(self, block: Block) -> None:
        """The output of the block before it, or of an example."""
        if block.mark is not None:
            return
        if block.after == "python":
            self._same(self._last, block.text)
        else:
            known = [path.read_text() for path in ROOT.glob("examples/*/expected.txt")]
            assert block.text in known, f"{block.place}: no block or example prints this"

    def read_nothing(self, block: Block) -> None:
        raise AssertionError(f"{block.place}: a block without a language")


async def _awaited(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """`$ command` lines, each with what is printed below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    for part in parts[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def _every_variable(text: str) -> dict[str, str]:
    return dict.fromkeys(re.findall(r"\$\{(\w+)", text), "x")


def _is_user_config(text: str) -> bool:
    return set(tomllib.loads(text)) <= {"runtime", "observability"}


def _parse_part(text: str) -> None:
    """A part of a manifest: its keys must be valid, but it may be incomplete."""
    flow = "" if "[flow." in text else "[flow.main]\n"
    try:
        parse(HEAD + flow + text, "Torvyn.toml", environ=_every_variable(text))
    except ManifestError as error:
        raise AssertionError(error.render()) from error


@pytest.fixture
def captured_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Reader], None]:
    """Gives a reader the captured output, and moves this process into its folders."""

    def attach(reader: Reader) -> None:
        reader.printed = lambda: capfd.readouterr().out
        reader.enter = monkeypatch.chdir
        monkeypatch.chdir(reader.folder)

    return attach


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_of_a_page_runs(
    page: Path,
    shell: Callable[..., str],
    same: Callable[..., None],
    tmp_path: Path,
    captured_output: Callable[[Reader], None],
) -> None:
    for package in packages_of(page):
        pytest.importorskip(package, reason=missing.why(package))
    reader = Reader(tmp_path, shell, same)
    captured_output(reader)
    with contextlib.closing(reader):
        for step in steps_of(page)[:: STRIDES.get(page.name, 1)]:
            if isinstance(step, Folder):
                reader.open(step)
            elif step.is_run:
                reader.read(step)


def test_almost_every_block_runs() -> None:
    marked = [block for page in PAGES for block in blocks_of(page) if block.mark]
    left_out = [block for block in marked if block.mark and block.mark[0] == "not run"]

    assert len(left_out) <= MAX_NOT_RUN, [block.place for block in left_out]
    assert all(block.mark and block.mark[1] for block in left_out), "say why"


def test_a_block_with_a_test_of_its_own_names_a_test_that_reads_the_page() -> None:
    marks = [(page, block.mark) for page in PAGES for block in blocks_of(page) if block.mark]
    elsewhere = {(page, str(mark[1])) for page, mark in marks if mark[0] == "tested in"}

    assert elsewhere
    assert all(page.name in (ROOT / test).read_text() for page, test in elsewhere)


def test_only_drawings_are_marked_as_pictures() -> None:
    pictures = [block for page in PAGES for block in blocks_of(page) if block.mark == PICTURE]

    assert {block.language for block in pictures} <= {"text"}
    assert not [block.place for block in pictures if "$ " in block.text]


def test_a_wrong_block_is_detected(
    tmp_path: Path, shell: Callable[..., str], same: Callable[..., None]
) -> None:
    reader = Reader(tmp_path, shell, same)

    def read(language: str, text: str) -> None:
        reader.read(Block(ROOT / "README.md", 1, language, text))

    with pytest.raises(AssertionError):
        read("python", "assert 1 == 2")
    with pytest.raises(AssertionError):
        read("console", "$ echo one\ntwo\n")
    with pytest.raises(AssertionError):
        read("toml", '[flow.main.nodes.a]\ncomponennt = "lines"\n')
    with pytest.raises(AssertionError):
        read("text", "whatever\n")
