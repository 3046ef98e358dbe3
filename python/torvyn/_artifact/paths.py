"""The paths of files inside an artifact, and the media type of each.

Paths are relative, with `/`, the same on every system.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from torvyn.errors import ArtifactError

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


MAX_PATH_BYTES: Final = 512
MAX_PART_BYTES: Final = 200
"""File systems allow 255; a temporary name needs room for a suffix."""
MAX_DEPTH: Final = 16


def check_path(path: str) -> str:
    """The path, if it names a file below the folder that the artifact is unpacked into."""
    reason = _problem(path)
    if reason is not None:
        raise _bad_path(path, reason)
    return path


def check_paths(paths: Iterable[str]) -> None:
    """Checks each path, and that all of them fit into one folder of any file system."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        key = _key(check_path(path))
        other = files.get(key) or folders.get(key)
        if other is not None:
            raise _bad_path(path, "another file has this path, if case is ignored")
        files[key] = path
        for parent in _parents(key):
            if parent in files:
                raise _bad_path(path, f"`{files[parent]}` is a file")
            folders[parent] = path


def _problem(path: str) -> str | None:
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    parts = path.split("/")
    if not path or path.startswith("/"):
        return "it is not relative"
    if any(part in ("", ".", "..") for part in parts):
        return "a part of it is empty, `.` or `..`"
    if "\\" in path or not path.isprintable():
        return "it has a backslash or a control character"
    if len(parts) > MAX_DEPTH or len(encoded) > MAX_PATH_BYTES:
        return f"it has more than {MAX_DEPTH} parts or {MAX_PATH_BYTES} bytes"
    if any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        return f"a part of it has more than {MAX_PART_BYTES} bytes"
    return None


def _key(path: str) -> str:
    """Equal for paths that some file systems do not tell apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _bad_path(path: str, reason: str) -> ArtifactError:
    shown = ascii(path[:100])[1:-1]
    hint = "do not use this artifact unless you know who made it"
    message = f"the artifact has a file with the path `{shown}`: {reason}"
    return ArtifactError("artifact.bad-path", message, hint=hint)
