"""Each option of `torvyn deploy` and `torvyn deploy channel` has an effect, or is refused, whatever
stands beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import click
import pytest
from scale import sample
from versioned_gateway import pack

from torvyn._artifact.keys import SigningKey
from torvyn._cli import app
from torvyn._cli.commands.channel import command as channel_command
from torvyn._cli.commands.deploy import command as deploy_command
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.deployment_run import DeploymentRun

Words = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    command: str
    words: Words
    """Names in capitals stand for paths."""
    options: Mapping[str, Words] = field(default_factory=dict)
    """Something to add, by the parameter that it is for."""
    given: Sequence[str] = ()
    """Parameters that `words` give already."""


FOLLOW = {
    "channel": ("--channel", "testing"),
    "artifact": ("--artifact", "other"),
    "interval": ("--interval", "1h"),
    "heartbeat": ("--heartbeat", "http://127.0.0.1:9/reports"),
    "device": ("--device", "gw-7"),
    "insecure": ("--insecure",),
    "replace_keys": ("--replace-keys",),
    "stop": ("--stop",),
}
SIGN = {
    "artifacts": ("--artifact", "meter=LAYOUT:1.0.0"),
    "keys": ("--key", "NEXT"),
    "passphrase_file": ("--passphrase-file", "PHRASE"),
    "channel": ("--channel", "testing"),
    "version": ("--version", "9"),
    "min_version": ("--min-version", "2"),
    "expires": ("--expires", "30"),
    "rollout": ("--rollout", "10"),
    "salt": ("--salt", "x"),
    "torvyn": ("--torvyn", ">=0"),
    "dropped": ("--drop", "gateway"),
    "allow_lower_version": ("--allow-lower-version",),
}
SIGNED = ("channel", "sign", "CHANNEL", "--artifact", "gateway=LAYOUT:2.0.0", "--key", "RELEASE")
SCENARIOS = {
    "add": Scenario(
        "add",
        ("add", "gateway", "LAYOUT:2.0.0"),
        {
            "is_activated": ("--activate",),
            "flows": ("--flow", "main"),
            "is_all": ("--all",),
            "is_served": ("--serve",),
            "insecure": ("--insecure",),
        },
        ("artifact",),
    ),
    "list": Scenario("list", ("list",), {"name": ("gateway",)}),
    "activate": Scenario("activate", ("activate", "gateway"), {"number": ("1",)}),
    "rollback": Scenario("rollback", ("rollback", "gateway")),
    "gc": Scenario("gc", ("gc", "gateway"), {"keep": ("--keep", "0")}),
    "run": Scenario(
        "run",
        ("run", "gateway"),
        {
            "health_period": ("--health-period", "5m"),
            "exchange": ("--exchange", "process"),
            "verify": ("--verify", "off"),
        },
    ),
    "update": Scenario("update", ("update", "gateway")),
    "follow a known channel": Scenario(
        "follow",
        ("follow", "gateway", "CHANNEL"),
        {**FOLLOW, "keys": ("--key", "NEXT.pub"), "threshold": ("--threshold", "2")},
        ("source",),
    ),
    "follow a new channel": Scenario(
        "follow",
        ("follow", "new", "oci://127.0.0.1:9/a:b", "--key", "RELEASE.pub", "--key", "NEXT.pub"),
        {**FOLLOW, "threshold": ("--threshold", "2")},
        ("source", "keys"),
    ),
    "follow nothing": Scenario("follow", ("follow", "gateway"), {"source": ("x.json",), **FOLLOW}),
    "sign": Scenario("sign", SIGNED, SIGN, ("file",)),
    "sign a new channel": Scenario("sign", ("channel", "sign", "OTHER", *SIGNED[3:]), SIGN),
    "sign a lower version": Scenario("sign", (*SIGNED, "--version", "1"), SIGN | {"version": ()}),
    "sign fewer artifacts": Scenario(
        "sign",
        ("channel", "sign", "CHANNEL", "--artifact", "meter=LAYOUT:2.0.0", "--key", "RELEASE"),
        SIGN | {"artifacts": ("--artifact", "gateway=LAYOUT:1.0.0")},
    ),
    "countersign": Scenario(
        "countersign",
        ("channel", "countersign", "CHANNEL", "--key", "NEXT"),
        {
            "keys": ("--key", "THIRD"),
            "passphrase_file": ("--passphrase-file", "PHRASE"),
        },
        ("file",),
    ),
    "rotate": Scenario(
        "rotate",
        ("channel", "rotate", "CHANNEL", "--key", "RELEASE", "--new-key", "NEXT"),
        {
            "keys": ("--key", "THIRD"),
            "new_keys": ("--new-key", "THIRD"),
            "threshold": ("--threshold", "2"),
            "passphrase_file": ("--passphrase-file", "PHRASE"),
        },
        ("file",),
    ),
    "push": Scenario(
        "push",
        ("channel", "push", "CHANNEL", "oci://127.0.0.1:9/a"),
        {"insecure": ("--insecure",)},
        ("file", "target"),
    ),
    "show": Scenario("show", ("channel", "show", "CHANNEL"), given=("file",)),
    "verify": Scenario(
        "verify",
        ("channel", "verify", "CHANNEL", "--key", "RELEASE.pub"),
        {"threshold": ("--threshold", "2"), "channel": ("--channel", "testing")},
        ("file", "keys"),
    ),
}
EVERYWHERE = {"format", "color", "quiet", "verbose", "name", "root"}


def commands() -> dict[str, click.Command]:
    found = {**deploy_command.commands, **channel_command.commands}
    return {name: each for name, each in found.items() if not isinstance(each, click.Group)}


def test_every_parameter_of_every_command_is_tried() -> None:
    tried: dict[str, set[str]] = {}
    for scenario in SCENARIOS.values():
        tried.setdefault(scenario.command, set()).update({*scenario.options, *scenario.given})

    for name, command in commands().items():
        wanted = {parameter.name for parameter in command.params} - EVERYWHERE
        assert wanted <= tried[name], name


class World:
    """A folder with keys, layouts, a channel and a deployment that follows it."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capfd = folder / "world", capfd
        self._saved = folder / "saved"
        self.names = {
            "LAYOUT": f"oci:{self.folder}/site",
            "CHANNEL": f"{self.folder}/site/channel.json",
            "OTHER": f"{self.folder}/site/other.json",
            **{name: f"{self.folder}/{name}" for name in ("RELEASE", "NEXT", "THIRD", "PHRASE")},
        }
        self.folder.mkdir()
        for name in ("RELEASE", "NEXT", "THIRD"):
            SigningKey.generate(name=name).write(self.folder / name)
        (self.folder / "PHRASE").write_text("secret\n")
        for version in ("1.0.0", "2.0.0"):
            pack(self.folder / "site", version, self.folder / "delivered.txt")
        first = ("--artifact", "gateway=LAYOUT:1.0.0", "--key", "RELEASE")
        for words in (
            ("channel", "sign", "CHANNEL", *first),
            ("channel", "sign", "CHANNEL", *first),
            ("follow", "gateway", "CHANNEL", "--key", "RELEASE.pub"),
            ("update", "gateway"),
            ("add", "gateway", "LAYOUT:2.0.0"),
        ):
            assert self.run(words)[0] == 0
        Deployment(self.folder / "root/second").create()
        Deployment(self.folder / "root/gateway").change(lambda state, _: state.mark_good(1))
        self.folder.rename(self._saved)

    def outcome(self, words: Words) -> tuple[object, ...]:
        """What a command prints and leaves, begun anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._saved, self.folder, symlinks=True)
        code, text = self.run(words)
        files = [*self.folder.rglob("channel.json"), *self.folder.rglob("other.json")]
        files += [*self.folder.glob("root/*/*.json"), *self.folder.glob("root/*/generations/*")]
        return code, text, [path.is_file() and path.read_text() for path in sorted(files)], files

    def run(self, words: Words) -> tuple[int, str]:
        is_about_deployments = words[0] != "channel"
        places = ("--root", f"{self.folder}/root") if is_about_deployments else ()
        self._capfd.readouterr()
        code = app.run(["deploy", *map(self._path, words), *places, "--format", "json"])
        return code, "".join(self._capfd.readouterr())

    def _path(self, word: str) -> str:
        for name, path in self.names.items():
            word = word.replace(name, path)
        return word


@pytest.fixture
def world(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> World:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    monkeypatch.setattr(DeploymentRun, "run", _print_options)
    return World(tmp_path, capfd)


def _print_options(run: DeploymentRun) -> int:
    options = run._options
    print(json.dumps([options.health_s, options.exchange is None, options.verify]))
    return 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_option_does_something_or_is_refused(world: World, name: str) -> None:
    scenario = SCENARIOS[name]
    alone = {
        option: world.outcome((*scenario.words, *words))
        for option, words in scenario.options.items()
        if words
    }
    base = world.outcome(scenario.words)

    for option, outcome in alone.items():
        assert outcome[0] in (2, 3) or outcome != base, option
    for one, other in [*combinations(alone, 2)][:: sample(12, full=1)]:
        words = (*scenario.options[one], *scenario.options[other])
        outcome = world.outcome((*scenario.words, *words))
        assert outcome[0] in (2, 3) or outcome not in (alone[one], alone[other]), (one, other)
