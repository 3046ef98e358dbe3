"""Peers: the same workload in other libraries, one file each, and Torvyn's own entries.

A peer module has `NAME`, `VERSION()`, `available()` (why it cannot run, or None) and `run(tokens)`;
`VARIANTS` names other forms worth a row, `PROOF` is the form that shows the text when `run` only
counts. A peer is imported when it runs, so that one never loads another.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import version

from benches.harness import Entry

MODULES = (
    "torvyn_python",
    "torvyn_native",
    "generators",
    "asyncio_queue",
    "langchain_peer",
    "bytewax_peer",
    "pipecat_peer",
)


def distribution_version(name: str) -> str:
    return version(name)


def torvyn_missing() -> str | None:
    """Why Torvyn's runtime cannot be asked, or None."""
    if importlib.util.find_spec("torvyn") is None:
        return "torvyn is not installed"
    if importlib.util.find_spec("torvyn._native") is None:
        return "torvyn is installed without its native module"
    return None


def entries(wanted: list[str] | None = None) -> tuple[list[Entry], dict[str, str]]:
    """The entries that can run, and the reason for each that cannot. A name may be a prefix."""
    found: list[Entry] = []
    missing: dict[str, str] = {}
    for module_name in MODULES:
        module = importlib.import_module(f"benches.peers.{module_name}")
        forms = {module.NAME: module.run, **getattr(module, "VARIANTS", {})}
        names = [name for name in forms if wanted is None or name.startswith(tuple(wanted))]
        if not names:
            continue
        reason = module.available()
        if reason is not None:
            missing.update(dict.fromkeys(names, reason))
            continue
        proof = getattr(module, "PROOF", None)
        found += [Entry(name, module.VERSION(), forms[name], proof) for name in names]
    return found, missing
