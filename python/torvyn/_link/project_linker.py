"""The linker of a project: a manifest -> the Plans of its flows.

Every command and `torvyn.load()` go through `ProjectLinker`: it collects the problems of the file,
the settings, the overrides and the flows, so that one error reports all of them. It starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from torvyn._link.component_library import Library
from torvyn._link.defaults import broker_plan
from torvyn._link.flow_linker import link_leniently
from torvyn._link.grants import check_grant_names
from torvyn._link.overrides import NO_OVERRIDES, Overrides, select_segments
from torvyn._link.plan import ClusterPlan, Plan
from torvyn._link.plan_checks import check_priorities
from torvyn._manifest.parse import parse_leniently, read_text
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import FlowRecord, Manifest
from torvyn._manifest.settings import Settings, resolve_leniently
from torvyn.errors import (
    Diagnostic,
    LinkError,
    Location,
    ManifestError,
    MissingError,
    TorvynError,
    quoted,
    suggestion,
)

if TYPE_CHECKING:
    from torvyn._artifact.lock import Lock


class ProjectLinker:
    """Links flows of one manifest, with the same overrides for all."""

    def __init__(
        self,
        manifest: Manifest,
        overrides: Overrides = NO_OVERRIDES,
        *,
        environ: Mapping[str, str] | None = None,
        problems: Problems | None = None,
    ) -> None:
        self.manifest = manifest
        self.problems = Problems() if problems is None else problems
        self.settings: Settings = resolve_leniently(
            manifest, self.problems, flags=overrides.settings, environ=environ
        )
        self.problems.secrets |= manifest.secrets | self.settings.secrets
        self.overrides = overrides
        output_folder = Path.cwd() if overrides.packed_files is not None else None
        lock = _read_lock(manifest, self.problems, is_locked=overrides.is_locked)
        self._library = library_of(manifest, self.settings, output_folder, lock)

    @classmethod
    def open(
        cls,
        path: str | Path,
        overrides: Overrides = NO_OVERRIDES,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Reads a manifest. A problem of the file is reported with those of its flows."""
        problems = Problems()
        text = read_text(path, problems)
        manifest = Manifest(file=str(path))
        if text is not None:
            manifest = parse_leniently(text, problems, file=str(path), environ=environ)
        return cls(manifest, overrides, environ=environ, problems=problems)

    def plan(self, name: str | None = None) -> Plan:
        """The Plan of a flow; without a name, of the only one. One error reports all problems."""
        flow = self._flow(name) if self.manifest.flows or not self.problems else None
        plan = None if flow is None else self._link(flow)
        self.raise_problems()
        assert plan is not None
        return plan

    def plans_of(self, names: Sequence[str] | None) -> tuple[Plan, ...]:
        """The Plans of flows that run in one process; of all flows if `names` is None. One error
        reports the problems of all."""
        names = [*self.manifest.flows] if names is None else names
        if not names and len(self.manifest.flows) > 1:
            self._add_ambiguous(Location(self.manifest.file), ", or all with `--all`")
            self.raise_problems()
        if len(names) < 2:
            return (self.plan(names[0] if names else None),)
        self.overrides = replace(self.overrides, flows=tuple(names))
        self.overrides.check_flows(self.problems)
        plans = [self._link(flow) for flow in map(self._flow, names) if flow is not None]
        self.raise_problems()
        return tuple(plan for plan in plans if plan is not None)

    def plans(self, required: Collection[str]) -> dict[str, Plan]:
        """The Plans of all flows without problems, by name. A problem of a flow that is not
        required becomes a warning."""
        plans: dict[str, Plan] = {}
        for name, flow in self.manifest.flows.items():
            plan = self._link(flow, as_warnings=name not in required)
            if plan is not None:
                plans[name] = plan
        return plans

    def check(self) -> tuple[Diagnostic, ...]:
        """Every problem of the file, its flows and its components; warnings last."""
        from torvyn._sandbox.project import check_wit

        self.plans(self.manifest.flows)
        self._check_unused_components()
        check_priorities(self.manifest, self.problems)
        self._check_file(warns=True)
        folder = Path(self.manifest.file).parent
        paths = (folder / record.path for record in self.manifest.components if record.path)
        self.problems.extend(check_wit((folder, *paths)))
        return (*self.problems.diagnostics(), *self.problems.warnings())

    def raise_problems(self) -> None:
        """Raises one error for all problems so far."""
        self._check_file()
        if self.problems:
            diagnostics = self.problems.diagnostics()
            is_text = any(problem.code.startswith("manifest.") for problem in diagnostics)
            kind: type[TorvynError] = ManifestError if is_text else LinkError
            if self.problems.are_outside:
                kind = MissingError
            raise kind.of(diagnostics) from self.problems.cause

    def _check_file(self, *, warns: bool = False) -> None:
        """What names flows and components outside of the flows, for every command."""
        serve = self.manifest.serve
        for route, name in serve.routes.items():
            self._flow(name, serve.at(f"routes.{route}"))
        check_grant_names(self.manifest, self.problems)
        self._check_locks(warns=warns)

    def _check_locks(self, *, warns: bool) -> None:
        """Compares the components with torvyn.lock; an unpacked artifact was compared already."""
        if self.overrides.packed_files is not None or not self.overrides.checks_locks:
            return
        if self._library.lock is None and not self.overrides.is_locked:
            return
        from torvyn._link.artifacts import check_locks

        check_locks(
            self.manifest,
            self._library.lock,
            self.problems,
            is_locked=self.overrides.is_locked,
            warns=warns,
        )

    def _link(self, flow: FlowRecord, *, as_warnings: bool = False) -> Plan | None:
        """The Plan of a flow without problems. They are collected apart: whether a Plan exists must
        not depend on another flow or table."""
        problems = Problems(self.problems.secrets)
        plan = self._linked(flow, problems)
        self.problems.merge(problems, as_warnings=as_warnings)
        return None if problems else plan

    def _linked(self, flow: FlowRecord, problems: Problems) -> Plan | None:
        if self.overrides.packed_files is not None:
            from torvyn._link.artifacts import with_packed_files

            folder = self._library.folder.resolve()
            flow = with_packed_files(flow, folder, self.overrides.packed_files)
        flow = self.overrides.apply(flow, self._library.declared, problems)
        is_whole = flow.name not in self.manifest.broken_flows
        plan = link_leniently(flow, self._library, self.settings, problems, is_whole=is_whole)
        if plan is not None and plan.cluster is not None:
            plan = replace(plan, cluster=self.broker)
        if plan is not None and not problems and self.overrides.has_segments:
            plan = select_segments(plan, self.overrides, self.has_namespace, problems)
        return plan

    @property
    def broker(self) -> ClusterPlan:
        """The broker of the project's flows, and what they are called there."""
        return broker_plan(self.settings, self.manifest.project.name, self._library.written)

    @property
    def has_namespace(self) -> bool:
        """Whether somebody has named it."""
        return self.settings.values["cluster.namespace"].origin != "default"

    def _flow(self, name: str | None, location: Location | None = None) -> FlowRecord | None:
        """The flow of that name, or the only one. `location` is where the name stands."""
        flows = self.manifest.flows
        location = location or Location(self.manifest.file)
        if name is None:
            if len(flows) == 1:
                return next(iter(flows.values()))
            self._add_ambiguous(location)
            return None
        if name not in flows:
            hint = suggestion(name, flows, f"its flows are {quoted(flows)}" if flows else None)
            self.problems.add("link.flow-unknown", f"unknown flow `{name}`", location, hint)
            return None
        return flows[name]

    def _add_ambiguous(self, location: Location, otherwise: str = "") -> None:
        flows = self.manifest.flows
        message = f"the file has {len(flows)} flows, and you named none"
        hint = f"name one of {quoted(flows)}{otherwise}" if flows else None
        self.problems.add("link.flow-ambiguous", message, location, hint)

    def _check_unused_components(self) -> None:
        """Loads the components that no flow uses, so that a broken one is reported."""
        flows = self.manifest.flows.values()
        used = {node.component for flow in flows for node in flow.nodes.values()}
        for record in self.manifest.components:
            if record.name not in used and record.path:
                self._library.find(record.name, record.at("name"), self.problems)


def library_of(
    manifest: Manifest,
    settings: Settings,
    output_folder: Path | None = None,
    lock: Lock | None = None,
) -> Library:
    """The components of a project. What it writes is in `output_folder`, or beside its manifest."""
    folder = Path(manifest.file).parent
    cache_dir = settings["runtime.cache_dir"]
    return Library(
        {record.name: record for record in manifest.components},
        folder,
        grants=manifest.security.grants,
        cache_dir=(output_folder or folder) / cache_dir if cache_dir else None,
        lock=lock,
        output_folder=output_folder,
    )


def _read_lock(manifest: Manifest, problems: Problems, *, is_locked: bool) -> Lock | None:
    folder = Path(manifest.file).parent
    if not os.path.exists(folder / "torvyn.lock") and not is_locked:
        return None
    # Projects without a lock file never load this module.
    from torvyn._link.artifacts import read_lock

    return read_lock(folder, problems)
