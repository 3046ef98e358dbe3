"""`torvyn serve`: serves flows over HTTP and gRPC."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.exit import INTERRUPTED, TERMINATED
from torvyn._cli.screen import Screen
from torvyn._cli.target import DEFAULT, ServedProject, set_option, setting_pairs

if TYPE_CHECKING:
    from torvyn._link.plan import TelemetryPlan
    from torvyn._manifest.settings import Settings
    from torvyn.engine.service.service import Service
    from torvyn.serve import ServerSettings
    from torvyn.transport.listener.server import Server

EXAMPLE = """\
torvyn serve
torvyn serve --engine scripted --port 9000
torvyn serve --manifest chat/Torvyn.toml"""


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
    "--session-store",
    metavar="PATH|URL",
    help="Keep stateful streams in this file, or at a broker that several servers share.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="The number of processes that share the port. Stateful streams then need a broker.",
)
@click.option("--worker", metavar="N/COUNT", hidden=True)
@click.option(
    "--allow-public-without-keys",
    "is_public",
    is_flag=True,
    help="Allow other machines to connect although the server requires no API key.",
)
@click.option(
    "--artifact",
    metavar="REFERENCE",
    help="Serve the flows of an artifact: a layout such as oci:./dist:1.2, oci://..., or the "
    "folder of an unpacked one.",
)
@click.option("--trusted", is_flag=True, hidden=True)
@click.option("--check", is_flag=True, help="Link the flows and check the settings, then exit.")
@set_option
def command(
    screen: Screen,
    manifest: str | None,
    engines: tuple[str, ...],
    workers: int,
    worker: str | None,
    is_public: bool,
    artifact: str | None,
    trusted: bool,
    check: bool,
    settings: tuple[str, ...],
    **flags: str | None,
) -> int:
    """Serve flows over HTTP and gRPC.

    Serves every flow that leads from an engine to a `response`, under its own name or the
    name in `[serve.routes]`. Without a manifest, serves the engine `local`. OpenAI clients use
    the URL with `/v1`. Ctrl-C shuts the server down and gives open streams `shutdown_grace` to end;
    a second Ctrl-C ends them at once.
    """
    from torvyn._io import native_parts
    from torvyn._link.defaults import telemetry_plan
    from torvyn._observe.logs import show_logs
    from torvyn.transport.access.host_check import check_bound
    from torvyn.transport.services import of_engines, of_plans

    native_parts.require("network")
    overrides = setting_pairs(settings)
    overrides |= {f"serve.{name}": value for name, value in flags.items() if value is not None}
    project = ServedProject(manifest, engines, overrides, artifact, trusted)
    linker = project.linker(screen)
    values, folder = linker.settings, project.written_folder(linker)
    if not linker.problems:
        check_bound(values["serve.host"], is_public, bool(values["serve.keys"]))
    plans = project.plans(linker)
    secrets = screen.secrets = frozenset(linker.problems.secrets)
    screen.warn(linker.problems.warnings())
    with show_logs(
        screen.format, screen.log_level, secrets, component_level=screen.component_log_level
    ):
        # Invalid settings are reported before a model is loaded.
        server = _server_settings(screen, folder, values)
        if check:
            return _say_checked(screen, list(plans or engines or ("local",)))
        if worker is not None:
            server = _divided(server, worker)
        elif workers > 1:
            return _serve_workers(screen, workers, server, list(plans or engines or ("local",)))
        services = of_plans(plans) if plans else of_engines(engines or ("local",))
        telemetry = telemetry_plan(values, folder)
        return _serve(screen, services, server, telemetry, project if plans else None)


def _server_settings(screen: Screen, folder: Path, values: Settings) -> ServerSettings:
    from torvyn.serve import ServerSettings
    from torvyn.transport.access import key_file
    from torvyn.transport.access.host_check import is_loopback
    from torvyn.transport.listener import tls

    settings = ServerSettings.of(values, folder, secrets=screen.secrets)
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


def _serve(
    screen: Screen,
    services: dict[str, Service],
    settings: ServerSettings,
    telemetry: TelemetryPlan | None,
    project: ServedProject | None,
) -> int:
    from torvyn._cli.served_exchange import supervised
    from torvyn._observe.telemetry import make_tracer
    from torvyn.serve import app, serve

    tracer = None
    try:
        tracer = make_tracer(telemetry)
        application = app(services, settings, tracer)
        application.link_flows = None if project is None else project.plans
        with supervised(application, project, telemetry):
            application.sessions.open()
            number = serve(
                application,
                lambda server: _say_serving(screen, server, list(services), settings),
                lambda: _say_ending(
                    screen, len(application.running.calls), settings.shutdown_grace_s
                ),
            )
    finally:
        for service in services.values():
            service.close()
        if tracer is not None:
            tracer.close()
    if settings.share.is_whole:
        screen.info("[torvyn] Server stopped.")
    return TERMINATED if number == signal.SIGTERM else INTERRUPTED


def _say_checked(screen: Screen, flows: list[str]) -> int:
    if screen.is_json:
        screen.document({"flows": flows})
    else:
        names = ", ".join(f"`{name}`" for name in flows)
        screen.info(f"[torvyn] {names} can be served.")
    return 0


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
