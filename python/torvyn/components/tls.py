"""TLS of components: which certificates they trust and show."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.errors import os_reason

TLS_OPTIONS: Final = (
    Option("ca_file", "text", "", "The certificates to trust; default: those of the system."),
    Option("cert_file", "text", "", "The client's certificate."),
    Option("key_file", "text", "", "The client's private key."),
)


def check_tls_options(spec: Spec, options: dict[str, Any], scheme: str, secure: str) -> None:
    """Raises what can be found without opening the files. `secure` is the scheme with TLS."""
    files = [option.name for option in TLS_OPTIONS if options[option.name]]
    if files and scheme != secure:
        hint = f"write `{secure}://` in `url`"
        raise wrong_config(spec, f"`{files[0]}` needs TLS, and `url` has none", hint)
    check_key_pair(spec, options)


def check_key_pair(spec: Spec, options: dict[str, Any]) -> None:
    if bool(options["cert_file"]) != bool(options["key_file"]):
        raise wrong_config(spec, "`cert_file` and `key_file` belong together", "set both")


def client_tls(spec: Spec, options: dict[str, Any]) -> ssl.SSLContext:
    """A context that checks the server's certificate and its name."""
    with _loading(spec, options, ("ca_file", "cert_file", "key_file")):
        context = ssl.create_default_context(cafile=options["ca_file"] or None)
        if options["cert_file"]:
            context.load_cert_chain(options["cert_file"], options["key_file"])
    return context


def server_tls(spec: Spec, options: dict[str, Any]) -> ssl.SSLContext:
    """A context of a server that shows its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _loading(spec, options, ("cert_file", "key_file")):
        context.load_cert_chain(options["cert_file"], options["key_file"])
    return context


@contextlib.contextmanager
def _loading(spec: Spec, options: dict[str, Any], names: Sequence[str]) -> Iterator[None]:
    for name in filter(options.get, names):
        _check_readable(spec, name, options[name])
    try:
        yield
    except (OSError, ValueError) as error:
        why = os_reason(error)
        message = f"the certificates cannot be loaded: {why}"
        hint = f"{', '.join(f'`{name}`' for name in names)} must be PEM files that fit together"
        raise wrong_config(spec, message, hint) from error


def _check_readable(spec: Spec, name: str, path: str) -> None:
    """OpenSSL does not say which of the files it could not read."""
    try:
        open(path, "rb").close()
    except OSError as error:
        hint = f"relative paths start from {Path.cwd()}"
        message = f"`{name}` cannot be loaded: {path}: {os_reason(error)}"
        raise wrong_config(spec, message, hint) from error
