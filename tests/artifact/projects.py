"""A project with a component of each kind, for the tests of packing."""

from __future__ import annotations

import shutil
from pathlib import Path

from torvyn._artifact.layout import Layout
from torvyn._artifact.pack import PLACEHOLDERS, Packed, PackOptions, pack
from torvyn._manifest.parse import read

GUEST = Path(__file__).parents[1] / "sandbox" / "guests" / "processor.wasm"

MANIFEST = """\
[torvyn]
name = "gateway"
version = "1.2.0"
contract_version = "0.1.0"
description = "Reads sensors"
license = "Apache-2.0"
repository = "https://example.org/gateway"

[[component]]
name = "enrich"
path = "components/enrich"

[[component]]
name = "guard"
path = "components/guard.wasm"

[flow.main.nodes.read]
component = "lines"
config = "data/readings.txt"

[flow.main.nodes.enrich]
component = "enrich"
config = { table = "data/sites.json", missing = "nothing.json", password = "${PASSWORD}" }

[flow.main.nodes.guard]
component = "guard"

[flow.main.nodes.write]
component = "file"
config = { path = "out.txt", mode = "truncate" }

[[flow.main.edges]]
from = "read"
to = "enrich"

[[flow.main.edges]]
from = "enrich"
to = "guard"

[[flow.main.edges]]
from = "guard"
to = "write"
"""

ENRICH = """\
import json
import torvyn
from sites import SUFFIX

class Enrich(torvyn.Processor):
    def init(self, config):
        with open(config["table"]) as file:
            self.sites = json.load(file)

    def process(self, element):
        return f"{element.text} {self.sites[element.text]}{SUFFIX}"
"""

FILES = {
    "Torvyn.toml": MANIFEST,
    "components/enrich/component.py": ENRICH,
    "components/enrich/sites.py": 'SUFFIX = "!"\n',
    "components/enrich/table.csv": "a,b\n",
    "data/readings.txt": "a\nb\n",
    "data/sites.json": '{"a": "roof", "b": "cellar"}\n',
    "wit/own.wit": "package mine:thing;\n\ninterface place { name: func() -> string; }\n"
    "world w { import place; }\n",
}
JUNK = {
    "out.txt": "written by an earlier run\n",
    ".env": "PASSWORD=secret\n",
    "components/enrich/.hidden": "x",
    "components/enrich/__pycache__/component.cpython-311.pyc": "x",
    "components/enrich/build/old.o": "x",
    "notes.md": "not needed to run\n",
}
PACKED = {*FILES, "components/guard.wasm", "torvyn.lock", "sbom.cdx.json", "provenance.json"}


def make_project(folder: Path, *, is_reversed: bool = False) -> Path:
    """Writes the project to a folder; its files may be created in the opposite order."""
    files = {**FILES, **JUNK}
    for path in sorted(files, reverse=is_reversed):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(files[path])
    shutil.copyfile(GUEST, folder / "components" / "guard.wasm")
    return folder


def pack_project(folder: Path, **options: object) -> Packed:
    output = options.pop("output", folder / "dist")
    manifest = read(folder / "Torvyn.toml", environ=PLACEHOLDERS)
    return pack(manifest, PackOptions(output, **options))  # type: ignore[arg-type]


def content(layout: Layout) -> dict[str, bytes]:
    """All files of a layout."""
    files = (path for path in layout.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(layout.folder)): path.read_bytes() for path in files}
