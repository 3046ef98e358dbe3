"""What a report says, and posting it while a deployment runs.

It has no data of flows, and no secrets. A server that is away is no problem: the next report says
the same, so none is stored.
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from torvyn._deploy import channel
from torvyn._io.restart import keep_running

logger = logging.getLogger("torvyn.edge")

_TIMEOUT_S: Final = 10.0


class Heartbeat:
    """A context manager: reports while the block runs, and once at its end."""

    def __init__(
        self,
        url: str,
        report: Callable[[], Report],
        *,
        interval_s: float = 60.0,
        token: str | None = None,
    ) -> None:
        self._url: Final = url
        self._report: Final = report
        self._interval_s: Final = interval_s
        self._token: Final = token
        self._has_failed = False
        self._due = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="torvyn-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        self._due.set()
        self._thread.join(_TIMEOUT_S)

    def soon(self) -> None:
        """Something has changed: report now."""
        self._due.set()

    def _run(self) -> None:
        keep_running(self._send_all, self._wait)

    def _send_all(self) -> None:
        while not self._is_stopped:
            self._due.clear()
            self.send()
            self._due.wait(self._interval_s)
        self.send()

    def _wait(self, seconds: float) -> bool:
        self._due.wait(seconds)
        return self._is_stopped

    def send(self) -> bool:
        """Whether the server took the report."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            body = json.dumps(self._report().to_dict()).encode()
            request = urllib.request.Request(self._url, body, headers, method="POST")
            with urllib.request.build_opener(NoRedirects).open(request, timeout=_TIMEOUT_S):
                self._has_failed = False
                return True
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._has_failed:
                logger.warning("the report was not taken by %s: %s", self._url, error)
            self._has_failed = True
            return False


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the token to another host."""

    def redirect_request(self, *arguments: object, **options: object) -> None:
        return None


MAX_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Report:
    device: str
    deployment: str
    sent: str
    """When, by the clock of the device."""
    torvyn: str
    generation: int | None = None
    project: str = ""
    version: int | None = None
    """Of the channel that named the generation."""
    seen_version: int = 0
    """The newest version of the channel that the device has accepted."""
    health: str = "stopped"
    """The state of its flow: moving, idle, waiting, stalled or silent."""
    is_on_trial: bool = False
    stale_s: float = 0.0
    """For how long the channel's document has been expired."""
    produced: int = 0
    emitted: int = 0
    errors: int = 0
    last_error: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self)}

    @classmethod
    def parse(cls, data: bytes) -> Report:
        """From outside. Raises `ValueError`."""
        value = channel.parse(data, MAX_BYTES)
        channel.check_schema(value)
        return cls(
            device=_name(value, "device"),
            deployment=_name(value, "deployment"),
            sent=channel.render_time(channel.time_s(value, "sent")),
            torvyn=channel.text(value, "torvyn", 64),
            generation=_number(value, "generation"),
            project=channel.text(value, "project", 256),
            version=_number(value, "version"),
            seen_version=channel.number(value, "seen_version"),
            health=channel.text(value, "health", 32),
            is_on_trial=value.get("is_on_trial") is True,
            stale_s=_seconds(value, "stale_s"),
            produced=channel.number(value, "produced"),
            emitted=channel.number(value, "emitted"),
            errors=channel.number(value, "errors"),
            last_error=channel.text(value, "last_error", 2000),
        )


def _name(value: Mapping[str, Any], key: str) -> str:
    found = channel.text(value, key, 128)
    if not _NAME.fullmatch(found):
        raise ValueError(f"`{key}` is not a name of letters, digits, `.`, `_` and `-`")
    return found


def _number(value: Mapping[str, Any], key: str) -> int | None:
    return None if value.get(key) is None else channel.number(value, key)


def _seconds(value: Mapping[str, Any], key: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise ValueError(f"`{key}` is not a number of seconds")
    return float(found)
