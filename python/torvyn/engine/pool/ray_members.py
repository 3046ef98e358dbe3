"""Members on a Ray cluster: each is an actor that runs a Torvyn server for an engine.

Ray places the actors and restarts those that die. It carries no tokens: the pool talks to the
servers themselves, each with a key of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torvyn._io.local_cluster import running_cluster
from torvyn._io.packages import import_package
from torvyn._io.process import kept_fault_handlers
from torvyn.engine.pool.limits import bad_option
from torvyn.engine.pool.membership import Placed
from torvyn.errors import Unavailable

_PLACE: Final = {"cpus": "num_cpus", "gpus": "num_gpus", "resources": "resources"}
_STORE_BYTES: Final = 80_000_000
"""Ray refuses less than 75 MiB. It carries no tokens."""
_ANSWER_S: Final = 30.0
"""How long an actor may take to say where its server is, once that is up."""

MANIFEST: Final = """\
[torvyn]
name = "pool-member"
version = "0.1.0"
contract_version = "0.1.0"

[flow.{flow}.nodes.model]
component = "engine:{engine}"
config = {config}

[flow.{flow}.nodes.answer]
component = "response"

[[flow.{flow}.edges]]
from = "model"
to = "answer"
"""


class RayMembers:
    """The supplier of a pool. `on` is `ray`, or the address of a cluster, such as
    `ray://host:10001` or `host:6379`."""

    def __init__(
        self, on: str, flow: str, member: Mapping[str, Any], place: Mapping[str, Any]
    ) -> None:
        options = dict(member)
        engine = options.pop("engine", None)
        if not isinstance(engine, str):
            raise bad_option("`member` needs an `engine`", 'such as { engine = "transformers" }')
        if unknown := sorted(set(place) - set(_PLACE)):
            names = ", ".join(f"`{name}`" for name in _PLACE)
            raise bad_option(f"`place` has no `{unknown[0]}`", f"its keys are {names}")
        self._manifest = MANIFEST.format(flow=flow, engine=engine, config=_toml(options))
        self._ray = _ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            self._connect(on)
        resources = {_PLACE[name]: value for name, value in place.items()}
        self._actor = self._ray.remote(max_restarts=-1, max_task_retries=0, **resources)(ServerHost)
        self._handles: set[Any] = set()

    def _connect(self, on: str) -> None:
        """`ray` is the cluster of `torvyn cluster up`, else that of `RAY_ADDRESS`, else one that
        ends with the pool."""
        head = running_cluster().ray if on == "ray" else None
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if head is not None:
            os.environ.update(head.environment)
            options["address"] = head.address
        elif on != "ray" or os.environ.get("RAY_ADDRESS"):
            options["address"] = "auto" if on == "ray" else on
        else:
            # Not the default: Ray remembers clusters that have ended.
            options |= {"address": "local", "include_dashboard": False}
            options["object_store_memory"] = _STORE_BYTES
        try:
            with kept_fault_handlers():
                self._ray.init(**options)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            message = f"the Ray cluster `{on}` cannot be reached: {error}"
            raise Unavailable(message, code="engine.pool-down") from None

    async def start(self, limit_s: float) -> Placed:
        here = self._ray.util.get_node_ip_address()
        handle = self._actor.remote(self._manifest, here, os.getcwd())
        self._handles.add(handle)
        try:
            return await self._place_of(handle, limit_s)
        except BaseException:
            # It may never have started: nobody is asked to end in order.
            self._handles.discard(handle)
            self._ray.kill(handle, no_restart=True)
            raise

    async def place_of(self, handle: Any) -> Placed | None:
        try:
            return await self._place_of(handle, _ANSWER_S)
        except Unavailable as error:
            if isinstance(error.__cause__, self._ray.exceptions.ActorDiedError):
                return None
            raise

    async def _place_of(self, handle: Any, limit_s: float) -> Placed:
        errors = self._ray.exceptions
        try:
            ask = handle.place.remote()
            url, key = await asyncio.to_thread(self._ray.get, ask, timeout=limit_s)
        except errors.GetTimeoutError:
            message = f"a member of the pool did not start on Ray within {limit_s:g} s"
            hint = "see whether a machine of the cluster has what `place` asks for: `ray status`"
            raise Unavailable(message, code="engine.member-unwell", hint=hint) from None
        except errors.RayError as error:
            message = f"a member of the pool did not start on Ray: {error}"
            raise Unavailable(message, code="engine.member-unwell") from error
        return Placed(url, key, handle)

    async def stop(self, handle: Any) -> None:
        self._handles.discard(handle)
        await asyncio.to_thread(self._kill, handle)

    def _kill(self, handle: Any) -> None:
        # The server ends in order; the actor with it, for good.
        with contextlib.suppress(self._ray.exceptions.RayError, TimeoutError):
            self._ray.get(handle.stop.remote(), timeout=_ANSWER_S)
        self._ray.kill(handle, no_restart=True)

    def close(self) -> None:
        for handle in tuple(self._handles):
            self._ray.kill(handle, no_restart=True)
        self._handles.clear()
        if self._is_ours:
            with kept_fault_handlers():
                self._ray.shutdown()


class ServerHost:
    """The actor: `torvyn serve` as a child that dies with it, and it with the child."""

    def __init__(self, manifest: str, driver: str, folder: str) -> None:
        address: str = _ray().util.get_node_ip_address()
        # Nobody on another machine has to reach a member on the machine of the pool.
        host = "127.0.0.1" if address == driver else address
        self._files = tempfile.TemporaryDirectory(prefix="torvyn-member-")
        files = Path(self._files.name)
        (files / "Torvyn.toml").write_text(manifest)
        torvyn = [sys.executable, "-m", "torvyn"]
        add = [*torvyn, "keys", "add", "pool", "--file", str(files / "keys.json")]
        made = subprocess.run([*add, "--format", "json"], capture_output=True, check=True)
        self._key: str = json.loads(made.stdout)["key"]
        serve = [*torvyn, "serve", "--manifest", str(files), "--keys", str(files / "keys.json")]
        self._child = subprocess.Popen(
            [*_dies_with_parent(), *serve, "--host", host, "--port", "0", "--format", "json"],
            cwd=folder if Path(folder).is_dir() else None,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"`torvyn serve` ended with status {self._child.wait()}")
        self._url = f"{json.loads(line)['url']}/v1"
        self._is_stopping = False
        threading.Thread(target=self._end_with_child, daemon=True).start()

    def place(self) -> tuple[str, str]:
        return self._url, self._key

    def stop(self) -> None:
        self._is_stopping = True
        self._child.terminate()
        self._child.wait()

    def _end_with_child(self) -> None:
        self._child.wait()
        if not self._is_stopping:
            os._exit(1)  # Ray starts the actor again


def _dies_with_parent() -> list[str]:
    """A prefix of a command. On Linux only: elsewhere a killed actor leaves its server running."""
    if sys.platform != "linux":
        return []
    pr_set_pdeathsig = 1
    code = (
        "import ctypes, os, sys; "
        f"ctypes.CDLL(None).prctl({pr_set_pdeathsig}, {int(signal.SIGKILL)}); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code]


def _toml(value: Any) -> str:
    """The value in TOML, on one line."""
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items())
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _ray() -> Any:
    return import_package("ray", "a pool on Ray", "cluster", "engine.package-missing")
