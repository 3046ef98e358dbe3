"""`torvyn reload`: a running flow gets the components that its files describe now."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transcript import Cli

Start = Callable[..., "subprocess.Popen[str]"]

# The source reads the gate file, so that the test decides when the next line appears.
SOURCE = """
    class Feed(torvyn.Source):
        run = "thread"
        def init(self, config):
            self.gate = open("gate")
            self.count = 0
        def pull(self):
            line = self.gate.readline()
            if not line:
                return torvyn.PENDING.after(0.001)
            self.count += 1
            return f"{line.strip()}{self.count}"
        def snapshot(self):
            return {"count": self.count, "at": self.gate.tell()}
        def restore(self, state):
            self.count = state["count"]
            self.gate.seek(state["at"])
"""
STAMP = """
    class Stamp(torvyn.Processor):
        def process(self, element):
            return element.text + "-VERSION"
"""
SINK = """
    class Print(torvyn.Sink):
        def push(self, element):
            print(element.text, flush=True)
"""
NODES = {name: f'component = "{name}"' for name in ("feed", "stamp", "print")}


class Running:
    """A flow in a process of its own."""

    def __init__(self, folder: Path, start: Start, cli: Cli, *options: str) -> None:
        self.folder, self._cli = folder, cli
        (folder / "gate").write_text("")
        self.process = start("run", *options, cwd=folder)
        self.read()

    def write(self, name: str, old: str, new: str) -> None:
        file = self.folder / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def read(self, line: str = "x") -> str:
        """What the flow prints for one more line."""
        with (self.folder / "gate").open("a") as gate:
            gate.write(f"{line}\n")
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def reload(self, *options: str) -> Any:
        """Does not wait for an element."""
        return self._cli("reload", self.process.pid, "--timeout", "1ms", *options, cwd=self.folder)

    def reload_under_load(self, *options: str) -> Any:
        """Elements arrive until the command has seen what became of the new component."""
        with ThreadPoolExecutor() as pool:
            found = pool.submit(self.reload, "--yes", "--timeout", "30s", *options)
            lines = [self.read()]
            while not found.done():
                lines.append(self.read())
        return found.result(), lines


@pytest.fixture
def running(
    start: Start, project: Callable[..., Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    folder = tempfile.mkdtemp(prefix="tv")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    made = project(NODES, feed=SOURCE, stamp=STAMP, print=SINK)
    yield Running(made, start, cli)
    shutil.rmtree(folder)


def test_a_component_with_new_code_is_exchanged(running: Running) -> None:
    running.write("stamp/component.py", "VERSION", "new")
    found = running.reload("--yes")

    assert found.code == 0, found.err
    assert found.out == "Changes of flow 'main':\n  stamp: code\n"
    assert running.read() == "x2-new"


def test_a_dry_run_shows_the_changes_and_exchanges_nothing(running: Running) -> None:
    running.write("stamp/component.py", "VERSION", "new")
    running.write("Torvyn.toml", 'component = "feed"\n', 'component = "feed"\nconfig = "{}"\n')
    found = running.reload("--dry-run", "--format", "json")

    nodes = json.loads(found.out)["difference"]["nodes"]
    assert {each["node"]: each["changed"] for each in nodes} == {
        "feed": ["config"],
        "stamp": ["code"],
    }
    assert running.read() == "x2-VERSION"


def test_a_source_keeps_its_position(running: Running) -> None:
    running.write("feed/component.py", "{line.strip()}", "new {line.strip()}")
    found = running.reload("--yes", "--format", "json")

    (swap,) = json.loads(found.out)["swaps"]
    assert (swap["node"], swap["state"]) == ("feed", "restored")
    assert running.read() == "new x2-VERSION"


def test_nothing_has_changed_after_a_reload(running: Running) -> None:
    running.write("stamp/component.py", "VERSION", "new")
    running.reload("--yes")

    assert running.reload("--yes").err == "[torvyn] Flow 'main' is up to date.\n"


def test_a_changed_graph_is_refused_with_the_reason(running: Running) -> None:
    running.write("Torvyn.toml", 'to = "stamp"', 'to = "stamp"\nqueue_depth = 3')
    found = running.reload("--yes")

    assert found.code == 1
    assert "swap.graph-changed" in found.err
    assert "edge `feed:output` to `stamp` has other options" in found.err
    assert running.read() == "x2-VERSION"


def test_code_that_cannot_be_imported_changes_nothing(running: Running) -> None:
    running.write("stamp/component.py", "class Stamp", "klass Stamp")
    found = running.reload("--yes")

    assert found.code != 0
    assert "link.component-import" in found.err
    assert running.read() == "x2-VERSION"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise OSError('no device')", "no device"),
        ("import threading; threading.Event().wait(600)", "was not ready within 0.1 s"),
    ],
    ids=["raises", "hangs"],
)
def test_a_component_that_cannot_be_made_changes_nothing(
    running: Running, body: str, reason: str
) -> None:
    node = 'component = "stamp"\n'
    running.write("Torvyn.toml", node, f'{node}init_timeout = "100ms"\n')
    made = f"def __init__(self):\n        {body}\n    def process"
    running.write("stamp/component.py", "def process", made)
    found = running.reload("--yes")

    assert found.code == 1
    assert reason in found.err
    assert running.read() == "x2-VERSION"


def test_a_component_that_fails_gives_its_node_back(running: Running) -> None:
    running.write("stamp/component.py", "return element", "return 1 / 0 #")
    found = running.reload("--yes")
    assert (found.code, "no element has passed it yet; on trial for" in found.err) == (0, True)

    assert running.read() == "x2-VERSION"


def test_a_reload_waits_until_an_element_has_passed_the_new_component(running: Running) -> None:
    running.write("stamp/component.py", "VERSION", "new")
    found, lines = running.reload_under_load()

    assert found.code == 0
    assert "an element has passed it; on trial for" in found.err
    assert [line.split("-")[0] for line in lines] == [f"x{n}" for n in range(2, len(lines) + 2)]
    assert running.read().endswith("-new")


def test_a_reload_fails_with_the_reason_for_which_the_old_component_is_back(
    running: Running,
) -> None:
    running.write("stamp/component.py", "return element", "return 1 / 0 #")
    found, lines = running.reload_under_load()

    assert found.code == 1
    assert "swap.returned" in found.err
    assert "ZeroDivisionError: division by zero" in found.err
    assert lines == [f"x{n}-VERSION" for n in range(2, len(lines) + 2)]
    assert running.reload("--dry-run").out == "Changes of flow 'main':\n  stamp: code\n"


def test_a_fix_is_reloaded_while_a_broken_component_is_on_trial(running: Running) -> None:
    running.write("stamp/component.py", "return element", "return 1 / 0 #")
    assert running.reload("--yes").code == 0
    running.write("stamp/component.py", "1 / 0", "1 % 0")
    found, lines = running.reload_under_load()

    assert found.code == 1
    assert lines == [f"x{n}-VERSION" for n in range(2, len(lines) + 2)]
    running.write("stamp/component.py", "return 1 % 0 #", "return element")
    assert running.reload("--dry-run").err == "[torvyn] Flow 'main' is up to date.\n"


def test_without_an_answer_to_the_question_nothing_is_exchanged(running: Running) -> None:
    running.write("stamp/component.py", "VERSION", "new")
    found = running.reload()

    assert "cli.missing-argument" in found.err
    assert running.read() == "x2-VERSION"


@pytest.fixture
def durable(
    start: Start,
    project: Callable[..., Path],
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Running]:
    """A flow with checkpoints, whose source and sink are in one segment."""
    options = getattr(request, "param", ())
    folder = tempfile.mkdtemp(prefix="tv")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    made = project(NODES, feed=SOURCE, stamp=STAMP, print=SINK)
    text = (made / "Torvyn.toml").read_text()
    (made / "Torvyn.toml").write_text(text + '[flow.main]\ncheckpoint = "50ms"\n')
    yield Running(made, start, cli, *options)
    shutil.rmtree(folder)


EXTRA = """
[flow.main.nodes.extra]
component = "stamp"
[[flow.main.edges]]
from = "extra"
to = "print"
"""


def test_a_new_graph_of_a_durable_flow_continues_where_the_old_one_was(durable: Running) -> None:
    assert durable.read() == "x2-VERSION"
    durable.write("Torvyn.toml", 'from = "stamp"\nto = "print"', 'from = "stamp"\nto = "extra"')
    with (durable.folder / "Torvyn.toml").open("a") as file:
        file.write(EXTRA)
    found = durable.reload("--yes", "--format", "json")

    document = json.loads(found.out)
    assert "node `extra` was added" in document["difference"]["graph"]
    assert document["restarted_ms"] > 0
    assert durable.read() == "x3-VERSION-VERSION"
    assert durable.reload("--yes").err == "[torvyn] Flow 'main' is up to date.\n"


def test_a_new_graph_that_cannot_start_leaves_the_old_one_running(durable: Running) -> None:
    init = "def init(self, config):\n        1 / 0\n    def process"
    durable.write("stamp/component.py", "def process", init)
    durable.write("Torvyn.toml", 'to = "stamp"', 'to = "stamp"\nqueue_depth = 3')
    found = durable.reload("--yes")

    assert "reactor.init-failed" in found.err
    assert durable.read() == "x2-VERSION"


def test_a_graph_without_a_node_that_has_a_state_is_refused(durable: Running) -> None:
    durable.write("Torvyn.toml", "nodes.feed]", "nodes.food]")
    durable.write("Torvyn.toml", 'from = "feed"', 'from = "food"')
    found = durable.reload("--yes")

    assert "would lose the state of node `feed`" in found.err
    assert durable.read() == "x2-VERSION"


BROKEN = """
    class Broken(torvyn.Processor):
        def process(self, element):
            raise ValueError("not this one")
