"""`torvyn schema`: the JSON Schema of Torvyn.toml, for editors."""

from __future__ import annotations

import json

from torvyn.cli.command import command as make_command
from torvyn.cli.screen import Screen


@make_command("schema", example="torvyn schema > torvyn.schema.json")
def command(screen: Screen) -> int:
    """Print the JSON Schema of Torvyn.toml.

    Editors check and complete a manifest with it. With `--format json` the schema is the field
    `schema` of the answer.
    """
    from torvyn.manifest import json_schema

    if screen.is_json:
        screen.document({"schema": json_schema()})
    else:
        screen.data(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
