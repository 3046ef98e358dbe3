"""`torvyn run` with several flows in one process: lines, summaries, exit codes, signals, shares."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest
from transcript import Cli, Transcript

from torvyn._io.line_output import line_stream

Start = Callable[..., "subprocess.Popen[str]"]
Flows = Callable[..., Path]

GUEST = Path(__file__).parents[2] / "sandbox" / "guests" / "printer.wasm"
ENDLESS = {"source": "component = 'endless'", "sink": "component = 'null'"}
NATIVE = {
    "source": "component = 'scripted'\nconfig = { tokens = ['x'], repeat = 1_000_000_000 }",
    "sink": "component = 'null'",
}
PARTS = {
    "endless": """
        class Endless(torvyn.Source):
            def pull(self):
                print("begun", flush=True)
                return torvyn.PENDING
        """,
    "words": """
        class Words(torvyn.Source):
            unit = "words"
            def init(self, config):
                self.words = iter(config.split())
            def pull(self):
                return next(self.words, None)
        """,
    "teller": """
        class Teller(torvyn.Sink):
            run = {run!r}
            def push(self, element):
                print("got", element.text)
            def complete(self, end):
                print("complete")
        """.replace("{run!r}", "'inline'"),
    "broken": """
        class Broken(torvyn.Sink):
            def push(self, element):
                raise torvyn.Internal(f"no {element.text}")
        """,
}


_streams: list[TextIO] = []
"""Kept, because a stream closes its file when it is collected."""


@pytest.fixture
def flows(flows: Flows) -> Flows:
    return partial(flows, parts=PARTS)


@pytest.fixture
def cli(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """With the streams of whole lines that the command has in a process of its own."""

    def call(*arguments: object, cwd: Path | None = None) -> Transcript:
        with monkeypatch.context() as patch:
            for name in ("stdout", "stderr"):
                _streams.append(line_stream(getattr(sys, name)))
                patch.setattr(sys, name, _streams[-1])
            return cli(*arguments, cwd=cwd)

    return call


def telling(*words: str, sink: str = "teller") -> dict[str, str]:
    source = f"component = 'words'\nconfig = '{' '.join(words)}'"
    return {"source": source, "sink": f"component = '{sink}'"}


def lines_of(text: str, flow: str) -> list[str]:
    """The lines of a flow, without its name."""
    found = [line.partition(" | ") for line in text.splitlines()]
    return [line for name, bar, line in found if bar and name.strip() == flow]


@pytest.mark.parametrize("names", [("flow.up", "flow.down"), ("up", "down"), ("--all",)])
def test_each_line_begins_with_the_name_of_its_flow(
    cli: Cli, flows: Flows, names: tuple[str, ...]
) -> None:
    folder = flows(up=telling("one", "two"), down=telling("three", "four"))

    done = cli("run", *names, cwd=folder)

    assert done.code == 0
    assert lines_of(done.out, "up") == ["got one", "got two", "complete"]
    assert lines_of(done.out, "down") == ["got three", "got four", "complete"]
    assert lines_of(done.err, "up") == [
        "[torvyn] Running flow 'up'",
        "[torvyn] Flow 'up' completed.",
        "[torvyn] 2 words produced | 2 elements emitted",
    ]
    assert lines_of(done.err, "down")[-2:] == [
        "[torvyn] Flow 'down' completed.",
        "[torvyn] 2 words produced | 2 elements emitted",
    ]
    assert {line[:7] for line in (done.out + done.err).splitlines()} == {"up   | ", "down | "}


def test_all_flows_of_a_manifest_with_one_run_as_it_does_alone(cli: Cli, flows: Flows) -> None:
    folder = flows(only=telling("one"))

    assert cli("run", "--all", cwd=folder) == cli("run", "flow.only", cwd=folder)


@pytest.mark.promise("tokens.two-flows")
def test_two_flows_have_components_and_block_lists_of_their_own(cli: Cli, flows: Flows) -> None:
    def blocking(word: str) -> dict[str, str]:
        nodes = telling("red", "green", "blue")
        blocklist = f"component = 'blocklist'\nconfig = '{word}'"
        return {"source": nodes["source"], "filter": blocklist, "sink": nodes["sink"]}

    folder = flows(first=blocking("red"), second=blocking("blue"))

    done = cli("run", "--all", cwd=folder)

    assert lines_of(done.out, "first") == ["got green", "got blue", "complete"]
    assert lines_of(done.out, "second") == ["got red", "got green", "complete"]


PLACES = """
    import asyncio, logging, threading
    logger = logging.getLogger("part")
    class Part(torvyn.Processor):
        run = "{run}"
        def init(self, config):
            print("init")
        {prefix}def process(self, element):
            print("out", end=" ")
            logger.warning("log %s", element.text)
            print(element.text)
            return element
        def teardown(self):
            print("teardown")
