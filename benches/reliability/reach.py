"""What does a guest take from the host beside memory?"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import GUESTS, TESTS, apart, folder
from torvyn.sandbox.build.build import build
from torvyn.sandbox.build.project import GuestProject

FLOWS = 1000
SETTLED_S, WATCHED_S = 10, 10

IDLE = """
import time, torvyn
flows = []
for _ in range(int(sys.argv[1])):
    parts = [part(GUESTS[name]) for name in ("idle", "processor", "filter", "sink")]
    flows.append(torvyn.Flow(*parts))
    flows[-1].start()
time.sleep(float(sys.argv[2]))
used, began = time.process_time(), time.monotonic()
time.sleep(float(sys.argv[3]))
answer((time.process_time() - used) / (time.monotonic() - began))
"""
TRY = """
import tempfile, torvyn

def tries(prober, lines, grants):
    folder = Path(tempfile.mkdtemp())
    (folder / "asked.txt").write_text("".join(line + chr(10) for line in lines))
    (folder / "Torvyn.toml").write_text(f'''
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes]
a = {{ component = "lines", config = {{ path = "asked.txt" }} }}
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
said = tries(prober, [f"hold {file}"], [f"filesystem:read:{Path(file).parent}"])
assert int(said[0].removeprefix("ok ")) > 0, said
answer(int(said[0].removeprefix("ok ")))
"""
)
PIPE = (
    TRY
    + """
prober, file = sys.argv[1:]
note = Path(file).parent / "note.txt"
asked = [f"read {note}", *[f"read {file}"] * 20]
said = tries(prober, asked, [f"filesystem:read:{note.parent}"])
assert said[0] == "ok hello", said
waiting = [task.read_text() for task in Path("/proc/self/task").glob("*/wchan")]
answer(len([what for what in waiting if "fifo" in what or "pipe_read" in what]))
"""
)
PRINT = r"""
import io, torvyn
class Screen(io.StringIO):
    def isatty(self): return True
screen, terminal = Screen(), sys.stdout
sys.stdout = screen
hostile = "a\x1b[2Jb\u202ec\x9bd\u2028e"
list(torvyn.Flow([f"print {hostile}"], part(sys.argv[1], grants=("stdio:stdout",))))
sys.stdout = terminal
answer(len([c for c in screen.getvalue() if c in "\x1b\x9b\u202e\u2028"]))
"""
FAIL = """
import io, logging, torvyn
written = io.StringIO()
logging.getLogger("torvyn").addHandler(logging.StreamHandler(written))
logging.getLogger("torvyn").setLevel(logging.DEBUG)
flow = torvyn.Flow(["x"]).add("loud", part(sys.argv[1]), max_memory_bytes=512 << 20)
list(flow.connect("source", "loud"))
assert "xxxx" in written.getvalue(), written.getvalue()
answer(len(written.getvalue()) / 1024)
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
        raise LeftOut("ziglang is not installed")
    shutil.copytree(TESTS / "security" / "c" / "prober", folder() / "prober")
    return build(GuestProject("prober", folder() / "prober", "c")).path


@cache
def loud() -> Path:
    if importlib.util.find_spec("componentize_py") is None:
        raise LeftOut("componentize-py is not installed")
    (folder() / "loud").mkdir()
    (folder() / "loud" / "component.py").write_text(LOUD)
    return build(GuestProject("loud", folder() / "loud", "python")).path


@cache
def note() -> Path:
    made = folder() / "granted"
    made.mkdir()
    (made / "note.txt").write_text("hello")
    return made / "note.txt"


@cache
def pipe() -> Path:
    path = note().parent / "pipe"
    os.mkfifo(path)
    return path


def _worst(program: str, *arguments: Callable[[], object]) -> Callable[[int], Measured]:
    def measure(rounds: int) -> Measured:
        given = [argument() for argument in arguments]
        found = [apart(program, *given) for _ in range(rounds)]
        samples = [float("inf") if value is None else float(value) for value in found]
        return Measured(max(samples), samples)

    return measure


def _idle(rounds: int) -> Measured:
    assert "idle" in GUESTS
    samples = [float(apart(IDLE, FLOWS, SETTLED_S, WATCHED_S)) for _ in range(min(rounds, 3))]
    return Measured(max(samples), samples, f"after {SETTLED_S} s, for {WATCHED_S} s")


LINES = (
    Line(
        "descriptors",
        "a guest that opens files without end",
        "a folder granted for reading",
        64,
        "descriptors held",
        _worst(HOLD, prober, note),
    ),
    Line(
        "pipe-read",
        "a guest that reads a pipe nobody writes to",
        "20 reads, a call timeout of 0.2 s",
        0,
        "threads left waiting",
        _worst(PIPE, prober, pipe),
    ),
    Line(
        "idle-flows",
        "flows with nothing to do",
        f"{FLOWS:,} flows of four guests, the source pending",
        0.1,
        "cores",
        _idle,
    ),
    Line(
        "log-flood",
        "a guest whose error is 20 MB long",
        "raised in teardown, logs at debug level",
        64,
        "KiB logged",
        _worst(FAIL, loud),
    ),
    Line(
        "terminal-controls",
        "a guest that prints controls with a grant",
        "ESC, U+009B, U+202E, U+2028 to a terminal",
        0,
        "raw controls",
        _worst(PRINT, prober),
    ),
)
