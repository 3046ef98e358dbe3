"""Reports: the question, the method, the machine and the figures.

A benchmark produces one `Report`; this file renders it as Markdown and JSON and writes both. It
must never compute a figure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benches.machine import describe

RESULTS = Path(__file__).parent / "results"
SCHEMA_VERSION = 1


@dataclass(slots=True)
class Table:
    columns: Sequence[str]
    """The first is text, the others are figures."""
    rows: list[Sequence[str]] = field(default_factory=list)
    title: str = ""

    def markdown(self) -> str:
        lines = [f"### {self.title}", ""] if self.title else []
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|---" + "|---:" * (len(self.columns) - 1) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    name: str
    question: str
    method: str
    tables: list[Table] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """What could not run, and why."""
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    """The raw figures, for programs."""
    machine: dict[str, str] = field(default_factory=describe)

    def markdown(self) -> str:
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        parts = [f"## {self.question}", self.method]
        parts += [table.markdown() for table in self.tables]
        if self.left_out:
            parts.append("\n".join(f"- {name}: {why}" for name, why in self.left_out.items()))
        parts.append(f"Machine: {machine}.")
        if self.versions:
            parts.append("Versions: " + ", ".join(sorted(set(self.versions.values()))) + ".")
        return "\n\n".join(parts) + "\n"

    def json(self) -> str:
        plain = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

    def write(self, folder: Path = RESULTS) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        page, data = folder / f"{self.name}.md", folder / f"{self.name}.json"
        page.write_text(self.markdown(), encoding="utf-8")
        data.write_text(self.json(), encoding="utf-8")
        return page, data


def verdict(value: float, target: float) -> str:
    """Compares a figure with the target that it must stay below."""
    return f"< {target:g}: {'met' if value < target else 'NOT met'}"
