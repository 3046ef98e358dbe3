"""What changed between the files of two generations, and how one took the place of the other.

A file that belongs to no node may be used by any of them: then nothing can be swapped.
"""

from __future__ import annotations

import filecmp
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from torvyn._artifact.paths import (
    LOCK_PATH,
    MANIFEST_PATH,
    PROVENANCE_PATH,
    SBOM_PATH,
    WHEEL_FOLDER,
)
from torvyn._artifact.project_files import texts
from torvyn._contract.enums import TextEnum
from torvyn._link.plan import NodePlan, Plan


class Way(TextEnum):
    SWAP = "swap"
    """Components were swapped in the process that runs."""
    RESTART = "restart"
    """A flow restarted from its checkpoint with another graph, in the process that runs."""
    PROCESS = "process"
    """A new process took over."""


@dataclass(frozen=True, slots=True)
class ExchangeReport:
    generation: int
    replaced: int
    way: Way
    reason: str = ""
    """Why the process was exchanged."""
    changes: Mapping[str, list[str]] = field(default_factory=dict)
    """What has changed, by node; FLOW.NODE if the process runs several flows."""
    graph: tuple[str, ...] = ()
    """Nodes and edges that were added, removed or changed, in words."""
    pause_ms: float = 0.0
    """For how long a node, or the flow, took no elements."""
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def of_answer(cls, generation: int, replaced: int, answer: Mapping[str, Any]) -> ExchangeReport:
        """From the answer of the process that runs the flows."""
        return cls(
            generation,
            replaced,
            Way(answer["way"]),
            changes=dict(answer["changes"]),
            graph=tuple(answer["graph"]),
            pause_ms=round(float(answer["pause_ms"]), 3),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For the log."""
        head = f"generation {self.generation} replaces {self.replaced}"
        pause = f"paused for {self.pause_ms:.3g} ms"
        nodes = ", ".join(f"{name} ({', '.join(what)})" for name, what in self.changes.items())
        if self.way is Way.PROCESS:
            return f"{head} in a new process, {pause}: {self.reason}"
        if self.way is Way.RESTART:
            graph = "; ".join(self.graph)
            return f"{head} with a restart from the checkpoint ({graph}), {pause}"
        return f"{head}: swapped {nodes}, {pause}" if nodes else f"{head}: no node has changed"


_DESCRIPTIONS: Final = (MANIFEST_PATH, LOCK_PATH, SBOM_PATH, PROVENANCE_PATH)
_UNUSED_SUFFIXES: Final = (".wit", ".cwasm")
"""Contracts are for builds, and compiled code is that of the `.wasm` file beside it."""


class ProjectChange:
    """From one unpacked project to another."""

    def __init__(self, old: Path, new: Path) -> None:
        self._new: Final = new.resolve()
        changed = _changed_files(old.resolve(), self._new)
        self.wheels: Final = [path for path in changed if path.startswith(WHEEL_FOLDER)]
        self._files: Final = [
            path
            for path in changed
            if not path.startswith(WHEEL_FOLDER)
            and path not in _DESCRIPTIONS
            and not path.endswith(_UNUSED_SUFFIXES)
        ]

    def content(self, plan: Plan) -> dict[str, tuple[str, ...]]:
        """The nodes of the new plan whose code or files have changed, as `compare` takes them."""
        found = {node.name: tuple(self._parts(node)) for node in plan.nodes}
        return {name: parts for name, parts in found.items() if parts}

    def shared(self, *plans: Plan) -> list[str]:
        """Changed files that belong to no node of these plans."""
        nodes = [node for plan in plans for node in plan.nodes]
        places = [place for node in nodes for place in (*self._code(node), *self._named(node))]
        return [path for path in self._files if not _is_in(path, places)]

    def _parts(self, node: NodePlan) -> Iterator[str]:
        for part, places in (("code", self._code(node)), ("files", self._named(node))):
            if any(_is_in(path, places) for path in self._files):
                yield part

    def _code(self, node: NodePlan) -> list[str]:
        target = node.component.target
        if node.component.kind == "wasm":
            return list(self._inside(target))
        if node.component.kind == "project":
            # It may import or read what is in its folder.
            return list(self._inside(str(Path(target.rpartition(":")[0]).parent)))
        return []

    def _named(self, node: NodePlan) -> list[str]:
        """What its config and its grants name."""
        texts = [*_texts(node.config), *node.grants]
        return [place for text in texts for place in self._inside(text)]

    def _inside(self, text: str) -> Iterator[str]:
        """The path in the project that ends the text; `.` for the project itself."""
        _, found, path = text.partition(str(self._new))
        if found and (not path or path.startswith("/")):
            yield str(PurePosixPath(path.lstrip("/") or "."))


def other_wheels(wheels: list[str]) -> str:
    """Why a change of these wheels needs another process."""
    name = PurePosixPath(wheels[0]).name
    return f"it has other Python packages (`{name}`), and a process keeps those that it has loaded"


def without_folders(text: str, folders: Collection[Path]) -> str:
    """The text as it would be in any other folder."""
    for folder in folders:
        # A config is JSON, so its paths may be escaped.
        for form in {str(folder), json.dumps(str(folder))[1:-1]}:
            text = text.replace(f"{form}/", "./")
    return text


def folders_in_use(plan: Plan, folders: Collection[Path]) -> list[Path]:
    """The folders that the nodes of a plan were loaded from, or read."""
    texts = [
        text
        for node in plan.nodes
        for text in (node.component.target, *_texts(node.config), *node.grants)
    ]
    return [each for each in folders if any(f"{each}/" in f"{text}/" for text in texts)]


def _is_in(path: str, places: Collection[str]) -> bool:
    return any(place in (".", path) or path.startswith(f"{place}/") for place in places)


def _changed_files(old: Path, new: Path) -> list[str]:
    before, after = (_files(folder) for folder in (old, new))
    both = sorted(before & after)
    return sorted(before ^ after) + [
        path for path in both if not filecmp.cmp(old / path, new / path, shallow=False)
    ]


def _files(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found}


def _texts(config: str) -> Iterator[str]:
    """The texts in the config of a node, which is JSON or one text."""
    if config.lstrip().startswith(("{", "[")):
        try:
            return texts(json.loads(config))
        except (ValueError, RecursionError):
            pass
    return iter((config,))
