"""The files that a project needs, by their path in the artifact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torvyn._manifest.records import ComponentRecord, Manifest
from torvyn.artifact.lock import LockedFile, file_digest
from torvyn.artifact.media_types import LOCK_PATH, MANIFEST_PATH
from torvyn.artifact.packing.component_files import ComponentFiles, files_in, relative
from torvyn.artifact.packing.data_files import named_files
from torvyn.errors import ArtifactError, Location


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    folder: Path
    components: tuple[ComponentFiles, ...]
    files: dict[str, Path] = field(default_factory=dict)
    """Path in the artifact -> file; without the manifest and what packing makes itself."""
    interfaces: tuple[LockedFile, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest, include: Iterable[str] = ()) -> ProjectFiles:
        """Finds the files of a project whose components are built."""
        folder = Path(manifest.file).parent
        components = tuple(ComponentFiles.of(record, folder) for record in _records(manifest))
        files: dict[str, Path] = {}
        for component in components:
            files |= relative(list(component.packed), folder, component.record.at("path"))
        wit = wit_files(manifest, folder)
        for flow in manifest.flows.values():
            files |= relative(named_files(flow, folder), folder, flow.location)
        pack = manifest.pack
        files |= wit | _matches((*(pack.include or ()), *include), folder, pack.at("include"))
        for path in _matches(pack.exclude or (), folder, pack.at("exclude"), must_match=False):
            files.pop(path, None)
        for path in (MANIFEST_PATH, LOCK_PATH):
            files.pop(path, None)
        interfaces = tuple(LockedFile(path, file_digest(file)) for path, file in wit.items())
        return cls(folder, components, files, interfaces)


def _records(manifest: Manifest) -> list[ComponentRecord]:
    """The declared components, and the `.wasm` files that nodes name."""
    declared = {record.name: record for record in manifest.components if record.path}
    nodes = (node for flow in manifest.flows.values() for node in flow.nodes.values())
    for node in nodes:
        name = str(node.component)
        if name.endswith(".wasm") and not name.startswith("oci://"):
            place = {"path": location} if (location := node.at("component")) else {}
            declared.setdefault(name, ComponentRecord(name=name, path=name, locations=place))
    return list(declared.values())


def wit_files(manifest: Manifest, folder: Path) -> dict[str, Path]:
    """The project's own WIT, and that of its components."""
    homes = [folder, *(folder / record.path for record in manifest.components)]
    files = (path for home in homes for path in files_in(home / "wit") if path.suffix == ".wit")
    return relative(files, folder, None)


def _matches(
    patterns: Iterable[str], folder: Path, place: Location | None, *, must_match: bool = True
) -> dict[str, Path]:
    """The files that match, and those below the folders that match."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        try:
            matches = [path for path in folder.glob(pattern) if not _is_hidden(path, folder)]
        except (ValueError, NotImplementedError, IndexError) as error:
            message = f"`{pattern}` is not a pattern of files in the project: {error}"
            raise ArtifactError("artifact.bad-pattern", message, location=place) from None
        files = [file for path in matches for file in _files(path)]
        if not files and must_match:
            message = f"no file in the project matches `{pattern}`"
            hint = "patterns are relative to Torvyn.toml; `**` matches any folders"
            raise ArtifactError("artifact.bad-pattern", message, location=place, hint=hint)
        found |= relative(files, folder, place)
    return found


def _files(path: Path) -> list[Path]:
    return list(files_in(path)) if path.is_dir() else [path]


def _is_hidden(path: Path, folder: Path) -> bool:
    try:
        parts = path.relative_to(folder).parts
    except ValueError:
        return False
    return any(part.startswith(".") for part in parts if part != "..")
