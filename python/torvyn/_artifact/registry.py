"""`Registry`: manifests, tags and referrers of one registry. Its blobs are in `transfer`.

Referrers are the artifacts about an artifact, such as its signatures. A registry that has the API
lists them itself. For the others, the protocol has the fallback tag `sha256-<digest>`: an index
that whoever pushes a referrer also updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from torvyn._artifact.oci import (
    IMAGE_INDEX,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Digest,
    ImageIndex,
    ImageManifest,
    check_digest,
    digest_mismatch,
    digest_of,
    invalid,
    not_found,
    parse_object,
)
from torvyn._artifact.registry_http import Connection
from torvyn._artifact.registry_login import scope_of
from torvyn._artifact.registry_responses import Retry, failure
from torvyn.errors import ArtifactError

DIGEST_HEADER: Final = "Docker-Content-Digest"
SUBJECT_HEADER: Final = "OCI-Subject"
MAX_TAGS: Final = 10_000
_ACCEPT: Final = {"Accept": f"{IMAGE_MANIFEST}, {IMAGE_INDEX}"}


class Registry:
    """The artifacts of one repository of a registry."""

    def __init__(self, connection: Connection, repository: str) -> None:
        self.connection: Final = connection
        self.repository: Final = repository
        self.pull_scope: Final = scope_of(repository, "pull")
        self.push_scope: Final = scope_of(repository, "pull", "push")

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.connection.host}/{self.repository}"

    def path(self, kind: str, what: str) -> str:
        return f"/v2/{self.repository}/{kind}/{what}"

    async def head(self, target: str) -> Digest | None:
        """The digest of the manifest with this tag or digest; None if there is none."""
        status, headers, _ = await self.connection.fetch(
            "HEAD", self.path("manifests", target), self.pull_scope, 0, headers=_ACCEPT
        )
        if status == 404:
            return None
        if status != 200:
            raise self.failed(status, headers, b"", f"the manifest `{target}`")
        digest = headers.get(DIGEST_HEADER)
        if digest is None:  # the protocol does not require the header
            found = await self.find_manifest(target)
            return found[0].digest if found else None
        return check_digest(digest)

    async def manifest(self, target: str) -> tuple[Descriptor, bytes]:
        """The manifest with this tag or digest. With a digest, it is checked; with a tag, whatever
        the registry says it is."""
        found = await self.find_manifest(target)
        if found is None:
            raise not_found(f"artifact `{target}`", self.name)
        return found

    async def find_manifest(
        self, target: str, limit_bytes: int = MAX_MANIFEST_BYTES
    ) -> tuple[Descriptor, bytes] | None:
        status, headers, data = await self.connection.fetch(
            "GET", self.path("manifests", target), self.pull_scope, limit_bytes, headers=_ACCEPT
        )
        if status == 404:
            return None
        if status != 200:
            raise self.failed(status, headers, data, f"the manifest `{target}`")
        media_type = headers.get("Content-Type", "").partition(";")[0].strip()
        if media_type not in (IMAGE_MANIFEST, IMAGE_INDEX):
            shown = ascii(media_type[:100])[1:-1]
            raise invalid(f"`{target}` of {self.name} is of type `{shown}`, not an artifact")
        digest = digest_of(data)
        claimed = target if ":" in target else check_digest(headers.get(DIGEST_HEADER, digest))
        if digest != claimed:
            raise digest_mismatch(f"the manifest of {self.name}", f"it is {digest}, not {claimed}")
        return Descriptor(media_type, digest, len(data)), data

    async def push_manifest(self, data: bytes, target: str, media_type: str) -> bool:
        """Stores a manifest or an index whose blobs are there. True if the registry lists it among
        the referrers of its subject."""
        status, headers, answer = await self.connection.fetch(
            "PUT",
            self.path("manifests", target),
            self.push_scope,
            MAX_MANIFEST_BYTES,
            headers={"Content-Type": media_type},
            data=data,
        )
        if status not in (200, 201, 202):
            raise self.failed(status, headers, answer, f"the manifest `{target}`")
        stored = check_digest(headers.get(DIGEST_HEADER, digest_of(data)))
        if stored != digest_of(data):
            raise digest_mismatch(f"the manifest in {self.name}", f"it was stored as {stored}")
        return SUBJECT_HEADER in headers

    async def tags(self) -> list[str]:
        """The tags, sorted."""
        tags: list[str] = []
        while len(tags) < MAX_TAGS:
            after = f"&last={quote(tags[-1], safe='')}" if tags else ""
            page = await self._tag_page(f"n=1000{after}")
            fresh = [tag for tag in page if tag not in tags]
            tags += fresh
            if len(page) < 1000 or not fresh:
                break
        return sorted(tags)

    async def _tag_page(self, query: str) -> list[str]:
        address = f"{self.path('tags', 'list')}?{query}"
        status, headers, data = await self.connection.fetch(
            "GET", address, self.pull_scope, MAX_MANIFEST_BYTES
        )
        if status == 404:
            return []
        if status != 200:
            raise self.failed(status, headers, data, f"the tags of {self.repository}")
        found = parse_object(data, "the list of tags", MAX_MANIFEST_BYTES).get("tags") or []
        if not isinstance(found, list) or not all(isinstance(tag, str) for tag in found):
            raise invalid(f"the list of tags of {self.name} is not a list of texts")
        return found

    def failed(self, status: int, headers: Mapping[str, str], body: bytes, what: str) -> Exception:
        """The error for an answer that is none of the expected ones."""
        error = failure(status, headers, body, self.connection.host, what)
        return error.error if isinstance(error, Retry) else error


MAX_REFERRERS: Final = 1000


def fallback_tag(digest: Digest) -> str:
    return digest.replace(":", "-")


async def list_referrers(
    registry: Registry, digest: Digest, artifact_type: str | None = None
) -> list[Descriptor]:
    """What refers to the artifact. The list is the registry's word: what is in it is checked when
    it is fetched."""
    status, headers, data = await registry.connection.fetch(
        "GET", registry.path("referrers", digest), registry.pull_scope, MAX_MANIFEST_BYTES
    )
    is_index = headers.get("Content-Type", "").partition(";")[0].strip() == IMAGE_INDEX
    if status == 200 and is_index:
        found = ImageIndex.parse(data, f"the referrers in {registry.name}")
    elif status in (200, 400, 404, 405):  # registries that do not know the path answer any of these
        found = await _fallback(registry, digest)
    else:
        raise registry.failed(status, headers, data, f"the referrers of {digest}")
    return [each for each in found.manifests if artifact_type in (None, each.artifact_type)]


async def push_referrer(registry: Registry, manifest: ImageManifest, data: bytes) -> None:
    """Stores a manifest (and its bytes) with a subject, whose blobs are there, so that both kinds
    of registries list it."""
    assert manifest.subject is not None
    digest = digest_of(data)
    is_listed = await registry.push_manifest(data, digest, IMAGE_MANIFEST)
    if not is_listed:
        kind, annotations = manifest.artifact_type, manifest.annotations
        entry = Descriptor(IMAGE_MANIFEST, digest, len(data), annotations, kind)
        await _add_to_fallback(registry, manifest.subject.digest, entry)


async def _fallback(registry: Registry, digest: Digest) -> ImageIndex:
    found = await registry.find_manifest(fallback_tag(digest))
    if found is None:
        return ImageIndex()
    descriptor, data = found
    if descriptor.media_type != IMAGE_INDEX:
        return ImageIndex()
    return ImageIndex.parse(data, f"the fallback tag of {registry.name}")


async def _add_to_fallback(registry: Registry, subject: Digest, entry: Descriptor) -> None:
    index = await _fallback(registry, subject)
    if any(each.digest == entry.digest for each in index.manifests):
        return
    if len(index.manifests) >= MAX_REFERRERS:
        message = f"{subject} in {registry.name} has {MAX_REFERRERS} referrers; no more are added"
        raise ArtifactError("artifact.too-large", message)
    data = ImageIndex((*index.manifests, entry)).serialize()
    await registry.push_manifest(data, fallback_tag(subject), IMAGE_INDEX)
