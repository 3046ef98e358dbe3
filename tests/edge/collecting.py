"""A collector of reports on a free port, stopped by the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torvyn._deploy.collector import Collector


@contextmanager
def collecting(folder: Path, token: str | None = None) -> Iterator[Collector]:
    with Collector(("127.0.0.1", 0), folder, token) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()
