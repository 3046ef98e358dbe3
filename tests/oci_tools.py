"""Programs of others that read and write artifacts, compiled with Go outside the tree.

`make test-deps` installs olareg (a registry) and regctl (a client), `make test-cosign` cosign.

A module is compiled from a copy of itself, so that its own `go.sum` checks what it downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

MODULES: Final = {
    "olareg": ("github.com/olareg/olareg@v0.1.2", "./cmd/olareg"),
    "regctl": ("github.com/regclient/regclient@v0.11.7", "./cmd/regctl"),
    "cosign": ("github.com/sigstore/cosign/v3@v3.1.3", "./cmd/cosign"),
}
TOOLS: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torvyn-tools"


def program(name: str) -> str | None:
    """The path of a program, if it is installed."""
    path = TOOLS / "bin" / name
    return str(path) if path.is_file() else shutil.which(name)


def install(name: str) -> None:
    if program(name) is not None:
        return
    if shutil.which("go") is None:
        print(f"{name} is compiled with Go, which is not installed", file=sys.stderr)
        return
    module, package = MODULES[name]
    flags = {"GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -p=1 -trimpath"}
    environment = {**os.environ, **flags}
    with tempfile.TemporaryDirectory() as folder:
        done = _run(["go", "mod", "download", "-json", module], folder, environment)
        if done.returncode == 0:
            source = Path(folder, "source")
            shutil.copytree(json.loads(done.stdout)["Dir"], source, copy_function=shutil.copyfile)
            subprocess.run(["chmod", "-R", "u+w", source], check=True)
            target = str(TOOLS / "bin" / name)
            command = ["go", "build", "-ldflags", "-s -w", "-o", target, package]
            done = _run(command, str(source), environment)
    if done.returncode:
        print(f"{name} could not be installed: {done.stderr.strip()[-300:]}", file=sys.stderr)


def _run(
    command: list[str], folder: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    for each in sys.argv[1:]:
        install(each)
