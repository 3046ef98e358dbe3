"""Clients from npm, run by node. `make test-deps` installs them outside the repository.

`node/package-lock.json` fixes the versions; another lock file is installed in another folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "node"
LOCK = HERE / "package-lock.json"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torvyn-tests"
INSTALLED = CACHE / f"node-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def are_there() -> bool:
    return shutil.which("node") is not None and (INSTALLED / "node_modules").is_dir()


def ask(folder: Path, client: str, **asked: Any) -> dict[str, Any]:
    """What the client saw. Its script lies beside its packages, where node looks for them."""
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    shutil.copy(HERE / f"{client}.mjs", folder)
    done = subprocess.run(
        ["node", f"{client}.mjs", json.dumps(asked)],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def install(npm: str) -> None:
    """All or nothing: what is half installed is never found."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        made = Path(folder, "made")
        made.mkdir()
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / file, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=made, check=True)
        made.rename(INSTALLED)


def main() -> int:
    npm = shutil.which("npm")
    if are_there():
        print(f"clients from npm are in {INSTALLED}")
    elif npm is None or shutil.which("node") is None:
        print("there is no node or npm, so no clients from npm are tested", file=sys.stderr)
    else:
        install(npm)
        print(f"clients from npm are in {INSTALLED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
