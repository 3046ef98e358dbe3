"""How a deployment runs and what it follows: `deployment.json`, which people may edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Self

from torvyn._deploy.disk import Disk
from torvyn._deploy.failures import damaged
from torvyn._deploy.integrity import VERIFICATIONS

EXCHANGES: Final = ("auto", "process")
COMMANDS: Final = ("run", "serve")
_MAX_NUMBER: Final = 1e9


@dataclass(frozen=True, slots=True)
class Following:
    """The channel of a deployment."""

    source: str
    """`oci://...`, `https://...` or the path of a file."""
    channel: str
    """The name in its documents."""
    keys: tuple[str, ...]
    """The public keys, in PEM, that were trusted at first; later ones are in the state."""
    threshold: int = 1
    artifact: str = ""
    """Which artifact of the channel; empty if it has only one."""
    interval_s: float = 900.0
    is_insecure: bool = False
    """Whether a registry on another machine may have no TLS."""


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    command: str = "run"
    """`run`: a flow runs. `serve`: the flows of the project answer requests."""
    flows: tuple[str, ...] = ()
    """Those that run in one process. Without a name, the only one of the project."""
    is_all: bool = False
    """Whether all flows of the project run, also those that a later generation adds."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Overrides of options, as `--config` of `torvyn run` takes them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Overrides of settings, as `--set` takes them."""
    health_s: float = 60.0
    """How long a new generation must be healthy."""
    exchange: str = "auto"
    """`auto`: components are swapped where that is possible. `process`: the process is exchanged
    each time."""
    verify: str = "boot"
    """When the files of a generation are compared with their digests: once per `boot` as long as
    they look the same, at each `start`, or never (`off`)."""
    follow: Following | None = None
    heartbeat: str | None = None
    """The URL to which reports are posted."""
    heartbeat_s: float = 60.0
    device: str = ""
    """The name of this machine in reports and rollouts; empty means its host name."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The defaults if there is no file."""
        try:
            value = json.loads(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, RecursionError) as error:
            raise damaged(path, str(error)) from None
        try:
            return cls()._with(value)
        except (TypeError, ValueError, KeyError) as error:
            raise damaged(path, str(error)) from None

    def _with(self, value: Any) -> Self:
        if not isinstance(value, dict) or value.pop("schema") != 1:
            raise ValueError("it was written by another version of torvyn")
        follow = value.pop("follow", None)
        value["flows"] = _flows(value)
        if value["flows"] and value.get("is_all"):
            raise ValueError("`flows` names flows, and `is_all` means all of them")
        known = {field.name for field in fields(self)}
        if unknown := set(value) - known:
            raise ValueError(f"it has the unknown keys {', '.join(sorted(unknown))}")
        choices = (("exchange", EXCHANGES), ("command", COMMANDS), ("verify", VERIFICATIONS))
        for key, allowed in choices:
            if value.get(key, allowed[0]) not in allowed:
                raise ValueError(f"`{key}` is none of {', '.join(allowed)}")
        heartbeat = value.get("heartbeat")
        if heartbeat is not None and not isinstance(heartbeat, str):
            raise ValueError("`heartbeat` is not a text")
        _check_kinds(self, value)
        if follow is not None:
            follow = _following(follow)
        return replace(self, **value, follow=follow)

    def write(self, path: Path) -> None:
        text = json.dumps({"schema": 1, **asdict(self)}, indent=2) + "\n"
        Disk().write(path, text.encode())


def _following(value: Any) -> Following:
    if not isinstance(value, dict) or not _are_texts(value.get("keys")):
        raise ValueError("`follow` is not an object with `keys`, a list of texts")
    follow = Following("", "", ())
    if unknown := set(value) - {field.name for field in fields(Following)}:
        raise ValueError(f"`follow` has the unknown keys {', '.join(sorted(unknown))}")
    _check_kinds(follow, value)
    return Following(**{**value, "keys": tuple(value["keys"])})


def _check_kinds(defaults: Any, value: Mapping[str, Any]) -> None:
    """Raises `ValueError` unless each value is of the kind of its default."""
    for key, found in value.items():
        default = getattr(defaults, key)
        if isinstance(default, bool | str):
            is_right = type(found) is type(default)
        elif isinstance(default, int | float):
            is_right = type(found) in (int, type(default)) and 0 < found <= _MAX_NUMBER
        elif isinstance(default, Mapping):
            is_right = isinstance(found, dict) and _are_texts([*found, *found.values()])
        else:
            continue
        if not is_right:
            raise ValueError(f"`{key}` cannot be {json.dumps(found)[:80]}")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def _flows(value: dict[str, Any]) -> tuple[str, ...]:
    """Before a deployment could run several, it had `flow`: a name or None."""
    flow = value.pop("flow", None)
    names = value.get("flows", [] if flow is None else [flow])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("`flows` is not a list of names")
    return tuple(names)
