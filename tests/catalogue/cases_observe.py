"""Cases of the package `observe`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from torvyn._observe.otlp_exporter import OtlpExporter


def without_grpc(_: Path) -> None:
    with patch.dict(sys.modules, {"grpc": None}):
        OtlpExporter("http://127.0.0.1:4317", protocol="grpc")


CASES: dict[str, Callable[[Path], object]] = {
    "observe.bad-endpoint": lambda _: OtlpExporter("collector:4318"),
    "observe.bad-headers": lambda _: OtlpExporter("http://127.0.0.1:4318", headers="secret"),
    "observe.package-missing": without_grpc,
}
