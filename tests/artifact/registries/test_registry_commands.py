"""The commands against real registries: from a project to another machine that runs it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from torvyn._cli.app import run

EXAMPLE = Path(__file__).parents[3] / "examples" / "token-streaming"
Torvyn = Callable[..., tuple[int, str, str]]


@pytest.fixture
def torvyn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Torvyn:
    """A project that is packed and signed, on a machine of its own."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr("torvyn._artifact.trust.MACHINE_FILE", tmp_path / "none")
    shutil.copytree(EXAMPLE, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    assert call("pack")[0] == 0
    assert call("sign", "--generate-key", "plant.key")[0] == 0
    assert call("sign", "oci:dist", "--key", "plant.key")[0] == 0
    return call


def trust(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "XDG_CONFIG_HOME" / "torvyn"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trust.toml").write_text(text)


def test_a_published_project_runs_from_its_reference(
    torvyn: Torvyn, repository: str, tmp_path: Path
) -> None:
    key = tmp_path / "project" / "plant.key.pub"
    trust(tmp_path, f'[[source]]\nprefix = "{repository}"\nkeys = ["{key}"]')
    code, published, _ = torvyn("publish", "oci:dist", repository)
    assert code == 0
    assert "@sha256:" in published

    code, out, err = torvyn("run", f"{repository}:0.1.0")

    assert code == 0, err
    assert out == torvyn("run")[1]
    assert "warning" not in err


def test_an_unsigned_project_is_not_run_under_reject(
    torvyn: Torvyn, repository: str, tmp_path: Path
) -> None:
    torvyn("pack", "--output", "unsigned")
    torvyn("publish", "oci:unsigned", repository)
    trust(tmp_path, 'default = "reject"')

    code, out, err = torvyn("run", f"{repository}:0.1.0")

    assert (code, out) == (2, "")
    assert "error[artifact.signature-missing]" in err


def test_without_a_policy_an_unsigned_project_runs_with_a_warning(
    torvyn: Torvyn, repository: str
) -> None:
    torvyn("pack", "--output", "unsigned")
    torvyn("publish", "oci:unsigned", repository)

    code, _, err = torvyn("run", f"{repository}:0.1.0")

    assert code == 0
    assert "warning[artifact.signature-missing]" in err


@pytest.mark.promise("edge.offline")
def test_what_was_pulled_runs_offline(torvyn: Torvyn, repository: str) -> None:
    torvyn("publish", "oci:dist", repository)
    assert torvyn("run", f"{repository}:0.1.0", "--offline")[0] == 3
    assert torvyn("pull", f"{repository}:0.1.0", "--key", "plant.key.pub")[0] == 0

    assert torvyn("run", f"{repository}:0.1.0", "--offline")[0] == 0


def test_a_pulled_layout_has_the_signatures(torvyn: Torvyn, repository: str) -> None:
    torvyn("publish", "oci:dist", repository)
    pulled = torvyn("pull", f"{repository}:0.1.0", "--output", "stick")
    assert pulled[:2] == (0, "oci:stick:0.1.0\n")

    assert torvyn("verify", "oci:stick", "--key", "plant.key.pub")[0] == 0


def test_a_changed_file_is_found_by_verify(torvyn: Torvyn, tmp_path: Path) -> None:
    _, out, _ = torvyn("inspect", "oci:dist", "--format", "json")
    for file in json.loads(out)["files"]:
        blob = tmp_path / "project/dist/blobs/sha256" / file["digest"].removeprefix("sha256:")
        before = blob.read_bytes()
        blob.write_bytes(bytes([before[0] ^ 1]) + before[1:])
        code, _, err = torvyn("verify", "oci:dist", "--key", "plant.key.pub")
        assert code == 2
        assert "error[artifact.digest-mismatch]" in err
        blob.write_bytes(before)


def test_an_artifact_in_a_registry_is_signed_and_verified(torvyn: Torvyn, repository: str) -> None:
    torvyn("publish", "oci:dist", repository)
    torvyn("sign", "--generate-key", "later.key")
    reference, key = f"{repository}:0.1.0", ("--key", "later.key.pub")
    assert torvyn("verify", reference, *key)[0] == 2
    assert torvyn("sign", reference, "--key", "later.key", "--expires", "90d")[0] == 0

    code, out, _ = torvyn("verify", reference, *key, "--format", "json")

    assert code == 0
    assert [signer["name"] for signer in json.loads(out)["signers"]] == ["later.key.pub"]


def test_inspect_describes_an_artifact_in_a_registry(torvyn: Torvyn, repository: str) -> None:
    torvyn("publish", "oci:dist", repository)

    code, out, _ = torvyn("inspect", f"{repository}:0.1.0")

    assert code == 0
    assert "Torvyn.toml" in out


def test_publishing_another_artifact_under_a_tag_needs_replace(
    torvyn: Torvyn, repository: str
) -> None:
    torvyn("publish", "oci:dist", repository)
    torvyn("pack", "--revision", "2")

    assert torvyn("publish", "oci:dist", repository)[0] == 3
    assert torvyn("publish", "oci:dist", repository, "--replace")[0] == 0


def test_an_artifact_with_two_tags_is_published_under_the_one_that_was_named(
    torvyn: Torvyn, repository: str
) -> None:
    torvyn("pack", "--tag", "1.0")

    code, out, err = torvyn("publish", "oci:dist:1.0", repository)

    assert code == 0, err
    assert out.startswith(f"{repository}:1.0@sha256:")
    assert torvyn("publish", "oci:dist", repository)[0] != 0
