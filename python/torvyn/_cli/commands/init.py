"""`torvyn init`: creates a project with a flow, components, a test and a README."""

from __future__ import annotations

import re
from pathlib import Path

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.templates.project_files import LANGUAGES, files_of
from torvyn._cli.templates.project_template import TEMPLATES
from torvyn.errors import MissingError, UsageError, os_reason

EXAMPLE = """\
torvyn init hello
torvyn init edge --template gateway
torvyn init guard --template filter --name content-guard
torvyn init fast --language c
torvyn init careful --language python
torvyn init safe --language rust"""


@make_command("init", example=EXAMPLE)
@click.argument("path", default=".", metavar="[PATH]")
@click.option(
    "--template",
    type=click.Choice([*TEMPLATES]),
    default="pipeline",
    show_default=True,
    help="A whole pipeline, a gateway, or one component of this role between built-in ones.",
)
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    help="Write the components in this language and run them in the sandbox. By default they are "
    "in Python and run in the process.",
)
@click.option("--name", help="The project's name; by default the name of the folder.")
def command(
    screen: Screen, path: str, template: str, language: str | None, name: str | None
) -> int:
    """Create a project from a template.

    Writes a manifest, components, a test and a README into PATH, by default the current folder.
    Existing files are never overwritten.
    """
    folder = Path(path)
    name = validate_name(folder.resolve().name if name is None else name)
    files = files_of(TEMPLATES[template], name, language)
    write_files(folder, files)
    if screen.is_json:
        fields = {"name": name, "template": template, "path": str(folder), "files": [*files]}
        screen.document(fields)
        return 0
    screen.data("\n".join(str(folder / file) for file in files))
    into = "" if folder.resolve() == Path.cwd() else f"cd {path} && "
    build = "torvyn build && " if language else ""
    screen.info("", f"Created `{name}`. Run it: {into}{build}torvyn run")
    return 0


def validate_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", name):
        return name
    raise UsageError(
        "cli.bad-value",
        f"`{name}` is not a valid project name",
        hint="use letters, digits, `-`, `_` and `.`, beginning with a letter; set it with `--name`",
    )


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Writes all files, or none if one exists."""
    existing = [file for file in files if (folder / file).exists()]
    if existing:
        names = ", ".join(f"`{file}`" for file in existing)
        raise UsageError(
            "cli.file-exists",
            f"{folder} already contains {names}; nothing was written",
            hint="choose another folder, or move the files",
        )
    for file, text in files.items():
        target = folder / file
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            reason = os_reason(error)
            raise MissingError("cli.file-unwritable", f"cannot write {target}: {reason}") from error
