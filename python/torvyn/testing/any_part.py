"""The guest that runs any component of a test: built once by componentize-py, kept in the cache."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from torvyn import _native
from torvyn.sandbox import build_python
from torvyn.sandbox.compiling import default_cache_dir
from torvyn.sandbox.guests import Guest

_HERE: Final = Path(__file__).parent
_APP: Final = _HERE / "guest_app.py"
_BESIDE: Final = (_HERE / "parts.py", _HERE / "rebuilding.py")


@lru_cache(maxsize=1)
def any_part() -> Path:
    """The component's file. Raises `sandbox.toolchain-missing` when it would have to be built."""
    file = default_cache_dir().parent / "testing" / f"any-part-{_digest()}.wasm"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(_build())
        part.replace(file)
    return file


def _digest() -> str:
    digest = hashlib.sha256(_toolchain().encode())
    for file in (_APP, *_BESIDE, *build_python.contract_files()):
        digest.update(file.read_bytes())
    for _, text in _native.wit_files():
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _toolchain() -> str:
    try:
        return importlib.metadata.version("componentize-py")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _build() -> bytes:
    guest = Guest("any-part", _HERE, "python")
    build_python.toolchain(guest)
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        root = Path(folder)
        build_python.copy_contract(root / "app")
        testing = root / "app" / "torvyn" / "testing"
        testing.mkdir(parents=True)
        (testing / "__init__.py").touch()
        for file in _BESIDE:
            shutil.copy(file, testing)
        shutil.copyfile(_APP, root / "app" / f"{build_python.APP}.py")
        build_python.write_contracts(root / "wit", build_python.WORLDS)
        return build_python.componentize(guest, root)
