"""`torvyn check`: everything that is wrong with a manifest and its flows, in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import manifest_option, manifest_path

if TYPE_CHECKING:
    from torvyn.errors import Diagnostic
    from torvyn.manifest import Manifest

EXAMPLE = """\
torvyn check
torvyn check --manifest examples/token-streaming --format json"""


@make_command("check", example=EXAMPLE)
@manifest_option
def command(screen: Screen, manifest: str) -> int:
    """Say everything that is wrong with a manifest.

    Reads the file, loads its components and links all of its flows; nothing is started.
    """
    from torvyn.link import ProjectLinker

    path = manifest_path(manifest)
    linker = ProjectLinker.open(path)
    found = linker.check()
    errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    code = 2 if errors else 0
    if screen.is_json:
        problems = [diagnostic.to_dict() for diagnostic in found]
        screen.document({"manifest": str(path), "ok": not errors, "problems": problems})
    else:
        _show(screen, linker.manifest, found, errors)
    return code


def _show(
    screen: Screen, manifest: Manifest, found: tuple[Diagnostic, ...], errors: list[Diagnostic]
) -> None:
    if found:
        screen.problems(found, exit_code=2 if errors else 0)
    if errors:
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        screen.say("", f"{manifest.file}: {count}")
    else:
        screen.data(f"{manifest.file}: ok, {_contents(manifest)}")


def _contents(manifest: Manifest) -> str:
    counts = {"component": len(manifest.components), "flow": len(manifest.flows)}
    return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items() if n)
