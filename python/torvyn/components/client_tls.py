"""TLS of components that connect to a server: which certificates they trust and show."""

from __future__ import annotations

import ssl
from typing import Any, Final

from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec

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
    if bool(options["cert_file"]) != bool(options["key_file"]):
        raise wrong_config(spec, "`cert_file` and `key_file` belong together", "set both")


def client_tls(spec: Spec, options: dict[str, Any]) -> ssl.SSLContext:
    """A context that checks the server's certificate and its name."""
    try:
        context = ssl.create_default_context(cafile=options["ca_file"] or None)
        if options["cert_file"]:
            context.load_cert_chain(options["cert_file"], options["key_file"])
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "`ca_file`, `cert_file` and `key_file` are PEM files"
        raise wrong_config(spec, f"the certificates cannot be loaded: {why}", hint) from error
    return context
