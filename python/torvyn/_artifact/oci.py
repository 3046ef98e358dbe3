"""The parts of an OCI artifact: descriptors, image manifests and indexes; their JSON, and errors.

They are frozen, and `parse(serialize(x)) == x`. What is written is canonical JSON, so that equal
values have equal digests. `parse` takes bytes from outside: it enforces the limits and checks every
digest's form, so that a digest can become a file name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NewType

from torvyn._artifact.paths import check_paths
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


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def canonical(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def parse_object(data: bytes, what: str, limit_bytes: int) -> dict[str, Any]:
    """The JSON object in `data`. Keys that occur twice are refused: readers differ in which one
    they use."""
    if len(data) > limit_bytes:
        raise too_large(f"{what} has more than {limit_bytes} bytes")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        if _SURROGATE.search(data):
            # Half of a pair is no character: a text with it can be neither stored nor shown.
            canonical(value)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise invalid(f"{what} is not a JSON object")
    return value


def text_field(value: Mapping[str, Any], key: str, what: str, default: str | None = None) -> str:
    found = value.get(key, default)
    if not isinstance(found, str):
        raise invalid(f"{what}: `{key}` is missing or not text")
    return found


def text_table(value: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """A table of texts, such as annotations; empty if the key is missing."""
    found = value.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise invalid(f"{what}: `{key}` is not a table of texts")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not a number")


Digest = NewType("Digest", str)
"""`sha256:` and 64 hexadecimal digits."""

IMAGE_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX: Final = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
PROJECT: Final = "application/vnd.torvyn.project.v1"
COMPONENT: Final = "application/vnd.torvyn.component.v1"

TITLE: Final = "org.opencontainers.image.title"
REF_NAME: Final = "org.opencontainers.image.ref.name"

MAX_MANIFEST_BYTES: Final = 4 << 20
"""Registries accept no larger ones."""
MAX_LAYERS: Final = 1024
MAX_ARTIFACT_BYTES: Final = 8 << 30
_MAX_BLOB_BYTES: Final = 1 << 50

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}(?:;[ -~]{1,127})?", re.ASCII)


def digest_of(data: bytes) -> Digest:
    return Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")


def check_digest(text: str) -> Digest:
    if not _DIGEST.fullmatch(text):
        shown = ascii(text[:80])[1:-1]
        raise invalid(f"`{shown}` is not a digest: `sha256:` and 64 hexadecimal digits")
    return Digest(text)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob by its digest, size and type."""

    media_type: str
    digest: Digest
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    artifact_type: str | None = None

    @classmethod
    def of(
        cls, media_type: str, data: bytes, annotations: Mapping[str, str] | None = None
    ) -> Descriptor:
        """The descriptor of these bytes."""
        return cls(media_type, digest_of(data), len(data), annotations or {})

    @classmethod
    def parse(cls, value: Any, what: str) -> Descriptor:
        if not isinstance(value, dict):
            raise invalid(f"{what} is not a descriptor")
        size = value.get("size")
        if type(size) is not int or not 0 <= size <= _MAX_BLOB_BYTES:
            raise invalid(f"{what}: `size` is not a number of bytes")
        if value.get("urls"):
            raise invalid(f"{what} names other places to fetch it from, which is not supported")
        return cls(
            _media_type(value, "mediaType", what),
            check_digest(text_field(value, "digest", what)),
            size,
            text_table(value, "annotations", what),
            _media_type(value, "artifactType", what) if "artifactType" in value else None,
        )

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.size,
        }
        if self.artifact_type is not None:
            fields["artifactType"] = self.artifact_type
        if self.annotations:
            fields["annotations"] = dict(self.annotations)
        return fields

    @property
    def title(self) -> str:
        """The path of the file; empty for a layer that is not a file."""
        return self.annotations.get(TITLE, "")