"""


@pytest.mark.promise("tokens.whole-lines")
@pytest.mark.parametrize("run", ["inline", "thread", "async"])
def test_wherever_a_component_prints_its_lines_are_whole_and_have_the_name(
    cli: Cli, flows: Flows, run: str
) -> None:
    prefix = "async " if run == "async" else ""
    parts = {**PARTS, "part": PLACES.format(run=run, prefix=prefix)}
    words = [str(number) for number in range(200)]
    chains = {
        name: {
            "source": telling(*words)["source"],
            "part": "component = 'part'",
            "sink": "component = 'null'",
        }
        for name in ("a", "b", "c")
    }
    folder = flows(parts=parts, **chains)

    done = cli("run", "--all", cwd=folder)

    for name in chains:
        told = [f"out {word}" for word in words]
        assert lines_of(done.out, name) == ["init", *told, "teardown"]
        logged = [line for line in lines_of(done.err, name) if "[part] warning: log " in line]
        assert len(logged) == len(words)
    assert len(done.out.splitlines()) == 3 * (len(words) + 2)


def test_what_guests_print_has_the_name_of_their_flow(cli: Cli, flows: Flows) -> None:
    chain = {
        "source": "component = 'scripted'\nconfig = 'a,b'",
        "guest": "component = 'printer'",
        "sink": "component = 'null'",
    }
    extra = (
        '[[component]]\nname = "printer"\npath = "printer.wasm"\n'
        '[security.grants.printer]\ncapabilities = ["stdio:stdout"]\n'
    )
    folder = flows(extra=extra, left=chain, right=chain)
    shutil.copy(GUEST, folder)

    done = cli("run", "--all", cwd=folder)

    assert done.code == 0
    assert lines_of(done.out, "left") == lines_of(done.out, "right") != []
    assert len(done.out.splitlines()) == 2 * len(lines_of(done.out, "left"))


@pytest.mark.promise("tokens.whole-lines")
def test_pieces_of_a_line_are_in_order_on_whichever_worker_they_are_written(
    start: Start, flows: Flows
) -> None:
    words = [str(number) for number in range(300)]
    chain = {
        "source": f"component = 'words'\nrun = 'thread'\nconfig = '{' '.join(words)}'",
        "sink": "component = 'console'\nconfig = { end = ' ' }",
    }
    folder = flows(a=chain, b=chain)

    process = start("run", "--all", "--set", "runtime.worker_threads=4", cwd=folder)
    out = process.communicate(timeout=30)[0]

    for name in "ab":
        assert [line.split() for line in lines_of(out, name)] == [words]


BEGINNER = """
    import os
    class Beginner(torvyn.Source):
        at = 0
        def pull(self):
            if self.at == 0:
                print("begun,", end=" ")
                self.at = 1
                open("begun", "w").close()
            if not os.path.exists("over"):
                return torvyn.PENDING.after(0.005)
            print("ended")
            return None
"""
SECOND = """
    import os
    class Second(torvyn.Source):
        is_over = False
        def pull(self):
            if self.is_over or not os.path.exists("begun"):
                return None if self.is_over else torvyn.PENDING.after(0.005)
            self.is_over = True
            return "word"
"""


@pytest.mark.promise("tokens.whole-lines")
def test_the_end_of_a_flow_does_not_cut_the_line_of_another(start: Start, flows: Flows) -> None:
    chains = {
        name: {"source": f"component = '{part}'", "sink": "component = 'null'"}
        for name, part in {"a": "beginner", "b": "second"}.items()
    }
    folder = flows(parts={"beginner": BEGINNER, "second": SECOND}, **chains)
    process = start("run", "--all", cwd=folder, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    while process.stdout.readline() != "b | [torvyn] Flow 'b' completed.\n":
        pass

    (folder / "over").touch()

    assert "begun, ended" in lines_of(process.communicate(timeout=30)[0], "a")


# Ends


LEFT_OPEN = """
    class LeftOpen(torvyn.Source):
        def init(self, config):
            open("begun", "w").close()
        def pull(self):
            return torvyn.PENDING
        def teardown(self):
            open("torn down", "w").close()
"""
LAST_WORDS = """
    class LastWords(torvyn.Sink):
        def push(self, element):
            print("last words")
            raise ValueError("broken")
