"""`pack`: a project whose components are built, to an artifact in a layout.

A variable of the environment that is not set here will be set on the gateway.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from torvyn._artifact.layout import Layout, write_file
from torvyn._artifact.lock import NAME, Lock, LockedArtifact, LockedFile, check_lock, file_digest
from torvyn._artifact.oci import (
    COMPONENT,
    PROJECT,
    TITLE,
    Descriptor,
    Digest,
    ImageManifest,
    unwritable,
)
from torvyn._artifact.paths import (
    LOCK_PATH,
    MANIFEST_PATH,
    PROVENANCE_PATH,
    SBOM_PATH,
    WHEEL_FOLDER,
    media_type,
)
from torvyn._artifact.precompiled import check_compiler, code_path, compile_for
from torvyn._artifact.project_files import ComponentFiles, ProjectFiles, wit_files
from torvyn._artifact.provenance import provenance, toolchain
from torvyn._artifact.sbom import Material, crates, lock_materials, sbom
from torvyn._artifact.wheels import download, requirement_files
from torvyn._manifest.records import Manifest
from torvyn._sandbox.compiler import MAX_FILE_BYTES
from torvyn.errors import UsageError


class Placeholders(Mapping[str, str]):
    """An environment in which every variable has a value: the given one, or `${NAME}`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


PLACEHOLDERS: Final = Placeholders({})
"""No variable has a value: what is packed must not depend on the environment."""


def with_placeholders() -> Placeholders:
    """This process's environment, with a placeholder for what is not set."""
    return Placeholders(os.environ)


_ANNOTATION: Final = "org.opencontainers.image."


@dataclass(frozen=True, slots=True)
class PackOptions:
    output: Path
    tags: tuple[str, ...] = ()
    """Without one, the version of the project."""
    component: str | None = None
    """Packs one component instead of the project."""
    include: tuple[str, ...] = ()
    revision: str = ""
    is_locked: bool = False
    """Refuses to change torvyn.lock."""
    updates_lock: bool = False
    """Accepts new digests of files that were not built here."""
    has_wheels: bool = False
    """Adds the wheels of the requirements of the project and its components."""
    platforms: tuple[str, ...] = ()
    """The targets that the wheels are for; without one, this machine."""
    targets: tuple[str, ...] = ()
    """Adds compiled code for these targets."""
    pull: Callable[[str, Lock | None], tuple[Digest, Path]] | None = None
    """Fetches the component that an `oci:` reference names: the digest of its artifact, and its
    `.wasm` file. It must follow the lock file, if it gets one."""
    on_compile: Callable[[str, str], None] = lambda path, target: None
    """Called before a file is compiled for a target."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An artifact that was packed."""

    layout: Layout
    descriptor: Descriptor
    manifest: ImageManifest
    tags: tuple[str, ...]
    lock_changed: bool

    @property
    def size_bytes(self) -> int:
        return sum(blob.size for blob in self.manifest.blobs)


