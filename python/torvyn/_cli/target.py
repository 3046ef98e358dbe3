"""The target of a command: a flow or server of a project, with overrides.

It warns of flows that may use more memory than the control group of this process allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from torvyn._cli.artifact_options import fetch_arguments
from torvyn._io.resources import read_resources
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._artifact.unpack import PreparedProject
    from torvyn._cli.screen import Screen
    from torvyn._link.plan import Plan
    from torvyn._link.project_linker import ProjectLinker
    from torvyn.errors import Diagnostic


def memory_warnings(*processes: Sequence[Plan]) -> list[Diagnostic]:
    """One warning per process whose flows do not fit. Without a control group there is no warning:
    swap and other processes decide."""
    from torvyn._link.plan_checks import memory_warning

    limit_bytes = read_resources().limits.memory_bytes
    if limit_bytes is None:
        return []
    found = (memory_warning(plans, limit_bytes) for plans in processes)
    return [warning for warning in found if warning is not None]


DEFAULT = "Torvyn.toml"


@dataclass(frozen=True)
class ServedProject:
    manifest: str | None
    engines: tuple[str, ...]
    flags: dict[str, str]
    artifact: str | None = None
    is_trusted: bool = False
    """Whether the precompiled code of an unpacked artifact is used."""

    @property
    def folder(self) -> Path:
        """Of the project, if it needs not be fetched."""
        return Path(self.artifact or manifest_path(self.manifest or DEFAULT).parent)

    def moved(self, folder: Path, is_trusted: bool) -> ServedProject:
        """The same project in another folder."""
        if self.artifact is None:
            return replace(self, manifest=str(folder))
        return replace(self, artifact=str(folder), is_trusted=is_trusted)

    def linker(self, screen: Screen | None = None) -> ProjectLinker:
        """The linker of the manifest; of an empty one when no manifest is used."""
        from torvyn._link.overrides import Overrides
        from torvyn._link.project_linker import ProjectLinker
        from torvyn._manifest.records import Manifest

        overrides = Overrides(settings=self.flags)
        if self.artifact is not None:
            from torvyn._cli.artifact_options import prepare_artifact
            from torvyn._cli.screen import Screen as NewScreen

            project = prepare_artifact(
                screen or NewScreen(quiet=True),
                self.artifact,
                machine_cache_dir({}),
                offline=False,
                insecure=False,
                trusted=self.is_trusted,
            )
            overrides = replace(overrides, packed_files=project.files)
            return ProjectLinker.open(project.manifest, overrides)
        if self.manifest is not None or (not self.engines and Path(DEFAULT).exists()):
            return ProjectLinker.open(manifest_path(self.manifest or DEFAULT), overrides)
        return ProjectLinker(Manifest(), overrides)

    def plans(self, linker: ProjectLinker | None = None) -> dict[str, Plan]:
        """The plans to serve, from the files as they are now; none when engines are served."""
        from torvyn.transport.services import served_plans

        linker = linker or self.linker()
        if self.engines or not linker.manifest.flows:
            linker.raise_problems()
            return {}
        return served_plans(linker)

    def written_folder(self, linker: ProjectLinker) -> Path:
        """The folder that the paths of keys, certificates and logs are relative to."""
        return Path.cwd() if self.artifact is not None else Path(linker.manifest.file).parent


Function = TypeVar("Function", bound=Callable[..., Any])


def manifest_option(function: Function) -> Function:
    return click.option(
        "--manifest",
        default="Torvyn.toml",
        show_default=True,
        metavar="PATH",
        help="The manifest or its folder.",
    )(function)


def set_option(function: Function) -> Function:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Override a setting, such as runtime.turn_time=50us. Repeatable.",
    )(function)


def flow_options(function: Function) -> Function:
    """The arguments of every command that works on one flow."""
    return _flow_options(function, is_several=False)


def flows_options(function: Function) -> Function:
    """The arguments of commands that work on one flow or several."""
    function = click.option(
        "--all", "is_all", is_flag=True, help="All flows of the manifest, in one process."
    )(function)
    return _flow_options(function, is_several=True)


def _flow_options(function: Function, *, is_several: bool) -> Function:
    several = "With several flows, FLOW.NODE.KEY=VALUE. " if is_several else ""
    metavar = "[flow.NAME]..." if is_several else "[flow.NAME]"
    options = (
        click.argument("flows", nargs=-1, metavar=metavar),
        click.option(
            "--flow",
            "flow_name",
            metavar="NAME",
            help="The flow; only needed if the manifest has several.",
        ),
        manifest_option,
        click.option(
            "--config",
            "overrides",
            multiple=True,
            metavar="NODE.KEY=VALUE",
            help="Override an option of a node; `NODE=TEXT` replaces its whole config. "
            f"{several}Repeatable.",
        ),
        set_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def artifact_options(function: Function) -> Function:
    """The options of commands that can take a flow from an artifact."""
    options = (
        click.option(
            "--artifact",
            metavar="REFERENCE",
            help="Take the flow from an artifact: a layout such as oci:./dist:1.2, oci://..., or "
            "the folder of an unpacked artifact. `run oci:./dist` is the same, for a reference.",
        ),
        click.option(
            "--locked",
            is_flag=True,
            help="Fail if a component differs from torvyn.lock.",
        ),
        # Of `torvyn deploy`, which has checked who signed what it has unpacked.
        click.option("--trusted", is_flag=True, hidden=True),
        fetch_arguments,
    )
    for option in reversed(options):
        function = option(function)
    return function


def end_options(function: Function) -> Function:
    """The options of commands that run a flow."""
    options = (
        click.option(
            "--input",
            metavar="FILE",
            help="The file that the `lines` source, the `request` or the engine reads.",
        ),
        click.option(
            "--output", metavar="FILE", help="The file that the `file` or `console` sink writes."
        ),
        click.option(
            "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N elements."
        ),
        click.option(
            "--timeout",
            metavar="DURATION",
            help="Fail if the flow runs longer than this, such as 30s.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def manifest_path(text: str) -> Path:
    """The path of a manifest, from its file or its folder."""
    path = Path(text)
    return path / "Torvyn.toml" if path.is_dir() else path


class Ends(TypedDict, total=False):
    """What a command changes at the ends of a flow."""

    input: str | None
    output: str | None
    deadline_s: float | None
    segments: tuple[str, ...]
    replica: int
    run: str


@dataclass(frozen=True)
class Target:
    """The parsed arguments of `flow_options` or `flows_options`."""

    manifest: Path
    flows: tuple[str, ...]
    """Without a name, the only one."""
    config: dict[str, str]
    settings: dict[str, str]
    artifact: str | None = None
    is_locked: bool = False
    is_offline: bool = False
    is_insecure: bool = False
    is_trusted: bool = False
    """Whether the precompiled code of an unpacked artifact is used."""
    is_all: bool = False
    """Whether all flows are meant."""

    @classmethod
    def of(
        cls,
        *,
        flows: tuple[str, ...] = (),
        flow_name: str | None,
        is_all: bool | None = None,
        manifest: str,
        overrides: tuple[str, ...],
        settings: tuple[str, ...],
        artifact: str | None = None,
        locked: bool = False,
        offline: bool = False,
        insecure: bool = False,
        trusted: bool = False,
    ) -> Target:
        """`is_all`: whether `--all` was given; None for a command that works on one flow."""
        for reference in [each for each in flows if each.startswith("oci:")]:
            artifact = _only_artifact(reference, artifact)
        names = [each.removeprefix("flow.") for each in flows if not each.startswith("oci:")]
        others = [name for name in names if name != flow_name]
        if flow_name is not None and others:
            message = f"you named two flows, `{others[0]}` and `{flow_name}`"
            hint = "name the flow once, as `flow.NAME` or with `--flow NAME`"
            raise UsageError("cli.bad-usage", message, hint=hint)
        names = [flow_name] if flow_name is not None and not names else names
        check_names(names, is_all)
        return cls(
            manifest_path(manifest),
            tuple(names),
            pairs(overrides, "--config", "NODE.KEY=VALUE"),
            setting_pairs(settings),
            artifact,
            locked,
            offline,
            insecure,
            trusted,
            bool(is_all),
        )

    @property
    def flow(self) -> str | None:
        """The name of the flow, for a command that works on one."""
        return self.flows[0] if self.flows else None

    @property
    def is_of_several(self) -> bool:
        """Whether a process is asked for that runs several flows."""
        return self.is_all or len(self.flows) > 1

    @property
    def project(self) -> Path:
        """The folder of the project, if it needs not be fetched."""
        return self.manifest.parent if self.artifact is None else Path(self.artifact)

    def moved(self, project: Path, is_trusted: bool) -> Target:
        """The same flows of the project in another folder."""
        if self.artifact is None:
            return replace(self, manifest=manifest_path(str(project)))
        return replace(self, artifact=str(project), is_trusted=is_trusted)

    def link(self, screen: Screen, **ends: Unpack[Ends]) -> Plan:
        """The plan of the flow. Shows its warnings, and hides its secrets on the screen."""
        [plan] = show_plans(screen, [self.plan(screen, **ends)])
        return plan

    def plan(self, screen: Screen | None = None, **ends: Unpack[Ends]) -> Plan:
        """The plan of the flow, from the files as they are now. The screen is for messages about
        an artifact that is fetched."""
        return self.linker(screen, **ends).plan(self.flow)

    def plans(self, screen: Screen | None = None, **ends: Unpack[Ends]) -> tuple[Plan, ...]:
        """The plans of the flows that run in one process."""
        linker = self.linker(screen, **ends)
        return linker.plans_of(None if self.is_all else self.flows)

    def only(self, flow: str, others: Sequence[str]) -> Target:
        """The same for one of several flows, which run in this process."""
        return replace(self, flows=(flow, *(name for name in others if name != flow)), is_all=False)

    def linker(self, screen: Screen | None = None, **ends: Unpack[Ends]) -> ProjectLinker:
        """The linker of the project, for what is not in a plan."""
        from torvyn._link.overrides import Overrides
        from torvyn._link.project_linker import ProjectLinker

        overrides = Overrides(
            self.config,
            self.settings,
            **ends,
            is_locked=self.is_locked,
            flows=self.flows if len(self.flows) > 1 else (),
        )
        manifest = self.manifest
        if self.artifact is not None:
            project = self._prepared(self.artifact, screen)
            manifest = project.manifest
            overrides = replace(overrides, packed_files=project.files)
        return ProjectLinker.open(manifest, overrides)

    def _prepared(self, artifact: str, screen: Screen | None) -> PreparedProject:
        from torvyn._cli.artifact_options import prepare_artifact
        from torvyn._cli.screen import Screen

        return prepare_artifact(
            screen or Screen(quiet=True),
            artifact,
            machine_cache_dir(self.settings),
            offline=self.is_offline,
            insecure=self.is_insecure,
            trusted=self.is_trusted,
        )


def show_plans(screen: Screen, plans: Sequence[Plan]) -> Sequence[Plan]:
    """Shows the warnings of the plans, and hides their secrets on the screen."""
    screen.secrets = frozenset(secret for plan in plans for secret in plan.secrets)
    screen.warn([warning for plan in plans for warning in plan.warnings])
    return plans


def check_names(names: Sequence[str], is_all: bool | None) -> None:
    """Refuses names that contradict each other."""
    if is_all and names:
        message = f"`--all` runs every flow, and you named `{names[0]}` too"
        raise UsageError("cli.bad-usage", message, hint="leave one of the two out")
    for name in {name for name in names if names.count(name) > 1}:
        message = f"you named flow `{name}` twice"
        raise UsageError("cli.bad-usage", message, hint="a process runs a flow once")
    if is_all is None and len(names) > 1:
        count = "two" if len(names) == 2 else len(names)
        listing = " and ".join(f"`{name}`" for name in names)
        message = f"you named {count} flows, {listing}"
        hint = "this command works on one flow; `torvyn run` runs several in one process"
        raise UsageError("cli.bad-usage", message, hint=hint)


def _only_artifact(reference: str, option: str | None) -> str:
    if option is not None and option != reference:
        message = f"you named two artifacts, `{reference}` and `{option}`"
        raise UsageError("cli.bad-usage", message, hint="name the flow with `--flow NAME`")
    return reference


def machine_cache_dir(settings: dict[str, str]) -> Path:
    """The cache of this machine's settings: those of an artifact's project are not checked yet."""
    from torvyn._artifact.unpack import default_cache_dir
    from torvyn._manifest.settings import resolve

    cache_dir = resolve(flags=settings)["runtime.cache_dir"]
    return Path(cache_dir) if cache_dir else default_cache_dir()


def setting_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """The values of `--set` by the name of the setting."""
    return pairs(texts, "--set", "SECTION.KEY=VALUE")


def pairs(texts: tuple[str, ...], option: str, form: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                "cli.bad-value", f"`{option} {text}` is not {form}", hint=f"write `{option} {form}`"
            )
        pairs[key] = value
    return pairs


def link_with_ends(screen: Screen, options: dict[str, Any]) -> tuple[Plan, int | None]:
    """The plan that `flow_options` and `end_options` describe, and the limit of elements."""
    target, ends, limit = target_with_ends(options)
    return target.link(screen, **ends), limit


def target_with_ends(options: dict[str, Any]) -> tuple[Target, Ends, int | None]:
    """What `flow_options` and `end_options` describe."""
    timeout, limit = options.pop("timeout"), options.pop("limit")
    ends = Ends(
        input=options.pop("input"),
        output=options.pop("output"),
        deadline_s=None if timeout is None else duration_s("--timeout", timeout),
    )
    return Target.of(**options), ends, limit


def duration_s(option: str, text: str) -> float:
    from torvyn._contract.units import parse_duration_s

    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`{option}`: {error}") from None
    if not seconds:
        raise UsageError(
            "cli.bad-value", f"`{option}`: the duration is zero", hint="for example 30s"
        )
    return seconds
