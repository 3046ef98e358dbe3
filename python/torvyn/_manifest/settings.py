"""Settings: the value and the origin of every key of the settings tables.

flags > TORVYN_RUNTIME__WORKER_THREADS > Torvyn.toml > the user's config > the default

Those of the process, for flows that a program builds, are cached: every flow checks whether the
environment or the user's config has changed, which takes microseconds. Reading them takes a hundred
times as long.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from torvyn._contract.units import render_duration, render_size
from torvyn._manifest import records as tables
from torvyn._manifest.parse import raise_if_any, read_text
from torvyn._manifest.problems import Problems
from torvyn._manifest.reader import Reader
from torvyn._manifest.records import Manifest
from torvyn._manifest.schema import Key, Record
from torvyn._manifest.toml_tree import Node, parse_tree
from torvyn.errors import Location, quoted, suggestion

_FRESH_NS = 2_000_000_000
"""A file that changed this recently may change again without a new time stamp."""


@dataclass(frozen=True, slots=True)
class _Cached:
    environ: dict[Any, Any]
    config_path: str | None
    config_stamp: tuple[int, ...] | None
    settings: Settings


_cached: _Cached | None = None


def process_settings() -> Settings:
    """The result of `resolve()`, read again only after a change."""
    global _cached
    cached = _cached
    if (
        cached is not None
        and cached.environ == _environment()
        and cached.config_stamp == _stamp(cached.config_path)
        and not _is_fresh(cached.config_stamp)
    ):
        return cached.settings
    # Taken before the file is read, so that the next call notices a change in between.
    environ, path = dict(_environment()), user_config(os.environ)
    config_path = None if path is None else str(path)
    stamp = _stamp(config_path)
    settings = resolve()
    _cached = _Cached(environ, config_path, stamp, settings)
    return settings


def _environment() -> dict[Any, Any]:
    # Comparing the dictionary behind `os.environ` takes 1 us, decoding it 30 us.
    data = getattr(os.environ, "_data", None)
    return data if isinstance(data, dict) else dict(os.environ)


def _stamp(path: str | None) -> tuple[int, ...] | None:
    if path is None:
        return None
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _is_fresh(stamp: tuple[int, ...] | None) -> bool:
    return stamp is not None and time.time_ns() - max(stamp[3:]) < _FRESH_NS


PREFIX = "TORVYN_"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin."""

    name: str
    """`runtime.worker_threads`"""
    value: Any
    origin: str
    """`flag`, `environment`, `manifest`, `user` or `default`."""
    location: Location | None = None
    kind: str = "string"

    @property
    def text(self) -> str:
        """The value as in the manifest, without quotes; empty if it is None."""
        if self.value is None:
            return ""
        renderers: dict[str, Any] = {
            "size": render_size,
            "duration": render_duration,
            "strings": ",".join,
        }
        return str(renderers.get(self.kind, str)(self.value))


@dataclass(frozen=True)
class Settings:
    values: Mapping[str, Setting]
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.values.values())


def resolve(
    manifest: Manifest | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    user_file: str | Path | None = None,
) -> Settings:
    """All settings. Without `user_file`, the user's own config is read if it exists."""
    problems = Problems()
    settings = resolve_leniently(
        manifest or Manifest(), problems, flags=flags, environ=environ, user_file=user_file
    )
    raise_if_any(problems)
    return settings


SECRETS: Final = ("cluster.nkey",)


def resolve_leniently(
    manifest: Manifest,
    problems: Problems,
    *,
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    user_file: str | Path | None = None,
) -> Settings:
    """All settings without those that are wrong; each adds a problem."""
    environ = os.environ if environ is None else environ
    problems.secrets |= manifest.secrets
    reader = Reader(problems, environ)
    values = {setting.name: setting for setting in _defaults()}
    user = _user_records(user_file or user_config(environ), reader)
    values |= {setting.name: setting for setting in _from_records(user, "user")}
    records = {name: getattr(manifest, name) for name in tables.SETTINGS}
    values |= {setting.name: setting for setting in _from_records(records, "manifest")}
    values |= _from_environment(environ, manifest.variables | reader.variables, reader)
    values |= _from_flags(flags or {}, reader)
    # Wherever they were written.
    problems.secrets |= {values[name].value for name in SECRETS if values[name].value}
    return Settings(values, frozenset(problems.secrets))