"""


@pytest.mark.parametrize("output", ["a full disk", "a closed pipe"])
def test_a_flow_whose_lines_cannot_be_written_does_not_keep_others_from_their_teardown(
    start: Start, flows: Flows, output: str
) -> None:
    chains = {
        "bad": {"source": "component = 'second'", "sink": "component = 'last-words'"},
        "good": {"source": "component = 'left-open'", "sink": "component = 'null'"},
    }
    parts = {"second": SECOND, "last-words": LAST_WORDS, "left-open": LEFT_OPEN}
    folder = flows(parts=parts, **chains)
    reading, writing = os.pipe()
    os.close(reading)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    with open(writing, "w") as closed, open("/dev/full", "w") as full:
        stdout = full if output == "a full disk" else closed
        process = start("run", "--all", cwd=folder, stdout=stdout, env=env)

    assert process.wait(30) == 1
    assert (folder / "torn down").exists()


def test_a_flow_that_fails_does_not_end_the_others_and_the_worst_exit_code_counts(
    cli: Cli, flows: Flows
) -> None:
    folder = flows(good=telling("one", "two"), bad=telling("three", sink="broken"))

    done = cli("run", "--all", cwd=folder)

    assert done.code == 1
    assert lines_of(done.out, "good") == ["got one", "got two", "complete"]
    bad = lines_of(done.err, "bad")
    assert "[torvyn] Flow 'bad' failed." in bad
    assert any(line.startswith("error[") and "no three" in line for line in bad)
    assert "[torvyn] Flow 'good' completed." in lines_of(done.err, "good")


def test_a_flow_that_cannot_start_does_not_end_the_others(cli: Cli, flows: Flows) -> None:
    parts = {**PARTS, "late": "class Late(torvyn.Source):\n    def init(self, config): 1 / 0\n"}
    parts["late"] += "    def pull(self): return None\n"
    late = {"source": "component = 'late'", "sink": "component = 'null'"}
    folder = flows(parts=parts, good=telling("one"), late=late)

    done = cli("run", "--all", cwd=folder)

    assert lines_of(done.out, "good") == ["got one", "complete"]
    assert any("division by zero" in line for line in lines_of(done.err, "late"))
    assert done.code == cli("run", "flow.late", cwd=folder).code != 0


def begun(process: subprocess.Popen[str], flows: int) -> None:
    """Reads until each of the endless flows has begun."""
    assert process.stdout is not None
    seen: set[str] = set()
    while len(seen) < flows:
        seen.add(process.stdout.readline().partition(" ")[0])


@pytest.mark.parametrize(
    ("number", "code", "state"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_drains_all_flows(
    start: Start, flows: Flows, number: int, code: int, state: str
) -> None:
    process = start("run", "--all", cwd=flows(a=ENDLESS, b=ENDLESS, c=ENDLESS))
    begun(process, 3)

    process.send_signal(number)
    err = process.communicate(timeout=30)[1]

    assert process.returncode == code
    for name in "abc":
        assert f"[torvyn] Flow '{name}' {state}." in lines_of(err, name)


STUCK = """
    import threading
    class Endless(torvyn.Source):
        def pull(self):
            print("begun", flush=True)
            threading.Event().wait()
"""


def test_a_second_signal_cancels_and_a_flow_that_hangs_does_not_keep_the_process(
    start: Start, flows: Flows
) -> None:
    folder = flows(parts={"endless": STUCK}, a=ENDLESS, b=ENDLESS)
    process = start("run", "--all", "--set", "runtime.drain_timeout=60s", cwd=folder)
    begun(process, 2)

    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=30)[1]

    assert process.returncode == 130
    assert "node `source` in `pull` did not return and was abandoned" in err


CHATTY = """
    class Chatty(torvyn.Source):
        def pull(self):
            print("word", flush=True)
            return "word"
