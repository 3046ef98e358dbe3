"""`torvyn run`: transcripts, ends and failures."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import EXAMPLE, Cli

Start = Callable[..., "subprocess.Popen[str]"]

SEED = """\
[torvyn] Running flow 'main'

[output-sink] sentence 0: The quick brown fox jumped over the lazy dog.
[output-sink] sentence 1: The was filtered.
[output-sink] sentence 2: Torvyn handles streaming tokens.
[output-sink] Stream complete.

[torvyn] Flow 'main' completed.
[torvyn] 20 tokens produced | 1 filtered | 3 sentences emitted
"""

SAID = """\
[torvyn] Running flow 'main'


[torvyn] Flow 'main' completed.
[torvyn] 20 tokens produced | 1 filtered | 3 sentences emitted
"""

SPOKEN = """\
[output-sink] sentence 0: The quick brown fox jumped over the lazy dog.
[output-sink] sentence 1: The was filtered.
[output-sink] sentence 2: Torvyn handles streaming tokens.
[output-sink] Stream complete.
"""

LINES = {"source": 'component = "lines"', "sink": 'component = "console"'}


@pytest.mark.promise("tokens.transcript")
def test_both_streams_merged_are_the_transcript_of_the_example(start: Start) -> None:
    process = start("run", "flow.main", cwd=EXAMPLE, stderr=subprocess.STDOUT)

    assert process.communicate()[0] == SEED
    assert process.returncode == 0


@pytest.mark.promise("tokens.sink")
def test_output_of_components_goes_to_stdout_and_messages_to_stderr(cli: Cli) -> None:
    done = cli("run", "flow.main", cwd=EXAMPLE)

    assert (done.code, done.out, done.err) == (0, SPOKEN, SAID)


@pytest.mark.parametrize("name", [(), ("main",), ("flow.main",), ("--flow", "main")])
def test_a_flow_is_named_in_several_ways_or_is_the_only_one(cli: Cli, name: tuple[str]) -> None:
    assert cli("run", "-q", *name, "--manifest", EXAMPLE) == cli("run", "-q", cwd=EXAMPLE)


def test_quiet_prints_only_output_of_components(cli: Cli) -> None:
    done = cli("run", "--quiet", cwd=EXAMPLE)

    assert (done.code, done.out, done.err) == (0, SPOKEN, "")


def test_input_and_output_replace_the_paths_of_the_flows_ends(
    cli: Cli, project: Callable[..., Path]
) -> None:
    folder = project(LINES)
    (folder / "in.txt").write_text("one\ntwo\n")

    done = cli("run", "--input", "in.txt", "--output", "out.txt", cwd=folder)

    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("[torvyn] 2 lines produced | 2 elements emitted\n")
    assert (folder / "out.txt").read_text() == "one\ntwo\n"


def test_output_keeps_the_other_options_of_a_file_sink(
    cli: Cli, project: Callable[..., Path]
) -> None:
    sink = 'component = "file"\nconfig = { path = "a.txt", format = "text" }'
    folder = project({"source": 'component = "scripted"\nconfig = "a,b"', "sink": sink})

    assert cli("run", "--output", "b.txt", cwd=folder).code == 0
    assert (folder / "b.txt").read_text() == "ab"
    assert not (folder / "a.txt").exists()


def test_input_for_a_flow_without_lines_says_so(cli: Cli) -> None:
    done = cli("run", "--input", "x", cwd=EXAMPLE)

    assert done.code == 2
    assert done.err == (
        "error[link.bad-override]: flow `main` has no source that `--input` fits\n"
        "  at command line, --input\n\n"
        "hint: `--input` sets the file of a built-in source: `lines`, `request` or `engine:*`\n"
    )


def test_output_does_not_change_how_a_console_prints(
    cli: Cli, project: Callable[..., Path]
) -> None:
    folder = project({**LINES, "sink": 'component = "console"\nconfig = "> "'})

    done = cli("run", "--output", "x", cwd=folder)

    assert done.code == 2
    assert "prints with its own prefix" in done.err


@pytest.mark.promise("tokens.flush")
def test_limit_ends_the_flow_in_good_order(cli: Cli) -> None:
    done = cli("run", "--limit", 12, cwd=EXAMPLE)

    assert done.code == 0
    assert done.out.endswith("sentence 1: The\n[output-sink] Stream complete.\n")
    assert done.err.endswith("12 tokens produced | 1 filtered | 2 sentences emitted\n")


@pytest.mark.promise("tokens.block-list")
def test_config_changes_a_nodes_config(cli: Cli) -> None:
    done = cli("run", "--config", "filter=quick,brown", cwd=EXAMPLE)

    assert done.out.startswith("[output-sink] sentence 0: The fox jumped")


def test_statistics_are_tables_on_stderr(cli: Cli) -> None:
    done = cli("run", "-q", "--stats", cwd=EXAMPLE)

    assert done.out == SPOKEN
    words = [line.split() for line in done.err.splitlines()]
    assert ["filter:output", "->", "aggregator", "19", "19", "0", "0"] in [row[:7] for row in words]
    # 20 tokens and 3 sentences, all released; between Python components nothing is copied.
    assert ["all", "23", "23", "0", "-", "0", "0", "-"] in words


def test_statistics_as_json_are_the_last_line_of_stdout(cli: Cli) -> None:
    done = cli("run", "--stats", "--format", "json", cwd=EXAMPLE)

    statistics = json.loads(done.out.splitlines()[-1])
    assert statistics["schema_version"] == 1
    assert (statistics["produced"], statistics["nodes"]["sink"]["received"]) == (20, 3)
    events = [json.loads(line)["event"] for line in done.err.splitlines()]
    assert events == ["flow.started", "flow.ended"]


FAILING = """
    class Failing(torvyn.Processor):
        def process(self, element):
            raise KeyError(element.text)