def user_config(environ: Mapping[str, str]) -> Path | None:
    """The path of the user's config file, which need not exist."""
    folder = environ.get("XDG_CONFIG_HOME")
    if folder:
        return Path(folder, "torvyn", "config.toml")
    home = environ.get("HOME")
    return Path(home, ".config", "torvyn", "config.toml") if home else None


def _keys() -> Iterator[tuple[str, Key]]:
    for section, table in tables.SETTINGS.items():
        for key in table.keys:
            yield f"{section}.{key.name}", key


def _setting(name: str, key: Key, value: Any, origin: str, location: Location | None) -> Setting:
    return Setting(name, value, origin, location, key.kind)


def _defaults() -> Iterator[Setting]:
    for name, key in _keys():
        yield _setting(name, key, key.default, "default", None)


def _from_records(records: Mapping[str, Record], origin: str) -> Iterator[Setting]:
    for name, key in _keys():
        record = records.get(name.partition(".")[0])
        value = getattr(record, key.attribute, None)
        if record is not None and value is not None:
            yield _setting(name, key, value, origin, record.at(key.name))


def _user_records(path: str | Path | None, reader: Reader) -> dict[str, Record]:
    if path is None or not os.path.exists(path):  # also false for folders that cannot be entered
        return {}
    text = read_text(path, reader.problems)
    root = text if text is None else parse_tree(text, str(path), reader.problems)
    if not isinstance(root, Node):
        return {}
    known = tuple(tables.SETTINGS)
    reader.check_known(root, known, "in the user's config")
    # Only a manifest can grant capabilities to its components, not the user's config.
    return {
        name: reader.record(replace(table, tables=()), root.value[name].node, table.record)
        for name, table in tables.SETTINGS.items()
        if name in root.value
    }


def _from_environment(
    environ: Mapping[str, str], substituted: frozenset[str] | set[str], reader: Reader
) -> dict[str, Setting]:
    known = {_variable(name): (name, key) for name, key in _keys()}
    settings: dict[str, Setting] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in substituted:
            continue
        location = Location("environment", path=variable)
        if variable not in known:
            _report_unknown(variable, known, location, reader.problems)
            continue
        name, key = known[variable]
        settings |= _read_text(reader, name, key, environ[variable], ("environment", location))
    return settings


def _from_flags(flags: Mapping[str, str], reader: Reader) -> dict[str, Setting]:
    known = dict(_keys())
    settings: dict[str, Setting] = {}
    for name, text in flags.items():
        location = Location("command line", path=name)
        if name not in known:
            _report_unknown(name, known, location, reader.problems)
            continue
        settings |= _read_text(reader, name, known[name], text, ("flag", location))
    return settings


def _variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.replace('.', '__').upper()}"


def _report_unknown(
    name: str, known: Iterable[str], location: Location, problems: Problems
) -> None:
    """Adds a problem for a setting, or its variable, that does not exist."""
    removed = {form: hint for old, hint in tables.REMOVED.items() for form in (old, _variable(old))}
    hint = removed.get(name) or suggestion(name, known, f"the names are {quoted(known)}")
    problems.add("manifest.setting-unknown", f"unknown setting `{name}`", location, hint)


def _read_text(
    reader: Reader, name: str, key: Key, text: str, origin: tuple[str, Location]
) -> dict[str, Setting]:
    """A value from text. Dollar signs are literal, because the shell has expanded variables."""
    where, location = origin
    node = Node("string", text.replace("$", "$$"), location)
    if key.kind == "integer" and re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        node = Node("integer", int(text), location)
    elif key.kind == "ratio" and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,18})?", text, re.ASCII):
        node = Node("float", float(text), location)
    elif key.kind == "strings":
        parts = [part.strip() for part in node.value.split(",")]
        node = Node("array", [Node("string", part, location) for part in parts if part], location)
    value = reader.value(key, node)
    return {} if value is None else {name: _setting(name, key, value, where, location)}
