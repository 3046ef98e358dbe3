"""Hostile manifests: what they name is looked at before it is read, and never for long."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import torvyn
from torvyn.errors import TorvynError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
FLOW = """
[[component]]
name = "guest"
path = "{path}"
[flow.main.nodes.in]
component = "guest"
[flow.main.nodes.out]
component = "null"
[[flow.main.edges]]
from = "in"
to = "out"
"""


def codes(file: Path) -> list[str]:
    started = time.monotonic()
    with pytest.raises(TorvynError) as caught:
        torvyn.load(file).flow("main")
    assert time.monotonic() - started < 10 * 2
    return [found.code for found in caught.value.diagnostics]


@pytest.mark.parametrize("path", ["/dev/zero", "../../../../etc/passwd", "/proc/self/mem", "/"])
def test_a_component_that_is_no_file_of_wasm_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "guest.wasm").symlink_to(path)
    (tmp_path / "Torvyn.toml").write_text(HEAD + FLOW.format(path="guest.wasm"))

    assert codes(tmp_path / "Torvyn.toml")[0] in (
        "sandbox.invalid",
        "link.component-missing",
    )


def test_a_pipe_in_the_place_of_a_component_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "guest.wasm")
    (tmp_path / "Torvyn.toml").write_text(HEAD + FLOW.format(path="guest.wasm"))

    assert codes(tmp_path / "Torvyn.toml")[0] == "link.component-missing"


def test_a_component_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "guest.wasm").touch()
    os.truncate(tmp_path / "guest.wasm", 1 << 40)
    (tmp_path / "Torvyn.toml").write_text(HEAD + FLOW.format(path="guest.wasm"))

    assert codes(tmp_path / "Torvyn.toml") == ["sandbox.invalid"]


def test_a_manifest_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").symlink_to("/dev/zero")

    assert codes(tmp_path / "Torvyn.toml") == ["manifest.unreadable"]


def test_a_manifest_with_many_wrong_keys_is_answered_soon(tmp_path: Path) -> None:
    wrong = "".join(f"[flow.f{number}.nodes.a]\nno = 1\n" for number in range(5_000))
    (tmp_path / "Torvyn.toml").write_text(HEAD + wrong)

    assert len(codes(tmp_path / "Torvyn.toml")) >= 5_000


def test_a_name_with_escapes_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    import subprocess
    import sys

    name = r"a\u001b[2Jb\n[torvyn] all is well"
    (tmp_path / "Torvyn.toml").write_text(HEAD + f'[flow.main.nodes.a]\ncomponent = "{name}"\n')
    command = [sys.executable, "-m", "torvyn", "check", "--manifest", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert not any(line.startswith("[torvyn]") for line in done.stderr.splitlines())
