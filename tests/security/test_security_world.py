"""Environment, clocks, random numbers and output: what a guest learns about its host."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

import torvyn
from torvyn.errors import Internal

pytestmark = pytest.mark.timeout(180)

SECRET = "hunter2-hunter2"


def test_a_guest_sees_the_variables_that_are_granted_and_no_other(project, monkeypatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    monkeypatch.setenv("OTHER_KEY", "other")

    assert project.try_("environment", grants=[])[0] == ["ok "]
    granted = project.try_("environment", grants=["environment:read:API_KEY,NOT_SET"])
    assert granted[0] == [f"ok API_KEY={SECRET};"]


def test_a_granted_value_is_in_no_error_and_no_log(project, monkeypatch, caplog) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    manifest = project.write(["environment:read:API_KEY"], node='on_error = "skip"')
    project.ask("fail API_KEY")

    with caplog.at_level(logging.DEBUG, "torvyn"):
        torvyn.load(manifest).flow("main").run()

    assert "[redacted]" in caplog.text
    assert SECRET not in caplog.text


def test_a_granted_value_is_not_in_the_error_of_a_flow_that_fails(project, monkeypatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    manifest = project.write(["environment:read:API_KEY"])
    project.ask("fail API_KEY")

    with pytest.raises(Internal) as caught:
        torvyn.load(manifest).flow("main").run()

    assert SECRET not in caught.value.render()
    assert SECRET not in str(caught.value)


def test_strong_random_numbers_need_a_grant(project) -> None:
    assert project.try_("random", grants=[])[1] == {"random:crypto": 1}
    assert project.try_("random", grants=["random:crypto"])[1] == {}


def test_a_deterministic_guest_gives_the_same_twice_and_sleeps_in_no_time(project) -> None:
    def fate(seed: int) -> list[str]:
        node = f"deterministic = true\nseed = {seed}"
        return project.try_("fate", "fate", grants=["random:crypto"], node=node)[0]

    first, again, other = fate(7), fate(7), fate(8)

    assert first == again
    assert first[0] != first[1]
    assert first[0].split()[4] != other[0].split()[4], "random numbers follow from the seed"


def test_prints_without_a_grant_go_to_the_log_with_their_controls_shown(
    project, caplog, capsys
) -> None:
    with caplog.at_level(logging.INFO, "torvyn"):
        project.try_("print a\x1b[2Jb", grants=[])

    assert "tries: a\\x1b[2Jb" in caplog.text
    assert "\x1b" not in caplog.text + capsys.readouterr().out


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


HOSTILE = "a\x1b[2Jb\u202ec\x9bd\u2028e"


@pytest.mark.parametrize("stream", [Screen(), io.StringIO()])
def test_granted_prints_reach_a_terminal_with_their_controls_shown_and_a_file_as_they_are(
    project, monkeypatch, stream
) -> None:
    monkeypatch.setattr("sys.stdout", stream)

    project.try_(f"print {HOSTILE}", grants=["stdio:stdout"])

    shown = "a\\x1b[2Jb\\u202ec\\x9bd\\u2028e"
    assert stream.getvalue() == (shown if stream.isatty() else HOSTILE) + "\n"


def test_controls_of_direction_are_shown_in_the_log(project, caplog) -> None:
    with caplog.at_level(logging.INFO, "torvyn"):
        project.try_(f"print {HOSTILE}", grants=[])

    assert "tries: a\\x1b[2Jb\\u202ec\\x9bd\\u2028e" in caplog.text


def test_a_seed_without_deterministic_is_refused(project) -> None:
    with pytest.raises(torvyn.errors.LinkError, match="is not deterministic"):
        torvyn.load(project.write([], node="seed = 3")).flow("main")


def test_in_process_parts_have_no_deterministic(tmp_path: Path) -> None:
    flow = torvyn.Flow()
    flow.add("a", torvyn.source(["x"]), deterministic=True)
    with pytest.raises(torvyn.errors.LinkError, match="is not sandboxed"):
        _ = flow.plan
