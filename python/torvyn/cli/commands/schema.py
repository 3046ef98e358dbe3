"""`torvyn schema`: prints the JSON Schema of Torvyn.toml, or the .proto file for gRPC."""

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
@click.option("--grpc", "is_grpc", is_flag=True, help="Print the .proto file for gRPC clients.")
def command(screen: Screen, is_grpc: bool) -> int:
    """Print the JSON Schema of Torvyn.toml, or the .proto file for gRPC.

    Editors use the schema to check and complete a manifest; protoc generates clients from the
    .proto file. With `--format json`, the output has the field `schema` or `proto`.
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
