"""Generates docs/reference and docs/pictures from the code; `--check` lists what is out of date.

A page renders a table that the program itself uses, and a picture is what `torvyn link` draws of an
example, so they cannot be wrong. The page of promises joins promises.toml with the marks of the
tests, and fails where one has no counterpart. Do not edit these files by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

import promises
import reference_grpc
import reference_protocol
import reference_python
import reference_tables
import reference_text

from torvyn._link.picture import render_svg
from torvyn._link.project_linker import ProjectLinker

DOCS: Final = Path(__file__).parent
EXAMPLES: Final = DOCS.parent / "examples"


def picture_of(example: str) -> str:
    """What `torvyn link --format svg` draws of its flow."""
    return render_svg(ProjectLinker.open(EXAMPLES / example / "Torvyn.toml", environ={}).plan())


GUIDES: Final = {
    "engine": "How to use it: [Use an engine](../guides/engines.md).",
    "serve": "How to use it: [Serve flows](../guides/serve.md#mount-it-in-another-application).",
    "client": "How to use it: [Use a client](../guides/client.md).",
    "telemetry": "How to use it: [Telemetry](../guides/telemetry.md#from-a-program).",
    "testing": "How to use it: [Test components and flows](../guides/testing.md).",
}
"""The public modules with a page of their own -> the sentence that leads to their guide."""


def module_page(name: str) -> str:
    return reference_python.module_page(import_module(f"torvyn.{name}"), GUIDES[name])


FILES: Final[dict[str, Callable[[], str]]] = {
    "reference/manifest.md": reference_tables.manifest_page,
    "reference/components.md": reference_tables.components_page,
    "reference/errors.md": reference_tables.errors_page,
    "reference/statuses.md": reference_tables.statuses_page,
    "reference/command-line.md": reference_tables.command_line_page,
    "reference/python.md": reference_python.python_page,
    **{f"reference/{name}.md": partial(module_page, name) for name in GUIDES},
    "reference/protocol.md": reference_protocol.protocol_page,
    "reference/text.md": reference_text.text_page,
    "reference/grpc.md": reference_grpc.grpc_page,
    "concepts/promises.md": promises.promises_page,
    "pictures/token-streaming.svg": partial(picture_of, "token-streaming"),
}


def render() -> dict[str, str]:
    """Every generated file, by its path in docs."""
    return {name: text().rstrip("\n") + "\n" for name, text in FILES.items()}


def stale() -> list[str]:
    """The files that differ from the code, and those in generated folders that it does not make."""
    made = render()
    found = {str(path.relative_to(DOCS)): path.read_text() for path in DOCS.glob("reference/*.md")}
    found |= {name: (DOCS / name).read_text() for name in made if (DOCS / name).exists()}
    return sorted(name for name in {*made, *found} if made.get(name) != found.get(name))


def main(arguments: Sequence[str]) -> int:
    if arguments and list(arguments) != ["--check"]:
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    problems = promises.current_problems()
    if arguments:
        problems += [f"docs/{name} is out of date: run `make docs`" for name in stale()]
    else:
        write()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def write() -> None:
    for name, text in render().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
