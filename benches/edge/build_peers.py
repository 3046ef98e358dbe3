"""Builds the peers of the gateway benchmark: `python -m benches.edge.build_peers [NAME...]`.

Each peer is compiled from the source of a pinned release with the plugins that a gateway needs, at
a low priority and on one core (about three minutes each). It needs Go. The programs are placed in
the folder that `TORVYN_BENCH_PEERS` names (default: `~/.cache/torvyn-bench/peers`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(
    os.environ.get("TORVYN_BENCH_PEERS") or Path.home() / ".cache" / "torvyn-bench" / "peers"
)
TELEGRAF: Final = "github.com/influxdata/telegraf@v1.37.2"
EKUIPER: Final = "github.com/lf-edge/ekuiper/v2@v2.4.2"
CONNECT: Final = "github.com/redpanda-data/connect/v4@v4.85.0"
TELEGRAF_PLUGINS: Final = (
    "custom,inputs.mqtt_consumer,outputs.http,processors.starlark,parsers.json,serializers.json"
)
CONNECT_GO_MOD: Final = """\
module gateway
go 1.26.1
require (
\tgithub.com/redpanda-data/benthos/v4 v4.69.0
\tgithub.com/redpanda-data/connect/v4 v4.85.0
\tmodernc.org/sqlite v1.47.0
)
"""
CONNECT_MAIN: Final = """\
package main

import (
\t"context"

\t_ "github.com/redpanda-data/benthos/v4/public/components/io"
\t_ "github.com/redpanda-data/benthos/v4/public/components/pure"
\t"github.com/redpanda-data/benthos/v4/public/service"
\t_ "github.com/redpanda-data/connect/v4/public/components/mqtt"
\t_ "github.com/redpanda-data/connect/v4/public/components/sql/base"
\t_ "modernc.org/sqlite"
)

func main() { service.RunCLI(context.Background()) }
"""
_ENVIRONMENT: Final = {
    "GOWORK": "off",
    "CGO_ENABLED": "0",
    "GOFLAGS": "-buildvcs=false -p=1 -trimpath",
}


def program(name: str) -> Path | None:
    """The program of a peer, or None if it was not built."""
    path = FOLDER / name / name
    return path if path.exists() else None


def build_telegraf(folder: Path) -> None:
    source = _source_copy(TELEGRAF, folder)
    _go(source, "build", "-tags", TELEGRAF_PLUGINS, "-o", folder / "telegraf", "./cmd/telegraf")


def build_ekuiper(folder: Path) -> None:
    source = _source_copy(EKUIPER, folder)
    _go(source, "build", "-tags", "core", "-o", folder / "ekuiper", "./cmd/kuiperd")
    shutil.copytree(source / "etc", folder / "etc")


def build_connect(folder: Path) -> None:
    """From a module of our own that names the four parts; Connect's checksums verify the rest."""
    source = folder / "source"
    source.mkdir()
    shutil.copy(_downloaded(CONNECT, source) / "go.sum", source / "go.sum")
    (source / "go.mod").write_text(CONNECT_GO_MOD)
    (source / "main.go").write_text(CONNECT_MAIN)
    _go(source, "build", "-mod=mod", "-o", folder / "connect", ".")


PEERS: Final[dict[str, Callable[[Path], None]]] = {
    "telegraf": build_telegraf,
    "connect": build_connect,
    "ekuiper": build_ekuiper,
}


def main(arguments: Sequence[str] | None = None) -> int:
    names = list(arguments if arguments is not None else sys.argv[1:]) or list(PEERS)
    if shutil.which("go") is None:
        print("Go is not installed: the peers cannot be built", file=sys.stderr)
        return 2
    failed = [name for name in names if not _build(name)]
    return 1 if failed else 0


def _build(name: str) -> bool:
    if program(name) is not None:
        print(f"{name} is there: {program(name)}")
        return True
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"building {name} in {FOLDER}", flush=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=f".{name}-") as made:
        folder = Path(made)
        try:
            PEERS[name](folder)
        except subprocess.CalledProcessError as failure:
            print(f"{name} was not built: {failure.stderr or failure}", file=sys.stderr)
            return False
        shutil.rmtree(folder / "source", ignore_errors=True)
        shutil.copytree(folder, FOLDER / name, dirs_exist_ok=True)
    return True


def _source_copy(module: str, folder: Path) -> Path:
    """A writable copy of a module: its own checksum file verifies all of its dependencies."""
    target = folder / "source"
    shutil.copytree(_downloaded(module, folder), target)
    for path in target.rglob("*"):
        path.chmod(path.stat().st_mode | 0o200)
    target.chmod(0o755)
    return target


def _downloaded(module: str, folder: Path) -> Path:
    answer = _run(folder, "go", "mod", "download", "-json", module)
    return Path(json.loads(answer)["Dir"])


def _go(folder: Path, verb: str, *arguments: object) -> None:
    _run(folder, "nice", "-n", "19", "go", verb, "-ldflags", "-s -w", *arguments)


def _run(folder: Path, *command: object) -> str:
    environment = {**os.environ, **_ENVIRONMENT}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
