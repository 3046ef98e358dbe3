"""A run on Ray: the cluster, the broker, the output, and which run is under way.

The broker keeps which run of a flow that is. It is open until all groups have ended and the command
has said so. A command that was killed is called again and continues its run: the groups that have
ended in it do not begin anew.

A program calls `torvyn.run("Torvyn.toml", "main", on="ray")`.
"""

from __future__ import annotations

import codecs
import io
import ipaddress
import json
import logging
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, TextIO
from urllib.parse import urlsplit

from torvyn._cluster.broker import run_broker
from torvyn._cluster.failures import no_broker
from torvyn._cluster.flow_run import ClusterRun
from torvyn._cluster.job import DEFAULT_LOGS, GroupJob, LogOptions, ProjectCopy
from torvyn._cluster.output import STDOUT, OutputAddress, OutputRelay
from torvyn._cluster.placement import Placement, place
from torvyn._cluster.project_copy import copy_project
from torvyn._cluster.ray_cluster import RayTarget, connected, parse_target
from torvyn._durable.nats.entry import SegmentEntry, open_bucket
from torvyn._durable.nats.names import FlowNames, token
from torvyn._io.broker_login import NO_LOGIN
from torvyn._io.jetstream import BrokerThread, Entries
from torvyn._io.local_cluster import address as local_broker
from torvyn._io.nats import BrokerUnavailable
from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan, segments_of
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.records import Manifest
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._flow.statistics import Statistics

logger = logging.getLogger("torvyn.cluster")

_KEY: Final = "run"
_SEGMENTS: Final = "*.*"
"""What the keys of segments match."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a flow, as the broker keeps it."""

    run: str
    is_open: bool = False
    discards: bool = False
    """Whether what earlier runs have saved is still to be discarded."""


def begin_run(plan: Plan, url: str, *, is_fresh: bool = False) -> str:
    """The id of the open run, or of a new one. `is_fresh`: discards what earlier runs have saved
    and sent."""
    broker = BrokerThread(url, plan.name, login=plan.cluster.login if plan.cluster else NO_LOGIN)
    try:
        entries = _open(plan, broker, is_fresh=is_fresh)
        return broker.call(_begin_record(plan, broker, entries, is_fresh=is_fresh))
    finally:
        broker.close()


def end_run(plan: Plan, url: str, run: str) -> None:
    """The run is over: the next one begins anew."""
    try:
        broker = BrokerThread(
            url, plan.name, login=plan.cluster.login if plan.cluster else NO_LOGIN
        )
        try:
            broker.call(_write(_open(plan, broker), RunRecord(run)))
        finally:
            broker.close()
    except (BrokerUnavailable, FlowError) as error:
        logger.warning(
            "the broker does not know that the run is over: %s; the next call of the command finds "
            "nothing to do, and the one after it begins anew",
            error,
        )


def _open(plan: Plan, broker: BrokerThread, *, is_fresh: bool = False) -> Entries:
    assert plan.cluster is not None
    return open_bucket(broker, FlowNames.of(plan), plan.cluster, is_fresh=is_fresh)


async def _begin_record(
    plan: Plan, broker: BrokerThread, entries: Entries, *, is_fresh: bool
) -> str:
    entry = await entries.get(_KEY)
    last = RunRecord("") if entry is None else RunRecord(**json.loads(entry.value))
    if is_fresh or not last.is_open:
        last = RunRecord(secrets.token_hex(4), True, is_fresh or last.discards)
        await _write(entries, last)
    if last.discards:
        await _discard(plan, broker, entries)
        await _write(entries, RunRecord(last.run, True))
    return last.run


async def _write(entries: Entries, record: RunRecord) -> None:
    await entries.put(_KEY, json.dumps(asdict(record)).encode())


async def _discard(plan: Plan, broker: BrokerThread, entries: Entries) -> None:
    """First the states, so that no process of an earlier run goes on; then the elements."""
    replicas = {token(segment.name): segment.replicas for segment in segments_of(plan)}
    for key in await entries.keys(_SEGMENTS):
        name, payload = key.rpartition(".")[0], broker.broker.max_payload
        entry = SegmentEntry(entries, name, key, payload, replicas.get(name, 1))
        await (entry.take_over(is_fresh=True) if name in replicas else entry.delete())
    for edge in plan.edges:
        stream = FlowNames.of(plan).edge(edge, 1).stream
        if edge.carrier == "nats" and await broker.streams.state(stream) is not None:
            await broker.streams.purge(stream)


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """A flow that is to run on a cluster."""

    plan: Plan
    manifest: Manifest
    overrides: Overrides
    """Those that the plan was linked with."""
    on: str = "ray"
    logs: LogOptions = DEFAULT_LOGS
    is_fresh: bool = False
    """Whether what earlier runs have saved is discarded."""
    sends_files: bool | None = None
    """Whether groups work on copies of the project's files; None: those on other machines do."""


