"""One provocation for each code of keys, TLS and the audit of a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from torvyn.engine import Scripted, Service
from torvyn.serve import Application, ServerSettings, app
from torvyn.transport.access import key_file
from torvyn.transport.access.audit import Audit
from torvyn.transport.access.authentication import Authenticator
from torvyn.transport.access.caller import Caller
from torvyn.transport.access.key_file import KeyFile
from torvyn.transport.access.key_limits import KeyLimits
from torvyn.transport.listener import tls


def _keyed(folder: Path, **more: Any) -> tuple[Application, str]:
    path = folder / "keys.json"
    with key_file.edit(path) as file:
        key = file.add("web", **more)
    return app({"chat": Service("chat", Scripted("a"))}, ServerSettings(keys=str(path))), key


def _identify(folder: Path, **headers: str) -> None:
    _keyed(folder)[0].authenticator.identify(headers)


def _expired(folder: Path) -> None:
    application, key = _keyed(folder, lifetime=timedelta(seconds=1))
    with mock.patch("torvyn.transport.access.keyring.time.time", return_value=9e9):
        application.authenticator.identify({"x-api-key": key})


def _busy(_folder: Path) -> None:
    limits, caller = KeyLimits(), Caller(key="k", max_streams=1)
    with limits.enter(caller), limits.enter(caller):
        pass


def _often(_folder: Path) -> None:
    limits, caller = KeyLimits(), Caller(key="k", requests_per_minute=1)
    limits.enter(caller)
    limits.enter(caller)


def _twice(_folder: Path) -> None:
    file = KeyFile()
    file.add("web")
    file.add("web")


def _revoked(folder: Path) -> None:
    application, key = _keyed(folder)
    caller = application.authenticator.identify({"x-api-key": key})
    with key_file.edit(folder / "keys.json") as file:
        file.revoke("web")
    application.authenticator = Authenticator(application.settings)
    application.authenticator.enter(caller)


def _file(folder: Path, text: str, mode: int = 0o600) -> None:
    path = folder / "keys.json"
    path.write_text(text)
    path.chmod(mode)
    key_file.read(path)


def _unwritable(folder: Path) -> None:
    (folder / "plain").write_text("")
    with key_file.edit(folder / "plain" / "keys.json"):
        pass


CASES: dict[str, Callable[[Path], object]] = {
    "transport.audit-unwritable": lambda folder: Audit("file", str(folder / "no" / "audit")),
    "transport.key-busy": _busy,
    "transport.key-exists": _twice,
    "transport.key-expired": _expired,
    "transport.key-invalid": lambda _: KeyFile().add("a b"),
    "transport.key-missing": _identify,
    "transport.key-not-admin": lambda folder: _keyed(folder)[0].authenticator.require_admin(
        Caller(name="web", key="k")
    ),
    "transport.key-rate": _often,
    "transport.key-revoked": _revoked,
    "transport.key-unknown": lambda _: KeyFile().revoke("web"),
    "transport.key-wrong": lambda folder: _identify(folder, authorization="Bearer tvk_x"),
    "transport.keys-exposed": lambda folder: _file(folder, "{}", 0o666),
    "transport.keys-invalid": lambda folder: _file(folder, "{"),
    "transport.keys-unreadable": lambda folder: key_file.read(folder / "none.json"),
    "transport.keys-unwritable": _unwritable,
    "transport.tls-unusable": lambda _: tls.certificate(ServerSettings(tls_cert="cert.pem")),
}
