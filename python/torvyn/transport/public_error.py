"""What a client may read of an error; the rest is for the log.

An error may repeat what a library, an upstream or a component said: an address in a private
network, a path, a stack. A client gets words of ours: those of the error where they are about the
request, and the sentence of its code elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from torvyn.catalogue import CATALOGUE
from torvyn.errors import ComponentError, Diagnostic, FlowError, TorvynError

_OURS: Final = ("transport.", "session.")
_ABOUT_THE_REQUEST: Final = frozenset({"engine.request-invalid", "engine.request-running"})
_WORDS_OF_OTHERS: Final = frozenset(
    {"engine.context-full", "engine.scripted-failure", "engine.upstream-refused"}
)
"""About the request too, but in the words of an upstream or a library."""
_UNKNOWN: Final = "the server failed; its log says how"
_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"
    r"|\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d+)?"
    r"|\[[0-9a-f:.%]*:[0-9a-f:.%]*\](?::\d+)?"
    r"|\b(?=[\w.-]*[a-z])[\w-]+(?:\.[\w-]+)*:\d{2,5}\b",
    re.IGNORECASE,
)


_MACHINERY: Final = re.compile(
    r"Traceback|\b\w*(?:Error|Exception)\b|\w::\w|(?:^|[\s\"'(=])(?:/[\w.@+-]+){2,}|0x[0-9a-f]{6}"
)
"""Names of exceptions, paths and addresses in memory: nothing of it is about a request."""


def public_error(error: TorvynError) -> TorvynError:
    """The error as a client may read it: the same code and kind, with the error as its cause where
    its words are others."""
    message, hint = _message(error), error.hint if _is_ours(error) else None
    if (message, hint) == (error.message, error.hint):
        return error
    kind = type(error)
    made = kind.__new__(kind)
    Exception.__init__(made, message)
    made.__dict__.update(error.__dict__)
    made.diagnostics = (Diagnostic(error.code, message, None, hint),)
    made.__cause__ = error
    return made


def _message(error: TorvynError) -> str:
    if _is_ours(error):
        return error.message
    if error.code in _WORDS_OF_OTHERS:
        is_machinery = _MACHINERY.search(error.message) is not None
        return CATALOGUE[error.code] if is_machinery else without_addresses(error.message)
    if isinstance(error, FlowError) and error.node is not None:
        return _of_node(error, error.node)
    if error.code not in CATALOGUE or error.code == type(error).default_code:
        # A component or an engine of the operator's own says so, in words meant to be read.
        return without_addresses(error.message) if isinstance(error, ComponentError) else _UNKNOWN
    return CATALOGUE[error.code]


def _of_node(error: FlowError, node: str) -> str:
    """A component that raises an error of torvyn's chooses its words; a library's are not sent."""
    cause = error.__cause__
    if isinstance(cause, ComponentError) and cause.code == type(cause).default_code:
        return without_addresses(error.message)
    return f"node `{node}` of the flow failed"


def _is_ours(error: TorvynError) -> bool:
    return error.code.startswith(_OURS) or error.code in _ABOUT_THE_REQUEST


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("[address]", text)
