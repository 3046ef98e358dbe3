"""Pages, their code blocks, and the marks that say how a block is tested.

<!-- project: examples/NAME -->   the blocks below run in a fresh copy of that example
<!-- project -->                  the blocks below run in a fresh, empty folder
<!-- file: PATH -->               the next block is written to that file
<!-- picture -->                  the next block is a drawing
<!-- not run: WHY -->             the next block cannot be run here; these are counted
<!-- tested in: FILE -->          a test of its own runs the next block
<!-- needs: PACKAGE -->           the page is skipped where the package is not installed
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*/README.md", "benches/README.md")
    for path in ROOT.glob(pattern)
)

_MARK: Final = re.compile(r"<!-- (project|file|picture|not run|tested in)(?:: (.+?))? -->")
_FENCE: Final = re.compile(r"( *)```(\w*)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is where it opens, `after` the language of the one before it."""

    page: Path
    line: int
    language: str
    text: str
    mark: tuple[str, str | None] | None = None
    after: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.mark is None or self.mark[0] not in ("not run", "tested in")


@dataclass(frozen=True, slots=True)
class Folder:
    """A mark of its own: the blocks that follow run in a new folder."""

    example: str | None


Step = Block | Folder


def packages_of(page: Path) -> list[str]:
    """The packages without which a page is not tested."""
    return re.findall(r"^<!-- needs: (\w+) -->$", page.read_text(), re.MULTILINE)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def steps_of(page: Path) -> list[Step]:
    """The blocks and folders of a page, in order."""
    steps: list[Step] = []
    home = page.parent
    if (home / "Torvyn.toml").exists() or (home / "flow.py").exists():
        steps.append(Folder(str(home.relative_to(ROOT))))
    mark, after = None, ""
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    for number, line in lines:
        if found := _MARK.fullmatch(line.strip()):
            if found[1] == "project":
                steps.append(Folder(found[2]))
            else:
                mark = (found[1], found[2])
        elif found := _FENCE.match(line):
            text = "".join(f"{inner.removeprefix(found[1])}\n" for inner in _body(lines))
            steps.append(Block(page, number, found[2], text, mark, after))
            mark, after = None, found[2]
    return steps


def _body(lines: Iterator[tuple[int, str]]) -> list[str]:
    body: list[str] = []
    for _, line in lines:
        if line.strip() == "```":
            return body
        body.append(line)
    raise ValueError("a code block is not closed")


def blocks_of(page: Path) -> list[Block]:
    return [step for step in steps_of(page) if isinstance(step, Block)]
