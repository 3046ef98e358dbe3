"""Members that Ray places: started, scaled by queue time, followed and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import missing
import pytest
from pool_servers import member_of

from torvyn._io.process import kept_fault_handlers
from torvyn.engine.pool.engine import Pool
from torvyn.errors import InvalidInput, TorvynError

ray = pytest.importorskip("ray", reason=missing.why("ray"))
TEXT = " ".join(f"m0w{at}" for at in range(8))
MEMBER = {"engine": "scripted", "text": TEXT, "delay": "10ms"}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    options: dict[str, Any] = {"num_cpus": 4, "object_store_memory": 80_000_000}
    with kept_fault_handlers():
        ray.init("local", include_dashboard=False, log_to_driver=False, **options)
    yield
    with kept_fault_handlers():
        ray.shutdown()


@contextlib.contextmanager
def pool_of(**options: Any) -> Iterator[Pool]:
    options = {"place": {"cpus": 0.1}, "health_interval_s": 0.1, "start_timeout_s": 240, **options}
    pool = Pool(on="ray", member=MEMBER, **options)
    try:
        yield pool
    finally:
        pool.close()


@contextlib.asynccontextmanager
async def load(pool: Pool, clients: int) -> AsyncIterator[None]:
    """Clients that ask again and again; every answer must be whole."""
    is_over = False

    async def client() -> None:
        while not is_over:
            completion = await pool.acomplete("Hi")
            assert (completion.finish_reason, completion.text) == ("stop", TEXT)

    asking = [asyncio.ensure_future(client()) for _ in range(clients)]
    try:
        yield
    finally:
        is_over = True
        await asyncio.gather(*asking)


async def until(condition: Any) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0.02)


def server_pids(url: str) -> list[int]:
    """The processes that run a server at this address."""
    port = url.split("/")[2].split(":")[1]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(_listens(folder, port)):
                found.append(int(folder.name))
    return found


def _listens(process: Path, port: str) -> Iterator[bool]:
    wanted = f":{int(port):04X}"
    inodes = {
        fields[9]
        for fields in map(str.split, (process / "net/tcp").read_text().splitlines()[1:])
        if fields[1].endswith(wanted) and fields[3] == "0A"
    }
    for link in (process / "fd").iterdir():
        target = os.readlink(link)
        yield target.startswith("socket:[") and target[8:-1] in inodes


async def test_the_number_of_members_follows_the_queue_time():
    limits = {"min_members": 1, "max_members": 2, "max_in_flight": 1}
    with pool_of(**limits, scale_up_wait_s=0.1, scale_down_after_s=0.5) as pool:
        assert len(pool.members) == 1
        async with load(pool, 6):
            await until(lambda: len(pool.members) == 2)
            await until(lambda: all(member.outcomes["done"] for member in pool.members))
        await until(lambda: len(pool.members) == 1)
        assert member_of((await pool.acomplete("Hi")).text) == 0


async def test_a_member_whose_server_dies_is_restarted_by_ray_and_followed():
    with pool_of() as pool:
        (before,) = [member.url for member in pool.members]
        for pid in server_pids(before):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: [m.url for m in pool.members if m.state == "up"] not in ([], [before]))
        assert (await pool.acomplete("Hi")).text == TEXT
        assert len(pool.members) == 1


async def test_all_members_are_replaced_without_a_broken_answer():
    with pool_of(min_members=2, max_members=2) as pool:
        before = {member.url for member in pool.members}
        async with load(pool, 4):
            await asyncio.wrap_future(pool.change(pool.membership.replace_all))
            await until(lambda: pool.to_dict()["replacement"] == {"replaced": 2, "of": 2})
        assert before.isdisjoint({member.url for member in pool.members})
        assert sum(member.outcomes["failed"] for member in pool.members) == 0


def test_a_member_that_the_cluster_has_no_room_for_is_an_error():
    with (
        pytest.raises(TorvynError, match="did not start on Ray"),
        pool_of(place={"resources": {"no-such-thing": 1}}, start_timeout_s=1),
    ):
        pass


def test_a_place_that_ray_does_not_know_is_refused():
    with pytest.raises(InvalidInput, match="`place` has no `gpu`"), pool_of(place={"gpu": 1}):
        pass
