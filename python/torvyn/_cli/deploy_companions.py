"""What runs beside the generation of a deployment: it follows its channel, and reports."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.deployment_run import DeploymentRun
    from torvyn._deploy.report import Report
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._deploy.trial import Statuses
    from torvyn._deploy.update import FollowLoop

_WORST_FIRST: Final = ("stalled", "silent", "waiting", "moving", "idle")


@contextmanager
def companions(
    deployment: Deployment, settings: DeploymentSettings, run: DeploymentRun
) -> Iterator[None]:
    from torvyn._cli.commands.deploy import make_updater
    from torvyn._deploy.report import Heartbeat
    from torvyn._deploy.update import FollowLoop

    updater = make_updater(deployment, settings)
    with ExitStack() as stack:
        loop: FollowLoop | None = None
        if updater is not None and settings.follow is not None:
            loop = stack.enter_context(FollowLoop(updater, settings.follow.interval_s, run.wake))
        if settings.heartbeat is not None:
            token = os.environ.get("HEARTBEAT_TOKEN")
            heartbeat = Heartbeat(
                settings.heartbeat,
                lambda: make_report(deployment, settings, run, loop),
                interval_s=settings.heartbeat_s,
                token=token,
            )
            run.on_change = heartbeat.soon
            stack.enter_context(heartbeat)
        yield


def make_report(
    deployment: Deployment,
    settings: DeploymentSettings,
    run: DeploymentRun,
    loop: FollowLoop | None,
) -> Report:
    from importlib.metadata import version

    from torvyn._deploy import channel as fields
    from torvyn._deploy.report import Report

    state, record, statuses = deployment.state(), run.running, run.statuses()
    found = [_table(status, "statistics") for status in statuses]
    counts = {
        key: sum(int(statistics.get(key, 0)) for statistics in found)
        for key in ("produced", "emitted", "errors")
    }
    return Report(
        device=settings.device or platform.node() or "unnamed",
        deployment=deployment.name,
        sent=fields.render_time(time.time()),
        torvyn=version("torvyn"),
        generation=None if record is None else record.number,
        project="" if record is None else record.title,
        version=None if record is None else record.version,
        seen_version=state.seen_version,
        health=_health(statuses) or ("stopped" if record is None else "unknown"),
        is_on_trial=record is not None and state.trying == record.number,
        stale_s=_stale_s(state.channel),
        last_error=(run.last_problem or (loop.last_problem if loop else ""))[:1000],
        **counts,
    )


def _health(statuses: Statuses) -> str | None:
    """That of the flow that needs attention most."""
    found = {_table(status, "health").get("state") for status in statuses}
    return next((state for state in _WORST_FIRST if state in found), None)


def _stale_s(channel: Mapping[str, Any]) -> float:
    from torvyn._deploy.trust import ChannelTrust

    try:
        return ChannelTrust.from_dict(channel).stale_s(time.time())
    except ValueError:
        return 0.0


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}
