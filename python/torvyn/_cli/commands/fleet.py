"""`torvyn fleet`: shows the reports of devices, and collects them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError, os_reason

if TYPE_CHECKING:
    from torvyn._deploy.report import Report

EXAMPLE = """\
torvyn fleet reports
torvyn fleet https://fleet.example.com/reports --token-file token
torvyn fleet reports --serve 127.0.0.1:8090 --token-file token"""


@make_command("fleet", example=EXAMPLE)
@click.argument("source", metavar="SOURCE")
@click.option("--serve", "address", metavar="HOST:PORT", help="Collect reports into the folder.")
@click.option("--token-file", metavar="FILE", help="A file with the token that devices send.")
def command(screen: Screen, source: str, address: str | None, token_file: str | None) -> int:
    """Show what runs on the devices that report.

    SOURCE is a folder of reports, or the address of a collector. With --serve, this is the
    collector: it keeps the newest report of each device in the folder, until Ctrl-C. Devices
    report if you named a `--heartbeat` when they began to follow a channel; they send the token in
    the variable HEARTBEAT_TOKEN.
    """
    from torvyn._deploy.collector import fetch_reports, stored_reports

    token = None if token_file is None else _token(Path(token_file))
    is_remote = source.startswith(("http://", "https://"))
    if address is not None:
        if is_remote:
            message = "`--serve` stores reports in a folder, not at an address"
            raise UsageError("cli.bad-usage", message)
        return _serve(screen, address, Path(source), token)
    if is_remote:
        return _show(screen, fetch_reports(source, token))
    return _show(screen, list(stored_reports(_folder(source))))


def _show(screen: Screen, reports: list[Report]) -> int:
    if screen.is_json:
        screen.document({"reports": [report.to_dict() for report in reports]})
    elif reports:
        from torvyn._cli.statistics import table

        heads = (
            "device",
            "deployment",
            "project",
            "version",
            "health",
            "errors",
            "seen",
            "problem",
        )
        screen.data(table(heads, [_row(report) for report in reports]))
    else:
        screen.info("[torvyn] No device has reported yet.")
    return 0


def _row(report: Report) -> tuple[str, ...]:
    from torvyn._deploy import channel
    from torvyn._io.safe_text import escape_controls

    sent_s = channel.time_s({"sent": report.sent}, "sent")
    from torvyn._cli.statistics import age

    trial = " (on trial)" if report.is_on_trial else ""
    cells = (
        report.device,
        report.deployment,
        report.project or "none",
        "" if report.version is None else str(report.version),
        report.health + trial,
        str(report.errors),
        f"{age(time.time() - sent_s)} ago",
        report.last_error[:60],
    )
    return tuple(escape_controls(" ".join(cell.split())) for cell in cells)


def _serve(screen: Screen, address: str, folder: Path, token: str | None) -> int:
    from torvyn._deploy.collector import Collector
    from torvyn._io.process import SignalHandler

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        message = f"`--serve {address}` is not HOST:PORT"
        raise UsageError("cli.bad-value", message, hint="for example 127.0.0.1:8090")
    try:
        collector = Collector((host, int(port)), folder, token)
    except OSError as error:
        reason = os_reason(error)
        raise UsageError("cli.bad-usage", f"cannot listen on {address}: {reason}") from error
    with collector, SignalHandler(lambda number: collector.stop_soon()) as signals:
        screen.info(f"[torvyn] Collecting reports at {collector.url}; Ctrl-C ends.")
        collector.serve_forever()
    return 128 + signals.received[0] if signals.received else 0


def _token(path: Path) -> str:
    from torvyn._artifact.layout import read_regular

    token = read_regular(path, 4096).decode(errors="replace").strip()
    if not token:
        raise UsageError("cli.bad-value", f"`--token-file`: {path} is empty")
    return token


def _folder(source: str) -> Path:
    folder = Path(source)
    if not folder.is_dir():
        message = f"there is no folder `{source}` with reports"
        hint = f"collect some: `torvyn fleet {source} --serve 127.0.0.1:8090`"
        raise UsageError("cli.bad-usage", message, hint=hint)
    return folder
