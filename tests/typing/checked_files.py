"""The files that are type-checked: snippets, examples, templates and the code blocks of pages.

All are copied into one folder under names of their own, line by line, so that each checker runs
once and a report names the line of the original. Packages of others are stubbed as `Any`: what is
reported does not depend on which of them are installed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]

from pages import PAGES, Block, blocks_of  # noqa: E402

from torvyn._cli.templates.project_files import files_of  # noqa: E402
from torvyn._cli.templates.project_template import TEMPLATES  # noqa: E402

ANYTHING: Final = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"

Sources = dict[str, str]
"""Path from the root -> text."""


def snippets(kind: str) -> Sources:
    return _read(sorted((HERE / kind).glob("*.py")))


def examples() -> Sources:
    return _read(sorted((ROOT / "examples").rglob("*.py")))


def templates() -> Sources:
    """What `torvyn init` writes."""
    return {
        f"torvyn init --template {name}/{path}": text
        for name, template in TEMPLATES.items()
        for path, text in files_of(template, name).items()
        if path.endswith(".py")
    }


def pages() -> Sources:
    """One file per page, as a notebook would run it; a block that is a file stands alone."""
    found: Sources = {}
    for page in PAGES:
        blocks = [block for block in blocks_of(page) if block.language == "python"]
        together = [block for block in blocks if block.mark is None]
        name = str(page.relative_to(ROOT))
        if together:
            found[name] = _as_module(together)
        for block in blocks:
            if block.mark is not None and block.mark[0] == "file":
                found[f"{name}#{block.mark[1]}"] = _as_module([block])
    return found


def write(sources: Sources, folder: Path) -> dict[str, str]:
    """Writes the files and the stubs they need; returns the path of each file name."""
    origins = {}
    for path, text in sources.items():
        name = re.sub(r"\W", "_", path.removesuffix(".py")) + ".py"
        (folder / name).write_text(text)
        origins[name] = path
    for module in {module for text in sources.values() for module in _foreign(text)}:
        stub = folder / "stubs" / Path(*module.split(".")) / "__init__.pyi"
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(ANYTHING)
    return origins


def _read(paths: list[Path]) -> Sources:
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def _as_module(blocks: list[Block]) -> str:
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - len(lines))
        body = block.text.splitlines()
        if _awaits(block):
            # On the line of the fence, so that the numbers stay those of the page.
            lines[-1] = f"async def block_{block.line}() -> None:"
            body = [f"    {line}" if line else "" for line in body]
        lines += body
    return "\n".join(lines) + "\n"


def _awaits(block: Block) -> bool:
    code = compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _foreign(text: str) -> Iterator[str]:
    """The modules of other packages, each with the packages that it is in."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] not in sys.stdlib_module_names and parts[0] != "torvyn":
                yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
