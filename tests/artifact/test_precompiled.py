"""Precompiled code: for every machine of a target, and used only from an author who is trusted."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from projects import content, make_project, pack_project

from torvyn import _native
from torvyn._artifact.precompiled import TRIPLES, code_path, fitting_code, host_target
from torvyn._artifact.unpack import prepare_project, remember_local_pack
from torvyn._io.native_parts import built_in
from torvyn._sandbox import compiler
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject
from torvyn.errors import MissingError, UsageError

WASM = "components/guard.wasm"
HERE = host_target()
OTHER = next(target for target in TRIPLES if target != HERE)
TARGETS = tuple(TRIPLES) if "cross" in built_in() else (HERE,)
"""Those that this build compiles for. `test_wheel.py` compiles for all of them."""

pytestmark = pytest.mark.skipif(HERE not in TRIPLES, reason=f"no code is compiled for {HERE}")


@pytest.fixture(autouse=True)
def no_code_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_precompiled", {})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_an_artifact_has_code_for_each_target(project: Path) -> None:
    files = pack_project(project, targets=TARGETS).manifest.files()

    code = {path: layer.media_type for path, layer in files.items() if path.endswith(".cwasm")}
    kind = "application/vnd.torvyn.precompiled.v1"
    assert code == {code_path(WASM, target): kind for target in TARGETS}


def test_code_is_compiled_to_the_same_bytes(project: Path, tmp_path: Path) -> None:
    one = pack_project(project, targets=TARGETS, output=tmp_path / "one")
    two = pack_project(project, targets=TARGETS, output=tmp_path / "two")

    assert content(one.layout) == content(two.layout)


@pytest.mark.parametrize("why", ["nobody", "signed", "packed here"])
def test_code_is_used_only_from_an_author_who_is_trusted(
    project: Path, tmp_path: Path, why: str
) -> None:
    made = pack_project(project, targets=TARGETS)
    if why == "packed here":
        remember_local_pack(made.descriptor.digest, tmp_path / "cache")

    found = prepare_project(
        made.layout, made.descriptor, tmp_path / "cache", is_trusted=why == "signed"
    )

    used = {} if why == "nobody" else {found.folder / WASM: found.folder / code_path(WASM, HERE)}
    assert compiler._precompiled == used


@pytest.mark.promise("edge.whole-deployments")
def test_a_guest_runs_from_its_code_without_being_compiled(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pack_project(project, targets=(HERE,))
    found = prepare_project(made.layout, made.descriptor, tmp_path / "cache", is_trusted=True)
    monkeypatch.setattr(compiler, "precompile", pytest.fail)

    compiled = compiler.compile_component(found.folder / WASM, "guard", tmp_path / "compiled")

    assert compiled.role == "processor"
    assert not (tmp_path / "compiled").exists()


def test_code_of_another_engine_is_not_looked_at(tmp_path: Path) -> None:
    here = code_path(WASM, HERE)
    others = [here.replace(".cwasm", "0.cwasm"), here.replace(HERE, OTHER)]

    assert list(fitting_code(tmp_path, [WASM, *others])) == []


def test_code_that_the_engine_refuses_is_compiled_again(
    tmp_path: Path, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "code").write_bytes(b"\x7fELF not code")
    compiler.use_precompiled(project / WASM, tmp_path / "code")

    with caplog.at_level(logging.WARNING):
        compiled = compiler.compile_component(project / WASM, "guard", tmp_path / "compiled")

    assert compiled.role == "processor"
    assert "cannot be used" in caplog.text


def test_an_unknown_target_is_refused_before_anything_is_written(project: Path) -> None:
    with pytest.raises(UsageError, match="is not a target"):
        pack_project(project, targets=("z80-cpm",))
    assert not (project / "dist").exists()


def test_code_for_another_architecture_needs_its_compiler(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "PARTS", ["sandbox"])

    with pytest.raises(MissingError, match="without its part `cross`"):
        pack_project(project, targets=(OTHER,))
    assert not (project / "dist").exists()


START = """
import sys, time
from pathlib import Path
from torvyn._artifact.unpack import use_code
from torvyn._sandbox.component import guest_class

folder, wasm = Path(sys.argv[1]), "components/guard/build/guard.wasm"
files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
started = time.process_time()
use_code(folder, files)
guest = guest_class(folder / wasm, "guard")()
guest.init("")
print(time.process_time() - started)
guest.teardown()
"""


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_precompiled_python_guest_starts_within_200_ms(project: Path, tmp_path: Path) -> None:
    folder = project / "components" / "guard"
    folder.mkdir()
    text = "import torvyn\nclass A(torvyn.Processor):\n    def process(self, e): return e.text\n"
    (folder / "component.py").write_text(text)
    build(GuestProject("guard", folder, "python"))
    manifest = (project / "Torvyn.toml").read_text()
    isolated = 'path = "components/guard"\nisolation = "wasm"'
    manifest = manifest.replace('path = "components/guard.wasm"', isolated)
    (project / "Torvyn.toml").write_text(manifest)
    made = pack_project(project, targets=(HERE,), updates_lock=True)
    found = prepare_project(made.layout, made.descriptor, tmp_path / "cache")

    # Processor time, so that a busy machine does not matter; compiling it takes 17 s.
    command = [sys.executable, "-c", START, str(found.folder)]
    times = [float(subprocess.check_output(command, text=True)) for _ in range(3)]
    assert min(times) < 0.2
