"""The manifests of `torvyn link --on kubernetes`: made for a target, written or printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from torvyn._cli.screen import Screen
from torvyn._cli.target import Target
from torvyn._link.overrides import RUN_NAME
from torvyn.errors import FlowError, UsageError, os_reason

if TYPE_CHECKING:
    from torvyn._cluster.kubernetes.manifests import Manifests
    from torvyn._cluster.kubernetes.options import KubernetesOptions
    from torvyn._link.plan import Plan
    from torvyn._link.project_linker import ProjectLinker


@dataclass(frozen=True, slots=True)
class KubernetesArguments:
    """The options of the command that are for Kubernetes alone."""

    image: str | None
    namespace: str | None
    nats: str | None
    job: str | None
    output: str | None

    @property
    def given(self) -> list[str]:
        return [f"--{name}" for name in self.__slots__ if getattr(self, name) is not None]


def show_manifests(screen: Screen, target: Target, arguments: KubernetesArguments) -> int:
    from torvyn._cluster.kubernetes.manifests import make_manifests
    from torvyn._cluster.placement import place

    linker = target.linker(screen)
    plan = linker.plan(target.flow)
    screen.secrets = plan.secrets
    screen.warn(plan.warnings)
    _check_job(plan, arguments.job)
    manifests = make_manifests(place(plan), _options(target, linker, arguments))
    if arguments.output is not None:
        _write(Path(arguments.output), manifests)
    if screen.is_json:
        screen.document(_fields(manifests))
    elif arguments.output is None:
        screen.data(manifests.render())
    else:
        names = ", ".join(manifests.files)
        screen.info(f"[torvyn] Wrote {names} to {arguments.output}.")
    _say_next(screen, manifests, arguments)
    return 0


def _check_job(plan: Plan, job: str | None) -> None:
    from torvyn._cluster.kubernetes.manifests import answers_requests

    if job is None:
        return
    if not RUN_NAME.fullmatch(job):
        message = f"`--job`: `{job}` cannot be the name of a run"
        hint = "use letters, digits, `-` and `_`, 64 at most"
        raise UsageError("cli.bad-value", message, hint=hint)
    if answers_requests(plan):
        message = f"flow `{plan.name}` answers requests: it has no end, and cannot be a Job"
        raise UsageError("cli.bad-usage", message, hint="leave `--job` out")


def _options(
    target: Target, linker: ProjectLinker, arguments: KubernetesArguments
) -> KubernetesOptions:
    from torvyn._cluster.kubernetes.options import KubernetesOptions

    if arguments.image is None:
        raise UsageError(
            "cli.missing-argument",
            "`--on kubernetes` needs the option `--image`",
            hint="the name of an image that has torvyn and the project: --image registry/name:tag",
        )
    project, settings = linker.manifest.project, linker.settings
    sessions = str(settings["serve.session_store"] or "")
    has_stored_sessions = sessions.startswith(("nats://", "tls://"))
    found = settings["cluster.nats"] or (sessions if has_stored_sessions else "")
    return KubernetesOptions(
        project=project.name,
        image=arguments.image,
        namespace=arguments.namespace,
        broker_namespace=None if linker.has_namespace else project.name,
        nats=arguments.nats or (None if _is_local(found) else found),
        job=arguments.job,
        variables=sorted(linker.manifest.variables),
        arguments=_run_arguments(target),
        hosts=settings["serve.hosts"],
        has_stored_sessions=has_stored_sessions,
    )


def _is_local(addresses: str) -> bool:
    """Whether no other machine reaches the broker: it is one for development, or there is none."""
    from torvyn.transport.access.host_check import is_loopback

    hosts = [urlsplit(address.strip()).hostname or "" for address in addresses.split(",")]
    return all(host in ("", "localhost") or is_loopback(host) for host in hosts)


def _run_arguments(target: Target) -> list[str]:
    """What the pods are told besides the flow; `$(` would be filled in by Kubernetes."""
    found = []
    if target.artifact is not None:
        if not target.artifact.startswith("oci://"):
            raise UsageError(
                "cli.bad-usage",
                f"pods cannot read the artifact `{target.artifact}` of this machine",
                hint="publish it, and name it as oci://host/name:tag",
            )
        found += ["--artifact", target.artifact]
    for option, values in (("--config", target.config), ("--set", target.settings)):
        for name, value in values.items():
            found += [option, f"{name}={value}"]
    return [argument.replace("$(", "$$(") for argument in found]


def _write(folder: Path, manifests: Manifests) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in manifests.texts().items():
            (folder / name).write_text(text)
    except OSError as error:
        reason = os_reason(error)
        raise FlowError("cli.file-unwritable", f"cannot write to {folder}: {reason}") from error


def _fields(manifests: Manifests) -> dict[str, Any]:
    secrets = [{"name": secret.name, "command": secret.command} for secret in manifests.secrets]
    return {"files": manifests.files, "secrets": secrets}


def _say_next(screen: Screen, manifests: Manifests, arguments: KubernetesArguments) -> None:
    if manifests.secrets:
        screen.info("[torvyn] The pods need these secrets, which are in no file:")
        screen.info(*(f"  {secret.command}" for secret in manifests.secrets))
    if arguments.output is not None:
        where = "" if arguments.namespace is None else f" -n {arguments.namespace}"
        screen.info(f"[torvyn] Then: kubectl apply{where} -f {arguments.output}")