"""


def test_a_reader_that_leaves_ends_all_flows_quietly(start: Start, flows: Flows) -> None:
    chatty = {"source": "component = 'chatty'", "sink": "component = 'null'"}
    folder = flows(parts={**PARTS, "chatty": CHATTY}, a=chatty, silent=NATIVE)
    process = start("run", "--all", "-q", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "a      | word\n"

    process.stdout.close()

    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_a_limit_and_a_timeout_are_for_each_flow(cli: Cli, flows: Flows) -> None:
    folder = flows(a=NATIVE, b=ENDLESS)

    done = cli("run", "--all", "--limit", 100, "--timeout", "300ms", cwd=folder)

    assert done.code == 1
    assert lines_of(done.err, "a")[-1] == "[torvyn] 100 tokens produced | 100 elements emitted"
    assert any("did not finish within 0.3 s" in line for line in lines_of(done.err, "b"))


def test_the_statistics_of_all_flows_are_one_json_document(cli: Cli, flows: Flows) -> None:
    folder = flows(a=telling("one", "two"), b=telling("three", sink="broken"))

    done = cli("run", "--all", "--stats", "--format", "json", cwd=folder)

    document = json.loads(done.out.splitlines()[-1])
    found = [(each["flow"], each["outcome"], each["emitted"]) for each in document["flows"]]
    assert found == [("a", "completed", 2), ("b", "failed", 0)]
    problems = [json.loads(line) for line in done.err.splitlines() if '"problems"' in line]
    assert [(each["flow"], each["exit_code"]) for each in problems] == [("b", 1)]


def test_the_statistics_of_all_flows_are_a_list_also_if_there_is_one(
    cli: Cli, flows: Flows
) -> None:
    done = cli("run", "--all", "--stats", "--format", "json", cwd=flows(a=telling("one")))

    (statistics,) = json.loads(done.out.splitlines()[-1])["flows"]
    assert (statistics["flow"], statistics["emitted"]) == ("a", 1)


def test_statistics_are_a_table_per_flow(cli: Cli, flows: Flows) -> None:
    done = cli("run", "--all", "--stats", cwd=flows(a=telling("one"), b=telling("two")))

    heads = re.findall(r"^flow (\w)\n\nnode +role", done.err, re.MULTILINE)
    assert heads == ["a", "b"]


# Options


def test_an_override_names_its_flow(cli: Cli, flows: Flows) -> None:
    folder = flows(a=telling("one"), b=telling("two"))

    done = cli("run", "--all", "--config", "b.source=three", cwd=folder)

    assert lines_of(done.out, "a") == ["got one", "complete"]
    assert lines_of(done.out, "b") == ["got three", "complete"]


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("source=x", "write `--config FLOW.NODE.KEY=VALUE`; the flows are `first` and `second`"),
        ("frist.source=x", "did you mean `first`?"),
    ],
)
def test_an_override_for_no_flow_says_how_to_write_it(
    cli: Cli, flows: Flows, target: str, hint: str
) -> None:
    done = cli("run", "--all", "--config", target, cwd=flows(first=telling(), second=telling()))

    assert (done.code, done.out) == (2, "")
    assert "does not say which of the 2 flows it is for" in done.err
    assert done.err.endswith(f"hint: {hint}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "x"),
        ("--output", "x"),
        ("--segment", "source"),
        ("--replica", "1"),
        ("--run", "x"),
        ("--on", "ray"),
    ],
)
def test_options_of_one_flow_are_refused(
    cli: Cli, flows: Flows, arguments: tuple[str, str]
) -> None:
    done = cli("run", "--all", *arguments, cwd=flows(a=telling(), b=telling()))

    assert (done.code, done.out) == (2, "")
    message = f"error[cli.bad-usage]: `{arguments[0]}` is for one flow, and this process is to"
    assert done.err.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "flow.a", "flow.a"), "you named flow `a` twice"),
        (("run", "--all", "flow.a"), "`--all` runs every flow, and you named `a` too"),
        (("trace", "flow.a", "flow.b"), "you named two flows, `a` and `b`"),
        (("link", "a", "--flow", "b"), "you named two flows, `a` and `b`"),
        (("trace", "flow.a", "flow.a"), "you named flow `a` twice"),
        (("link", "a", "a", "--flow", "a"), "you named flow `a` twice"),
        (("link", "a", "b", "--flow", "a"), "you named two flows, `b` and `a`"),
    ],
)
def test_names_that_contradict_each_other_are_refused(
    cli: Cli, flows: Flows, arguments: tuple[str, ...], message: str
) -> None:
    done = cli(*arguments, cwd=flows(a=telling(), b=telling()))

    assert done.code == 2
    assert done.err.startswith(f"error[cli.bad-usage]: {message}\n")


def test_without_a_name_the_hint_lists_the_flows(cli: Cli, flows: Flows) -> None:
    done = cli("run", cwd=flows(a=telling(), b=telling()))

    assert done.code == 2
    assert done.err.endswith("hint: name one of `a` and `b`, or all with `--all`\n")


def test_one_error_reports_the_problems_of_all_flows(cli: Cli, flows: Flows) -> None:
    wrong = {"source": "component = 'nothing'", "sink": "component = 'null'"}

    done = cli("run", "flow.a", "flow.c", "flow.d", cwd=flows(a=wrong, b=telling(), c=wrong))

    assert done.code == 2
    assert done.err.count("error[link.component-unknown]") == 2
    assert done.err.count("error[link.flow-unknown]: unknown flow `d`") == 1


# Artifacts


@pytest.fixture
def artifact(cli: Cli, flows: Flows) -> Path:
    """The folder of a project that is packed in `dist`."""
    folder = flows(a=telling("one"), b=telling("two"))
    assert cli("pack", "-q", cwd=folder).code == 0
    return folder


@pytest.mark.parametrize("names", [("oci:dist", "flow.b"), ("b", "oci:dist"), ("oci:dist", "b")])
def test_a_flow_of_an_artifact_is_named_as_one_of_a_manifest(
    cli: Cli, artifact: Path, names: tuple[str, str]
) -> None:
    done = cli("run", *names, cwd=artifact)

    assert done == cli("run", "flow.b", cwd=artifact)
    assert done.out == "got two\ncomplete\n"


@pytest.mark.parametrize("names", [("oci:dist", "--all"), ("oci:dist", "a", "b")])
def test_several_flows_of_an_artifact_run_in_one_process(
    cli: Cli, artifact: Path, names: tuple[str, ...]
) -> None:
    done = cli("run", *names, cwd=artifact)

    assert lines_of(done.out, "a") == ["got one", "complete"]
    assert lines_of(done.out, "b") == ["got two", "complete"]


def test_other_commands_take_a_flow_of_an_artifact_too(cli: Cli, artifact: Path) -> None:
    assert cli("link", "oci:dist", "flow.b", cwd=artifact).out.startswith("flow b, ")
    assert cli("trace", "-q", "oci:dist", "flow.b", cwd=artifact).code == 0


# Durable flows

NUMBERS = """
    class Numbers(torvyn.Source):
        def init(self, config):
            self.at, self.left = 0, 3
        def pull(self):
            if self.left == 0:
                return torvyn.PENDING
            self.at, self.left = self.at + 1, self.left - 1
            return str(self.at)
        def snapshot(self):
            return str(self.at).encode()
        def restore(self, state):
            self.at = int(state)
