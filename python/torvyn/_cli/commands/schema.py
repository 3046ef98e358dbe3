"""`torvyn schema`: prints the JSON Schema of Torvyn.toml or the .proto file for gRPC, or writes the
WIT packages."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.commands.init import write_files
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError

EXAMPLE = """\
torvyn schema > torvyn.schema.json
torvyn schema --grpc > inference.proto
torvyn schema --wit wit"""


@make_command("schema", example=EXAMPLE)
@click.option("--grpc", "is_grpc", is_flag=True, help="Print the .proto file for gRPC clients.")
@click.option(
    "--wit",
    "wit_folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the WIT packages into DIR, for components in Rust and other languages.",
)
def command(screen: Screen, is_grpc: bool, wit_folder: Path | None) -> int:
    """Print the JSON Schema of Torvyn.toml, the .proto file, or the WIT packages.

    Editors use the schema to check and complete a manifest; protoc generates clients from the
    .proto file; wit-bindgen generates the bindings of a component from the WIT packages. DIR must
    be new or empty, or have these files already. With `--format json`, the output has the field
    `schema`, `proto` or `files`.
    """
    if wit_folder is not None:
        if is_grpc:
            raise UsageError("cli.bad-usage", "`--wit` cannot be used together with `--grpc`")
        return _write_wit(screen, wit_folder)
    if is_grpc:
        proto = resources.files("torvyn.v1").joinpath("inference.proto").read_text()
        screen.document({"proto": proto}) if screen.is_json else screen.data(proto.rstrip("\n"))
        return 0
    from torvyn._manifest.json_schema import json_schema

    if screen.is_json:
        screen.document({"schema": json_schema()})
    else:
        screen.json(json_schema())
    return 0


def _write_wit(screen: Screen, folder: Path) -> int:
    from torvyn._sandbox.project import wit_files

    files = wit_files()
    _check_folder(folder, files)
    missing = {file: text for file, text in files.items() if not (folder / file).exists()}
    write_files(folder, missing)
    if screen.is_json:
        screen.document({"path": str(folder), "files": [*files]})
        return 0
    screen.data("\n".join(str(folder / file) for file in files))
    screen.info("", f"`path` of `generate!` names `{folder}`, relative to the crate.")
    return 0


def _check_folder(folder: Path, files: dict[str, str]) -> None:
    """Refuses a folder with anything else: all WIT files of a folder are one package."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("cli.file-exists", f"`{folder}` is a file, not a folder")
    others = [
        path for path in folder.rglob("*") if path.is_file() and not _is_ours(path, folder, files)
    ]
    if others:
        raise UsageError(
            "cli.file-exists",
            f"`{folder}` already contains `{min(others).relative_to(folder)}`, which is not the "
            "file of this version; nothing was written",
            hint="name a folder of their own for the packages, such as `wit`",
        )


def _is_ours(path: Path, folder: Path, files: dict[str, str]) -> bool:
    text = files.get(path.relative_to(folder).as_posix())
    return text is not None and path.read_bytes() == text.encode()
