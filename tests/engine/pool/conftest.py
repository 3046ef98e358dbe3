"""Members that the tests of a module share, and pools over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pool_servers import Server, servers

from coroutines import pytest_pyfunc_call  # noqa: F401
from torvyn.engine.pool.engine import Pool

MakePool = Callable[..., Pool]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Three members that nobody kills."""
    with servers(tmp_path_factory.mktemp("pool"), 3) as made:
        yield made


@pytest.fixture
def open_pool() -> Iterator[MakePool]:
    opened: list[Pool] = []

    def make(members: list[Server], **options: Any) -> Pool:
        urls = [server.url for server in members]
        options = {"api_key": "", "health_interval_s": 0.1, **options}
        opened.append(Pool(members=urls, model="chat", **options))
        return opened[-1]

    yield make
    for pool in opened:
        pool.close()
