"""Every `native.*` code."""

from __future__ import annotations

from unittest.mock import patch

from torvyn import _native
from torvyn._io import native_parts


def without_parts() -> None:
    with patch.object(_native, "PARTS", []):
        native_parts.require("disk")


CASES = {"native.part-missing": lambda _: without_parts()}
