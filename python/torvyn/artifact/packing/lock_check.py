"""Whether a pack may change torvyn.lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torvyn.artifact.lock import NAME, Lock
from torvyn.errors import ArtifactError, Location


def check_lock(
    old: Lock | None, new: Lock, folder: Path, *, is_locked: bool, updates_lock: bool
) -> None:
    """Raises unless the lock file may become `new`."""
    differences = [] if old is None else old.differences(new)
    if is_locked and (old is None or differences):
        what = f"does not match {', '.join(differences)}" if differences else "does not exist"
        message = f"the lock file {what}"
        hint = "run `torvyn pack` without `--locked`, and commit torvyn.lock"
        place = Location(str(folder / NAME))
        raise ArtifactError("artifact.lock-outdated", message, location=place, hint=hint)
    if old is None or updates_lock:
        return
    for file in _changed_files(old, new):
        message = f"`{file}` is not the file that the lock file names"
        hint = "if you replaced it on purpose, run `torvyn pack --update-lock`"
        place = Location(str(folder / NAME))
        raise ArtifactError("artifact.lock-mismatch", message, location=place, hint=hint)


def _changed_files(old: Lock, new: Lock) -> Iterator[str]:
    """The files that were not built here and have another digest than before."""
    for component in new.components:
        known = old.component(component.name)
        is_foreign = not component.sources and known is not None and not known.sources
        if is_foreign and known is not None and known.digest != component.digest:
            yield component.file
    wheels = {wheel.file: wheel.digest for wheel in old.wheels}
    for wheel in new.wheels:
        if wheels.get(wheel.file, wheel.digest) != wheel.digest:
            yield wheel.file
