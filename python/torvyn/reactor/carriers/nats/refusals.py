"""Why a flow with `nats` edges cannot run, or cannot go on."""

from __future__ import annotations

from collections.abc import Sequence

from torvyn.errors import FlowError


def refused(edge: str, reason: str) -> FlowError:
    return FlowError(
        "broker.refused",
        f"the broker cannot carry the edge `{edge}`: {reason}",
        hint="check `max_bytes` of the edge, and the limits of the NATS server",
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


def other_project(flow: str, other: str, project: str) -> FlowError:
    return FlowError(
        "broker.other-project",
        f"the flow `{flow}` of the project `{other}` is on the broker, and this one is of "
        f"`{project}`",
        hint="give one of the flows another name, or each project a NATS account of its own; if "
        "the project was renamed, run it once with `--fresh`",
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