"""


def failing(project: Callable[..., Path], keys: str = "") -> Path:
    source = 'component = "scripted"\nconfig = "a,b"'
    nodes = {"source": source, "work": f'component = "failing"\n{keys}', "sink": LINES["sink"]}
    return project(nodes, failing=FAILING)


def test_an_exception_in_a_component_is_an_error_with_its_place(
    cli: Cli, project: Callable[..., Path]
) -> None:
    done = cli("run", cwd=failing(project))

    assert (done.code, done.out) == (1, "")
    start, _, error = done.err.partition("\nerror")
    assert start.endswith(
        "[torvyn] Flow 'main' failed.\n[torvyn] 1 token produced | 0 elements emitted | 1 error\n"
    )
    assert error == (
        "[component.internal]: node `work` (component `failing`) failed in `process` on element 0: "
        "KeyError: 'a'\n"
        "  at failing/component.py:5, flow.main.nodes.work\n\n"
        "The same command with `-v` shows the traceback.\n"
    )


def test_verbose_shows_the_components_traceback_without_torvyns_frames(
    cli: Cli, project: Callable[..., Path]
) -> None:
    err = cli("run", "-v", cwd=failing(project)).err

    assert 'component.py", line 5, in process' in err
    assert err.count("  File ") == 1


def test_errors_that_are_skipped_are_counted(cli: Cli, project: Callable[..., Path]) -> None:
    done = cli("run", cwd=failing(project, 'on_error = "skip"'))

    assert done.code == 0
    assert done.err.endswith("2 tokens produced | 0 elements emitted | 2 errors\n")


def test_a_component_that_does_not_start_is_an_error(
    cli: Cli, project: Callable[..., Path]
) -> None:
    folder = project({**LINES, "source": 'component = "lines"\nconfig = "absent.txt"'})

    done = cli("run", cwd=folder)

    assert done.code == 3
    assert "[torvyn] Flow 'main' failed.\n[torvyn] 0 lines produced" in done.err
    assert "error[components.file-missing]" in done.err


def test_a_flow_that_takes_too_long_fails(cli: Cli, project: Callable[..., Path]) -> None:
    nodes = {"source": 'component = "timer"\nconfig = { interval = "1h" }', "sink": LINES["sink"]}

    done = cli("run", "--timeout", "1ms", cwd=project(nodes))

    assert done.code == 1
    assert "error[reactor.deadline-exceeded]: flow `main` did not finish within 0.001 s" in done.err


def test_a_variable_that_holds_a_figure_does_not_blacken_the_summary(
    cli: Cli, project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMES", "2")
    source = 'component = "scripted"\nconfig = { tokens = "x", repeat = "${TIMES}" }'

    done = cli("run", cwd=project({"source": source, "sink": LINES["sink"]}))

    assert done.err.endswith("[torvyn] 2 tokens produced | 2 elements emitted\n")


def test_secrets_of_the_environment_are_not_in_errors(
    cli: Cli, project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSPHRASE", "hunter2")
    telling = """
        class Telling(torvyn.Source):
            def init(self, config):
                raise ValueError(f"no entry for {config}")
            def pull(self):
                return None
    """
    source = 'component = "telling"\nconfig = "${PASSPHRASE}"'
    folder = project({"source": source, "sink": LINES["sink"]}, telling=telling)

    err = cli("run", "-v", cwd=folder).err

    assert "no entry for [redacted]" in err
    assert "hunter2" not in err


def test_a_dead_letter_file_contains_no_secret(
    cli: Cli, project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSPHRASE", "hunter2")
    telling = """
        class Telling(torvyn.Processor):
            def init(self, config):
                self.key = config
            def process(self, element):
                raise ValueError(f"no entry for {self.key}")
    """
    node = 'component = "telling"\nconfig = "${PASSPHRASE}"\n'
    node += 'on_error = { policy = "dead-letter", to = "dead.jsonl" }'
    source = 'component = "scripted"\nconfig = { tokens = "x" }'
    nodes = {"source": source, "telling": node, "sink": LINES["sink"]}
    folder = project(nodes, telling=telling)

    cli("run", cwd=folder)

    assert "no entry for [redacted]" in (folder / "dead.jsonl").read_text()
    assert "hunter2" not in (folder / "dead.jsonl").read_text()


UNUSED = (
    "_artifact",
    "_cluster",
    "_deploy",
    "_durable",
    "_flow.async_runner",
    "_flow.executors",
    "_flow.swap",
    "_flow.trial",
    "_io.jetstream",
    "_io.nats",
    "_observe.otlp_exporter",
    "_observe.telemetry",
    "_sandbox.component",
    "engine",
    "protocol",
    "telemetry",
    "transport",
)
"""What the demo does not use: no second process, no other server, no guest, no thread, no swap."""


def test_a_run_loads_only_what_its_flow_uses() -> None:
    program = (
        "import sys; from torvyn._cli import app; app.run(['run', 'flow.main']);"
        "print(*(name for name in sys.modules if name.startswith(('torvyn.', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=EXAMPLE, capture_output=True, text=True, check=True
    )

    loaded = done.stdout.splitlines()[-1].split()
    unused = [*(f"torvyn.{name}" for name in UNUSED), "asyncio"]
    assert [name for name in unused if importlib.util.find_spec(name) is None] == []
    assert [name for name in loaded if name.startswith(tuple(unused))] == []
    assert len(loaded) <= 92
