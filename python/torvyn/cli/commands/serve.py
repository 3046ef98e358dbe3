"""`torvyn serve`: serves flows over HTTP and gRPC."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from functools import partial
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
    from torvyn.link.plan import TelemetryPlan
    from torvyn.manifest import Manifest, Settings
    from torvyn.transport import ServerSettings
    from torvyn.transport.listener.server import Server

EXAMPLE = """\
torvyn serve
torvyn serve --engine scripted --port 9000
torvyn serve --manifest chat/Torvyn.toml"""

DEFAULT = "Torvyn.toml"


@make_command("serve", example=EXAMPLE)
@click.option(
    "--manifest",
    metavar="PATH",
    help=f"The manifest or its folder; by default {DEFAULT}, if it exists.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help="Serve this engine directly, instead of a manifest's flows. Repeatable.",
)
@click.option("--host", metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", metavar="N", help="The port; 0 chooses a free one.")
@click.option(
    "--grpc-port", metavar="N", help="A second port, for gRPC alone. `--port` serves it as well."
)
@click.option(
    "--keys", metavar="PATH", help="Require an API key from this file; see `torvyn keys`."
)
@click.option("--tls-cert", metavar="PATH", help="Serve over TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="PATH", help="The private key of the certificate (PEM).")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="The number of processes that share the port. With several, streams cannot be stateful.",
)
@click.option("--worker", metavar="N/COUNT", hidden=True)
@click.option(
    "--allow-public-without-keys",
    "is_public",
    is_flag=True,
    help="Allow other machines to connect although the server requires no API key.",
)
@set_option
def command(
    screen: Screen,
    manifest: str | None,
    engines: tuple[str, ...],
    workers: int,
    worker: str | None,
    is_public: bool,
    settings: tuple[str, ...],
    **flags: str | None,
) -> int:
    """Serve flows over HTTP and gRPC.

    Serves every flow that leads from an engine to a `response`, under its own name or the
    name in `[serve.routes]`. Without a manifest, serves the engine `local`. OpenAI clients use
    the URL with `/v1`. Ctrl-C shuts the server down and gives open streams `shutdown_grace` to end;
    a second Ctrl-C ends them at once.
    """
    from torvyn.link.defaults import telemetry_plan
    from torvyn.observe.logs import show_logs
    from torvyn.transport.access.host_check import check_bound
    from torvyn.transport.services import of_engines, of_plans

    overrides = setting_pairs(settings)
    overrides |= {f"serve.{name}": value for name, value in flags.items() if value is not None}
    linker = _linker(manifest, engines, overrides)
    values, file = linker.settings, linker.manifest
    if not linker.problems:
        check_bound(values["serve.host"], is_public, bool(values["serve.keys"]))
    plans = _plans(linker, engines)
    secrets = screen.secrets = frozenset(linker.problems.secrets)
    screen.warn(linker.problems.warnings())
    with show_logs(
        screen.format, screen.log_level, secrets, component_level=screen.component_log_level
    ):
        # Invalid settings are reported before a model is loaded.
        server = _server_settings(screen, file, values)
        if worker is not None:
            server = _divided(server, worker)
        elif workers > 1:
            return _serve_workers(screen, workers, server, list(plans or engines or ("local",)))
        services = of_plans(plans) if plans else of_engines(engines or ("local",))
        telemetry = telemetry_plan(values, Path(file.file).parent)
        link = partial(_link_again, manifest, engines, overrides) if plans else None
        return _serve(screen, services, server, telemetry, link)


def _server_settings(screen: Screen, file: Manifest, values: Settings) -> ServerSettings:
    from torvyn.transport import ServerSettings
    from torvyn.transport.access import key_file
    from torvyn.transport.access.host_check import is_loopback
    from torvyn.transport.listener import tls

    settings = ServerSettings.of(values, Path(file.file).parent, secrets=screen.secrets)
    is_secured = tls.certificate(settings) is not None
    warnings = tls.warnings(settings)
    if settings.keys and not key_file.read(Path(settings.keys)).keys:
        warnings.append(f"`{settings.keys}` contains no keys, so all requests are rejected")
    if settings.keys and not is_secured and not is_loopback(settings.host):
        hint = "set `tls_cert` and `tls_key`, or use a proxy with TLS"
        warnings.append(f"API keys are sent without encryption: {hint}")
    for warning in warnings:
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


def _link_again(
    manifest: str | None, engines: tuple[str, ...], flags: dict[str, str]
) -> dict[str, Plan]:
    """The plans to serve, from the files as they are now."""
    return _plans(_linker(manifest, engines, flags), engines)


def _serve(
    screen: Screen,
    services: dict[str, Service],
    settings: ServerSettings,
    telemetry: TelemetryPlan | None,
    link: Callable[[], dict[str, Plan]] | None,
) -> int:
    from torvyn.observe.telemetry import make_tracer
    from torvyn.transport import app, serve

    tracer = None
    try:
        tracer = make_tracer(telemetry)
        application = app(services, settings, tracer)
        application.link_flows = link
        application.sessions.open()
        number = serve(
            application,
            lambda server: _say_serving(screen, server, list(services), settings),
            lambda: _say_ending(screen, len(application.running.calls), settings.shutdown_grace_s),
        )
    finally:
        for service in services.values():
            service.close()
        if tracer is not None:
            tracer.close()
    if settings.share.is_whole:
        screen.info("[torvyn] Server stopped.")
    return TERMINATED if number == signal.SIGTERM else INTERRUPTED


def _divided(settings: ServerSettings, worker: str) -> ServerSettings:
    from torvyn.transport.workers.share import Share, divided

    return divided(settings, Share.parse(worker))


def _serve_workers(screen: Screen, count: int, settings: ServerSettings, flows: list[str]) -> int:
    from torvyn.transport.workers.parent_process import run_workers
    from torvyn.transport.workers.share import check_shareable

    check_shareable(settings)
    number, status = run_workers(
        [sys.executable, "-m", "torvyn", *sys.argv[1:]],
        count,
        settings,
        lambda url, grpc, pids: _say_ready(
            screen, url, flows, settings, **({"grpc": grpc} if grpc else {}), workers=pids
        ),
        lambda: screen.info("", f"[torvyn] Shutting down {count} workers."),
    )
    if not number:
        return status
    screen.info("[torvyn] Server stopped.")
    return TERMINATED if number == signal.SIGTERM else INTERRUPTED


def _say_serving(
    screen: Screen, server: Server, flows: list[str], settings: ServerSettings
) -> None:
    if not settings.share.is_whole:
        return  # The parent says it for all of them.
    grpc = {} if server.grpc_address is None else {"grpc": server.grpc_address}
    _say_ready(screen, server.url, flows, settings, **grpc)


def _say_ready(
    screen: Screen, url: str, flows: list[str], settings: ServerSettings, **more: Any
) -> None:
    names = ", ".join(f"`{name}`" for name in flows)
    workers = f" with {len(more['workers'])} workers" if "workers" in more else ""
    screen.info(f"[torvyn] Serving {names} at {url}{workers}")
    record: dict[str, Any] = {"event": "serving", "url": url, "flows": flows, **more}
    if "grpc" in more:
        screen.info(f"[torvyn] gRPC at {more['grpc']}")
    curl = _curl(url, flows) + (' -H "Authorization: Bearer $KEY"' if settings.keys else "")
    screen.info("", f"Open {url} in a browser, or try:", "", curl, "")
    if screen.is_json:
        screen.document(record, indent=None)


def _curl(url: str, flows: list[str]) -> str:
    body = f'{{"flow": "{flows[0]}", "prompt": "Why is the sky blue?"}}'
    return f"  curl -N {url}/v1/streams -d '{body}'"


def _say_ending(screen: Screen, streams: int, grace_s: float) -> None:
    if streams:
        count = "1 open stream has" if streams == 1 else f"{streams} open streams have"
        wait = f"{count} {grace_s:g} s to end"
        screen.info("", f"[torvyn] Shutting down: {wait}; press Ctrl-C again to stop now.")
