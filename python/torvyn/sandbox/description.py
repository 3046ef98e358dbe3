"""A component's role, interfaces, capabilities and sizes, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from torvyn.sandbox import compiler_client
from torvyn.sandbox.compile_cache import compile_component

SIZES: Final = (
    *("size_bytes", "modules", "functions"),
    *("code_bytes", "data_bytes", "memory_bytes"),
)


def describe_component(path: Path) -> dict[str, Any]:
    """Compiles the component in a file and describes it; does not start it."""
    with compiler_client.reuse_process():
        compiled = compile_component(path, path.stem)
        description = compiler_client.describe(path.read_bytes())
    return {
        "file": str(path),
        **{name: description[name] for name in SIZES},
        "role": compiled.role,
        "world": compiled.world,
        "interface": compiled.interface,
        "imports": compiled.imports,
        "exports": compiled.exports,
        "capabilities": compiled.capabilities,
    }
