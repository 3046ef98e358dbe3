"""`torvyn schema`: the JSON Schema of Torvyn.toml, for editors; the .proto of gRPC, for clients."""

from __future__ import annotations

import json
from importlib import resources

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen

EXAMPLE = """\
torvyn schema > torvyn.schema.json
torvyn schema --grpc > inference.proto"""


@make_command("schema", example=EXAMPLE)
@click.option("--grpc", "is_grpc", is_flag=True, help="The messages of gRPC, as a .proto file.")
def command(screen: Screen, is_grpc: bool) -> int:
    """Print the JSON Schema of Torvyn.toml, or the .proto of gRPC.

    Editors check and complete a manifest with the schema; protoc makes clients of the .proto. With
    `--format json` they are the field `schema` or `proto` of the answer.
    """
    if is_grpc:
        proto = resources.files("torvyn.v1").joinpath("inference.proto").read_text()
        screen.document({"proto": proto}) if screen.is_json else screen.data(proto.rstrip("\n"))
        return 0
    from torvyn.manifest.schema.json_schema import json_schema

    if screen.is_json:
        screen.document({"schema": json_schema()})
    else:
        screen.data(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
