"""The target: which flow of which manifest a command is about, and what is changed in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn.link.plan import NodePlan, Plan

Function = TypeVar("Function", bound=Callable[..., Any])


def manifest_option(function: Function) -> Function:
    return click.option(
        "--manifest",
        default="Torvyn.toml",
        show_default=True,
        metavar="PATH",
        help="The manifest, or the folder that holds it.",
    )(function)


def set_option(function: Function) -> Function:
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Change a setting, such as runtime.turn_time=50us. Repeatable.",
    )(function)


def flow_options(function: Function) -> Function:
    """The arguments of every command that is about one flow."""
    options = (
        click.argument("flow", required=False, metavar="[flow.NAME]"),
        click.option(
            "--flow", "flow_name", metavar="NAME", help="The flow; not needed if there is one."
        ),
        manifest_option,
        click.option(
            "--config",
            "overrides",
            multiple=True,
            metavar="NODE.KEY=VALUE",
            help="Change a node's config; `NODE=TEXT` replaces all of it. Repeatable.",
        ),
        set_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def end_options(function: Function) -> Function:
    """Where a flow reads and writes, for commands that run it."""
    options = (
        click.option(
            "--input",
            metavar="FILE",
            help="What its `lines` source, its `request` or its engine reads.",
        ),
        click.option("--output", metavar="FILE", help="Where its `file` or `console` sink writes."),
        click.option(
            "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N elements."
        ),
        click.option(
            "--timeout", metavar="DURATION", help="Fail when it takes longer, such as 30s."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def manifest_path(given: str) -> Path:
    path = Path(given)
    return path / "Torvyn.toml" if path.is_dir() else path


@dataclass(frozen=True)
class Target:
    """The arguments of `flow_options`, read."""

    manifest: Path
    flow: str | None
    overrides: dict[str, str]
    settings: dict[str, str]

    @classmethod
    def of(
        cls,
        *,
        flow: str | None,
        flow_name: str | None,
        manifest: str,
        overrides: tuple[str, ...],
        settings: tuple[str, ...],
    ) -> Target:
        named = flow.removeprefix("flow.") if flow else None
        if named is not None and flow_name is not None and named != flow_name:
            raise UsageError(
                "cli.bad-usage",
                f"two flows are named, `{named}` and `{flow_name}`",
                hint="name the flow once, as `flow.NAME` or with `--flow NAME`",
            )
        return cls(
            manifest_path(manifest),
            named or flow_name,
            pairs(overrides, "--config", "NODE.KEY=VALUE"),
            setting_pairs(settings),
        )

    def plan(self) -> Plan:
        from torvyn.link import load_plan

        return load_plan(self.manifest, self.flow, overrides=self.overrides, flags=self.settings)


def setting_pairs(given: tuple[str, ...]) -> dict[str, str]:
    """What `--set` was given, as flags of the settings."""
    return pairs(given, "--set", "SECTION.KEY=VALUE")


def pairs(given: tuple[str, ...], option: str, form: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                "cli.bad-value", f"`{option} {text}` is not {form}", hint=f"write `{option} {form}`"
            )
        pairs[key] = value
    return pairs


def planned(options: dict[str, Any]) -> tuple[Plan, int | None]:
    """What `flow_options` and `end_options` were given: the plan they ask for, and the limit."""
    ends = {name: options.pop(name) for name in ("input", "output", "timeout")}
    limit = options.pop("limit")
    return with_ends(Target.of(**options).plan(), **ends), limit


# Changes to a plan


def with_ends(
    plan: Plan, input: str | None, output: str | None, timeout: str | None = None
) -> Plan:
    """The plan that reads, writes and lasts as the command line says."""
    if input is not None:
        from torvyn.components import ENGINES

        plan = _with_node(
            plan,
            _with_path(_only(plan, "--input", "source", ("lines", "request", *ENGINES)), input),
        )
    if output is not None:
        plan = _with_node(
            plan, _with_output(_only(plan, "--output", "sink", ("file", "console")), output)
        )
    if timeout is not None:
        plan = replace(plan, deadline_s=duration_s("--timeout", timeout))
    return plan


def duration_s(option: str, text: str) -> float:
    from torvyn.contract.units import parse_duration_s

    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`{option}`: {error}") from None
    if not seconds:
        raise UsageError("cli.bad-value", f"`{option}`: a duration of nothing", hint="such as 30s")
    return seconds


def _only(plan: Plan, option: str, role: str, names: tuple[str, ...]) -> NodePlan:
    found = [
        node
        for node in plan.nodes
        if node.component.kind == "builtin" and node.component.name in names and node.role == role
    ]
    if len(found) == 1:
        return found[0]
    shown = dict.fromkeys("engine:*" if name.startswith("engine:") else name for name in names)
    *some, last = (f"`{name}`" for name in shown)
    wanted = f"{', '.join(some)} or {last}" if some else last
    if found:
        listed = " and ".join(f"`{node.name}`" for node in found)
        message = f"flow `{plan.name}` has {len(found)} {wanted} {role}s, {listed}"
        hint = f"say which: `--config {found[0].name}.path=FILE`"
    else:
        message = f"flow `{plan.name}` has no {wanted} {role}"
        hint = f"`{option}` is for the built-in {role} {wanted}; configure the {role} itself"
    raise UsageError("cli.no-such-end", f"`{option}` does not fit: {message}", hint=hint)


def _with_node(plan: Plan, changed: NodePlan) -> Plan:
    nodes = tuple(changed if node.name == changed.name else node for node in plan.nodes)
    return replace(plan, nodes=nodes)


def _table(node: NodePlan) -> dict[str, Any]:
    """The node's config, if it is a table: a text is the path, or the prefix, that goes away."""
    try:
        table = json.loads(node.config)
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def _with_path(node: NodePlan, path: str) -> NodePlan:
    return replace(node, config=json.dumps({**_table(node), "path": path}, ensure_ascii=False))


def _with_output(node: NodePlan, path: str) -> NodePlan:
    if node.component.name == "file":
        return _with_path(node, path)
    from torvyn.link.plan import ComponentRef

    options = _table(node)
    formats = {"\n": "lines", "": "text"}
    end = options.get("end", "\n")
    if options.get("prefix") or (node.config and not options) or end not in formats:
        raise UsageError(
            "cli.no-such-end",
            f"`--output` does not fit: `{node.name}` prints with a prefix or an end of its own",
            hint="redirect standard output instead: `torvyn run > FILE`",
        )
    config = {"path": path, "mode": "truncate", "format": formats[end]}
    file = ComponentRef("builtin", "file", "torvyn.components.builtin.sink_file:File")
    return replace(node, component=file, config=json.dumps(config, ensure_ascii=False))
