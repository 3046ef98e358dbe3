"""The errors of artifacts."""

from __future__ import annotations

from pathlib import Path

from torvyn.errors import ArtifactError, MissingError, os_reason


def invalid(message: str, hint: str | None = None) -> ArtifactError:
    """What was read is not what it should be: JSON, a manifest, an index, a layout."""
    return ArtifactError("artifact.invalid", message, hint=hint)


def too_large(message: str) -> ArtifactError:
    return ArtifactError("artifact.too-large", message)


def digest_mismatch(what: str, reason: str) -> ArtifactError:
    hint = "the file is damaged or was changed; copy or pull the artifact again"
    return ArtifactError("artifact.digest-mismatch", f"{what}: {reason}", hint=hint)


def not_found(what: str, where: str, hint: str | None = None) -> MissingError:
    return MissingError("artifact.not-found", f"{where} has no {what}", hint=hint)


def unreadable(path: Path, error: OSError) -> MissingError:
    message = f"cannot read `{path}`: {os_reason(error)}"
    return MissingError("artifact.unreadable", message)


def unwritable(path: Path, error: OSError) -> MissingError:
    message = f"cannot write `{path}`: {os_reason(error)}"
    return MissingError("artifact.unwritable", message)
