"""The engine `local` and its process: no network, no noise, no hang at the end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from local_model import needs_model

pytestmark = needs_model
OPEN = """
import asyncio, os, socket, sys, threading
import torvyn
from torvyn.engine.local.engine import Local
engine = Local(context=512, parallel=1)
LONG = "Tell me a story without an end."
"""


def process(program: str, *, first: str = "", limit_s: float = 50) -> str:
    """What the program prints; fails when it hangs, is killed or says more.

    `first` is run before anything is imported."""
    command = [sys.executable, "-c", first + OPEN + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_it_answers_without_a_network_and_listens_nowhere():
    program = """
def sockets():
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(fd))) as found:
                    yield found.family, found.getsockname()
        except OSError:
            pass
def refuse(*_): raise AssertionError("a connection")
socket.socket.connect = socket.create_connection = refuse
answer = engine.complete("Say hello.", max_tokens=3)
assert answer.usage.completion_tokens == 3
found = list(sockets())
assert all(family == socket.AF_UNIX for family, _ in found), found
names = [name for _, name in found if name]
assert not any(os.path.exists(name) for name in names), names
print("quiet", len(names))
"""
    assert process(program) == "quiet 1"


def test_nothing_but_the_answer_is_printed():
    assert process("print(engine.complete('x', max_tokens=2).finish_reason)") == "length"


@pytest.mark.parametrize(
    "leaves",
    [
        "",
        "engine.complete('x', max_tokens=2)",
        "deltas = iter(engine.generate(LONG)); next(deltas)",
        "threading.Thread(target=engine.complete, args=(LONG,), daemon=True).start()",
        "next(iter(engine.generate(LONG))); engine.close()",
        "sys.exit(0)",
    ],
)
def test_the_interpreter_ends(leaves):
    assert process(leaves) == ""


@pytest.mark.parametrize("ask", ["engine.complete(LONG)", "asyncio.run(engine.acomplete(LONG))"])
def test_a_daemon_thread_that_asks_after_the_end_prints_no_traceback(ask):
    # The handler was registered before the engine's own, so it runs when the engine is closed.
    program = f"""
def run():
    ending.wait()
    asking.set()
    {ask}
    print("it was answered")
thread = threading.Thread(target=run, daemon=True)
thread.start()
"""
    at_exit = """
import atexit, threading
ending, asking = threading.Event(), threading.Event()
@atexit.register
def ask_late():
    ending.set()
    asking.wait()
    thread.join(0.3)
    print("waits" if thread.is_alive() else "ended")
"""
    assert process(program, first=at_exit) == "waits"


def test_the_main_thread_that_asks_after_the_end_gets_an_error():
    at_exit = """
import atexit
@atexit.register
def ask_late():
    for ask in (lambda: engine.complete("x"), lambda: asyncio.run(engine.acomplete("x"))):
        try:
            ask()
        except torvyn.Unavailable as error:
            print(error.code)
"""
    assert process("", first=at_exit).split() == ["engine.closed"] * 2


def test_it_ends_while_a_prompt_is_read():
    program = """
threading.Thread(target=engine.complete, args=("word " * 480,), daemon=True).start()
while not engine._server._running: pass
"""
    assert process(program) == ""


def test_closing_from_the_loop_that_reads_does_not_wait_for_itself():
    program = """
import time
async def main():
    reason = None
    async for delta in engine.generate(LONG):
        if reason is None:
            begun_s = time.perf_counter()
            engine.close()
            took_s = time.perf_counter() - begun_s
        reason = delta.finish_reason or reason or ""
    print(reason, took_s < 3)
asyncio.run(main())
"""
    assert process(program) == "cancelled True"


def test_closing_from_another_thread_ends_the_reader_as_cancelled():
    program = """
deltas = iter(engine.generate(LONG))
next(deltas)
threading.Thread(target=engine.close).start()
print([delta.finish_reason for delta in deltas if delta.finish_reason])
"""
    assert process(program) == "['cancelled']"


def test_a_forked_child_refuses_to_ask_and_leaves_the_parent_its_engine():
    program = """
child = os.fork()
if child == 0:
    try:
        engine.complete("x")
    except torvyn.Unavailable as error:
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), engine.complete("x", max_tokens=1).finish_reason)
"""
    assert process(program) == "7 length"