def pack(manifest: Manifest, options: PackOptions) -> Packed:
    """Packs a project; its components must be built."""
    for target in options.targets:
        check_compiler(target)
    project = ProjectFiles.of(manifest, options.include)
    old = Lock.read(project.folder)
    with _staging(options.output) as staging:
        wheels = _wheels(project, options, old, staging.folder / "wheels")
        pulled, artifacts = _pulled(manifest, options, old)
        lock = Lock(
            tuple(component.lock(project.folder) for component in project.components),
            project.interfaces,
            artifacts,
            wheels=_locked(wheels) if options.has_wheels else old.wheels if old else (),
        )
        check_lock(
            old,
            lock,
            project.folder,
            is_locked=options.is_locked,
            updates_lock=options.updates_lock,
        )
        packer = _Packer(manifest, options, project, staging)
        if options.component is None:
            made = packer.project({**project.files, **wheels, **pulled}, lock)
        else:
            made = packer.component(options.component, lock)
        layout = Layout.create(options.output)
        layout.take(staging, made)
    tags = options.tags or (manifest.project.version,)
    descriptor = layout.add_manifest(made, *tags)
    changed = options.component is None and not options.is_locked and old != lock
    if changed:
        write_file(project.folder / NAME, lock.render().encode())
    return Packed(layout, descriptor, made, tags, changed)


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Layout]:
    """A layout on the file system of `output`. What a pack that fails has written goes with it."""
    place = next(folder for folder in (output, *output.absolute().parents) if folder.is_dir())
    try:
        folder = tempfile.mkdtemp(prefix=".torvyn-pack-", dir=place)
    except OSError as error:
        raise unwritable(output, error) from error
    try:
        yield Layout.create(Path(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wheels(
    project: ProjectFiles, options: PackOptions, lock: Lock | None, room: Path
) -> dict[str, Path]:
    """The wheels of the project: path in the artifact -> file."""
    if not options.has_wheels:
        return {}
    folder = project.folder
    room.mkdir()
    homes = [folder / each.record.path for each in project.components if each.wasm is None]
    files = requirement_files(folder, homes)
    pins = None if options.updates_lock else lock
    found = download(files, room, options.platforms, pins) if files else {}
    return {f"{WHEEL_FOLDER}{name}": path for name, path in found.items()}


def _pulled(
    manifest: Manifest, options: PackOptions, lock: Lock | None
) -> tuple[dict[str, Path], tuple[LockedArtifact, ...]]:
    """The components of registries, which travel with the project."""
    nodes = (node for flow in manifest.flows.values() for node in flow.nodes.values())
    names = dict.fromkeys(str(node.component) for node in nodes)
    files: dict[str, Path] = {}
    artifacts = []
    for name in names:
        if name.startswith("oci:") and options.pull is not None:
            digest, file = options.pull(name, None if options.updates_lock else lock)
            path = f"artifacts/{digest.removeprefix('sha256:')}.wasm"
            files[path] = file
            artifacts.append(LockedArtifact(name, digest, path))
    return files, tuple(artifacts)


def _locked(wheels: Mapping[str, Path]) -> tuple[LockedFile, ...]:
    return tuple(LockedFile(path, file_digest(file)) for path, file in wheels.items())


class _Packer:
    def __init__(
        self, manifest: Manifest, options: PackOptions, project: ProjectFiles, layout: Layout
    ) -> None:
        self._manifest, self._options = manifest, options
        self._project, self._layout = project, layout

    def project(self, files: Mapping[str, Path], lock: Lock) -> ImageManifest:
        own: dict[str, Path | bytes] = {
            MANIFEST_PATH: Path(self._manifest.file),
            LOCK_PATH: lock.render().encode(),
        }
        wheels = tuple(wheel for wheel in lock.wheels if wheel.file in files)
        packed = replace(lock, wheels=wheels)
        return self._made(PROJECT, self._manifest.project.name, {**files, **own}, packed)

    def component(self, name: str, lock: Lock) -> ImageManifest:
        component = _component(self._project, name)
        files = _component_files(component, self._manifest, self._project.folder)
        own = Lock(tuple(each for each in lock.components if each.name == name))
        return self._made(COMPONENT, name, files, own)

    def _made(
        self, kind: str, name: str, files: Mapping[str, Path | bytes], lock: Lock
    ) -> ImageManifest:
        layers = {path: self._add(path, files[path]) for path in sorted(files)}
        for path in [path for path in layers if path.endswith(".wasm")]:
            for target in self._options.targets:
                self._options.on_compile(path, target)
                code = compile_for(self._layout.read(layers[path], MAX_FILE_BYTES), target)
                layers[code_path(path, target)] = self._add(code_path(path, target), code)
        components = [each for each in self._project.components if lock.component(each.record.name)]
        materials = [*lock_materials(lock, self._manifest.project), *self._crates(components)]
        bill = self._add(SBOM_PATH, sbom(self._manifest.project, materials))
        layers[SBOM_PATH] = bill
        layers[PROVENANCE_PATH] = self._provenance(layers, lock, components)
        return ImageManifest(
            kind, tuple(layers[path] for path in sorted(layers)), self._annotations(name)
        )

    def _add(self, path: str, source: Path | bytes) -> Descriptor:
        title = {TITLE: path}
        if isinstance(source, bytes):
            return self._layout.add(media_type(path), source, title)
        return self._layout.add_file(media_type(path), source.resolve(), title)

    def _crates(self, components: Iterable[ComponentFiles]) -> Iterator[Material]:
        folders = [
            (self._project.folder / each.record.path).resolve()
            for each in components
            if each.language == "rust"
        ]
        return crates(folders, self._project.folder.resolve())

    def _provenance(
        self, layers: Mapping[str, Descriptor], lock: Lock, components: Iterable[ComponentFiles]
    ) -> Descriptor:
        parameters = {
            "name": self._manifest.project.name,
            "version": self._manifest.project.version,
            "component": self._options.component,
            "include": list(self._options.include),
            "targets": list(self._options.targets),
            "source": self._manifest.project.repository,
            "revision": self._options.revision,
        }
        tools = (toolchain(each.wasm) for each in components if each.wasm is not None)
        statement = provenance(layers, lock, parameters, filter(None, tools))
        return self._add(PROVENANCE_PATH, statement)

    def _annotations(self, name: str) -> dict[str, str]:
        project = self._manifest.project
        values = {
            "title": name,
            "version": project.version,
            "description": project.description,
            "licenses": project.license,
            "source": project.repository,
            "authors": ", ".join(project.authors or ()),
            "revision": self._options.revision,
            "created": _created(),
        }
        return {f"{_ANNOTATION}{key}": text for key, text in values.items() if text}


def _created() -> str:
    """The time that `SOURCE_DATE_EPOCH` names; empty without it, to keep packs identical."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return ""
    try:
        return datetime.fromtimestamp(int(text), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        message = f"`SOURCE_DATE_EPOCH` is `{text}`, which is not a number of seconds"
        raise UsageError("artifact.bad-epoch", message) from None


def _component(project: ProjectFiles, name: str) -> ComponentFiles:
    for component in project.components:
        if component.record.name == name:
            return component
    known = ", ".join(f"`{each.record.name}`" for each in project.components)
    message = f"the project has no component `{name}`"
    raise UsageError("cli.component-unknown", message, hint=f"its components are {known or 'none'}")


def _component_files(
    component: ComponentFiles, manifest: Manifest, folder: Path
) -> dict[str, Path | bytes]:
    """The files of a component, relative to its own folder."""
    path = Path(component.record.path)
    home = (path if path.suffix == "" else path.parent).as_posix()
    files: dict[str, Path | bytes] = {}
    if component.wasm is not None:
        files[f"{component.record.name}.wasm"] = component.wasm
    else:
        files |= {_below(home, path): file for path, file in component.sources.items()}
    for path_, file in wit_files(replace(manifest, components=(component.record,)), folder).items():
        files[_below(home, path_)] = file
    return files


def _below(home: str, path: str) -> str:
    return path.removeprefix(f"{home}/")
