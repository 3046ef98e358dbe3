"""Cases of the room `observe`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torvyn.observe.otlp import OtlpExporter

CASES: dict[str, Callable[[Path], object]] = {
    "observe.bad-endpoint": lambda _: OtlpExporter("collector:4318"),
}
