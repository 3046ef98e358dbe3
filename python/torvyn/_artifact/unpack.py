"""An artifact, ready to run: found, checked and unpacked, all of its files or none."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import (
    COMPONENT,
    MAX_ARTIFACT_BYTES,
    PROJECT,
    Descriptor,
    Digest,
    ImageManifest,
    digest_of,
    invalid,
    unwritable,
)
from torvyn._artifact.paths import LOCK_PATH, MANIFEST_PATH, PROVENANCE_PATH, WHEEL_FOLDER
from torvyn._artifact.precompiled import fitting_code
from torvyn._artifact.reference import LAYOUT_SCHEME, LayoutReference, parse_reference
from torvyn._io.files import new_folder, sync_folder
from torvyn.errors import ArtifactError, UsageError


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A project from an artifact, in a folder that nobody changes."""

    folder: Path
    files: frozenset[str]

    @property
    def manifest(self) -> Path:
        return self.folder / MANIFEST_PATH


def prepare(text: str, cache_dir: Path, *, is_trusted: bool = False) -> PreparedProject:
    """The project that a reference names, unpacked into the cache unless it is there. The folder
    of an unpacked artifact is a reference too; its precompiled code is used if it `is_trusted`."""
    if not text.startswith(LAYOUT_SCHEME) and is_unpacked(Path(text)):
        project = _unpacked(Path(text))
        use_wheels(project.folder, project.files, cache_dir)
        if is_trusted:
            use_code(project.folder, project.files)
        return project
    return prepare_project(*locate(text), cache_dir)


def prepare_project(
    layout: Layout, descriptor: Descriptor, cache_dir: Path, *, is_trusted: bool = False
) -> PreparedProject:
    """Unpacks a project. Its precompiled code is used only if it `is_trusted`, because a trusted
    key has signed it, or if it was packed here."""
    name = descriptor.digest.removeprefix("sha256:")
    folder = private_folder(cache_dir / "unpacked") / name
    manifest = unpack(layout, descriptor, folder)
    if manifest.artifact_type != PROJECT:
        hint = "only a project can be run"
        raise invalid(f"{descriptor.digest} is a component, not a project", hint)
    files = frozenset(manifest.files())
    use_wheels(folder, files, cache_dir)
    if is_trusted or was_packed_here(descriptor.digest, cache_dir):
        use_code(folder, files)
    return PreparedProject(folder, files)


def use_wheels(folder: Path, files: Collection[str], cache_dir: Path) -> None:
    """Makes the packages of an unpacked artifact importable in this process."""
    wheels = [path for path in files if path.startswith(WHEEL_FOLDER) and path.endswith(".whl")]
    if not wheels:
        return
    # Artifacts without wheels never load these modules.
    from torvyn._artifact.wheels import Machine, add_to_path, fitting_wheels, install

    machine = Machine.here()
    chosen = fitting_wheels(wheels, machine)
    if LOCK_PATH not in files:
        raise invalid(f"the artifact has wheels, and no `{LOCK_PATH}`")
    # The lock file has the digests of all wheels, so another set of wheels is another folder.
    name = digest_of((folder / LOCK_PATH).read_bytes()).removeprefix("sha256:")
    python = "".join(map(str, machine.python))
    site = private_folder(cache_dir / "site") / f"{name}-{python}"
    install([folder / path for path in chosen], site)
    add_to_path(site)


def use_code(folder: Path, files: Collection[str]) -> None:
    """Uses the precompiled code of an unpacked artifact whose author is trusted."""
    for wasm, code in fitting_code(folder, files):
        # Artifacts without precompiled code never load this module.
        from torvyn._sandbox.compiler import use_precompiled

        use_precompiled(wasm, code)


def remember_local_pack(digest: Digest, cache_dir: Path) -> None:
    """Stores that this user packed an artifact, so that its precompiled code is trusted here."""
    path = _local_packs(cache_dir) / digest.removeprefix("sha256:")
    try:
        path.touch()
    except OSError as error:
        raise unwritable(path, error) from error


def was_packed_here(digest: Digest, cache_dir: Path) -> bool:
    return (_local_packs(cache_dir) / digest.removeprefix("sha256:")).exists()


def _local_packs(cache_dir: Path) -> Path:
    return private_folder(cache_dir / "packed")


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


def unpack(
    layout: Layout,
    descriptor: Descriptor,
    target: Path,
    *,
    max_bytes: int = MAX_ARTIFACT_BYTES,
) -> ImageManifest:
    """Writes the files of an artifact of torvyn to the folder `target`, which must not exist or
    come from the same artifact.

    All blobs are checked before anything is written. The folder appears complete, by a rename.
    """
    manifest = layout.manifest(descriptor)
    if manifest.artifact_type not in (PROJECT, COMPONENT):
        kind = manifest.artifact_type
        raise invalid(f"the artifact is not a project or a component of torvyn, but `{kind}`")
    files = manifest.files(max_bytes)
    if target.is_dir():
        return manifest
    for layer in manifest.layers:
        layout.verify(layer)
    try:
        _write(layout, files, target)
    except OSError as error:
        raise unwritable(target, error) from error
    return manifest


def _write(layout: Layout, files: Mapping[str, Descriptor], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(target, is_durable=True) as made:
        folders = {made}
        for path, layer in files.items():
            file = made / path
            file.parent.mkdir(parents=True, exist_ok=True)
            folders.update(parent for parent in file.parents if made in parent.parents)
            _write_one(layout, layer, file)
        for folder in folders:
            sync_folder(folder)


def _write_one(layout: Layout, layer: Descriptor, path: Path) -> None:
    # Read-only: what runs is what was verified.
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    with os.fdopen(number, "wb") as file:
        layout.copy(layer, file)
        file.flush()
        os.fsync(number)
