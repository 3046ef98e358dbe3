"""All that a run on Ray needs besides its groups: the cluster, the broker, the output."""

from __future__ import annotations

import codecs
import io
import ipaddress
import logging
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import TextIO
from urllib.parse import urlsplit

from torvyn._io.local_cluster import address as local_broker
from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan
from torvyn._manifest.records import Manifest
from torvyn.cluster.placement import Placement, place
from torvyn.cluster.ray.connection import RayTarget, connected, parse_target
from torvyn.cluster.ray.failures import no_broker
from torvyn.cluster.ray.flow_run import ClusterRun
from torvyn.cluster.ray.job import DEFAULT_LOGS, GroupJob, LogOptions, ProjectCopy
from torvyn.cluster.ray.output_relay import STDOUT, OutputAddress, OutputRelay
from torvyn.cluster.ray.project_copy import copy_project
from torvyn.cluster.ray.run_broker import run_broker
from torvyn.cluster.ray.run_record import begin_run, end_run

logger = logging.getLogger("torvyn.cluster")


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
