"""The errors of flows on Ray."""

from __future__ import annotations

from torvyn._link.plan import Plan
from torvyn.errors import ClusterError, FlowError, LinkError, MissingError, install_hint


def package_missing() -> MissingError:
    return MissingError(
        "cluster.package-missing",
        "`--on ray` needs the package `ray`",
        hint=f"install it: {install_hint('cluster')}",
    )


def ray_in_use() -> ClusterError:
    return ClusterError(
        "cluster.ray-in-use",
        "this process is connected to a Ray cluster already",
        hint="call `ray.shutdown()` first, or run the flow in a process of its own",
    )


def ray_unavailable(address: str, version: str, error: BaseException) -> ClusterError:
    where = "start a local Ray" if address == "local" else f"connect to Ray at {address}"
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return ClusterError(
        "cluster.ray-unavailable",
        f"cannot {where}: {reason}",
        hint="see that the cluster runs, that this machine reaches it, and that it has the "
        f"version of Ray that is installed here, {version}",
    )


def no_room(message: str) -> ClusterError:
    hint = "run it on a cluster that has it, or change `place`"
    return ClusterError("cluster.no-room", message, hint=hint)


def no_broker(plan: Plan) -> LinkError:
    return LinkError(
        "link.no-broker",
        f"flow `{plan.name}` cannot run on a cluster: it has no broker",
        hint='set `nats = "nats://HOST:4222"` in `[cluster]`, or pass `--nats`',
    )


def flow_runs(plan: Plan) -> ClusterError:
    return ClusterError(
        "cluster.flow-runs",
        f"flow `{plan.name}` runs already, with a broker of its own",
        hint="wait until it has ended; or run a broker for both: torvyn cluster up",
    )


def group_died(title: str, reason: str) -> ClusterError:
    return ClusterError(
        "cluster.group-died",
        f"{title} died, and its flow saves no state: {reason}",
        hint='it would do again what it has done; to continue instead, set `carrier = "nats"` on '
        "its edges, or `checkpoint` on the flow",
    )


def group_crashes(title: str, deaths: int, reason: str) -> ClusterError:
    return ClusterError(
        "cluster.group-crashes",
        f"{title} has died {deaths} times in a row: {reason}",
        hint="run the flow without `--on` to see why",
    )


def project_too_large(size_bytes: int, limit_bytes: int) -> LinkError:
    return LinkError(
        "cluster.project-too-large",
        f"the files of the project are {size_bytes >> 20} MiB, more than the "
        f"{limit_bytes >> 20} MiB that are sent to the machines of a cluster",
        hint="leave files out with `exclude` in `[pack]`, and put them on the machines yourself, "
        "at an absolute path",
    )


def deadline_exceeded(plan: Plan) -> FlowError:
    return FlowError(
        "reactor.deadline-exceeded",
        f"flow `{plan.name}` did not finish within {plan.deadline_s:g} s",
        hint="raise the flow's deadline, or find the slow node with `torvyn trace`",
    )
