"""`Registry`: manifests, tags and lists of one registry. Blobs are in `download` and `upload`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from torvyn.artifact.failures import digest_mismatch, invalid, not_found
from torvyn.artifact.json_form import parse_object
from torvyn.artifact.model import (
    IMAGE_INDEX,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Digest,
    check_digest,
    digest_of,
)
from torvyn.artifact.registry.http.challenge import scope_of
from torvyn.artifact.registry.http.connection import Connection
from torvyn.artifact.registry.http.responses import Retry, failure

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
