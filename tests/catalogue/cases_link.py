"""Every `link.*` code, provoked by a small project or a small record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torvyn
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, ImageManifest
from torvyn._link.component_library import instantiate
from torvyn._link.flow_linker import link_flow
from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan
from torvyn._link.plan_checks import memory_warning
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn._manifest.records import EdgeRecord, FlowRecord, NodeRecord, PortRef
from torvyn.errors import LinkError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
SOURCE, FILTER, SINK = '"lines"', '"blocklist"\nconfig = "x"', '"console"'
REQUEST, ENGINE = '"request"', '"engine:scripted"'
ROUTER = '"by-field"\nconfig = { field = "type", routes = { m = "x", l = "y" } }'


def project(
    nodes: dict[str, str], edges: list[tuple[str, str]], extra: str = "", flow: str | None = None
) -> Callable[[Path], object]:
    """A manifest with the nodes (name -> component and further keys) and edges."""
    body = HEAD
    for name, component in nodes.items():
        body += f"[flow.main.nodes.{name}]\ncomponent = {component}\n"
    for source, target in edges:
        body += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    return lambda _: ProjectLinker(parse(body + extra)).plan(flow)


def one_segment(
    name: str, settings: dict[str, str] | None = None, replica: int = 0
) -> Callable[[Path], object]:
    """A part of a flow, which has no broker unless one is set."""
    settings = {"cluster.nats": "nats://127.0.0.1:1"} if replica else settings or {}
    overrides = Overrides(segments=(name,), replica=replica, settings=settings)
    nodes = (
        f"[flow.main.nodes.n0]\ncomponent = {SOURCE}\n[flow.main.nodes.n1]\ncomponent = {SINK}\n"
    )
    edge = '[[flow.main.edges]]\nfrom = "n0"\nto = "n1"\ncarrier = "nats"\n'
    return lambda _: ProjectLinker(parse(HEAD + nodes + edge), overrides).plan()


def far_segment(folder: Path) -> object:
    """A part of a flow whose broker is that of several machines."""
    settings = {"cluster.nats": "nats://nats.example:4222"}
    return one_segment("n0", settings)(folder)


def chain(*components: str, extra: str = "", flow: str | None = None) -> Callable[[Path], object]:
    names = [f"n{index}" for index in range(len(components))]
    edges = list(pairwise(names))
    return project(dict(zip(names, components, strict=True)), edges, extra, flow)


def unfit_artifact(folder: Path) -> object:
    """A node that names a project in place of a component."""
    layout = Layout.create(folder / "dist")
    layout.add_manifest(ImageManifest(PROJECT, ()), "1")
    return chain(SOURCE, '"oci:dist:1"', SINK)(folder)


def guest(capabilities: str) -> Callable[[Path], object]:
    """A chain with a sandboxed component that requests capabilities."""
    path = Path(__file__).parents[1] / "sandbox" / "guests" / "filter.wasm"
    declared = f'[[component]]\nname = "part"\npath = "{path}"\ncapabilities = {capabilities}\n'
    declared += '[runtime]\ncache_dir = "cache"\n'
    return chain(SOURCE, '"part"', SINK, extra=declared)


def warning(requests: str, grants: str) -> Callable[[Path], object]:
    """Raises the warnings of a plan with such a component."""
    path = Path(__file__).parents[1] / "sandbox" / "guests" / "filter.wasm"
    declared = f'[[component]]\nname = "part"\npath = "{path}"\ncapabilities = {requests}\n'
    declared += f"[security.grants.part]\ncapabilities = {grants}\n"
    declared += '[runtime]\ncache_dir = "cache"\n'

    def run(folder: Path) -> object:
        plan = chain(SOURCE, '"part"', SINK, extra=declared)(folder)
        assert isinstance(plan, Plan)
        raise LinkError.of(plan.warnings)

    return run


def uncounted_memory(folder: Path) -> object:
    """Raises the warning about the budget of a component in the process."""
    (folder / "part").mkdir()
    (folder / "part" / "component.py").write_text(FULL)
    declared = '[[component]]\nname = "part"\npath = "part"\n'
    plan = chain(SOURCE, '"part"\nmax_memory = "1MiB"', SINK, extra=declared)(folder)
    assert isinstance(plan, Plan)
    raise LinkError.of(plan.warnings)


def keys_exceed_memory(folder: Path) -> object:
    """Raises the warning about keys that do not fit into the memory of their node."""
    window = '"window"\nkey = "k"\nmax_keys = 5000\nmax_memory = "1MiB"\nconfig = { size = 10 }'
    plan = chain(SOURCE, window, SINK)(folder)
    assert isinstance(plan, Plan)
    raise LinkError.of(plan.warnings)


def over_limit(folder: Path) -> object:
    """Raises the warning about a flow in a control group of 1 MiB."""
    plan = chain(SOURCE, SINK)(folder)
    assert isinstance(plan, Plan)
    warned = memory_warning([plan], 1024 * 1024)
    assert warned is not None
    raise LinkError.of([warned])


def lonely(_: Path) -> object:
    """Raises the warning about the priority of an only flow."""
    text = f'{HEAD}[flow.main]\npriority = "high"\n[flow.main.nodes.a]\ncomponent = {SOURCE}\n'
    text += f"[flow.main.nodes.b]\ncomponent = {SINK}\n"
    text += '[[flow.main.edges]]\nfrom = "a"\nto = "b"\n'
    raise LinkError.of(ProjectLinker(parse(text)).check())


def outdated(folder: Path) -> object:
    """A component of other files than its stamp says."""
    built = folder / "part" / "build"
    built.mkdir(parents=True)
    guest = Path(__file__).parents[1] / "sandbox" / "guests" / "filter.wasm"
    (built / "part.wasm").write_bytes(guest.read_bytes())
    (built / "part.json").write_text('{"sources": "other digest"}')
    (folder / "part" / "component.c").write_text("int changed;")
    declared = '[[component]]\nname = "part"\npath = "part"\n[runtime]\ncache_dir = "cache"\n'
    plan = chain(SOURCE, '"part"', SINK, extra=declared)(folder)
    assert isinstance(plan, Plan)
    raise LinkError.of(plan.warnings)


def component(source: str, entry: str = "") -> Callable[[Path], object]:
    """A chain with a component of the project whose file is `source`."""

    def run(folder: Path) -> object:
        (folder / "part").mkdir()
        (folder / "part" / "component.py").write_text(source)
        declared = f'[[component]]\nname = "part"\npath = "part"\n{entry}'
        plan = chain(SOURCE, '"part"', SINK, extra=declared)(folder)
        assert isinstance(plan, Plan)
        return instantiate(plan.node("n1").component)

    return run


class Plain(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> bool:
        return True


class Unported(torvyn.Router):
    def route(self, element: torvyn.Element) -> list[str]:
        return []


def edge(source: str, target: str, **options: int) -> EdgeRecord:
    return EdgeRecord(PortRef(source), PortRef(target), **options)


def linked(components: dict[str, object], edges: list[EdgeRecord]) -> object:
    nodes = {name: NodeRecord(name, component) for name, component in components.items()}
    flow = FlowRecord("main", nodes=nodes, edges=edges)
    return link_flow(flow, open_start=True, open_end=True)


def two_heads(_: Path) -> object:
    return linked({"a": Plain(), "b": Plain(), "c": Plain()}, [edge("a", "c"), edge("b", "c")])


def zero_depth(_: Path) -> object:
    return linked({"a": Plain(), "b": Plain()}, [edge("a", "b", queue_depth=0)])


def router_without_ports(_: Path) -> object:
    return linked({"a": Unported()}, [])


def unknown_interface(_: Path) -> object:
    nodes = {"a": NodeRecord("a", Plain(), interface="torvyn:filtering/fliter")}
    return link_flow(FlowRecord("main", nodes=nodes), open_start=True, open_end=True)


def stray_override(_: Path) -> object:
    text = HEAD + '[flow.main.nodes.a]\ncomponent = "lines"\nconfig = "x"\n'
    overrides = Overrides(config={"a.path": "y"})
    return ProjectLinker(parse(text), overrides).plan()


def check_lock(is_locked: bool) -> Callable[[Path], object]:
    """The check of a project with a component that its lock file does not have."""

    def run(folder: Path) -> object:
        (folder / "part").mkdir()
        (folder / "part" / "component.py").write_text(FULL)
        (folder / "torvyn.lock").write_text("schema = 1\n")
        text = HEAD + '[[component]]\nname = "part"\npath = "part"\n[flow.main.nodes.a]\n'
        text += 'component = "lines"\n'
        file = str(folder / "Torvyn.toml")
        overrides = Overrides(is_locked=is_locked)
        linker = ProjectLinker(parse(text, file), overrides)
        raise LinkError.of(linker.check())

    return run


MANY = {f"s{index}": SINK for index in range(17)}
FULL = "import torvyn\nclass A(torvyn.Filter):\n    def evaluate(self, e): return True\n"

CASES: dict[str, Callable[[Path], object]] = {
    "link.bad-override": stray_override,
    "link.bad-place": chain(SOURCE + "\nplace = { replicas = 2 }", SINK),
    "link.bad-policy": chain(SOURCE, FILTER + '\non_error = "dead-letter"', SINK),
    "link.bad-ports": router_without_ports,
    "link.bad-run": chain(SOURCE, FILTER + '\nrun = "async"', SINK),
    "link.bad-value": zero_depth,
    "link.bad-key": chain(SOURCE, SINK + '\nkey = "a"'),
    "link.capability-bad": guest('["disk:read"]'),
    "link.capability-denied": guest('["stdio:stdout"]'),
    "link.grant-unknown": chain(SOURCE, SINK, extra="[security.grants.x]\ncapabilities = []\n"),
    "link.component-outdated": outdated,
    "link.capability-unasked": warning("[]", '["stdio:stdout"]'),
    "link.capability-wished": warning('["?stdio:stdout"]', "[]"),
    "link.component-construct": component(
        FULL + "    def __init__(self, words): super().__init__()\n"
    ),
    "link.component-import": component("import torvyn\nthis is not python\n"),
    "link.component-many-classes": component(FULL + FULL.replace("A", "B")),
    "link.component-missing": chain(
        SOURCE, '"part"', SINK, extra='[[component]]\nname = "part"\npath = "nowhere"\n'
    ),
    "link.component-no-class": component("x = 1\n"),
    "link.component-unknown": chain(SOURCE, '"bloklist"', SINK),
    "link.component-unsupported": unfit_artifact,
    "link.cycle": project(
        {"a": SOURCE, "b": FILTER, "c": FILTER, "d": SINK},
        [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")],
    ),
    "link.dead-end": project({"a": SOURCE, "b": FILTER, "c": SINK}, [("a", "b"), ("a", "c")]),
    "link.edge-repeated": project({"a": SOURCE, "b": SINK}, [("a", "b"), ("a:output", "b")]),
    "link.engine-input": chain(SOURCE, ENGINE, SINK),
    "link.engine-repeated": chain(REQUEST, ENGINE, ENGINE, SINK),
    "link.entry-unknown": component(FULL, 'entry = "component:B"\n'),
    "link.flow-ambiguous": chain(SOURCE, SINK, extra='[flow.other.nodes.a]\ncomponent = "lines"\n'),
    "link.flow-unknown": chain(SOURCE, SINK, flow="mian"),
    "link.input-port-unknown": project({"a": SOURCE, "b": SINK}, [("a", "b:inptu")]),
    "link.interface-mismatch": chain(
        SOURCE, FILTER + '\ninterface = "torvyn:streaming/processor"', SINK
    ),
    "link.interface-unknown": unknown_interface,
    "link.keys-exceed-memory": keys_exceed_memory,
    "link.lock-mismatch": check_lock(is_locked=True),
    "link.lock-outdated": check_lock(is_locked=False),
    "link.memory-limit": over_limit,
    "link.memory-uncounted": uncounted_memory,
    "link.method-missing": component("import torvyn\nclass A(torvyn.Filter): pass\n"),
    "link.mixed-carriers": project(
        {"a": SOURCE, "b": FILTER, "c": SINK},
        [('a"\ncarrier = "disk', "b"), ('b"\ncarrier = "nats', "c")],
    ),
    "link.no-namespace": far_segment,
    "link.no-broker": one_segment("n0"),
    "link.no-sink": chain(SOURCE, FILTER),
    "link.no-source": chain(FILTER, SINK),
    "link.node-unknown": project({"a": SOURCE, "b": SINK}, [("a", "c")]),
    "link.open-ends": two_heads,
    "link.over-budget": chain(SOURCE, SINK, extra='[flow.main]\nmax_memory = "1MiB"\n'),
    "link.priority-unused": lonely,
    "link.port-unconnected": project(
        {"a": SOURCE, "r": ROUTER, "b": SINK}, [("a", "r"), ("r:x", "b")]
    ),
    "link.port-unknown": project({"a": SOURCE, "b": SINK}, [("a:outptu", "b")]),
    "link.request-repeated": project(
        {"a": REQUEST, "b": REQUEST, "c": ENGINE, "d": SINK}, [("a", "c"), ("b", "c"), ("c", "d")]
    ),
    "link.request-unanswered": chain(REQUEST, FILTER, SINK),
    "link.replica-unknown": one_segment("n1", replica=1),
    "link.segment-cycle": project(
        {"a": SOURCE, "b": FILTER, "c": SINK},
        [('a"\ncarrier = "nats', "b"), ("a", "c"), ("b", "c")],
    ),
    "link.segment-unknown": one_segment("n7"),
    "link.sink-has-output": project({"a": SOURCE, "b": SINK, "c": SINK}, [("a", "b"), ("b", "c")]),
    "link.source-has-input": project({"a": SOURCE, "b": SOURCE}, [("a", "b")]),
    "link.too-many-edges": project({"a": SOURCE, **MANY}, [("a", name) for name in MANY]),
    "link.unreachable": project({"a": SOURCE, "b": SINK, "c": FILTER}, [("a", "b"), ("c", "b")]),
}
