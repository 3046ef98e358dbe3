"""What a worker does when its parent is gone: it ends, as after SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal


def end_with_parent() -> None:
    """Watches standard input, whose other end only the parent has, for as long as the running loop
    lives."""
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(0, on_readable)
