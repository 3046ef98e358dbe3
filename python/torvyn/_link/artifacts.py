"""All that link needs of artifacts: components of registries, torvyn.lock, and packed files.

A node names an artifact, `oci://host/name:tag`, and gets its `.wasm`.

The trust policy of this machine decides whether the artifact may be used. If torvyn.lock has the
reference, exactly the artifact that it names is used, and a cached one needs no network; components
that differ from the digests that were locked are reported. Only components for the sandbox are
accepted: what a guest may use is granted here, not there.

Loaded only by projects that have such a component, a lock file, or were unpacked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from torvyn._artifact.cache import cache_folder
from torvyn._artifact.fetch import FetchOptions, fetch
from torvyn._artifact.lock import NAME, Lock, LockedComponent, file_digest
from torvyn._artifact.oci import COMPONENT, Digest, ImageManifest, check_digest
from torvyn._artifact.project_files import ComponentFiles, config_of, is_relative, reading_nodes
from torvyn._artifact.reference import LayoutReference, parse_reference
from torvyn._artifact.trust import TrustPolicy
from torvyn._artifact.unpack import default_cache_dir, private_folder, unpack
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ComponentRecord, FlowRecord, Manifest
from torvyn.errors import Diagnostic, LinkError, Location, TorvynError

_UPDATE: Final = "if the change is yours, run `torvyn pack --update-lock`"


def read_lock(folder: Path, problems: Problems) -> Lock | None:
    try:
        return Lock.read(folder)
    except TorvynError as error:
        problems.extend(error.diagnostics)
        return None


def fetch_component(
    reference: str, folder: Path, lock: Lock | None, cache_dir: Path | None
) -> tuple[Path, tuple[Diagnostic, ...]]:
    """The `.wasm` file of a component, in the cache or packed with the project, and warnings.
    Layouts are relative to the project's folder."""
    locked = lock.artifact(reference) if lock is not None else None
    if locked is not None and locked.file and (folder / locked.file).is_file():
        return folder / locked.file, ()
    pulled = pull_component(reference, folder, lock, cache_dir)
    return pulled.file, pulled.warnings


@dataclass(frozen=True, slots=True)
class PulledComponent:
    digest: Digest
    """Of its artifact."""
    file: Path
    warnings: tuple[Diagnostic, ...]


def pull_component(
    reference: str, folder: Path, lock: Lock | None, cache_dir: Path | None
) -> PulledComponent:
    """Fetches a component into the cache."""
    cache = cache_dir or default_cache_dir()
    options = FetchOptions(TrustPolicy.load(), cache_folder(cache))
    fetched = fetch(_pinned(reference, folder, lock), options)
    manifest = fetched.layout.manifest(fetched.descriptor)
    path = _wasm_path(reference, manifest)
    name = fetched.descriptor.digest.removeprefix("sha256:")
    target = private_folder(cache / "unpacked") / name
    unpack(fetched.layout, fetched.descriptor, target)
    return PulledComponent(fetched.descriptor.digest, target / path, fetched.warnings)


def _pinned(reference: str, folder: Path, lock: Lock | None) -> str:
    """The reference with the digest of the lock file, if it has one."""
    parsed = parse_reference(reference)
    if isinstance(parsed, LayoutReference):
        parsed = replace(parsed, folder=folder / parsed.folder)
    locked = lock.artifact(reference) if lock is not None else None
    if locked is not None and parsed.digest is None:
        parsed = replace(parsed, digest=check_digest(locked.digest))
    return str(parsed)


def _wasm_path(reference: str, manifest: ImageManifest) -> str:
    files = [path for path in manifest.files() if path.endswith(".wasm")]
    if manifest.artifact_type == COMPONENT and len(files) == 1:
        return files[0]
    message = f"`{reference}` is not a component for the sandbox: one with a single `.wasm` file"
    hint = "pack such a component with `torvyn pack --component NAME`"
    raise LinkError("link.component-unsupported", message, hint=hint)


def check_locks(
    manifest: Manifest, lock: Lock | None, problems: Problems, *, is_locked: bool, warns: bool
) -> None:
    """A `.wasm` file that was not built here must match the lock. Sources must match it only if
    `is_locked`, because they are yours to change; `warns` says so otherwise."""
    if lock is None:
        if is_locked:
            hint = "write it with `torvyn pack`"
            problems.add("link.lock-mismatch", f"the project has no {NAME}", None, hint)
        return
    folder = Path(manifest.file).parent
    records = {record.name: record for record in manifest.components}
    for locked in lock.components:
        if not locked.sources:
            record = records.pop(locked.name, None)
            _check_file(locked, folder, problems, record.at("path") if record else None)
    if is_locked or warns:
        for record in records.values():
            locked_one = lock.component(record.name)
            _check_all(record, locked_one, folder, problems, is_error=is_locked)


def _check_file(
    locked: LockedComponent, folder: Path, problems: Problems, location: Location | None
) -> None:
    path = folder / locked.file
    # Link reports a file that is missing.
    if path.is_file() and file_digest(path) != locked.digest:
        message = f"component `{locked.name}`: `{locked.file}` does not match {NAME}"
        problems.add("link.lock-mismatch", message, location, _UPDATE)


def _check_all(
    record: ComponentRecord,
    locked: LockedComponent | None,
    folder: Path,
    problems: Problems,
    *,
    is_error: bool,
) -> None:
    try:
        is_equal = ComponentFiles.of(record, folder).lock(folder).matches(locked)
    except TorvynError:
        return  # a file that is missing, which link reports
    if is_equal:
        return
    what = "is not in" if locked is None else "has changed since the last pack: it does not match"
    message = f"component `{record.name}` {what} {NAME}"
    if is_error:
        problems.add("link.lock-mismatch", message, record.at("path"), "run `torvyn pack`")
    else:
        hint = "`torvyn pack` updates the lock file"
        problems.warn("link.lock-outdated", message, record.at("path"), hint)


def with_packed_files(flow: FlowRecord, folder: Path, paths: Collection[str]) -> FlowRecord:
    """The flow, reading the packed files in `folder` instead of files in the current folder."""
    nodes = dict(flow.nodes)
    for node in reading_nodes(flow):
        config = config_of(node)
        changed = _replaced(config, folder, paths)
        if changed != config:
            nodes[node.name] = replace(node, config=changed)
    return replace(flow, nodes=nodes)


def _replaced(value: Any, folder: Path, paths: Collection[str]) -> Any:
    if isinstance(value, str):
        normal = Path(value).as_posix() if is_relative(value) else ""
        is_folder = any(path.startswith(f"{normal}/") for path in paths) if normal else False
        return str(folder / normal) if normal in paths or is_folder else value
    if isinstance(value, dict):
        return {key: _replaced(each, folder, paths) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(each, folder, paths) for each in value]
    return value
