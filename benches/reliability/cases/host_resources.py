"""What can a guest take from the host besides memory?"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import GUESTS, TESTS, folder, run_in_process
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject

FLOWS = 1000
SETTLED_S, WATCHED_S = 10, 10

IDLE = """
import time, torvyn
flows = []
for _ in range(int(sys.argv[1])):
    guests = [new_guest(GUESTS[name]) for name in ("idle", "processor", "filter", "sink")]
    flows.append(torvyn.Flow(*guests))
    flows[-1].start()
time.sleep(float(sys.argv[2]))
used, began = time.process_time(), time.monotonic()
time.sleep(float(sys.argv[3]))
report((time.process_time() - used) / (time.monotonic() - began))
"""
TRY = """
import tempfile, torvyn

def tries(prober, lines, grants):
    folder = Path(tempfile.mkdtemp())
    (folder / "requests.txt").write_text("".join(line + chr(10) for line in lines))
    (folder / "Torvyn.toml").write_text(f'''
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes]
a = {{ component = "lines", config = {{ path = "requests.txt" }} }}
b = {{ component = "{prober}", call_timeout = "200ms", on_error = "skip" }}
c = {{ component = "file", config = {{ path = "answers.txt" }} }}
[[flow.main.edges]]
from = "a"
to = "b"
[[flow.main.edges]]
from = "b"
to = "c"
[security.grants.{Path(prober).stem}]
capabilities = {json.dumps(grants)}
''')
    os.chdir(folder)
    torvyn.load("Torvyn.toml").flow("main").run()
    return (folder / "answers.txt").read_text().splitlines()
"""
HOLD = (
    TRY
    + """
prober, file = sys.argv[1:]
answers = tries(prober, [f"hold {file}"], [f"filesystem:read:{Path(file).parent}"])
assert int(answers[0].removeprefix("ok ")) > 0, answers
report(int(answers[0].removeprefix("ok ")))
"""
)
PIPE = (
    TRY
    + """
prober, file = sys.argv[1:]
note = Path(file).parent / "note.txt"
requests = [f"read {note}", *[f"read {file}"] * 20]
answers = tries(prober, requests, [f"filesystem:read:{note.parent}"])
assert answers[0] == "ok hello", answers
waiting = [task.read_text() for task in Path("/proc/self/task").glob("*/wchan")]
report(len([what for what in waiting if "fifo" in what or "pipe_read" in what]))
"""
)
PRINT = r"""
import io, torvyn
class Screen(io.StringIO):
    def isatty(self): return True
screen, terminal = Screen(), sys.stdout
sys.stdout = screen
hostile = "a\x1b[2Jb\u202ec\x9bd\u2028e"
list(torvyn.Flow([f"print {hostile}"], new_guest(sys.argv[1], grants=("stdio:stdout",))))
sys.stdout = terminal
report(len([c for c in screen.getvalue() if c in "\x1b\x9b\u202e\u2028"]))
"""
FAIL = """
import io, logging, torvyn
written = io.StringIO()
logging.getLogger("torvyn").addHandler(logging.StreamHandler(written))
logging.getLogger("torvyn").setLevel(logging.DEBUG)
flow = torvyn.Flow(["x"]).add("loud", new_guest(sys.argv[1]), max_memory_bytes=512 << 20)
list(flow.connect("source", "loud"))
assert "xxxx" in written.getvalue(), written.getvalue()
report(len(written.getvalue()) / 1024)
"""
LOUD = """
import torvyn

class Loud(torvyn.Processor):
    def process(self, element):
        return element.text

    def teardown(self):
        raise ValueError("x" * 20_000_000)
"""


@cache
def prober() -> Path:
    if importlib.util.find_spec("ziglang") is None:
        raise SkipCase("ziglang is not installed")
    shutil.copytree(TESTS / "security" / "c" / "prober", folder() / "prober")
    return build(GuestProject("prober", folder() / "prober", "c")).path


@cache
def loud() -> Path:
    if importlib.util.find_spec("componentize_py") is None:
        raise SkipCase("componentize-py is not installed")
    (folder() / "loud").mkdir()
    (folder() / "loud" / "component.py").write_text(LOUD)
    return build(GuestProject("loud", folder() / "loud", "python")).path


@cache
def note() -> Path:
    path = folder() / "granted" / "note.txt"
    path.parent.mkdir()
    path.write_text("hello")
    return path


@cache
def pipe() -> Path:
    path = note().parent / "pipe"
    os.mkfifo(path)
    return path


def _worst(program: str, *arguments: Callable[[], object]) -> Callable[[int], Measurement]:
    def measure(rounds: int) -> Measurement:
        values = [argument() for argument in arguments]
        results = [run_in_process(program, *values) for _ in range(rounds)]
        samples = [float("inf") if result is None else float(result) for result in results]
        return Measurement(max(samples), samples)

    return measure


def _idle(rounds: int) -> Measurement:
    assert "idle" in GUESTS
    samples = [
        float(run_in_process(IDLE, FLOWS, SETTLED_S, WATCHED_S)) for _ in range(min(rounds, 3))
    ]
    return Measurement(max(samples), samples, f"after {SETTLED_S} s, for {WATCHED_S} s")


CASES = (
    Case(
        "descriptors",
        "a guest that opens files without end",
        "a folder granted for reading",
        64,
        "open descriptors",
        _worst(HOLD, prober, note),
    ),
    Case(
        "pipe-read",
        "a guest that reads a pipe without a writer",
        "20 reads, a call timeout of 0.2 s",
        0,
        "threads still waiting",
        _worst(PIPE, prober, pipe),
    ),
    Case(
        "idle-flows",
        "flows with nothing to do",
        f"{FLOWS:,} flows of four guests, the source pending",
        0.1,
        "cores",
        _idle,
    ),
    Case(
        "log-flood",
        "a guest whose error is 20 MB long",
        "raised in teardown, logs at debug level",
        64,
        "KiB logged",
        _worst(FAIL, loud),
    ),
    Case(
        "terminal-controls",
        "a guest that prints control characters with a grant",
        "ESC, U+009B, U+202E, U+2028 to a terminal",
        0,
        "unescaped characters",
        _worst(PRINT, prober),
    ),
)
