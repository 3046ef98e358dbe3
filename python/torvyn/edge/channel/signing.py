"""Writes publications: signs a document, adds a signature, changes the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torvyn.artifact.signature.dsse import Envelope, signed_bytes
from torvyn.artifact.signature.keys import PublicKey, SigningKey
from torvyn.edge.channel.document import PAYLOAD_TYPE, ChannelDocument
from torvyn.edge.channel.publication import KEYS_TYPE, KeyRotation, KeySet, Publication
from torvyn.edge.failures import same_keys, untrusted_channel


def publish(
    document: ChannelDocument, keys: Sequence[SigningKey], before: Publication | None = None
) -> Publication:
    """Signs a document. The changes of keys before it are kept."""
    envelope = Envelope.sign(PAYLOAD_TYPE, document.serialize(), keys)
    return Publication(envelope, () if before is None else before.rotations)


def countersign(publication: Publication, key: SigningKey) -> Publication:
    """Adds the signature of another person."""
    envelope = publication.document
    signature = key.sign(signed_bytes(envelope.payload_type, envelope.payload))
    signatures = tuple(dict.fromkeys((*envelope.signatures, signature)))
    return replace(publication, document=replace(envelope, signatures=signatures))


def rotate(
    publication: Publication,
    old: Sequence[SigningKey],
    new: Sequence[SigningKey],
    *,
    threshold: int,
    issued_s: int,
    others: Sequence[PublicKey] = (),
) -> Publication:
    """Changes the keys: a statement that old and new keys sign, and the document in its next
    version, signed by the new ones. `others` are new keys that do not sign now. Raises an error if
    devices could not follow."""
    document = ChannelDocument.parse(publication.document.payload)
    step = len(publication.rotations) + 2
    keys = KeySet((*(key.public for key in new), *others), threshold, step)
    _check_old(publication, [key.public for key in old], keys)
    statement = KeyRotation(document.channel, issued_s, keys).serialize()
    # What is written must be what devices can read.
    KeyRotation.parse(statement)
    signers = {key.public: key for key in (*old, *new)}
    envelope = Envelope.sign(KEYS_TYPE, statement, signers.values())
    next_document = replace(document, version=document.version + 1, issued_s=issued_s)
    rotated = replace(publication, rotations=(*publication.rotations, envelope))
    return publish(next_document, new, rotated)


def _check_old(publication: Publication, old: Sequence[PublicKey], keys: KeySet) -> None:
    """Whether the old keys may change the keys, as far as the publication says it."""
    if not publication.rotations:
        if not publication.document.signers(old):
            raise untrusted_channel("none of the old keys has signed its last version")
        before = KeySet(tuple(dict.fromkeys(old)), keys.threshold)
    else:
        before = KeyRotation.parse(publication.rotations[-1].payload).keys
        count = len({*before.keys} & {*old})
        if count < before.threshold:
            raise untrusted_channel(f"{count} of {before} are given as old keys")
    if keys.is_same(before):
        raise same_keys()
