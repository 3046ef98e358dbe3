"""Precompiled code of a generation is used only if whoever signed the artifact is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from projects import make_project, pack_project

from torvyn._artifact.precompiled import TRIPLES, code_path, host_target
from torvyn._artifact.unpack import default_cache_dir, prepare, remember_local_pack
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_process import generation_command
from torvyn._deploy.settings import DeploymentSettings
from torvyn._deploy.update import add_artifact, add_from_layout
from torvyn._sandbox import compiler

WASM = "components/guard.wasm"
HERE = host_target()

pytestmark = pytest.mark.skipif(HERE not in TRIPLES, reason=f"no code is compiled for {HERE}")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no code yet."""
    monkeypatch.setattr(compiler, "_precompiled", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "gateway")


@pytest.fixture
def packed(tmp_path: Path) -> Any:
    return pack_project(make_project(tmp_path / "project"), targets=(HERE,))


@pytest.mark.parametrize("is_own", [True, False])
def test_what_was_packed_here_is_trusted_and_what_nobody_signed_is_not(
    deployment: Deployment, packed: Any, is_own: bool
) -> None:
    if is_own:
        remember_local_pack(packed.descriptor.digest, default_cache_dir())

    record, _ = add_artifact(deployment, f"oci:{packed.layout.folder}")

    assert deployment.record(record.number).is_trusted == is_own


@pytest.mark.parametrize("is_trusted", [True, False])
def test_the_command_of_a_generation_passes_the_decision_on(
    deployment: Deployment, packed: Any, is_trusted: bool
) -> None:
    record = add_from_layout(
        deployment, packed.layout, packed.descriptor, "dist", is_trusted=is_trusted
    )

    words = generation_command(deployment, DeploymentSettings(), record)

    assert ("--trusted" in words) == is_trusted


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_generation_uses_its_code_if_it_is_trusted(
    deployment: Deployment, packed: Any, is_trusted: bool, tmp_path: Path
) -> None:
    record = add_from_layout(deployment, packed.layout, packed.descriptor, "dist")
    project = deployment.project(record.number).resolve()

    prepare(str(project), tmp_path / "cache", is_trusted=is_trusted)

    used = {project / WASM: project / code_path(WASM, HERE)} if is_trusted else {}
    assert compiler._precompiled == used
