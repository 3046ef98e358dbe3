"""References: where an artifact is.

oci://registry.example.com:5000/team/gateway:1.2      a registry
oci://registry.example.com/team/gateway@sha256:...    exactly this one
oci:./dist:1.2                                        a layout, by tag
./dist                                                a layout with one tag
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn._artifact.oci import Digest, check_digest
from torvyn.errors import ArtifactError, TorvynError

SCHEME: Final = "oci://"
LAYOUT_SCHEME: Final = "oci:"
DEFAULT_TAG: Final = "latest"

_HOST: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.I | re.ASCII
)
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_MAX_NAME: Final = 255
_HINT: Final = "for example `oci://registry.example.com/team/gateway:1.2` or `oci:./dist:1.2`"


@dataclass(frozen=True, slots=True)
class Reference:
    """An artifact in a registry."""

    host: str
    """With the port, if it is not the default one."""
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        if not text.startswith(SCHEME):
            raise _bad_reference(text, f"it does not start with `{SCHEME}`")
        rest, digest = _split_digest(text, text.removeprefix(SCHEME))
        host, _, path = rest.partition("/")
        repository, tag = _split_tag(text, path)
        if not _HOST.fullmatch(host):
            raise _bad_reference(text, "it has no host")
        if not _REPOSITORY.fullmatch(repository) or len(repository) > _MAX_NAME:
            reason = "the name of an artifact has lower-case letters, digits and `.`, `_`, `-`, `/`"
            raise _bad_reference(text, reason)
        return cls(host.lower(), repository, tag, digest)

    @property
    def target(self) -> str:
        """What to ask the registry for: the digest, or the tag."""
        return self.digest or self.tag or DEFAULT_TAG

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.host}/{self.repository}{tag}{digest}"


@dataclass(frozen=True, slots=True)
class LayoutReference:
    """An artifact in a local layout; without a tag and a digest, its only one."""

    folder: Path
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> LayoutReference:
        rest, digest = _split_digest(text, text.removeprefix(LAYOUT_SCHEME))
        folder, tag = _split_tag(text, rest) if text.startswith(LAYOUT_SCHEME) else (rest, None)
        if not folder:
            raise _bad_reference(text, "it names no folder")
        return cls(Path(folder), tag, digest)

    @property
    def target(self) -> str | None:
        return self.digest or self.tag

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{LAYOUT_SCHEME}{self.folder}{tag}{digest}"


def parse_reference(text: str) -> Reference | LayoutReference:
    """`oci://...` is in a registry; anything else is a layout."""
    return Reference.parse(text) if text.startswith(SCHEME) else LayoutReference.parse(text)


def check_tag(text: str) -> str:
    if not _TAG.fullmatch(text):
        shown = ascii(text[:140])[1:-1]
        message = f"`{shown}` is not a tag: letters, digits, `_`, `.` and `-`, at most 128"
        raise ArtifactError("artifact.bad-reference", message, hint="for example `1.2.0`")
    return text


def _split_digest(text: str, rest: str) -> tuple[str, Digest | None]:
    name, at, digest = rest.rpartition("@")
    if not at or "/" in digest:
        return rest, None
    try:
        return name, check_digest(digest)
    except TorvynError as error:
        raise _bad_reference(text, error.message) from None


def _split_tag(text: str, rest: str) -> tuple[str, str | None]:
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        return rest, None
    if not _TAG.fullmatch(tag):
        raise _bad_reference(text, "the tag has letters, digits, `_`, `.` and `-`, at most 128")
    return name, tag


def _bad_reference(text: str, reason: str) -> ArtifactError:
    shown = ascii(text[:200])[1:-1]
    message = f"`{shown}` is not a reference to an artifact: {reason}"
    return ArtifactError("artifact.bad-reference", message, hint=_HINT)
