"""`torvyn serve`: flows that answer requests, over HTTP and gRPC."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.failures import INTERRUPTED, TERMINATED
from torvyn.cli.screen import Screen
from torvyn.cli.target import manifest_path, set_option, setting_pairs

if TYPE_CHECKING:
    from torvyn.engine.service.service import Service
    from torvyn.link import Plan, ProjectLinker
    from torvyn.manifest import Manifest, Settings
    from torvyn.transport import ServerSettings
    from torvyn.transport.server import Server

EXAMPLE = """\
torvyn serve
torvyn serve --engine scripted --port 9000
torvyn serve --manifest chat/Torvyn.toml"""

DEFAULT = "Torvyn.toml"


@make_command("serve", example=EXAMPLE)
@click.option(
    "--manifest",
    metavar="PATH",
    help=f"The manifest, or the folder that holds it; {DEFAULT} when it is there.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help="Serve an engine as it is, instead of a manifest's flows. Repeatable.",
)
@click.option("--host", metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", metavar="N", help="The port; 0 takes any that is free.")
@click.option("--grpc-port", metavar="N", help="The port of gRPC; without one there is none.")
@click.option(
    "--keys", metavar="PATH", help="The file of those who may ask; `torvyn keys` makes it."
)
@click.option("--tls-cert", metavar="PATH", help="The certificate, as PEM: serve over TLS.")
@click.option("--tls-key", metavar="PATH", help="The private key of the certificate.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, metavar="N", help="Processes; one."
)
@click.option(
    "--allow-public-without-keys",
    "is_public",
    is_flag=True,
    help="Listen where other machines can reach it, though nobody is asked for a key.",
)
@set_option
def command(
    screen: Screen,
    manifest: str | None,
    engines: tuple[str, ...],
    workers: int,
    is_public: bool,
    settings: tuple[str, ...],
    **given: str | None,
) -> int:
    """Serve flows to clients, over HTTP and gRPC.

    Every flow from an engine to a `response` is served under its name, or as `[serve.routes]` says.
    Without a manifest it is the engine `local`. Clients of OpenAI's interface find it at `/v1`.
    Ctrl-C ends it: streams have `shutdown_grace` to end; a second one ends them at once.
    """
    from torvyn.observe.logs import show_logs
    from torvyn.transport.access.host_check import check_bound
    from torvyn.transport.server import refuse_workers
    from torvyn.transport.services import of_engines, of_plans

    refuse_workers(workers)
    flags = setting_pairs(settings)
    flags |= {f"serve.{name}": value for name, value in given.items() if value is not None}
    linker = _linker(manifest, engines, flags)
    found, file = linker.settings, linker.manifest
    if not linker.problems:
        check_bound(found["serve.host"], is_public, bool(found["serve.keys"]))
    plans = _plans(linker, engines)
    secrets = screen.secrets = frozenset(linker.problems.secrets)
    screen.warn(linker.problems.warnings())
    with show_logs(
        screen.format, screen.log_level, secrets, component_level=screen.component_log_level
    ):
        # Settings that cannot be served with are said before a model is loaded.
        server = _server_settings(screen, file, found)
        services = of_plans(plans) if plans else of_engines(engines or ("local",))
        return _serve(screen, services, server, found)


def _server_settings(screen: Screen, file: Manifest, found: Settings) -> ServerSettings:
    from torvyn.transport import ServerSettings, tls
    from torvyn.transport.access import key_file
    from torvyn.transport.access.host_check import is_loopback

    settings = ServerSettings.of(found, Path(file.file).parent, secrets=screen.secrets)
    is_secured = bool(tls.options(settings))
    said = tls.warnings(settings)
    if settings.keys and not key_file.read(Path(settings.keys)).keys:
        said.append(f"there is no key in `{settings.keys}`, so nobody is answered")
    if settings.keys and not is_secured and not is_loopback(settings.host):
        said.append("keys travel as they are: set `tls_cert` and `tls_key`, or use a proxy for TLS")
    for warning in said:
        logging.getLogger("torvyn.transport").warning(warning)
    return settings


def _linker(manifest: str | None, engines: tuple[str, ...], flags: dict[str, str]) -> ProjectLinker:
    """The linker of the manifest; of an empty one when no manifest is used."""
    from torvyn.link import Overrides, ProjectLinker
    from torvyn.manifest import Manifest

    overrides = Overrides(settings=flags)
    if manifest is not None or (not engines and Path(DEFAULT).exists()):
        return ProjectLinker.open(manifest_path(manifest or DEFAULT), overrides)
    return ProjectLinker(Manifest(), overrides)


def _plans(linker: ProjectLinker, engines: tuple[str, ...]) -> dict[str, Plan]:
    """The plans to serve; none when engines are served instead."""
    from torvyn.transport.services import served_plans

    if engines or not linker.manifest.flows:
        linker.raise_problems()
        return {}
    return served_plans(linker)


def _serve(
    screen: Screen, services: dict[str, Service], settings: ServerSettings, found: Settings
) -> int:
    from torvyn.observe.spans import Tracer
    from torvyn.transport import app, serve

    tracer = None
    try:
        tracer = Tracer.of(found)
        application = app(services, settings, tracer)
        application.sessions.open()
        number = serve(
            application,
            lambda server: _say_ready(screen, server, services, bool(settings.keys)),
            lambda: _say_ending(screen, len(application.calls), settings.shutdown_grace_s),
        )
    finally:
        for service in services.values():
            service.close()
        if tracer is not None:
            tracer.close()
    screen.say("[torvyn] Served.")
    return TERMINATED if number == signal.SIGTERM else INTERRUPTED


def _say_ready(
    screen: Screen, server: Server, services: dict[str, Service], has_keys: bool = False
) -> None:
    names, url = ", ".join(f"`{name}`" for name in services), server.url
    screen.say(f"[torvyn] Serving {names} at {url}")
    record: dict[str, Any] = {"event": "serving", "url": url, "flows": list(services)}
    if server.grpc is not None:
        screen.say(f"[torvyn] gRPC at {server.grpc.address}")
        record["grpc"] = server.grpc.address
    curl = _curl(url, services) + (' -H "Authorization: Bearer $KEY"' if has_keys else "")
    screen.say("", f"Open {url} in a browser, or try:", "", curl, "")
    if screen.is_json:
        screen.document(record, indent=None)


def _curl(url: str, services: dict[str, Service]) -> str:
    name = next(iter(services))
    body = f'{{"flow": "{name}", "prompt": "Why is the sky blue?"}}'
    return f"  curl -N {url}/v1/streams -d '{body}'"


def _say_ending(screen: Screen, streams: int, grace_s: float) -> None:
    if streams:
        words = f"{streams} streams have {grace_s:g} s" if streams > 1 else "a stream is open"
        screen.say("", f"[torvyn] Ending: {words}; Ctrl-C again ends now.")
