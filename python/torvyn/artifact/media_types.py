"""The media type of a file in an artifact, by its path."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "application/vnd.torvyn.manifest.v1+toml"
LOCK: Final = "application/vnd.torvyn.lock.v1+toml"
WASM: Final = "application/wasm"
WIT: Final = "application/vnd.torvyn.wit.v1"
PYTHON: Final = "text/x-python"
SBOM: Final = "application/vnd.cyclonedx+json"
STATEMENT: Final = "application/vnd.in-toto+json"
WHEEL: Final = "application/vnd.pypa.wheel"
PRECOMPILED: Final = "application/vnd.torvyn.precompiled.v1"
OTHER: Final = "application/octet-stream"

MANIFEST_PATH: Final = "Torvyn.toml"
LOCK_PATH: Final = "torvyn.lock"
SBOM_PATH: Final = "sbom.cdx.json"
PROVENANCE_PATH: Final = "provenance.json"
WHEEL_FOLDER: Final = "wheels/"

_BY_PATH: Final = {
    MANIFEST_PATH: MANIFEST,
    LOCK_PATH: LOCK,
    SBOM_PATH: SBOM,
    PROVENANCE_PATH: STATEMENT,
}
_BY_SUFFIX: Final = {
    "wasm": WASM,
    "wit": WIT,
    "py": PYTHON,
    "whl": WHEEL,
    "cwasm": PRECOMPILED,
}


def media_type(path: str) -> str:
    suffix = path.rpartition(".")[2]
    return _BY_PATH.get(path) or _BY_SUFFIX.get(suffix, OTHER)