EMPTY_DATA: Final = b"{}"
EMPTY: Final = Descriptor.of(EMPTY_TYPE, EMPTY_DATA)
"""The config of an artifact that needs none."""


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """An artifact: its type, its files, and what it refers to."""

    artifact_type: str
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    subject: Descriptor | None = None
    """The artifact that this one, such as a signature, is about."""
    config: Descriptor = EMPTY

    @classmethod
    def parse(cls, data: bytes) -> ImageManifest:
        what = "the image manifest"
        value = parse_object(data, what, MAX_MANIFEST_BYTES)
        _check_schema(value, IMAGE_MANIFEST, what)
        layers = _descriptors(value, "layers", what)
        config = Descriptor.parse(value.get("config"), f"{what}: `config`")
        subject = value.get("subject")
        artifact_type = value.get("artifactType", config.media_type)
        return cls(
            _media_type({"artifactType": artifact_type}, "artifactType", what),
            layers,
            text_table(value, "annotations", what),
            None if subject is None else Descriptor.parse(subject, f"{what}: `subject`"),
            config,
        )

    def serialize(self) -> bytes:
        fields: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "artifactType": self.artifact_type,
            "config": self.config.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
        }
        if self.annotations:
            fields["annotations"] = dict(self.annotations)
        if self.subject is not None:
            fields["subject"] = self.subject.to_dict()
        return canonical(fields)

    def descriptor(self) -> Descriptor:
        data = self.serialize()
        digest = digest_of(data)
        return Descriptor(IMAGE_MANIFEST, digest, len(data), artifact_type=self.artifact_type)

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Everything that the manifest needs, each digest once."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())

    def files(self, max_bytes: int = MAX_ARTIFACT_BYTES) -> dict[str, Descriptor]:
        """The layers by path, after all paths and the total size were checked."""
        check_paths(layer.title for layer in self.layers)
        total = sum(layer.size for layer in self.layers)
        if total > max_bytes:
            raise too_large(f"the artifact has {total} bytes; the limit is {max_bytes}")
        return {layer.title: layer for layer in self.layers}


@dataclass(frozen=True, slots=True)
class ImageIndex:
    """A list of manifests: of a layout, or of the artifacts that refer to another."""

    manifests: tuple[Descriptor, ...] = ()

    @classmethod
    def parse(cls, data: bytes, what: str = "the index") -> ImageIndex:
        value = parse_object(data, what, MAX_MANIFEST_BYTES)
        _check_schema(value, IMAGE_INDEX, what)
        # Registries in Go write an empty list as `null`.
        if "manifests" in value and value["manifests"] is None:
            return cls()
        return cls(_descriptors(value, "manifests", what))

    def serialize(self) -> bytes:
        manifests = [manifest.to_dict() for manifest in self.manifests]
        return canonical({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": manifests})


def _check_schema(value: Mapping[str, Any], media_type: str, what: str) -> None:
    if value.get("schemaVersion") != 2:
        raise invalid(f"{what} does not have the schema version 2")
    found = value.get("mediaType", media_type)
    if found != media_type:
        shown = ascii(found[:100])[1:-1] if isinstance(found, str) else "unknown"
        raise invalid(f"{what} has the type `{shown}`, not `{media_type}`")


def _descriptors(value: Mapping[str, Any], key: str, what: str) -> tuple[Descriptor, ...]:
    found = value.get(key)
    if not isinstance(found, list):
        raise invalid(f"{what}: `{key}` is not a list")
    if len(found) > MAX_LAYERS:
        raise too_large(f"{what} has {len(found)} {key}; the limit is {MAX_LAYERS}")
    return tuple(
        Descriptor.parse(each, f"{what}: `{key}[{index}]`") for index, each in enumerate(found)
    )


def _media_type(value: Mapping[str, Any], key: str, what: str) -> str:
    text = text_field(value, key, what)
    if not _MEDIA_TYPE.fullmatch(text):
        raise invalid(f"{what}: `{key}` is not a media type")
    return text
