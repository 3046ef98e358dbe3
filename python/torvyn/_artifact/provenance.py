"""How an artifact was made: an in-toto statement with SLSA's provenance v1.

Its subjects are the files of the artifact. It names the sources by digest and the tools by version,
and has no time and no name of a machine, so that the same pack gives the same statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import torvyn
from torvyn._artifact.lock import Lock
from torvyn._artifact.oci import Descriptor, canonical

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "https://torvyn.dev/pack/v1"


def provenance(
    files: Mapping[str, Descriptor],
    lock: Lock,
    parameters: Mapping[str, Any],
    toolchains: Iterable[str],
) -> bytes:
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {key: value for key, value in parameters.items() if value},
        "internalParameters": {"toolchains": sorted(set(toolchains))},
        "resolvedDependencies": list(_dependencies(lock)),
    }
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": path, "digest": _digest(files[path].digest)} for path in sorted(files)
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": definition,
            "runDetails": {"builder": {"id": BUILD_TYPE, "version": {"torvyn": _version()}}},
        },
    }
    return canonical(statement)


def toolchain(wasm: Path) -> str | None:
    """The tools that built a component here; None if it was built elsewhere."""
    try:
        stamp = json.loads(wasm.with_suffix(".json").read_bytes())
        return str(stamp["toolchain"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _dependencies(lock: Lock) -> Iterable[dict[str, Any]]:
    for component in lock.components:
        digest = component.sources or component.digest
        yield {"name": component.name, "digest": _digest(digest)}
    for artifact in lock.artifacts:
        yield {"uri": artifact.reference, "digest": _digest(artifact.digest)}
    for wheel in lock.wheels:
        yield {"name": wheel.file, "digest": _digest(wheel.digest)}


def _digest(digest: str) -> dict[str, str]:
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}


def _version() -> str:
    return torvyn.__version__
