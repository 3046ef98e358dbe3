"""The broker and the Ray cluster that `torvyn cluster up` runs on this machine for this user.

`torvyn._cluster` starts and stops them and writes the state file. Other packages ask here
what runs, and where. The file holds the broker's token and is readable by its owner only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from torvyn._io.files import write_atomically
from torvyn._io.process_record import ProcessRecord

VERSION: Final = 1
"""Of the state file."""


class UnreadableState(ValueError):
    """The state file is not one, or a newer version of torvyn wrote it."""


@dataclass(frozen=True, slots=True)
class Broker:
    process: ProcessRecord
    since_s: float
    version: str
    port: int
    token: str
    sync: str
    store: str
    log: str

    @property
    def address(self) -> str:
        """Without the token."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"nats://{self.token}@127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class RayHead:
    process: ProcessRecord
    since_s: float
    version: str
    port: int
    cpus: int | None
    object_store_bytes: int
    token_file: str
    folder: str
    log: str

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return ray_environment(self.token_file)


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """What `torvyn cluster up` started; the processes may have ended since."""

    broker: Broker | None = None
    ray: RayHead | None = None

    @property
    def running(self) -> LocalCluster:
        """Only those parts whose processes run."""
        return replace(self, broker=_if_running(self.broker), ray=_if_running(self.ray))


def address() -> str | None:
    """The URL of the broker that `torvyn cluster up` runs, with its token; None without one."""
    broker = running_cluster().broker
    return None if broker is None else broker.url


def running_cluster() -> LocalCluster:
    """The parts that run now. A state file that cannot be read counts as none."""
    try:
        return read_state(state_folder()).running
    except UnreadableState:
        return LocalCluster()


def ray_environment(token_file: str) -> dict[str, str]:
    """The variables that a process needs, before it imports `ray`, to start or join a cluster that
    is reachable from this machine only, and only with the token."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": token_file,
        # Otherwise Ray replaces 127.0.0.1 by the address of a network and listens on all of them.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def state_folder() -> Path:
    """Where the state file, the logs and the data of the user's cluster are."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "torvyn", "cluster")


def state_file(folder: Path) -> Path:
    return folder / "state.json"


def read_state(folder: Path) -> LocalCluster:
    """What was started and not stopped; raises `UnreadableState`."""
    try:
        text = state_file(folder).read_text()
    except FileNotFoundError:
        return LocalCluster()
    except (OSError, ValueError) as error:
        raise UnreadableState(f"cannot be read: {error}") from error
    try:
        fields = json.loads(text)
        if fields["version"] != VERSION:
            raise UnreadableState(f"has version {fields['version']!r} instead of {VERSION}")
        return LocalCluster(_record(Broker, fields["broker"]), _record(RayHead, fields["ray"]))
    except UnreadableState:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableState("is not a state file of torvyn") from error


def write_state(folder: Path, cluster: LocalCluster) -> None:
    """Replaces the file in one step; without any part, removes it."""
    if cluster == LocalCluster():
        state_file(folder).unlink(missing_ok=True)
        return
    state = {"version": VERSION, **asdict(cluster)}
    # Readable by the owner only.
    write_atomically(state_file(folder), json.dumps(state, indent=2), mode=0o600)


def _record(kind: type[Any], fields: Mapping[str, Any] | None) -> Any:
    if fields is None:
        return None
    return kind(**{**fields, "process": ProcessRecord(**fields["process"])})


def _if_running(part: Any) -> Any:
    return part if part is not None and part.process.is_running else None
