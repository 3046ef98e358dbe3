"""The guest that runs any component of a test: built once with componentize-py, then cached."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from torvyn import _native
from torvyn._io.files import writable_folder, write_atomically
from torvyn.sandbox.build import python_guest
from torvyn.sandbox.build.project import GuestProject
from torvyn.sandbox.compile_cache import default_cache_dir

_HERE: Final = Path(__file__).parent
_APP: Final = _HERE / "guest_app.py"
_MODULES: Final = (_HERE / "components.py", _HERE / "rebuild_source.py")


@lru_cache(maxsize=1)
def universal_guest() -> Path:
    """The file. Raises `sandbox.toolchain-missing` if it is not cached and cannot be built."""
    folder = writable_folder(default_cache_dir().parent / "testing", "torvyn-testing")
    file = folder / f"universal-guest-{_digest()}.wasm"
    if not file.is_file():
        write_atomically(file, _build(), is_durable=False)
    return file


def _digest() -> str:
    digest = hashlib.sha256(_toolchain().encode())
    for file in (_APP, *_MODULES, *python_guest.contract_files()):
        digest.update(file.read_bytes())
    for _, text in _native.WasmTools.wit_files():
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _toolchain() -> str:
    try:
        return importlib.metadata.version("componentize-py")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _build() -> bytes:
    guest = GuestProject("universal-guest", _HERE, "python")
    python_guest.toolchain(guest)
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        root = Path(folder)
        python_guest.copy_contract(root / "app")
        testing = root / "app" / "torvyn" / "testing"
        testing.mkdir(parents=True)
        (testing / "__init__.py").touch()
        for file in _MODULES:
            shutil.copy(file, testing)
        shutil.copyfile(_APP, root / "app" / f"{python_guest.APP}.py")
        python_guest.write_contracts(root / "wit", python_guest.WORLDS)
        return python_guest.componentize(guest, root)
