"""`torvyn store`: what waits, and what was set aside."""

from __future__ import annotations

import contextlib
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from torvyn._cli import app
from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.files import lock_store
from torvyn._durable.disk.store import DurableStore

MANIFEST = """
[torvyn]
name = "gateway"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.readings]
component = "lines"
config = "readings.jsonl"
[flow.main.nodes.uplink]
component = "file"
config = { path = "out.jsonl", format = "jsonl" }
[[flow.main.edges]]
from = "readings"
to = "uplink"
carrier = "disk"
max_bytes = "16MiB"
"""
LOG = "readings:output->uplink"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    (tmp_path / "readings.jsonl").write_bytes(b'1\n{"a": NaN}\n\xff\n\x1b[31m\n2\n')
    return tmp_path


def torvyn(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), redirect_stdout(out), redirect_stderr(error):
        code = app.run(list(arguments))
    return code, out.getvalue(), error.getvalue()


def shown(folder: Path) -> dict[str, Any]:
    document = json.loads(torvyn(folder, "store", "show", "--format", "json")[1])
    (flow,) = document["flows"]
    assert isinstance(flow, dict)
    return flow


def test_one_bad_byte_and_a_nan_do_not_stop_the_flow_and_are_shown(folder: Path) -> None:
    code, _, message = torvyn(folder, "run")

    assert code == 0
    assert "3 set aside" in message
    assert "torvyn store show main" in message
    assert (folder / "out.jsonl").read_text() == "1\n2\n"
    flow = shown(folder)
    letters = flow["dead_letters"]["letters"]
    assert [(each["node"], each.get("payload"), each.get("base64")) for each in letters] == [
        ("readings", None, "/w=="),
        ("uplink", '{"a": NaN}', None),
        ("uplink", "\x1b[31m", None),
    ]
    assert (flow["running"], flow["edges"][0]["edge"]) == (False, LOG)
    text = torvyn(folder, "store", "show")[1]
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    assert "not valid JSON" in text


def test_letters_are_put_back_at_the_next_start_and_dropped_for_good(folder: Path) -> None:
    torvyn(folder, "run")
    (folder / "readings.jsonl").write_text("")
    manifest = (folder / "Torvyn.toml").read_text()
    (folder / "Torvyn.toml").write_text(manifest.replace('"jsonl"', '"lines"'))

    _, _, back = torvyn(folder, "store", "retry", "--all")
    assert "of `readings` cannot be put back" in back
    assert "2 dead letters put back; delivered when the flow starts the next time" in back
    assert torvyn(folder, "run", "--fresh")[0] == 0

    assert (folder / "out.jsonl").read_text() == '1\n2\n{"a": NaN}\n\x1b[31m\n'
    _, _, dropped = torvyn(folder, "store", "drop", "--node", "readings", "--yes")
    assert "1 element dropped" in dropped
    nodes = {each["node"]: each for each in shown(folder)["dead_letters"]["nodes"]}
    assert (nodes["uplink"]["returned"], nodes["readings"]["discarded"]) == (2, 1)


def test_what_cannot_be_done_is_said(folder: Path) -> None:
    torvyn(folder, "run")
    for arguments, message in (
        (("drop", "--all"), "nobody can be asked"),
        (("drop",), "say which dead letters"),
        (("retry", "--id", "99"), "there is no dead letter 99"),
        (("retry", "--node", "readings"), "no `disk` edge leads to it"),
        (("retry", "--node", "nobody"), "has no node `nobody`"),
        (("show", "other"), "unknown flow `other`"),
    ):
        code, _, error = torvyn(folder, "store", *arguments)
        assert code in (1, 2), arguments
        assert message in error


def test_a_backlog_is_shown_and_dropped_while_the_flow_does_not_run(folder: Path) -> None:
    path = folder / ".torvyn/main/flow.db"
    with DurableStore.open(path, {LOG: LogOptions(4 << 20)}) as store:
        store.commit(Transaction([Append(LOG, 0, 7, b"x" * 9_000, 0)]))
    (edge,) = shown(folder)["edges"]
    assert (edge["elements"], edge["bytes"]) == (7, 9_000)

    owner = lock_store(path)
    _, _, busy = torvyn(folder, "store", "drop", "--edge", LOG, "--yes")
    owner.release()
    _, _, done = torvyn(folder, "store", "drop", "--edge", LOG, "--yes")

    assert "durable.in-use" in busy
    assert "7 elements dropped" in done
    assert shown(folder)["edges"][0]["elements"] == 0


@pytest.mark.parametrize("name", ["flow.db", "dead-letters.db"])
def test_a_damaged_file_is_a_clear_error(folder: Path, name: str) -> None:
    torvyn(folder, "run")
    (folder / ".torvyn/main" / name).write_bytes(b"garbage" * 1000)

    code, _, error = torvyn(folder, "store", "show")

    assert code == 1
    assert "error[durable.damaged]" in error
    assert name in error