"""


DECLARED = '[[component]]\nname = "broken"\npath = "broken"\n'


def test_a_new_graph_that_fails_soon_gives_way_to_the_old_one(durable: Running) -> None:
    (durable.folder / "broken").mkdir()
    code = "import torvyn\n" + textwrap.dedent(BROKEN)
    (durable.folder / "broken/component.py").write_text(code)
    durable.write("Torvyn.toml", 'from = "stamp"\nto = "print"', 'from = "stamp"\nto = "extra"')
    with (durable.folder / "Torvyn.toml").open("a") as file:
        file.write(EXTRA.replace('"stamp"', '"broken"') + DECLARED)
    assert durable.reload("--yes").code == 0

    assert durable.read() == "x2-VERSION"


def test_the_command_says_that_a_new_graph_restarts_the_flow(durable: Running) -> None:
    durable.write("Torvyn.toml", 'to = "stamp"', 'to = "stamp"\nqueue_depth = 3')
    shown, done = durable.reload("--dry-run"), durable.reload("--yes")

    assert shown.err == "[torvyn] With a new graph the flow restarts from its checkpoint.\n"
    assert "The new graph runs: the flow restarted from its checkpoint in" in done.err


@pytest.mark.parametrize("durable", [("--limit", "3")], indirect=True)
def test_the_limit_of_a_run_counts_across_a_restart(durable: Running) -> None:
    durable.write("Torvyn.toml", 'to = "stamp"', 'to = "stamp"\nqueue_depth = 3')
    assert durable.reload("--yes").code == 0

    assert [durable.read(), durable.read()] == ["x2-VERSION", "x3-VERSION"]
    assert durable.process.wait(20) == 0


def test_options_of_a_durable_edge_restart_the_flow(durable: Running) -> None:
    assert durable.read() == "x2-VERSION"
    durable.write("Torvyn.toml", 'to = "stamp"', 'to = "stamp"\ncarrier = "disk"')
    assert durable.reload("--yes").code == 0
    assert durable.read() == "x3-VERSION"
    durable.write("Torvyn.toml", 'carrier = "disk"', 'carrier = "disk"\nmax_bytes = "9MiB"')
    found = durable.reload("--yes", "--format", "json")

    assert json.loads(found.out)["restarted_ms"] > 0
    assert durable.read() == "x4-VERSION"
