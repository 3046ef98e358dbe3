"""An artifact, ready to run: found, checked and unpacked into the cache."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from torvyn.artifact.failures import invalid, unwritable
from torvyn.artifact.layout import Layout
from torvyn.artifact.media_types import MANIFEST_PATH, PROVENANCE_PATH
from torvyn.artifact.model import PROJECT, Descriptor
from torvyn.artifact.reference import LAYOUT_SCHEME, LayoutReference, parse_reference
from torvyn.artifact.unpack import unpack
from torvyn.errors import ArtifactError, UsageError


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A project from an artifact, in a folder that nobody changes."""

    folder: Path
    files: frozenset[str]

    @property
    def manifest(self) -> Path:
        return self.folder / MANIFEST_PATH


def prepare(text: str, cache_dir: Path) -> PreparedProject:
    """The project that a reference names, unpacked into the cache unless it is there. The folder
    of an unpacked artifact is a reference too."""
    if not text.startswith(LAYOUT_SCHEME) and is_unpacked(Path(text)):
        return _unpacked(Path(text))
    return prepare_project(*locate(text), cache_dir)


def prepare_project(layout: Layout, descriptor: Descriptor, cache_dir: Path) -> PreparedProject:
    """Unpacks a project."""
    name = descriptor.digest.removeprefix("sha256:")
    folder = private_folder(cache_dir / "unpacked") / name
    manifest = unpack(layout, descriptor, folder)
    if manifest.artifact_type != PROJECT:
        hint = "only a project can be run"
        raise invalid(f"{descriptor.digest} is a component, not a project", hint)
    return PreparedProject(folder, frozenset(manifest.files()))


def is_unpacked(folder: Path) -> bool:
    """Whether a folder holds an unpacked project."""
    return all((folder / name).is_file() for name in (MANIFEST_PATH, PROVENANCE_PATH))


def _unpacked(folder: Path) -> PreparedProject:
    files = (path for path in folder.rglob("*") if path.is_file())
    return PreparedProject(folder, frozenset(path.relative_to(folder).as_posix() for path in files))


def locate(text: str) -> tuple[Layout, Descriptor]:
    """The artifact that a reference names."""
    reference = parse_reference(text)
    if not isinstance(reference, LayoutReference):
        message = f"`{text}` is in a registry, which this build cannot reach"
        raise UsageError("cli.bad-value", message, hint="name a layout, such as `oci:./dist:1.2`")
    layout = Layout(reference.folder)
    return layout, layout.resolve(reference.target)


def private_folder(path: Path) -> Path:
    """The folder, which only this user may write to: its files are run without another check."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise unwritable(path, error) from error
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        message = f"other users can write to `{path}`"
        hint = f"run `chmod go-w {path}` as its owner, or set another `runtime.cache_dir`"
        raise ArtifactError("artifact.cache-exposed", message, hint=hint)
    return path


def default_cache_dir() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "torvyn"
