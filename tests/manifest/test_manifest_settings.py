"""Settings: who wins, where a value came from, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._manifest.parse import parse
from torvyn._manifest.settings import resolve
from torvyn._observe.otlp_exporter import MIN_SPOOL_BYTES
from torvyn.errors import ManifestError

HEAD = (
    '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
    '[flow.main]\ndescription = "${TORVYN_NOTE}"\n'
)
NAME = "runtime.worker_threads"
VARIABLE = "TORVYN_RUNTIME__WORKER_THREADS"


def user_config(folder: Path, text: str) -> dict[str, str]:
    file = folder / "torvyn" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder), "TORVYN_NOTE": "n"}


def test_flags_win_over_environment_over_manifest_over_user_over_default(tmp_path: Path) -> None:
    environ = user_config(tmp_path, "[runtime]\nworker_threads = 1\n")
    plain = parse(HEAD, environ=environ)
    said = parse(HEAD + "[runtime]\nworker_threads = 2\n", environ=environ)
    louder = {**environ, VARIABLE: "3"}
    found = [
        resolve(plain, environ={"TORVYN_NOTE": "n"}),
        resolve(plain, environ=environ),
        resolve(said, environ=environ),
        resolve(said, environ=louder),
        resolve(said, environ=louder, flags={NAME: "4"}),
    ]

    assert [settings[NAME] for settings in found] == [0, 1, 2, 3, 4]
    assert [settings.values[NAME].origin for settings in found] == [
        "default",
        "user",
        "manifest",
        "environment",
        "flag",
    ]


def test_a_setting_knows_where_it_was_written(tmp_path: Path) -> None:
    environ = user_config(tmp_path, '[observability]\nlevel = "off"\n')
    said = parse(HEAD + '[runtime]\nturn_time = "2ms"\n', environ=environ)
    settings = resolve(said, environ={**environ, VARIABLE: "3"})

    assert str(settings.values["runtime.turn_time"].location) == (
        "Torvyn.toml:8:13, runtime.turn_time"
    )
    assert settings.values["runtime.turn_time"].text == "2ms"
    assert str(settings.values["observability.level"].location).endswith(
        "torvyn/config.toml:2:9, observability.level"
    )
    assert str(settings.values[NAME].location) == f"environment, {VARIABLE}"


def test_a_share_may_stand_in_the_environment() -> None:
    variable = "TORVYN_OBSERVABILITY__SAMPLE_RATE"
    settings = resolve(environ={variable: "0.25"})

    assert settings["observability.sample_rate"] == 0.25
    for wrong in ("2", "-1", "much", "1e3"):
        with pytest.raises(ManifestError):
            resolve(environ={variable: wrong})


def test_all_wrong_settings_are_told_in_one_run(tmp_path: Path) -> None:
    environ = user_config(tmp_path, '[runtim]\nx = 1\n[runtime]\nturn_time = "soon"\n')
    environ |= {VARIABLE: "many", "TORVYN_RUNTIME__TURN_TIM": "1s"}
    with pytest.raises(ManifestError) as caught:
        resolve(environ=environ, flags={"runtime.cal_timeout": "1s"})
    found = {diagnostic.code: diagnostic for diagnostic in caught.value.diagnostics}
    hints = {diagnostic.hint for diagnostic in caught.value.diagnostics}

    assert set(found) == {
        "manifest.unknown-key",
        "manifest.bad-duration",
        "manifest.wrong-type",
        "manifest.setting-unknown",
    }
    assert "did you mean `runtime`?" in hints
    assert "did you mean `TORVYN_RUNTIME__TURN_TIME`?" in hints
    assert "did you mean `runtime.call_timeout`?" in hints


def test_a_removed_setting_is_unknown_and_its_hint_says_why_it_can_go(tmp_path: Path) -> None:
    old = '[security]\ndefault_capability_policy = "deny-all"\n'
    variable = {"TORVYN_SECURITY__DEFAULT_CAPABILITY_POLICY": "deny-all"}
    hint = "remove it: everything is denied unless `[security.grants]` grants it"
    with pytest.raises(ManifestError) as in_file:
        parse(HEAD + old, environ={"TORVYN_NOTE": "n"})
    with pytest.raises(ManifestError) as in_user_config:
        resolve(environ=user_config(tmp_path, old) | variable)

    assert (in_file.value.code, in_file.value.hint) == ("manifest.unknown-key", hint)
    assert "unknown key `default_capability_policy` in `[security]`" in in_file.value.message
    diagnostics = [d for d in in_user_config.value.diagnostics if "TORVYN_NOTE" not in d.message]
    assert [(d.code, d.hint) for d in diagnostics] == [
        ("manifest.unknown-key", hint),
        ("manifest.setting-unknown", hint),
    ]


@pytest.mark.parametrize("size", ["1B", "64KiB", "1MiB", f"{MIN_SPOOL_BYTES - 1}B"])
def test_a_spool_without_room_is_an_error_with_its_line(size: str) -> None:
    text, environ = f'[observability]\nmax_spool = "{size}"\n', {"TORVYN_NOTE": "n"}
    with pytest.raises(ManifestError, match="it must be at least 2MiB") as caught:
        parse(HEAD + text, environ=environ)
    assert "Torvyn.toml:8:13" in caught.value.render()
    with pytest.raises(ManifestError, match="at least 2MiB"):
        resolve(environ={"TORVYN_OBSERVABILITY__MAX_SPOOL": size})


def test_the_smallest_spool_has_room() -> None:
    settings = resolve(environ={"TORVYN_OBSERVABILITY__MAX_SPOOL": "2MiB"})

    assert settings["observability.max_spool"] == MIN_SPOOL_BYTES


def test_a_variable_that_the_manifest_asks_for_is_no_wrong_setting() -> None:
    environ = {"TORVYN_NOTE": "n"}
    asked = parse(HEAD, environ=environ)

    assert resolve(asked, environ=environ)[NAME] == 0
    with pytest.raises(ManifestError, match="unknown setting `TORVYN_NOTE`"):
        resolve(environ=environ)


def test_the_home_folder_holds_the_user_config_without_xdg(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "torvyn" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[runtime]\nturn_elements = 7\n")

    assert resolve(environ={"HOME": str(tmp_path)})["runtime.turn_elements"] == 7


def test_a_list_is_written_with_commas_where_there_is_no_toml() -> None:
    environ = {"TORVYN_SERVE__HOSTS": "a.example, b.example"}
    settings = resolve(environ=environ)

    assert settings["serve.hosts"] == ("a.example", "b.example")
    assert settings.values["serve.hosts"].text == "a.example,b.example"
