"""What a client may see of an error; the rest is for the log.

An error may repeat text of a library, an upstream or a component: a private address, a path, a
stack trace. A client gets the message of an error that is about the request, and the catalogue's
sentence for the code of every other error.
"""

from __future__ import annotations

import re
from typing import Final

from torvyn.errors import CATALOGUE, ComponentError, Diagnostic, FlowError, TorvynError

_OWN_CODES: Final = ("transport.", "session.")
_ABOUT_THE_REQUEST: Final = frozenset(
    {
        "engine.request-invalid",
        "engine.request-running",
        # Requests of operators, who know the members of their pools.
        "engine.member-unknown",
        "engine.member-unwell",
        "engine.pool-fixed",
    }
)
_FOREIGN_TEXT: Final = frozenset(
    {"engine.context-full", "engine.scripted-failure", "engine.upstream-refused"}
)
"""About the request too, but with text of an upstream or a library."""
_UNKNOWN: Final = "the server failed; see its log"
_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"
    r"|\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d+)?"
    r"|\[[0-9a-f:.%]*:[0-9a-f:.%]*\](?::\d+)?"
    r"|\b(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:\d{2,5}\b",
    re.IGNORECASE,
)


_INTERNALS: Final = re.compile(
    r"Traceback|\b\w*(?:Error|Exception)\b|\w::\w|(?:^|[\s\"'(=])(?:/[\w.@+-]+){2,}|0x[0-9a-f]{6}"
)
"""Names of exceptions, paths and memory addresses."""


def public_error(error: TorvynError) -> TorvynError:
    """The error as a client may see it: the same code and class. If its message differs, its cause
    is the error."""
    message, hint = _message(error), error.hint if _is_own(error) else None
    if (message, hint) == (error.message, error.hint):
        return error
    kind = type(error)
    public = kind.__new__(kind)
    Exception.__init__(public, message)
    public.__dict__.update(error.__dict__)
    public.diagnostics = (Diagnostic(error.code, message, None, hint),)
    public.__cause__ = error
    return public


def _message(error: TorvynError) -> str:
    if _is_own(error):
        return error.message
    if error.code in _FOREIGN_TEXT:
        has_internals = _INTERNALS.search(error.message) is not None
        return CATALOGUE[error.code] if has_internals else without_addresses(error.message)
    if isinstance(error, FlowError) and error.node is not None:
        return _of_node(error, error.node)
    if error.code not in CATALOGUE or error.code == type(error).default_code:
        # A component or an engine of the operator chose this message for readers.
        return without_addresses(error.message) if isinstance(error, ComponentError) else _UNKNOWN
    return CATALOGUE[error.code]


def _of_node(error: FlowError, node: str) -> str:
    """A component chooses the message of a Torvyn error; a library's message is not sent."""
    cause = error.__cause__
    if isinstance(cause, ComponentError) and cause.code == type(cause).default_code:
        return without_addresses(error.message)
    return f"node `{node}` of the flow failed"


def _is_own(error: TorvynError) -> bool:
    return error.code.startswith(_OWN_CODES) or error.code in _ABOUT_THE_REQUEST


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("[address]", text)
