"""The software bill of materials of an artifact: CycloneDX 1.6, as JSON.

The same contents give the same bytes: the serial number is derived from them, and there is no time.
"""

from __future__ import annotations

import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from torvyn._artifact.lock import Lock
from torvyn._artifact.oci import canonical
from torvyn._manifest.records import ProjectRecord

_NAMESPACE: Final = uuid.UUID("7d0c9e61-3a56-5ab1-8d8c-6f1f5b2f3c11")
_SPDX: Final = {
    name.lower(): name
    for name in (
        "0BSD", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-2.0", "Artistic-2.0", "BSD-2-Clause",
        "BSD-3-Clause", "BSL-1.0", "BUSL-1.1", "CC-BY-4.0", "CC-BY-SA-4.0", "CC0-1.0",
        "CDDL-1.0", "EPL-1.0", "EPL-2.0", "EUPL-1.2", "GPL-2.0-only", "GPL-2.0-or-later",
        "GPL-3.0-only", "GPL-3.0-or-later", "ISC", "LGPL-2.1-only", "LGPL-2.1-or-later",
        "LGPL-3.0-only", "LGPL-3.0-or-later", "MIT", "MIT-0", "MPL-2.0", "MS-PL", "MulanPSL-2.0",
        "OFL-1.1", "PostgreSQL", "Python-2.0", "Unlicense", "Zlib",
    )
}  # fmt: skip
"""SPDX identifiers of usual licenses. The schema refuses others as identifiers."""


@dataclass(frozen=True, slots=True)
class Material:
    """A part that the artifact consists of or was built from."""

    name: str
    version: str = ""
    kind: str = ""
    """The type of its package URL, such as `pypi`; empty for the project's own components."""
    sha256: str = ""

    @property
    def ref(self) -> str:
        prefix = f"{self.kind}:" if self.kind else "component:"
        return f"{prefix}{self.name}@{self.version}"


def sbom(project: ProjectRecord, materials: Iterable[Material]) -> bytes:
    parts = sorted(set(materials), key=_order)
    depends = {"ref": "project", "dependsOn": sorted(part.ref for part in parts)}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "bom-ref": "project",
                "type": "application",
                "name": project.name,
                "version": project.version,
                **_licenses(project.license),
            }
        },
        "components": [_component(part) for part in parts],
        "dependencies": [depends if parts else {"ref": "project"}]
        + [{"ref": part.ref} for part in parts],
    }
    # A random number, as is usual, would make every pack of the same files different.
    serial = uuid.uuid5(_NAMESPACE, canonical(document).decode())
    return canonical({**document, "serialNumber": f"urn:uuid:{serial}"})


def lock_materials(lock: Lock, project: ProjectRecord) -> Iterator[Material]:
    """The components, pulled artifacts and wheels of a lock file."""
    for component in lock.components:
        yield Material(component.name, project.version, sha256=_hex(component.digest))
    for artifact in lock.artifacts:
        yield Material(artifact.reference, artifact.digest, "oci", _hex(artifact.digest))
    for wheel in lock.wheels:
        name, version, *_ = wheel.file.rpartition("/")[2].split("-")
        yield Material(name.replace("_", "-").lower(), version, "pypi", _hex(wheel.digest))


def crates(folders: Sequence[Path], root: Path) -> Iterator[Material]:
    """The crates that Rust components in these folders were built from."""
    homes = {home for folder in folders for home in (folder, *folder.parents)}
    for home in sorted(home for home in homes if home == root or root in home.parents):
        if not (home / "Cargo.lock").is_file():
            continue
        for package in tomllib.loads((home / "Cargo.lock").read_text()).get("package", []):
            if "source" in package:
                checksum = package.get("checksum", "")
                yield Material(package["name"], package["version"], "cargo", checksum)


def _component(material: Material) -> dict[str, Any]:
    fields: dict[str, Any] = {"bom-ref": material.ref, "type": "library", "name": material.name}
    if material.version:
        fields["version"] = material.version
    if material.kind in ("pypi", "cargo"):
        name, version = quote(material.name, safe=""), quote(material.version, safe="")
        fields["purl"] = f"pkg:{material.kind}/{name}@{version}"
    if material.sha256:
        fields["hashes"] = [{"alg": "SHA-256", "content": material.sha256}]
    return fields


def _licenses(text: str | None) -> dict[str, Any]:
    """An SPDX identifier, an expression of several, or the name of another license."""
    if not text:
        return {}
    words = re.sub(r"[()]", " ", text).split()
    known = [_SPDX.get(word.lower()) for word in words]
    if len(words) == 1 and known[0]:
        return {"licenses": [{"license": {"id": known[0]}}]}
    if len(words) > 1 and all(known[0::2]) and all(word in ("AND", "OR") for word in words[1::2]):
        return {"licenses": [{"expression": text}]}
    return {"licenses": [{"license": {"name": text}}]}


def _order(material: Material) -> tuple[str, ...]:
    return (material.kind, material.name, material.version, material.sha256)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
