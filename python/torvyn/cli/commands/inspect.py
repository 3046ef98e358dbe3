"""`torvyn inspect`: describes a WebAssembly component without running it."""

from __future__ import annotations

from typing import Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen

EXAMPLE = """\
torvyn inspect guard.wasm
torvyn inspect guard.wasm --format json"""


@make_command("inspect", example=EXAMPLE)
@click.argument("file", type=click.Path())
def command(screen: Screen, file: str) -> int:
    """Describe a WebAssembly component.

    Shows its world, role and size, its imports and exports, and the capabilities that it needs. The
    component is compiled and linked as for a flow, but not started.
    """
    from pathlib import Path

    from torvyn.sandbox.description import describe_component

    facts = describe_component(Path(file))
    if screen.is_json:
        screen.document(facts)
    else:
        screen.data("\n".join(_lines(facts)))
    return 0


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"{facts['file']}: {facts['role']}, world {facts['world']}, {facts['size_bytes']} bytes",
        f"{facts['functions']} functions in {facts['modules']} modules, "
        f"{facts['code_bytes']} bytes of code, {facts['data_bytes']} of data, "
        f"{facts['memory_bytes']} of memory at the start",
    ]
    for name in ("imports", "exports", "capabilities"):
        lines.append(f"{name}:")
        lines += [f"  {item}" for item in facts[name]] or ["  none"]
    return lines
