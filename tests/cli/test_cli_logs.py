"""Log records and warnings of components: redacted, in the command's format, by verbosity."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import Cli, Transcript

Project = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[str]"]

SOURCE = 'component = "scripted"\nconfig = { tokens = ["a"] }'
NODES = {
    "source": SOURCE,
    "work": 'component = "part"\nconfig = "${TOKEN_FOR_TEST}"',
    "sink": 'component = "null"',
}
PART = """
    import logging, warnings
    logger = logging.getLogger("shop.prices")
    class Chatty(torvyn.Processor):
        def init(self, config):
            self.secret = config
        def process(self, element):
            logger.debug("debug %s", self.secret)
            logger.info("info %s", self.secret)
            logger.warning("warning %s", self.secret, extra={"of": self.secret})
            warnings.warn(f"warned {self.secret}")
            logger.error("wrong %d", "arguments")
            return element
"""


@pytest.fixture
def cli(start: Start) -> Cli:
    """Runs in a new process, because pytest handles the loggers of this one."""

    def call(*arguments: object, cwd: Path) -> Transcript:
        process = start(*arguments, cwd=cwd)
        out, err = process.communicate()
        return Transcript(process.returncode, out, err)

    return call


@pytest.fixture
def chatty(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKEN_FOR_TEST", "hunter2")
    return project(NODES, part=PART)


def records(err: str) -> list[dict[str, str]]:
    """The JSON records of the component's own loggers on standard error."""
    lines = [json.loads(line) for line in err.splitlines()]
    return [line for line in lines if line.get("logger") in ("shop.prices", "py.warnings")]


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        ([], ["warning", "error"]),
        (["-q"], ["error"]),
        (["-v"], ["info", "warning", "error"]),
        (["-vv"], ["debug", "info", "warning", "error"]),
    ],
)
def test_verbosity_selects_the_log_records_of_components(
    cli: Cli, chatty: Path, flags: list[str], levels: list[str]
) -> None:
    for command in ("run", "trace"):
        done = cli(command, *flags, cwd=chatty)

        lines = [line for line in done.err.splitlines() if "[shop.prices]" in line]
        output = [line.partition(" ")[2].split(":")[0] for line in lines]
        assert list(dict.fromkeys(output)) == [f"[shop.prices] {level}" for level in levels]
        assert done.code == 0
        assert "hunter2" not in done.err


def test_records_and_warnings_are_json_under_format_json(cli: Cli, chatty: Path) -> None:
    done = cli("run", "--format", "json", cwd=chatty)

    warning, warned, error = records(done.err)
    assert warning["message"] == "warning [redacted]"
    assert warning["of"] == "[redacted]"
    assert warned["message"].endswith("UserWarning: warned [redacted]")
    assert error["message"].startswith("'wrong %d' (its arguments do not fit: TypeError")
    assert "hunter2" not in done.err


def test_info_of_a_component_is_json_as_well(cli: Cli, chatty: Path) -> None:
    done = cli("run", "--format", "json", "-v", cwd=chatty)

    assert [record["level"] for record in records(done.err)][:2] == ["info", "warning"]


def test_a_secret_of_one_letter_leaves_messages_readable(
    cli: Cli, chatty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_FOR_TEST", "e")

    done = cli("run", cwd=chatty)

    assert "[shop.prices] warning: warning e" in done.err
    assert "redacted" not in done.err


def test_a_component_that_fails_while_logging_has_only_itself_to_blame(
    cli: Cli, project: Project
) -> None:
    part = """
        import logging
        class Unprintable(Exception):
            def __str__(self):
                raise ValueError("no text")
        class Odd:
            def __repr__(self):
                raise ValueError("no text")
            __str__ = __repr__
        class Chatty(torvyn.Processor):
            def process(self, element):
                logging.getLogger("odd").warning("field", extra={"thing": Odd()})
                logging.getLogger("odd").warning("%s", Odd())
                try:
                    raise Unprintable
                except Unprintable:
                    logging.getLogger("odd").exception("caught")
                return element
    """
    nodes = {"source": SOURCE, "work": 'component = "part"', "sink": 'component = "null"'}
    folder = project(nodes, part=part)

    for format in ("human", "json"):
        done = cli("run", "--format", format, cwd=folder)
        assert done.code == 0
        assert "Logging error" not in done.err
        assert done.err.count("caught") == 1