"""
TELLER = """
    class Teller(torvyn.Sink):
        count = 0
        def push(self, element):
            self.count += 1
            print(element.text, flush=True)
            if self.count == 3:
                print("begun", flush=True)
"""


def test_durable_flows_save_their_states_and_go_on(start: Start, flows: Flows) -> None:
    chain = {
        "": 'checkpoint = "1h"',
        "source": "component = 'numbers'",
        "sink": "component = 'teller'",
    }
    folder = flows(parts={"numbers": NUMBERS, "teller": TELLER}, a=chain, b=chain)

    def run(*arguments: str) -> str:
        process = start("run", "--all", *arguments, cwd=folder)
        assert process.stdout is not None
        seen: list[str] = []
        while sum(line.endswith("begun\n") for line in seen) < 2:
            seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
        return "".join(seen)

    first, second, fresh = run(), run(), run("--fresh")

    for name in "ab":
        assert lines_of(first, name) == ["1", "2", "3", "begun"]
        assert lines_of(second, name) == ["4", "5", "6", "begun"]
        assert lines_of(fresh, name) == ["1", "2", "3", "begun"]


# Shares


@pytest.mark.promise("edge.critical-share")
def test_a_critical_flow_gets_four_times_the_elements_of_a_normal_one(
    start: Start, flows: Flows
) -> None:
    folder = flows(urgent={"": 'priority = "critical"', **NATIVE}, bulk=NATIVE)
    # One worker: with two, each flow has one to itself.
    limits = ("--timeout", "1500ms", "--set", "runtime.worker_threads=1")

    process = start("run", "--all", *limits, "--stats", "--format", "json", cwd=folder)
    out = process.communicate(timeout=30)[0]

    emitted = {each["flow"]: each["emitted"] for each in json.loads(out.splitlines()[-1])["flows"]}
    assert 3.4 <= emitted["urgent"] / emitted["bulk"] <= 4.6


@pytest.mark.promise("edge.tens-of-flows")
def test_tens_of_flows_run_in_one_process(cli: Cli, flows: Flows) -> None:
    chains = {f"gauge-{number}": telling(f"reading-{number}") for number in range(60)}

    done = cli("run", "--all", "--stats", "--format", "json", cwd=flows(**chains))

    assert done.code == 0
    *lines, document = done.out.splitlines()
    assert {f"got reading-{number}" for number in range(60)} <= {
        line.partition(" | ")[2] for line in lines
    }
    assert {each["outcome"] for each in json.loads(document)["flows"]} == {"completed"}
    assert len(lines) == 2 * 60
