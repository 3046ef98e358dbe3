"""The software bill of materials of an artifact: CycloneDX 1.6, as JSON.

The same contents give the same bytes: the serial number is derived from them, and there is no time.
"""

from __future__ import annotations

import json
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn.artifact.json_form import canonical
from torvyn.artifact.lock import Lock
from torvyn.artifact.packages import import_package
from torvyn.manifest.records import ProjectRecord

_PURPOSE: Final = "an SBOM"
_NAMESPACE: Final = uuid.UUID("7d0c9e61-3a56-5ab1-8d8c-6f1f5b2f3c11")


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
    model = import_package("cyclonedx.model.component", _PURPOSE)
    output = import_package("cyclonedx.output.json", _PURPOSE)
    bom = import_package("cyclonedx.model.bom", _PURPOSE).Bom()
    main = model.Component(
        name=project.name,
        version=project.version,
        type=model.ComponentType.APPLICATION,
        bom_ref="project",
        licenses=_licenses(project.license),
    )
    bom.metadata.component = main
    parts = [_component(model, material) for material in sorted(set(materials), key=_order)]
    bom.components.update(parts)
    bom.register_dependency(main, parts)
    document = json.loads(output.JsonV1Dot6(bom).output_as_string())
    # Times and random numbers would make every pack of the same files different.
    del document["metadata"]["timestamp"], document["serialNumber"]
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


def _component(model: Any, material: Material) -> Any:
    url = import_package("packageurl", _PURPOSE).PackageURL
    hashes = import_package("cyclonedx.model", _PURPOSE)
    sha256 = hashes.HashAlgorithm.SHA_256
    has_url = material.kind in ("pypi", "cargo")
    return model.Component(
        name=material.name,
        version=material.version or None,
        type=model.ComponentType.LIBRARY,
        bom_ref=material.ref,
        purl=url(material.kind, None, material.name, material.version) if has_url else None,
        hashes=[hashes.HashType(alg=sha256, content=material.sha256)] if material.sha256 else [],
    )


def _licenses(text: str | None) -> list[Any]:
    if not text:
        return []
    factory = import_package("cyclonedx.contrib.license.factories", _PURPOSE).LicenseFactory()
    return [factory.make_from_string(text)]


def _order(material: Material) -> tuple[str, ...]:
    return (material.kind, material.name, material.version, material.sha256)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