@contextmanager
def open_run(
    request: ClusterRequest, on_output_closed: Callable[[], None] | None = None
) -> Iterator[ClusterRun]:
    """A run that is ready to start. Ends what was started for it."""
    placement, target = place(request.plan), parse_target(request.on)
    printer = OutputPrinter(sys.stdout, sys.stderr, on_output_closed)
    with ExitStack() as stack:
        nats = stack.enter_context(broker_of(request, target))
        # Ray prints to standard output when a process dies; it is the flow's.
        stack.enter_context(redirect_stdout(RayMessages()))
        ray = stack.enter_context(connected(target, placement))
        run = _begin(request, nats)
        relay = OutputRelay(printer.write, _own_address(ray))
        stack.callback(relay.close)
        output = relay.address(is_terminal=printer.is_terminal, encoding=printer.encoding)
        project = copy_project(
            request.manifest, request.overrides, has_archive=_sends_files(request, ray)
        )
        if request.sends_files:
            project = replace(project, host="")
        jobs = make_jobs(request, placement, project, nats, output, run)
        cluster_run = ClusterRun(ray, placement, jobs, partial(_end, request, nats, run))
        relay.on_start = cluster_run.on_process
        yield cluster_run


def _begin(request: ClusterRequest, nats: str | None) -> str:
    """The id of the run: that of one that was interrupted, or a new one."""
    if nats is None:
        return secrets.token_hex(4)
    return begin_run(request.plan, nats, is_fresh=request.is_fresh)


def _end(request: ClusterRequest, nats: str | None, run: str) -> None:
    if nats is not None:
        end_run(request.plan, nats, run)


def make_jobs(
    request: ClusterRequest,
    placement: Placement,
    project: ProjectCopy,
    nats: str | None,
    output: OutputAddress,
    run: str,
) -> list[GroupJob]:
    """One for each replica of each group."""
    overrides = request.overrides
    if nats is not None:
        assert request.plan.cluster is not None
        broker = {"cluster.nats": nats, "cluster.namespace": request.plan.cluster.namespace}
        settings = {**overrides.settings, **broker}
        overrides = replace(overrides, settings=settings)
    jobs = []
    for group in placement.groups:
        for replica in range(group.replicas):
            own = overrides
            if nats is not None:
                own = replace(overrides, segments=(group.name,), replica=replica, run=run)
            job = GroupJob(
                request.plan.name, group.name, replica, project, own, output, request.logs
            )
            job = replace(job, output=replace(output, process=job.name))
            if request.is_fresh and nats is None:
                job = replace(job, discards_for=run)
            jobs.append(job)
    return jobs


@contextmanager
def broker_of(request: ClusterRequest, target: RayTarget) -> Iterator[str | None]:
    """The URL of the broker; None if no edge needs one."""
    cluster = request.plan.cluster
    if cluster is None:
        yield None
        return
    url = cluster.nats or local_broker()
    if not url and target.is_local:
        with run_broker(request.plan) as own:
            yield own
        return
    if not url:
        raise no_broker(request.plan)
    if not target.is_local and _is_loopback(url) and not _is_loopback(target.address):
        logger.warning(
            "the broker %s is that of each machine itself; name one that all of them reach",
            urlsplit(url).hostname,
        )
    yield url


def _is_loopback(url: str) -> bool:
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_address(ray: ModuleType) -> str:
    """The address of this machine, as the groups reach it."""
    return str(ray.util.get_node_ip_address())


def _sends_files(request: ClusterRequest, ray: ModuleType) -> bool:
    if request.sends_files is not None:
        return request.sends_files
    return not all(_is_loopback(node["NodeManagerAddress"]) for node in ray.nodes())


class OutputPrinter:
    """Prints what groups print, on the streams that this process had before."""

    def __init__(
        self,
        stdout: TextIO | None,
        stderr: TextIO | None,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        self._streams = {STDOUT: stdout}
        self._stderr = stderr
        self._on_closed = on_closed
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}
        self.is_terminal = stdout is not None and stdout.isatty()
        self.encoding = getattr(stdout, "encoding", None) or "utf-8"

    def write(self, stream: int, data: bytes) -> None:
        """Called by the relay, in the order of arrival."""
        target = self._streams.get(stream, self._stderr)
        if target is None:
            return
        try:
            self._write(stream, target, data)
        except (OSError, ValueError):
            # Its reader has gone: nobody needs the rest.
            self._streams[stream] = None
            if stream == STDOUT and self._on_closed is not None:
                self._on_closed()

    def _write(self, stream: int, target: TextIO, data: bytes) -> None:
        buffer = getattr(target, "buffer", None)
        if buffer is not None:
            buffer.write(data)
        else:
            if stream not in self._decoders:
                decoder = codecs.getincrementaldecoder(self.encoding)("replace")
                self._decoders[stream] = decoder
            target.write(self._decoders[stream].decode(data))
        target.flush()


class RayMessages(io.TextIOBase):
    """What Ray prints, as log records that `-v` shows."""

    def write(self, text: str) -> int:
        if text.strip():
            logger.info("ray: %s", text.strip())
        return len(text)


def run(
    path: str | Path = "Torvyn.toml",
    flow: str | None = None,
    *,
    on: str = "ray",
    config: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> Statistics:
    """Runs a flow of a project to its end and returns the statistics of all its groups; raises its
    failure.

    `on` is `ray`, `ray://HOST:PORT` or HOST:PORT. What the groups print appears here. `fresh`
    discards what earlier runs have saved.
    """
    path = Path(path)
    overrides = Overrides(config=config or {}, settings=settings or {})
    linker = ProjectLinker.open(path / "Torvyn.toml" if path.is_dir() else path, overrides)
    request = ClusterRequest(linker.plan(flow), linker.manifest, overrides, on, is_fresh=fresh)
    with open_run(request) as run:
        end = run.run()
    if end.error is not None:
        raise end.error
    return end.statistics
