"""What a release engineer should know before the next version of a channel is signed: what devices
would refuse, and what they would lose. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from torvyn.artifact.signature.keys import PublicKey
from torvyn.edge.channel.document import ChannelDocument
from torvyn.edge.channel.publication import KeyRotation, Publication
from torvyn.edge.failures import (
    bar_falls,
    dropped_artifacts,
    new_signers,
    other_channel,
    project_falls,
    version_falls,
)
from torvyn.errors import Diagnostic

_NUMBERS: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})*", re.ASCII)


def check_next(
    before: Publication,
    document: ChannelDocument,
    keys: Sequence[PublicKey],
    *,
    dropped: Collection[str] = (),
    may_fall: bool = False,
) -> tuple[Diagnostic, ...]:
    """The warnings about a document that follows another. Raises what devices would refuse or lose
    unless the engineer has said so: `dropped` are artifacts that end here, `may_fall` allows a
    version that is not higher."""
    earlier = ChannelDocument.parse(before.document.payload)
    if document.channel != earlier.channel:
        raise other_channel(document.channel, earlier.channel)
    if document.min_version < earlier.min_version:
        raise bar_falls(document.min_version, earlier.min_version)
    names = {entry.name for entry in document.artifacts}
    lost = [each.name for each in earlier.artifacts if each.name not in {*names, *dropped}]
    if lost:
        raise dropped_artifacts(document.channel, lost)
    falls = version_falls(document.channel, document.version, earlier.version)
    is_falling = document.version <= earlier.version
    if is_falling and not may_fall:
        raise falls
    warnings = [replace(falls.diagnostics[0], severity="warning")] if is_falling else []
    if not _signers(before, keys):
        warnings.append(new_signers(document.channel))
    return tuple(warnings)


def older_project(name: str, version: str, before: str) -> Iterator[Diagnostic]:
    """A warning if the project of an artifact has a lower version than the one before."""
    found, known = (_NUMBERS.match(text) for text in (version, before))
    if found and known and _order(found[0]) < _order(known[0]):
        yield project_falls(name, version, before)


def _signers(before: Publication, keys: Sequence[PublicKey]) -> frozenset[PublicKey]:
    """Those of the keys that devices trust, as far as the publication says it."""
    if before.rotations:
        return frozenset(KeyRotation.parse(before.rotations[-1].payload).keys.keys) & {*keys}
    return before.document.signers(keys)


def _order(version: str) -> tuple[int, ...]:
    parts = tuple(int(part) for part in version.split("."))
    return parts + (0,) * (8 - len(parts))
