"""Settings of flows that a program builds: kept between flows, never older than their sources."""

import os

import pytest

import torvyn
from torvyn._manifest import settings as module
from torvyn._manifest.settings import process_settings
from torvyn.errors import ManifestError


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The path of a user's config that is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "torvyn" / "config.toml"
    file.parent.mkdir()
    return file


def turn_elements():
    return torvyn.Flow(["a"]).plan.runtime.turn_elements


def write(file, elements, age_s=3600):
    file.write_text(f"[runtime]\nturn_elements = {elements}\n")
    stamp = file.stat().st_mtime - age_s
    os.utime(file, (stamp, stamp))


def test_a_change_of_the_environment_is_seen_by_the_next_flow(config, monkeypatch):
    before = turn_elements()
    monkeypatch.setenv("TORVYN_RUNTIME__TURN_ELEMENTS", "7")
    assert turn_elements() == 7
    monkeypatch.delenv("TORVYN_RUNTIME__TURN_ELEMENTS")
    assert turn_elements() == before


def test_a_wrong_variable_is_refused_for_every_flow(config, monkeypatch):
    turn_elements()
    monkeypatch.setenv("TORVYN_RUNTIME__TURN_ELEMENTZ", "7")
    for _ in range(2):
        with pytest.raises(ManifestError, match="unknown setting"):
            turn_elements()
    monkeypatch.delenv("TORVYN_RUNTIME__TURN_ELEMENTZ")
    assert turn_elements()


def test_a_config_that_comes_changes_and_goes_is_seen(config):
    before = turn_elements()
    for elements in (5, 6):
        write(config, elements)
        assert turn_elements() == elements
    config.unlink()
    assert turn_elements() == before


def test_a_change_within_the_resolution_of_time_stamps_is_seen(config, monkeypatch):
    """Same size, same inode, same time stamps: nothing but the reading tells them apart."""
    monkeypatch.setattr(module, "_stamp", lambda path: (1, 1, 1, 0, 0))
    monkeypatch.setattr(module.time, "time_ns", lambda: module._FRESH_NS - 1)
    for elements in (5, 6):
        write(config, elements)
        assert turn_elements() == elements


def test_a_variable_that_the_config_names_is_seen(config, monkeypatch):
    config.write_text('[security]\naudit_file = "${TORVYN_TEST_FILE}"\n')
    for name in ("a.log", "b.log"):
        monkeypatch.setenv("TORVYN_TEST_FILE", name)
        assert torvyn.Flow(["a"]).plan.audit_file.endswith(name)


def test_another_folder_is_another_config_and_another_audit_file(config, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    for number, name in enumerate(("one", "two"), 5):
        folder = tmp_path / name / "here" / "torvyn"
        folder.mkdir(parents=True)
        write(folder / "config.toml", number)
        monkeypatch.chdir(tmp_path / name)
        assert turn_elements() == number
        assert torvyn.Flow(["a"]).plan.audit_file.startswith(str(tmp_path / name))


def test_what_has_not_changed_is_not_read_again(config, monkeypatch):
    write(config, 5)
    # An hour after the file was written, as its time of change cannot be set back.
    now_ns = config.stat().st_ctime_ns + 3600 * 10**9
    monkeypatch.setattr(module.time, "time_ns", lambda: now_ns)
    assert process_settings() is process_settings()
