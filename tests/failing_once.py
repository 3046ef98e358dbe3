"""An error that nobody expects, injected into a loop on which a flow depends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

UNEXPECTED = [RuntimeError("injected"), SystemExit("injected")]
"""`SystemExit` ends a thread without a word."""


def fail_once(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, error: BaseException
) -> threading.Event:
    """Has the next call of the method raise the error; the event says that it has."""
    call, has_failed = getattr(owner, method), threading.Event()

    def failing(*arguments: Any, **options: Any) -> Any:
        if has_failed.is_set():
            return call(*arguments, **options)
        has_failed.set()
        raise type(error)(*error.args)

    monkeypatch.setattr(owner, method, failing)
    return has_failed
