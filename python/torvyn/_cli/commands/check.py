"""`torvyn check`: lists all problems of a manifest and its flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import manifest_option, manifest_path

if TYPE_CHECKING:
    from torvyn._manifest.records import Manifest
    from torvyn.errors import Diagnostic

EXAMPLE = """\
torvyn check
torvyn check --manifest examples/token-streaming --format json"""


@make_command("check", example=EXAMPLE)
@manifest_option
@click.option("--locked", is_flag=True, help="Fail if a component differs from torvyn.lock.")
def command(screen: Screen, manifest: str, locked: bool) -> int:
    """Check a manifest and list all problems.

    Reads the manifest, loads its components and links all its flows. Nothing is started. Stored
    data of flows is read, and damage is a warning. The exit code is 2 if there are errors, and 3
    if the project is right but something that it names is missing, such as a registry.
    """
    from torvyn._cli.stored_elements import store_warnings
    from torvyn._cli.target import memory_warnings
    from torvyn._link.overrides import Overrides
    from torvyn._link.project_linker import ProjectLinker

    path = manifest_path(manifest)
    linker = ProjectLinker.open(path, Overrides(is_locked=locked))
    problems = linker.check()
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        plans = ProjectLinker.open(path).plans(linker.manifest.flows).values()
        problems = (
            *problems,
            *memory_warnings(*([plan] for plan in plans)),
            *store_warnings(*plans),
        )
    code = (3 if linker.problems.are_outside else 2) if errors else 0
    if screen.is_json:
        records = [problem.to_dict() for problem in problems]
        screen.document({"manifest": str(path), "ok": not errors, "problems": records})
    else:
        _show(screen, linker.manifest, problems, errors, code)
    return code


def _show(
    screen: Screen,
    manifest: Manifest,
    problems: tuple[Diagnostic, ...],
    errors: list[Diagnostic],
    code: int,
) -> None:
    if problems:
        screen.problems(problems, exit_code=code)
    if errors:
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        screen.info("", f"{manifest.file}: {count}")
    else:
        screen.data(f"{manifest.file}: ok, {_contents(manifest)}")


def _contents(manifest: Manifest) -> str:
    counts = {"component": len(manifest.components), "flow": len(manifest.flows)}
    return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items() if n)
