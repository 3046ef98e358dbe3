"""`torvyn keys`: a key is shown once, stored as a hash, listed by name and revoked."""

from __future__ import annotations

import json
import re
import stat

import pytest
from transcript import HEAD

from torvyn.transport.access import key_file


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def test_a_key_is_printed_alone_and_kept_as_a_hash(cli, tmp_path) -> None:
    done = cli("keys", "add", "web")

    path = tmp_path / "config" / "torvyn" / "keys.json"
    assert done.code == 0
    assert re.fullmatch(r"tvk_[A-Za-z0-9_-]{43}\n", done.out)
    assert "not shown again" in done.err
    assert done.out.strip() not in done.err + path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_limits_are_kept_and_listed(cli) -> None:
    limits = ("--max-streams", 8, "--requests-per-minute", 60, "--tokens-per-second", "2.5")
    cli("keys", "add", "web", "--tenant", "shop", *limits, "--priority", "low", "--expires", "30d")
    done = cli("keys", "list", "--format", "json")

    (key,) = json.loads(done.out)["keys"]
    assert (key["name"], key["tenant"], key["max_streams"]) == ("web", "shop", 8)
    assert (key["requests_per_minute"], key["tokens_per_second"]) == (60, 2.5)
    assert (key["priority"], len(key["id"])) == ("low", 8)
    assert key["expires"] > key["created"]
    assert "hash" not in key


def test_the_list_is_a_table_without_keys_in_it(cli) -> None:
    key = cli("keys", "add", "web", "--max-streams", 8).out.strip()
    done = cli("keys", "list")

    head, row = done.out.splitlines()
    assert head.split() == ["name", "tenant", "id", "created", "expires", "limits"]
    assert row.split()[:2] == ["web", "web"]
    assert row.endswith("8 streams")
    assert key not in done.out


def test_json_output_has_the_key_and_its_record(cli) -> None:
    done = cli("keys", "add", "web", "--file", "k.json", "--format", "json")

    record = json.loads(done.out)
    assert record["key"].startswith("tvk_")
    assert (record["name"], record["file"], done.err) == ("web", "k.json", "")


def test_a_revoked_key_cannot_be_revoked_again(cli, tmp_path) -> None:
    cli("keys", "add", "web", "--file", "k.json")
    done = cli("keys", "revoke", "web", "--file", "k.json")
    again = cli("keys", "revoke", "web", "--file", "k.json")

    assert (done.code, done.out) == (0, "")
    assert not key_file.read(tmp_path / "k.json").keys
    assert (again.code, "error[transport.key-unknown]" in again.err) == (2, True)


FLOW = """
[flow.main.nodes.a]
component = "lines"
[flow.main.nodes.b]
component = "null"
[[flow.main.edges]]
from = "a"
to = "b"
"""


def test_the_manifest_names_the_key_file_and_the_audit_log(cli, tmp_path) -> None:
    serve = '[serve]\nkeys = "ours.json"\naudit = "file"\n'
    (tmp_path / "Torvyn.toml").write_text(HEAD + serve + FLOW)
    key = cli("keys", "add", "web").out.strip()
    cli("keys", "revoke", "web")

    text = (tmp_path / "torvyn-audit.jsonl").read_text()
    added, revoked = map(json.loads, text.splitlines())
    assert (tmp_path / "ours.json").exists()
    assert (added["event"], added["key"]) == ("key.added", "web")
    assert (revoked["event"], revoked["key_id"]) == ("key.revoked", added["key_id"])
    assert key not in text


@pytest.mark.parametrize("name", ["a b", "a\nb", "\x1b[2J", "", "tvk_secret", "x" * 65, "-"])
def test_names_with_control_characters_and_names_like_keys_are_rejected(
    cli, tmp_path, name: str
) -> None:
    done = cli("keys", "add", "--file", "k.json", "--", name)

    assert (done.code, done.out) == (2, "")
    assert "error[transport.key-invalid]" in done.err
    assert not (tmp_path / "k.json").exists()


def test_a_key_passed_as_a_name_is_not_printed(cli) -> None:
    key = cli("keys", "add", "web").out.strip()
    done = cli("keys", "revoke", key)

    assert done.code == 2
    assert key not in done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "cli.bad-usage"),
        (("lsit",), "cli.unknown-command"),
        (("add",), "cli.missing-argument"),
        (("add", "a", "--max-streams", "0"), "cli.bad-value"),
        (("add", "a", "--tokens-per-second", "nan"), "transport.key-invalid"),
        (("add", "a", "--priority", "hihg"), "cli.bad-value"),
        (("add", "a", "--expires", "soon"), "cli.bad-value"),
        (("add", "a", "--expires", "99999d"), "cli.bad-value"),
    ],
)
def test_invalid_values_are_rejected_with_a_message(cli, arguments, code: str) -> None:
    done = cli("keys", *arguments)

    assert (done.code, done.out) == (2, "")
    assert f"error[{code}]" in done.err
    assert len(done.err.splitlines()) <= 4


def test_a_list_of_a_file_that_is_not_there_says_how_to_make_it(cli) -> None:
    done = cli("keys", "list", "--file", "none.json")

    assert done.code == 3
    assert "torvyn keys add NAME --file none.json" in done.err


def test_an_empty_list_says_so(cli) -> None:
    cli("keys", "add", "web")
    cli("keys", "revoke", "web")
    done = cli("keys", "list")

    assert (done.code, done.out) == (0, "")
    assert "no keys" in done.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('[serve]\nkeys = "k.json"\n[flow.x.nodes.y]\nconfig = "${NOT_SET_ANYWHERE}"\n', 0),
        ('[serve]\nkeys = "k.json"\nprot = 1\n', 2),
        ("[serve\n", 2),
    ],
)
def test_keys_can_be_added_before_flows_can_run(cli, tmp_path, line: str, code: int) -> None:
    (tmp_path / "Torvyn.toml").write_text(HEAD + line)

    assert cli("keys", "add", "web").code == code
    assert (tmp_path / "k.json").exists() == (code == 0)
    assert not (tmp_path / "config").exists()


def test_a_change_that_cannot_be_audited_is_not_made(cli, tmp_path) -> None:
    serve = '[serve]\nkeys = "ours.json"\naudit = "file"\naudit_file = "no/audit"\n'
    (tmp_path / "Torvyn.toml").write_text(HEAD + serve + FLOW)
    done = cli("keys", "add", "web")

    assert (done.code, done.out) == (3, "")
    assert not (tmp_path / "ours.json").exists()


def test_a_place_that_cannot_be_written_is_an_error(cli, tmp_path) -> None:
    (tmp_path / "plain").write_text("")
    done = cli("keys", "add", "web", "--file", "plain/keys.json")

    assert (done.code, done.out) == (3, "")
    assert "error[transport.keys-unwritable]" in done.err
