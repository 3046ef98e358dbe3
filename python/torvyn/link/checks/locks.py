"""torvyn.lock: components that differ from the digests that were locked."""

from __future__ import annotations

from pathlib import Path

from torvyn.artifact.lock import NAME, Lock, LockedComponent, file_digest
from torvyn.artifact.packing.component_files import ComponentFiles
from torvyn.errors import Location, TorvynError
from torvyn.manifest.problems import Problems
from torvyn.manifest.records import ComponentRecord, Manifest

_UPDATE = "if the change is yours, run `torvyn pack --update-lock`"


def read_lock(folder: Path, problems: Problems) -> Lock | None:
    try:
        return Lock.read(folder)
    except TorvynError as error:
        problems.extend(error.diagnostics)
        return None


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
    locked: LockedComponent, folder: Path, problems: Problems, place: Location | None
) -> None:
    path = folder / locked.file
    # Link reports a file that is missing.
    if path.is_file() and file_digest(path) != locked.digest:
        message = f"component `{locked.name}`: `{locked.file}` does not match {NAME}"
        problems.add("link.lock-mismatch", message, place, _UPDATE)


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
