"""The settings of a process, for flows that a program builds: read again only when they change.

They follow from the environment and the user's config. Both are looked at for every flow, which
takes microseconds; reading them takes a hundred times as long.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from torvyn.manifest.settings import Settings, resolve, user_config

_FRESH_NS = 2_000_000_000
"""A file that was changed so recently may change again within the resolution of its time stamp."""


@dataclass(frozen=True, slots=True)
class _Known:
    environ: dict[Any, Any]
    config_path: str | None
    config_stamp: tuple[int, ...] | None
    settings: Settings


_known: _Known | None = None


def process_settings() -> Settings:
    """What `resolve()` gives, without reading what has not changed."""
    global _known
    known = _known
    if (
        known is not None
        and known.environ == _environment()
        and known.config_stamp == _stamp(known.config_path)
        and not _is_fresh(known.config_stamp)
    ):
        return known.settings
    # Looked at before it is read: a change in between is seen the next time.
    environ, path = dict(_environment()), user_config(os.environ)
    config_path = None if path is None else str(path)
    stamp = _stamp(config_path)
    settings = resolve()
    _known = _Known(environ, config_path, stamp, settings)
    return settings


def _environment() -> dict[Any, Any]:
    # The dictionary behind `os.environ`: to compare it takes a microsecond, to decode it thirty.
    data = getattr(os.environ, "_data", None)
    return data if isinstance(data, dict) else dict(os.environ)


def _stamp(path: str | None) -> tuple[int, ...] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_fresh(stamp: tuple[int, ...] | None) -> bool:
    return stamp is not None and time.time_ns() - max(stamp[3:]) < _FRESH_NS
