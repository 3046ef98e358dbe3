"""The URL of a server that a component connects to."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from torvyn.components.config import wrong_config
from torvyn.components.spec import Spec


class UrlRules(NamedTuple):
    """What the option `url` of a component may be."""

    schemes: Collection[str]
    server: str
    """What it is the address of, such as `a broker`."""
    hint: str
    """How to write it."""
    secrets: str
    """Where a user and a password belong. An address is shown in logs and statistics."""


def parse_server_url(spec: Spec, url: str, rules: UrlRules) -> SplitResult:
    """The parts of the URL; raises `ContractError` with a hint."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise wrong_config(spec, f"`url` cannot be read: {error}", rules.hint) from error
    if parts.username is not None or parts.password is not None:
        raise wrong_config(spec, "`url` must not have a user or a password", rules.secrets)
    if parts.scheme not in rules.schemes or not parts.hostname or not url.isprintable():
        message = f"`url` is {url!r}, not the address of {rules.server}"
        raise wrong_config(spec, message, rules.hint)
    return parts
