"""Other programs agree: regctl and skopeo on artifacts, cosign on signatures."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import missing
import pytest
from registry_artifacts import add_artifact
from registry_servers import require, running

import oci_tools
from torvyn._artifact import signature
from torvyn._artifact.fetch import FetchOptions, attach_bundle, fetch
from torvyn._artifact.keys import ALGORITHMS, SigningKey
from torvyn._artifact.layout import Layout
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._artifact.trust import Rule, TrustPolicy
from torvyn._io.background_loop import run_apart

COSIGN = ("--insecure-ignore-tlog=true", "--allow-http-registry", "--key")


def run(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = oci_tools.program(name)
    if program is None:
        missing.skip(name)
    environ = {"HOME": str(folder), "COSIGN_PASSWORD": "", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def regctl(host: str, *arguments: str, folder: Path) -> str:
    config = {"hosts": {host: {"tls": "disabled", "hostname": host}}}
    (folder / ".regctl").mkdir(exist_ok=True)
    (folder / ".regctl" / "config.json").write_text(json.dumps(config))
    done = run("regctl", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def named(repository: str) -> str:
    return repository.removeprefix("oci://")


def push(layout: Layout, reference: str, *keys: SigningKey) -> str:
    artifact = add_artifact(layout)
    for key in keys:
        attach_bundle(layout, artifact, signature.sign(artifact.digest, key))
    run_apart(publish(layout, artifact, Reference.parse(reference), PublishOptions()))
    return artifact.digest


@pytest.mark.promise("edge.container-tools")
def test_regctl_reads_what_we_publish(repository: str, layout: Layout, tmp_path: Path) -> None:
    digest = push(layout, f"{repository}:1.0", SigningKey.generate())
    name, host = named(repository), Reference.parse(repository).host

    body = regctl(host, "manifest", "get", f"{name}:1.0", "--format", "raw-body", folder=tmp_path)
    listed = regctl(host, "artifact", "list", f"{name}:1.0", "--format", "body", folder=tmp_path)

    assert body.encode() == layout.path(layout.resolve(digest).digest).read_bytes()
    [entry] = json.loads(listed)["manifests"]
    assert entry["artifactType"] == signature.MEDIA_TYPE


def test_we_read_what_regctl_publishes(
    repository: str, layout: Layout, options: FetchOptions, tmp_path: Path
) -> None:
    artifact, key = add_artifact(layout), SigningKey.generate()
    attach_bundle(layout, artifact, signature.sign(artifact.digest, key))
    source, name = f"ocidir://{layout.folder}:1.0", f"{named(repository)}:1.0"
    host = Reference.parse(repository).host
    regctl(host, "image", "copy", "--referrers", source, name, folder=tmp_path)

    fetched = fetch(f"{repository}:1.0", options)

    assert fetched.descriptor.digest == artifact.digest


@pytest.mark.promise("edge.container-tools")
def test_skopeo_copies_an_artifact_to_another_registry(
    repository: str, layout: Layout, options: FetchOptions, tmp_path: Path
) -> None:
    require("docker-registry")
    if shutil.which("skopeo") is None:
        missing.skip("skopeo")
    digest = push(layout, f"{repository}:1.0")
    with running("docker-registry", tmp_path) as other:
        target = f"{other.host}/copied:1.0"
        no_tls = ["--src-tls-verify=false", "--dest-tls-verify=false"]
        command = ["skopeo", "copy", *no_tls, f"docker://{named(repository)}:1.0"]
        subprocess.run([*command, f"docker://{target}"], check=True, capture_output=True)

        assert fetch(f"oci://{target}", options).descriptor.digest == digest


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cosign_verifies_our_signatures(
    repository: str, layout: Layout, tmp_path: Path, algorithm: str
) -> None:
    key, stranger = SigningKey.generate(algorithm), SigningKey.generate(algorithm)
    digest = push(layout, f"{repository}:1.0", key)
    public, other = key.write(tmp_path / "key"), stranger.write(tmp_path / "other")
    artifact = f"{named(repository)}@{digest}"

    good = run("cosign", "verify", *COSIGN, str(public), artifact, folder=tmp_path)
    bad = run("cosign", "verify", *COSIGN, str(other), artifact, folder=tmp_path)

    assert good.returncode == 0, good.stderr
    assert bad.returncode != 0


def test_we_verify_the_signatures_of_cosign(
    repository: str, layout: Layout, options: FetchOptions, tmp_path: Path
) -> None:
    key = SigningKey.generate("ecdsa-p256")
    key.write(tmp_path / "key")
    digest = push(layout, f"{repository}:1.0")
    run("cosign", "import-key-pair", "--key", "key", folder=tmp_path)
    (tmp_path / "signing.json").write_text(SIGNING_CONFIG)
    signed = run(
        "cosign",
        "sign",
        "--key=import-cosign.key",
        "--signing-config=signing.json",
        "--allow-http-registry",
        "--yes",
        f"{named(repository)}@{digest}",
        folder=tmp_path,
    )
    assert signed.returncode == 0, signed.stderr

    strict = replace(options, policy=TrustPolicy((Rule("", "reject", (key.public,)),)))
    assert fetch(f"{repository}:1.0", strict).verification.signers == {key.public}


# Signs without a transparency log.
SIGNING_CONFIG = json.dumps(
    {"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "rekorTlogConfig": {}}
)
