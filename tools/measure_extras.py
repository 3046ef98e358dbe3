"""Installs each extra into a folder of its own and writes what it takes into the install page.

    python tools/measure_extras.py [EXTRA ...]

Each folder has the packages of one extra and everything they need. Its size is that of the files,
with the bytecode that pip compiles. Downloads up to several gigabytes; without names, all extras.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "guides" / "install.md"
HEAD: Final = "| extra | what for | what it installs | packages | size |\n|---|---|---|---:|---:|\n"
TABLE: Final = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")
ROW: Final = re.compile(r"^\| `([\w-]+)` \|", re.MULTILINE)
WHAT_FOR: Final[Mapping[str, str]] = {
    "c": "compile sandboxed components in C",
    "client": "`torvyn.client`, `torvyn chat --server`, `torvyn generate --server`",
    "cluster": "`torvyn cluster`, `torvyn run --on ray`, sessions on many servers",
    "grpc": "serve and call flows over gRPC",
    "http": "the source `http`",
    "local": "the engine `local`: llama.cpp in the process",
    "modbus": "the source and sink `modbus`",
    "mqtt": "the source and sink `mqtt`",
    "nats": 'the source and sink `nats`, edges with `carrier = "nats"`',
    "oci": "`torvyn publish`, `pull`, `sign` and `verify`",
    "opcua": "the source `opcua`",
    "openai": 'the engine `openai` with `client="aiohttp"`',
    "otlp": "the exporter `otlp-grpc`",
    "python-guest": "compile sandboxed components in Python",
    "serial": "the source and sink `serial`",
    "serve": "`torvyn serve`",
    "transformers": "the engine `transformers`",
}


@dataclass(frozen=True, slots=True)
class Cost:
    packages: int
    size_bytes: int

    @property
    def size(self) -> str:
        mebibytes = self.size_bytes / 2**20
        # With a space that does not break: a column of sizes is narrow.
        return (
            f"{mebibytes / 1024:.1f}\u00a0GiB" if mebibytes >= 1024 else f"{mebibytes:.0f}\u00a0MiB"
        )


def requirements() -> dict[str, list[str]]:
    """The extras for users, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return {name: extras[name] for name in sorted(extras) if not is_for_development(name)}


def is_for_development(extra: str) -> bool:
    return extra.partition("-")[0] in ("dev", "test", "bench")


def measure(packages: Sequence[str]) -> Cost:
    with tempfile.TemporaryDirectory(prefix="torvyn-extra-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *packages]
        subprocess.run(pip, check=True)
        sizes = [path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file()]
        return Cost(len(list(Path(folder).glob("*.dist-info"))), sum(sizes))


def row(extra: str, packages: Sequence[str], cost: Cost) -> str:
    names = ", ".join(f"`{re.split('[<>=; ]', package, maxsplit=1)[0]}`" for package in packages)
    return f"| `{extra}` | {WHAT_FOR[extra]} | {names} | {cost.packages} | {cost.size} |\n"


def main(arguments: Sequence[str]) -> int:
    extras = requirements()
    page = PAGE.read_text()
    table = TABLE.search(page)
    if table is None or not set(arguments) <= set(extras):
        print(f"usage: {sys.argv[0]} [{' | '.join(extras)}]", file=sys.stderr)
        return 2
    rows = {match[1]: match.string for match in map(ROW.match, table[0].splitlines(True)) if match}
    for extra in arguments or extras:
        rows[extra] = row(extra, extras[extra], measure(extras[extra]))
        print(rows[extra], end="", flush=True)
    body = "".join(rows[extra] for extra in extras if extra in rows)
    PAGE.write_text(page[: table.start()] + HEAD + body + page[table.end() :])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
