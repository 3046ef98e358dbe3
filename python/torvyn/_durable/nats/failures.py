"""Why a flow with `nats` edges cannot run, or cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torvyn._durable.nats.names import FlowNames
from torvyn._io.nats import Refused
from torvyn.errors import FlowError

TOO_FEW_SERVERS: Final = (10005, 10025, 10052, 10074, 10128)
"""Error codes of the server that mean that it has no place for so many replicas."""


def refused(edge: str, error: Refused, replicas: int) -> FlowError:
    if replicas > 1 and error.code in TOO_FEW_SERVERS:
        return _too_few_servers(f"the edge `{edge}`", error, replicas)
    return FlowError(
        "broker.refused",
        f"the broker cannot carry the edge `{edge}`: {error.text}",
        hint="check `max_bytes` of the edge, and the limits of the NATS server",
    )


def bucket_refused(flow: str, error: Refused, replicas: int) -> FlowError:
    if replicas > 1 and error.code in TOO_FEW_SERVERS:
        return _too_few_servers(f"what the flow `{flow}` saves", error, replicas)
    return FlowError(
        "broker.refused",
        f"the broker cannot store what the flow `{flow}` saves: {error.text}",
        hint="check the limits of the NATS server and of the account",
    )


def _too_few_servers(what: str, error: Refused, replicas: int) -> FlowError:
    return FlowError(
        "broker.too-few-servers",
        f"the broker cannot keep {what} on {replicas} servers: {error.text}",
        hint=f"start {replicas} servers of one NATS cluster with JetStream, or lower "
        "`stream_replicas` in `[cluster]`",
    )


def stream_gone(edge: str, stream: str, batches: int | None) -> FlowError:
    waited = "" if not batches else f"; {batches} batches waited in it, and are lost"
    return FlowError(
        "broker.stream-gone",
        f"the stream `{stream}` of the edge `{edge}` was deleted from the broker while the flow "
        f"ran{waited}",
        hint="start the flow again: it makes the stream again, and continues with what comes next",
    )


def bucket_gone(flow: str, bucket: str) -> FlowError:
    return FlowError(
        "broker.entry-gone",
        f"the bucket `{bucket}`, which has what the flow `{flow}` has saved, was deleted from the "
        "broker while the flow ran",
        hint="start the flow again; if nobody has deleted it, see that the server keeps its data "
        "on a disk that survives restarts",
    )


def flow_runs(names: FlowNames, who: str) -> FlowError:
    return FlowError(
        "broker.flow-runs",
        f"the flow `{names.flow}` runs: {who} uses what it has on the broker",
        hint="stop it first, on all machines",
    )


def before_namespaces(names: FlowNames) -> FlowError:
    return FlowError(
        "broker.before-namespaces",
        f"the flow `{names.flow}` has run on this broker before its names had a namespace, and "
        f"would begin anew in the namespace `{names.namespace}`",
        hint='to continue where it was, set `namespace = ""` in `[cluster]`; to begin anew, remove '
        f"what it has: torvyn cluster remove {names.flow} --namespace ''",
    )


def partitions_changed(edge: str, messages: int) -> FlowError:
    return FlowError(
        "broker.partitions-changed",
        f"{messages} batches wait on the edge `{edge}` for another number of replicas",
        hint="let them be read with the replicas they had, or discard them with `--fresh`",
    )


def replicas_changed(segment: str, before: int, now: int, reasons: Sequence[str]) -> FlowError:
    listing = "\n".join(f"  - {each}" for each in reasons)
    return FlowError(
        "broker.replicas-changed",
        f"`{segment}` has {now} replicas, and what is saved belongs to {before}:\n{listing}",
        hint=f"run it with {before} replicas until its input has ended, or discard what is saved "
        "with `--fresh`",
    )


def writers_changed(edge: str, before: int, now: int) -> FlowError:
    return FlowError(
        "broker.replicas-changed",
        f"some of the {before} replicas that write `{edge}` have ended, and there are {now} now",
        hint=f"run them with {before} replicas until all have ended, or discard what is saved with "
        "`--fresh`",
    )


def other_project(names: FlowNames, other: str, project: str) -> FlowError:
    where = f"in the namespace `{names.namespace}`" if names.namespace else "without a namespace"
    return FlowError(
        "broker.other-project",
        f"the flow `{names.flow}` of the project `{other}` is on the broker {where}, and this one "
        f"is of `{project}`",
        hint="set another `namespace` in `[cluster]`; if the project was renamed, remove what it "
        f"has under the old name: torvyn cluster remove {names.flow}",
    )


def run_over(key: str, run: str) -> FlowError:
    return FlowError(
        "broker.run-over",
        f"`{key}` has ended in the run `{run}`: there is nothing left to do",
        hint="name another run to begin anew",
    )


def run_unnamed(edge: str, writer: str, run: str) -> FlowError:
    return FlowError(
        "broker.run-unnamed",
        f"`{writer}` has ended in a run without a name, and the reader of `{edge}` waits for its "
        f"end in the run `{run}`",
        hint=f"start both with `--run {run}`, or both without it; what was sent is kept",
    )


def taken_over(key: str) -> FlowError:
    return FlowError(
        "broker.taken-over",
        f"another process runs `{key}` now, and continues behind what this one has committed",
        hint="run each replica of a segment in one process; this one has lost nothing",
    )


def newer_version(version: int) -> FlowError:
    return FlowError(
        "durable.newer-version",
        f"a newer version of torvyn has saved the segment: its format is {version}",
        hint="run that version again, or discard the saved state with `--fresh`",
    )


def entry_gone(key: str) -> FlowError:
    return FlowError(
        "broker.entry-gone",
        f"what `{key}` has saved was deleted from the broker while it ran",
        hint="start it again; if nobody has deleted it, see that the server keeps its data on a "
        "disk that survives restarts",
    )


def entry_damaged(key: str) -> FlowError:
    return FlowError(
        "broker.entry-damaged",
        f"parts of what `{key}` has saved are missing on the broker",
        hint="restore the data of the NATS server, or discard what is saved with `--fresh`",
    )


def server_too_old(edge: str, version: tuple[int, int], needed: tuple[int, int]) -> FlowError:
    found, least = (".".join(map(str, each)) for each in (version, needed))
    return FlowError(
        "broker.too-old",
        f"the NATS server has version {found}, which cannot share the edge `{edge}` among "
        f"replicas: that needs {least}",
        hint=f"install nats-server {least} or newer, or run one replica of the segment",
    )
