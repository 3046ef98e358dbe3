"""What linking must not load: each takes time at every start, and few projects need it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

MANIFEST = """
[torvyn]
name = "small"
version = "1.0.0"
contract_version = "0.1.0"

[flow.main.nodes.in]
component = "lines"
config = { path = "x" }

[flow.main.nodes.out]
component = "null"

[[flow.main.edges]]
from = "in"
to = "out"
"""
COMMAND = """
import sys
from torvyn._cli import main
try:
    main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""
PROGRAM = """
import sys, torvyn
print(torvyn.Flow(["a"], "null").plan.render())
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
UNUSED = (
    "torvyn._artifact",
    "torvyn._link.artifacts",
    "torvyn._link.picture",
    "torvyn._io.local_cluster",
    "torvyn._io.http_client",
    "torvyn._sandbox.component",
    "torvyn._io.nats",
    "torvyn._durable",
    "torvyn.transport",
    "torvyn._flow.execution",
    "graphviz",
)


@pytest.mark.parametrize(
    ("code", "command", "also_unused"),
    [
        (COMMAND, "link", ("torvyn._sandbox.build", "torvyn._flow", "asyncio")),
        (COMMAND, "check", ("torvyn._flow", "asyncio")),
        (PROGRAM, "program", ("torvyn._sandbox.build", "torvyn._cli")),
    ],
)
def test_linking_loads_only_what_it_uses(
    tmp_path: Path, code: str, command: str, also_unused: tuple[str, ...]
) -> None:
    tmp_path.joinpath("Torvyn.toml").write_text(MANIFEST)

    done = subprocess.run(
        [sys.executable, "-c", code, command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = done.stderr.split()
    assert "torvyn._link.flow_linker" in loaded
    unused = (*UNUSED, *also_unused)
    ours = (each for each in unused if each.startswith("torvyn"))
    assert [each for each in ours if importlib.util.find_spec(each) is None] == []
    assert [n for n in loaded if any(f"{n}.".startswith(f"{each}.") for each in unused)] == []
