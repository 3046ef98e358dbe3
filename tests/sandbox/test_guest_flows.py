"""Guests in flows: roles, limits, faults, prints and copies, in manifests and in programs."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import torvyn
from torvyn import _native
from torvyn._link.project_linker import ProjectLinker
from torvyn._sandbox import compiler
from torvyn._sandbox.component import guest_class
from torvyn.errors import FlowError, Internal, InvalidInput, LinkError

Project = Callable[..., Path]
Guest = Callable[[str], Path]

LONG = "a payload that is not stored inline"


def new_guest(path: Path) -> torvyn._contract.roles.Component:
    return guest_class(path, path.stem)()


def node(guest: str, **keys: str) -> str:
    lines = [f'component = "{guest}.wasm"', *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join(lines)


def test_source_processor_and_sink_run_with_four_copies_an_element(project: Project) -> None:
    flow = torvyn.load(project(node("source"), node("processor"), node("sink"))).flow("main")

    flow.run()

    assert flow.statistics.nodes["n2"].received == 3
    assert flow.statistics.copies == 3 * 4


def test_the_flows_of_a_project_share_the_code_of_their_guests(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = torvyn.load(project(node("source"), node("processor"), node("sink")))
    file.plan("main")
    loaded: list[object] = []
    # Loading reads and maps the compiled code, which is 40 MB for a guest in Python.
    native = _native.CompiledComponent
    counting = SimpleNamespace(load=lambda *a: loaded.append(a) or native.load(*a))
    monkeypatch.setattr(_native, "CompiledComponent", counting)

    file.plan("main")

    assert loaded == []


@pytest.mark.promise("tokens.one-copy")
def test_a_filter_that_reads_adds_one_copy(project: Project) -> None:
    file = project(node("source"), node("filter"), node("processor"), node("sink"))
    flow = torvyn.load(file).flow("main")

    flow.run()

    assert flow.statistics.copies == 3 * (4 + 1)


def test_python_and_guests_stand_in_one_flow(guest: Guest) -> None:
    shout = torvyn.processor(lambda element: element.text.upper())
    flow = torvyn.Flow(
        [LONG, "bad", "é"], new_guest(guest("filter")), shout, new_guest(guest("processor"))
    )

    assert [element.text for element in flow] == [LONG.upper(), "É"]


def test_a_guest_routes_to_ports(project: Project) -> None:
    router = node("router", config='{ ports = ["a", "b"] }')
    head = project('component = "lines"\nconfig = { path = "in.txt" }', router)
    (head.parent / "in.txt").write_text("one\nboth\n")
    wires = ""
    for port in "ab":
        wires += f'[flow.main.nodes.{port}]\ncomponent = "null"\n'
        wires += f'[[flow.main.edges]]\nfrom = "n1:{port}"\nto = "{port}"\n'
    head.write_text(head.read_text().replace("in.txt", str(head.parent / "in.txt")) + wires)
    flow = torvyn.load(head).flow("main")

    flow.run()

    assert flow.statistics.nodes["a"].received == 2
    assert flow.statistics.nodes["b"].received == 1


def test_a_trap_names_node_element_function_and_backtrace(guest: Guest) -> None:
    flow = torvyn.Flow(["fine", "trap"], new_guest(guest("chaos")))

    with pytest.raises(Internal) as caught:
        list(flow)

    message = str(caught.value)
    assert "failed in `process` on element 1: `process` trapped" in message
    assert "guest backtrace:\n  0: does" in message


def test_under_skip_a_trap_costs_one_element(project: Project, tmp_path: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("fine\ntrap\nagain\n")
    file = project(
        f'component = "lines"\nconfig = {{ path = "{lines}" }}',
        node("chaos", on_error='"skip"'),
        'component = "null"',
    )
    flow = torvyn.load(file).flow("main")

    flow.run()

    assert flow.statistics.nodes["n2"].received == 2
    assert flow.statistics.nodes["n1"].failed == 1


def test_a_loop_is_cut_at_the_nodes_call_timeout(project: Project, tmp_path: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("loop\n")
    file = project(
        f'component = "lines"\nconfig = {{ path = "{lines}" }}',
        node("chaos", call_timeout='"50ms"'),
        'component = "null"',
    )

    with pytest.raises(torvyn.errors.DeadlineExceeded, match=r"took longer than 0\.05 s"):
        torvyn.load(file).flow("main").run()


def test_fuel_stops_a_loop(project: Project, tmp_path: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("loop\n")
    file = project(
        f'component = "lines"\nconfig = {{ path = "{lines}" }}',
        node("chaos", fuel="100000"),
        'component = "null"',
    )

    with pytest.raises(torvyn.errors.DeadlineExceeded, match="used up its fuel"):
        torvyn.load(file).flow("main").run()


def test_a_guests_own_error_keeps_its_kind(guest: Guest) -> None:
    with pytest.raises(InvalidInput, match="no good"):
        list(torvyn.Flow(["error"], new_guest(guest("chaos"))))


def test_a_trap_in_init_fails_the_flow(guest: Guest) -> None:
    chaos = new_guest(guest("chaos"))
    chaos.config = "trap"

    with pytest.raises(FlowError, match="failed in `init`") as caught:
        list(torvyn.Flow(["x"], chaos))

    assert caught.value.code == "reactor.init-failed"


def test_prints_go_to_stdout_with_a_grant(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    grant = '[security.grants.printer]\ncapabilities = ["stdio:stdout"]\n'
    torvyn.load(project(node("source"), node("printer"), node("sink"), extra=grant)).flow().run()

    assert capsys.readouterr().out.splitlines() == ["hello", "worhello", "worhello", "wor"]


def test_prints_go_to_the_log_without_a_grant(
    project: Project, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "torvyn.sandbox"):
        torvyn.load(project(node("source"), node("printer"), node("sink"))).flow().run()

    assert capsys.readouterr().out == ""
    assert caplog.messages == ["n1: hello", "n1: worhello", "n1: worhello", "n1: wor"]


@pytest.mark.promise("edge.sandbox")
def test_a_capability_that_is_asked_for_must_be_granted(project: Project) -> None:
    declared = '[[component]]\nname = "p"\npath = "printer.wasm"\n'
    declared += 'capabilities = ["stdio:stdout", "clock:wall", "?random:crypto"]\n'
    file = project(node("source"), 'component = "p"', node("sink"), extra=declared)

    with pytest.raises(LinkError) as caught:
        torvyn.load(file).flow("main")

    assert [found.code for found in caught.value.diagnostics] == ["link.capability-denied"]
    grant = '[security.grants.p]\ncapabilities = ["stdio:stdout"]\n'
    file.write_text(file.read_text() + grant)
    torvyn.load(file).flow("main").run()


def test_compiled_code_is_cached_and_a_poisoned_entry_is_not_loaded(
    guest: Guest, tmp_path: Path
) -> None:
    from torvyn._native import CompiledComponent
    from torvyn._sandbox.compiler import compile_component

    file, cache = guest("filter"), tmp_path / "own"
    assert compile_component(file, "filter", cache).cache == "miss"
    loaded = CompiledComponent.load(file.read_bytes(), cache)
    assert loaded is not None
    assert loaded.cache == "hit"
    (entry,) = (path for path in cache.iterdir() if path.name != "key")
    entry.write_bytes(entry.read_bytes()[:-1] + b"\xff")
    assert CompiledComponent.load(file.read_bytes(), cache) is None


def test_a_file_that_is_no_component_is_refused(tmp_path: Path) -> None:

    bad = tmp_path / "bad.wasm"
    bad.write_bytes(b"\0asm\x0d\0\1\0garbage")
    with pytest.raises(LinkError) as caught:
        compiler.compile_component(bad, "bad")

    assert caught.value.code == "sandbox.invalid"


def test_a_component_with_other_types_than_the_contract_is_refused_by_check(
    project: Project,
) -> None:
    found = ProjectLinker.open(
        project(node("source"), node("wrong-signature"), node("sink"))
    ).check()

    assert [problem.code for problem in found] == ["sandbox.contract"]
    assert "`evaluate` has the wrong types" in found[0].message
    assert "build it against the contracts" in str(found[0].hint)


class Calls(io.StringIO):
    """Standard output of a program: another thread may write between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def write(self, text: str) -> int:
        self.texts.append(text)
        return len(text)


@pytest.mark.promise("tokens.whole-lines")
def test_a_line_of_a_guest_is_written_in_one_call(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = '[security.grants.printer]\ncapabilities = ["stdio:stdout"]\n'
    file = project(node("source"), node("printer"), node("sink"), extra=grant)
    monkeypatch.setattr("sys.stdout", calls := Calls())

    torvyn.load(file).flow().run()

    assert calls.texts == ["hello\n", "worhello\n", "worhello\n", "wor\n"]
