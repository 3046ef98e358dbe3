"""Mistakes of users and faults of the environment: a clear error, the right code, no hang."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import Cli

Start = Callable[..., "subprocess.Popen[str]"]
Project = Callable[..., Path]

SOURCE = 'component = "scripted"\nconfig = { tokens = ["0123456789"], repeat = 1000 }'
NULL = 'component = "null"'


def test_a_disk_that_is_full_loses_nothing_that_was_accepted(
    start: Start, project: Project
) -> None:
    limit_bytes = 4000
    folder = project({"source": SOURCE, "sink": 'component = "file"\nconfig = "out.txt"'})

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    process = start("run", cwd=folder, preexec_fn=small_disk)
    err = process.communicate()[1]

    assert process.returncode == 1
    assert "error[component.unavailable]: node `sink` failed in `push`" in err
    assert "hint: free some disk space; all earlier elements are in the file" in err
    # A record is ten digits and a line end; the last one, which does not fit, is removed.
    assert (folder / "out.txt").read_text() == "0123456789\n" * (limit_bytes // 11)


ENDS = {
    "sys.exit(3)": "SystemExit: 3",
    "raise asyncio.CancelledError": "CancelledError",
    "raise GeneratorExit": "GeneratorExit",
}


@pytest.mark.parametrize("statement", ENDS)
def test_a_component_that_would_end_the_program_only_fails_its_flow(
    cli: Cli, project: Project, statement: str
) -> None:
    part = f"""
        import asyncio, sys
        class Ending(torvyn.Processor):
            def process(self, element):
                {statement}
    """
    nodes = {"source": SOURCE, "work": 'component = "part"', "sink": NULL}

    done = cli("run", cwd=project(nodes, part=part))

    assert done.code == 1
    assert "[torvyn] Flow 'main' failed." in done.err
    assert ENDS[statement] in done.err
    assert "Traceback" not in done.err


def test_a_component_with_a_syntax_error_is_shown_with_its_line(cli: Cli, project: Project) -> None:
    nodes = {"source": SOURCE, "work": 'component = "part"', "sink": NULL}
    folder = project(nodes, part="class Broken(torvyn.Filter:\n    pass\n")

    done = cli("run", cwd=folder)

    assert done.code == 2
    assert done.err.startswith("error[link.component-import]")
    assert "Traceback" not in done.err


def test_a_wrong_result_of_a_component_is_an_error_of_its_contract(
    cli: Cli, project: Project
) -> None:
    part = """
        class Vague(torvyn.Filter):
            def evaluate(self, element):
                return "perhaps"
    """
    nodes = {"source": SOURCE, "work": 'component = "part"', "sink": NULL}

    done = cli("run", cwd=project(nodes, part=part))

    assert done.code == 2
    assert (
        "error[contract.wrong-result]: node `work` (component `part`) failed in `evaluate`"
        in done.err
    )


def test_a_thread_that_never_ends_does_not_keep_the_command(start: Start, project: Project) -> None:
    part = """
        import threading
        class Stuck(torvyn.Source):
            run = "thread"
            def pull(self):
                print("begun", flush=True)
                threading.Event().wait()
    """
    settings = '[runtime]\nteardown_timeout = "10ms"\n'
    folder = project({"source": 'component = "part"', "sink": NULL}, settings, part=part)
    process = start("run", cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)

    err = process.communicate()[1]

    assert process.returncode == 130
    assert "[torvyn] warning: node `source` did not end within 0.01 s and was abandoned" in err


def test_an_interrupt_does_not_wait_for_standard_input(start: Start, project: Project) -> None:
    folder = project({"source": 'component = "lines"', "sink": 'component = "console"'})
    process = start("run", cwd=folder)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write("hello\n")
    process.stdin.flush()
    assert process.stdout.readline() == "hello\n"
    process.send_signal(signal.SIGINT)

    # Standard input stays open: its blocked reader is abandoned without a message.
    assert process.wait() == 130
    assert process.stderr.read() == (
        "[torvyn] Running flow 'main'\n\n\n"
        "[torvyn] Flow 'main' interrupted.\n"
        "[torvyn] 1 line produced | 1 element emitted\n"
    )


def test_nodes_that_were_not_started_yet_are_not_called_abandoned(
    cli: Cli, project: Project
) -> None:
    lines = 'component = "lines"\nconfig = "absent.txt"'
    extra = '[flow.main.nodes.late]\ncomponent = "lines"\n'
    extra += '[[flow.main.edges]]\nfrom = "late"\nto = "sink"\n'

    done = cli("run", cwd=project({"source": lines, "sink": NULL}, extra))

    assert done.code == 3
    assert "error[components.file-missing]" in done.err
    assert "abandoned" not in done.err


def test_a_manifest_that_is_a_folder_without_one_is_not_found(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "--manifest", tmp_path)

    assert done.code == 2
    assert done.err.startswith("error[manifest.not-found]")


@pytest.mark.parametrize("command", ["run", "trace", "bench"])
def test_closed_streams_are_not_a_failure(command: str, project: Project) -> None:
    line = f"{sys.executable} -m torvyn {command} --limit 1 <&- >&- 2>&-"
    folder = project({"source": SOURCE, "sink": NULL})

    assert subprocess.run(line, shell=True, cwd=folder, check=False).returncode == 0


def test_control_characters_in_a_message_are_escaped(cli: Cli, project: Project) -> None:
    part = """
        class Failing(torvyn.Source):
            def pull(self):
                raise ValueError("\\x1b[2J")
    """
    folder = project({"source": 'component = "part"', "sink": NULL}, part=part)

    err = cli("run", cwd=folder).err

    assert "ValueError: \\x1b[2J" in err
    assert "\x1b" not in err


def test_standard_input_that_is_closed_is_an_empty_one(start: Start, project: Project) -> None:
    folder = project({"source": 'component = "lines"', "sink": 'component = "console"'})

    process = start("run", cwd=folder, stdin=subprocess.DEVNULL)

    assert process.communicate()[1].endswith("[torvyn] 0 lines produced | 0 elements emitted\n")
    assert process.returncode == 0
