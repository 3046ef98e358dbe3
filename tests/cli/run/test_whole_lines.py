"""What guests, Python components and the log print in one run: whole lines, wherever they go."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pseudo_terminal import Terminal

GUEST = Path(__file__).parents[2] / "sandbox" / "guests" / "printer.wasm"
COUNT = 400
THREADS = """
    import logging, sys, threading
    logger = logging.getLogger("parts")
    class Part(torvyn.Processor):
        def init(self, config):
            tells = (lambda *words: print(*words, sep="_"), self.log, self.complain)
            self.threads = [threading.Thread(target=self.tell, args=(f,)) for f in tells]
            for thread in self.threads: thread.start()
        def tell(self, function):
            for number in range(%d): function("thread", number)
        def log(self, *words):
            logger.warning("_".join(map(str, words)))
        def complain(self, *words):
            print(*words, file=sys.stderr, sep="_")
        def process(self, element):
            print("element", element.text, sep="_")
            return element
        def teardown(self):
            for thread in self.threads: thread.join()
"""


@pytest.fixture
def folder(project: Callable[..., Path]) -> Path:
    """A flow that prints from its turns, from three threads, and in the sandbox."""
    nodes = {
        "source": f"component = 'scripted'\nconfig = {{ tokens = {list(map(str, range(COUNT)))} }}",
        "guest": 'component = "printer"',
        "part": 'component = "part"',
        "sink": 'component = "console"\nconfig = { prefix = "sink_" }',
    }
    extra = (
        '[[component]]\nname = "printer"\npath = "printer.wasm"\n'
        '[security.grants.printer]\ncapabilities = ["stdio:stdout"]\n'
    )
    folder = project(nodes, extra=extra, part=THREADS % COUNT)
    shutil.copy(GUEST, folder)
    return folder


def expected() -> Counter[str]:
    lines = Counter({"worhello": COUNT - 1, "hello": 1, "wor": 1})
    for number in range(COUNT):
        lines.update([f"element_{number}", f"sink_{number}"])
        # Printed, printed to standard error, and logged.
        lines[f"thread_{number}"] = 3
    return lines


def lines_of(text: str) -> Counter[str]:
    """The lines of components, without the time of log records."""
    lines = (re.sub(r"^\S+ \[parts\] warning: ", "", line) for line in text.splitlines())
    return Counter(line for line in lines if line and not line.startswith("[torvyn] "))


@pytest.mark.promise("tokens.whole-lines")
@pytest.mark.parametrize("to", ["a pipe", "a file"])
def test_every_line_is_whole(to: str, folder: Path, shell: Callable[[str, Path], str]) -> None:
    command = "torvyn run 2>&1 | cat" if to == "a pipe" else "torvyn run >out 2>&1; cat out"

    assert lines_of(shell(command, folder)) == expected()


@pytest.mark.promise("tokens.whole-lines")
def test_every_line_on_a_terminal_is_whole(
    folder: Path, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal("run", cwd=folder)

    text = terminal.expect("elements emitted")

    assert lines_of(text.rpartition("\n")[0]) == expected()


def test_what_a_component_leaves_unfinished_comes_before_the_summary(
    project: Callable[..., Path], shell: Callable[[str, Path], str]
) -> None:
    part = """
        import threading
        class Part(torvyn.Sink):
            def push(self, element):
                thread = threading.Thread(target=print, args=(element.text,), kwargs={"end": ""})
                thread.start()
                thread.join()
    """
    nodes = {
        "source": 'component = "scripted"\nconfig = { tokens = ["one", "two"] }',
        "sink": 'component = "part"',
    }

    text = shell("torvyn run 2>&1 | cat", project(nodes, part=part))

    assert text.splitlines()[2:] == [
        "one",
        "two",
        "[torvyn] Flow 'main' completed.",
        "[torvyn] 2 tokens produced | 2 elements emitted",
    ]
