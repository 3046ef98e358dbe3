"""A manifest's flows -> drafts -> Plans, and the whole check of a file in one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torvyn.errors import Diagnostic, LinkError, Location, ManifestError
from torvyn.link.checks.grants import check_names
from torvyn.link.component_loader import Library
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.link.flow_linker import FlowLinker
from torvyn.link.plan import Plan
from torvyn.manifest import (
    EdgeRecord,
    ErrorRecord,
    FlowRecord,
    Manifest,
    NodeRecord,
    Settings,
    parse_leniently,
    read_text,
    resolve,
)
from torvyn.manifest.problems import Problems, quoted, suggestion
from torvyn.manifest.schema.tables import ON_ERROR
from torvyn.manifest.settings import resolve_leniently
from torvyn.sandbox.build.wit_check import check_wit


def link(
    manifest: Manifest,
    flow_name: str | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Plan:
    """The Plan of a flow; without a name, of the only one."""
    problems = Problems()
    flow = choose_flow(manifest, flow_name, problems)
    if flow is None:
        raise LinkError.of(problems.diagnostics())
    settings = settings or resolve(manifest)
    problems.secrets |= manifest.secrets | settings.secrets
    linker = FlowLinker(draft_of(flow), library_of(manifest, settings), settings, problems)
    plan = linker.link(overrides or {}, open_start=False, open_end=False)
    check_names(manifest, problems)
    if problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    return replace(plan, secrets=frozenset(problems.secrets))


def load_plan(
    path: str | Path,
    flow_name: str | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """A flow of a file, from text to Plan; all problems of the file and the flow at once."""
    problems = Problems()
    manifest, settings = _read(path, problems, flags, environ)
    flow = choose_flow(manifest, flow_name, problems) if manifest.flows else None
    plan = _link_into(manifest, flow, settings, problems, overrides) if flow else None
    check_names(manifest, problems)
    if plan is None or problems:
        raise _error(problems.diagnostics()) from problems.cause
    return replace(plan, secrets=frozenset(problems.secrets) | manifest.secrets | settings.secrets)


def check(
    path: str | Path,
    *,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a file and all of its flows; warnings last."""
    problems = Problems()
    manifest, settings = _read(path, problems, flags, environ)
    for flow in manifest.flows.values():
        _link_into(manifest, flow, settings, problems)
    _check_unused(manifest, settings, problems)
    check_names(manifest, problems)
    folder = Path(manifest.file).parent
    parts = (folder / record.path for record in manifest.components if record.path)
    problems.extend(check_wit((folder, *parts)))
    return (*problems.diagnostics(), *problems.warnings())


def _read(
    path: str | Path,
    problems: Problems,
    flags: Mapping[str, str] | None,
    environ: Mapping[str, str] | None,
) -> tuple[Manifest, Settings]:
    text = read_text(path, problems)
    manifest = Manifest(file=str(path))
    if text is not None:
        manifest = parse_leniently(text, problems, file=str(path), environ=environ)
    return manifest, resolve_leniently(manifest, problems, flags=flags, environ=environ)


def _link_into(
    manifest: Manifest,
    flow: FlowRecord,
    settings: Settings,
    problems: Problems,
    overrides: Mapping[str, str] | None = None,
) -> Plan:
    draft = draft_of(flow)
    is_whole = len(draft.edges) == len(flow.edges)
    library = library_of(manifest, settings)
    linker = FlowLinker(draft, library, settings, problems, is_whole=is_whole)
    return linker.link(overrides or {}, open_start=False, open_end=False)


def library_of(manifest: Manifest, settings: Settings) -> Library:
    declared = {record.name: record for record in manifest.components}
    folder = Path(manifest.file).parent
    cache_dir = settings["runtime.cache_dir"]
    return Library(
        declared,
        folder,
        grants=manifest.security.grants,
        cache_dir=folder / cache_dir if cache_dir else None,
    )


def _check_unused(manifest: Manifest, settings: Settings, problems: Problems) -> None:
    """Components that no flow uses are loaded too: a broken one is better found now."""
    library = library_of(manifest, settings)
    used = {node.component for flow in manifest.flows.values() for node in flow.nodes.values()}
    for record in manifest.components:
        if record.name not in used and record.path:
            library.find(record.name, record.at("name"), problems)


def _error(diagnostics: Iterable[Diagnostic]) -> LinkError | ManifestError:
    found = tuple(diagnostics)
    is_text = any(diagnostic.code.startswith("manifest.") for diagnostic in found)
    made = (ManifestError if is_text else LinkError).of(found)
    assert isinstance(made, (LinkError, ManifestError))
    return made


def choose_flow(manifest: Manifest, name: str | None, problems: Problems) -> FlowRecord | None:
    """The flow of that name, or the only one."""
    flows = manifest.flows
    place = Location(manifest.file)
    if name is None:
        if len(flows) == 1:
            return next(iter(flows.values()))
        message = f"the file has {len(flows)} flows and none was named"
        hint = f"name one of {quoted(flows)}" if flows else None
        problems.add("link.flow-ambiguous", message, place, hint)
        return None
    if name not in flows:
        hint = suggestion(name, flows, f"its flows are {quoted(flows)}" if flows else None)
        problems.add("link.flow-unknown", f"there is no flow `{name}`", place, hint)
        return None
    return flows[name]


def draft_of(flow: FlowRecord) -> FlowDraft:
    """The flow as a draft, with its places; edges that could not be read are left out."""
    return FlowDraft(
        name=flow.name,
        nodes={name: _node(node) for name, node in flow.nodes.items()},
        edges=[_edge(edge) for edge in flow.edges if edge.source.node and edge.target.node],
        description=flow.description or "",
        priority=flow.priority,
        deadline_s=flow.deadline,
        queue_depth=flow.queue_depth,
        queue_bytes=flow.queue_bytes,
        backpressure=flow.backpressure,
        on_error=_policy(flow.on_error),
        location=flow.location,
        locations=flow.locations,
    )


def _node(node: NodeRecord) -> NodeDraft:
    return NodeDraft(
        name=node.name,
        component=node.component,
        interface=node.interface,
        config=node.config,
        max_memory_bytes=node.max_memory,
        call_timeout_s=node.call_timeout,
        init_timeout_s=node.init_timeout,
        fuel=node.fuel,
        deterministic=node.deterministic,
        seed=node.seed,
        run=node.run,
        on_error=_policy(node.on_error),
        unit=node.unit,
        ignored_ports=node.ignored_ports,
        location=node.location,
        locations=node.locations,
    )


def _edge(edge: EdgeRecord) -> EdgeDraft:
    return EdgeDraft(
        source=edge.source.node,
        target=edge.target.node,
        port=edge.source.port,
        target_port=edge.target.port,
        queue_depth=edge.queue_depth,
        queue_bytes=edge.queue_bytes,
        backpressure=edge.backpressure,
        low_watermark=edge.low_watermark,
        location=edge.location,
        locations=edge.locations,
    )


def _policy(record: ErrorRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    said = {key.name: getattr(record, key.field) for key in ON_ERROR.keys}
    return {name: value for name, value in said.items() if value is not None}
