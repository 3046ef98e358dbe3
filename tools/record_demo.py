"""Runs a command at a terminal and draws what it showed as SVG, with the time of each line.

    python tools/record_demo.py                          # make demo, on a fresh clone
    python tools/record_demo.py --folder examples/token-streaming torvyn run flow.main

Everything in the picture happened: the text is what the terminal showed at the end, and the time
beside a line is when it changed last. Uses only the standard library, as `make demo` does.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import platform
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS, ROWS = 84, 50
WIDTH, LINE, TOP, LEFT = 800, 19, 58, 18
_TOKEN: Final = re.compile(
    r"\x1b\[(?P<numbers>[0-9;]*)(?P<letter>[A-Za-z])|\x1b\].*?(?:\x07|\x1b\\)"
    r"|\x1b\[\?[0-9;]*[a-z]|\x1b.|(?P<character>.)",
    re.DOTALL,
)
_STYLES: Final[Mapping[str, str]] = {
    "1": "bold",
    "2": "dim",
    "31": "red",
    "32": "green",
    "33": "yellow",
    "34": "blue",
    "35": "magenta",
    "36": "cyan",
    "90": "dim",
}
_COLOURS: Final = {
    ".dim,.time,.about": ("fill:#59636e", "fill:#9198a1"),
    ".red": ("fill:#d1242f", "fill:#ff7b72"),
    ".green": ("fill:#1a7f37", "fill:#3fb950"),
    ".yellow": ("fill:#9a6700", "fill:#d29922"),
    ".blue": ("fill:#0969da", "fill:#58a6ff"),
    ".magenta": ("fill:#8250df", "fill:#bc8cff"),
    ".cyan": ("fill:#0e7490", "fill:#39c5cf"),
    ".page": ("fill:#ffffff;stroke:#d0d7de", "fill:#0d1117;stroke:#30363d"),
    ".rule": ("stroke:#d0d7de", "stroke:#30363d"),
    ".dot": ("fill:#d0d7de", "fill:#30363d"),
}
_SHAPES: Final = """\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
font-size:12.5px;white-space:pre}
.bold,.command{font-weight:600}
.time,.about{font-size:11px}
.time{text-anchor:end}
"""


@dataclass(slots=True)
class Row:
    """A row of the terminal: characters with their styles, and when it changed last."""

    cells: list[tuple[str, str]] = field(default_factory=list)
    changed_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(character for character, _ in self.cells).rstrip()


class Terminal:
    """As much of a terminal as programs need that rewrite a line and use colours."""

    def __init__(self) -> None:
        self.rows = [Row()]
        self._row = self._column = 0
        self._style = ""
        self._rest = ""

    def feed(self, text: str, now_s: float) -> None:
        text = self._rest + text
        # A sequence may be cut between two reads.
        cut = text.rfind("\x1b", -16)
        if cut >= 0 and re.fullmatch(r"\x1b(?:\[[0-9;?]*)?", text[cut:]):
            text, self._rest = text[:cut], text[cut:]
        else:
            self._rest = ""
        for token in _TOKEN.finditer(text):
            if token["character"] is not None:
                self._take(token["character"], now_s)
            elif token["letter"] is not None:
                self._obey(token["letter"], token["numbers"], now_s)

    def _take(self, character: str, now_s: float) -> None:
        if character == "\n":
            self._move(self._row + 1)
        elif character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character >= " ":
            self._write(character, now_s)

    def _write(self, character: str, now_s: float) -> None:
        if self._column == COLUMNS:
            self._move(self._row + 1)
            self._column = 0
        row = self.rows[self._row]
        row.cells += [(" ", "")] * (self._column + 1 - len(row.cells))
        row.cells[self._column] = (character, self._style)
        row.changed_s = now_s
        self._column += 1

    def _move(self, row: int) -> None:
        self._row = max(0, row)
        self.rows += [Row() for _ in range(self._row + 1 - len(self.rows))]

    def _obey(self, letter: str, numbers: str, now_s: float) -> None:
        count = int(numbers.partition(";")[0] or 0)
        row = self.rows[self._row]
        if letter == "m":
            self._style = _style(self._style, numbers)
        elif letter == "K":
            row.cells = row.cells[: self._column] if count == 0 else []
            row.changed_s = now_s
        elif letter == "J":
            row.cells = row.cells[: self._column]
            del self.rows[self._row + 1 :]
        elif letter in "AB":
            self._move(self._row + max(1, count) * (-1 if letter == "A" else 1))
        elif letter in "CD":
            self._column = max(0, self._column + max(1, count) * (1 if letter == "C" else -1))
        elif letter == "G":
            self._column = max(0, count - 1)


def _style(style: str, numbers: str) -> str:
    classes = style.split()
    for number in numbers.split(";"):
        if number in ("", "0"):
            classes = []
        elif number in _STYLES:
            classes = [*classes, _STYLES[number]]
    return " ".join(dict.fromkeys(classes))


def record(command: str, folder: Path) -> tuple[int, Terminal, float]:
    """Runs the command; its exit code, what its terminal shows, and the seconds it took."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {**os.environ, "PATH": path, "TERM": "xterm", "COLUMNS": str(COLUMNS)}
    begin_s = time.monotonic()
    with subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=environ, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        terminal = Terminal()
        for text in _read(master):
            terminal.feed(text, time.monotonic() - begin_s)
            sys.stderr.write(text)
    os.close(master)
    return process.returncode, terminal, time.monotonic() - begin_s


def _read(master: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # The last process of the terminal has ended.
            return
        if not chunk:
            return
        yield decoder.decode(chunk)


def render(command: str, rows: Sequence[Row], took_s: float, about: str) -> str:
    """The picture: the command, its rows with their times, and how long it took."""
    rows = list(rows)
    while rows and not rows[-1].text:
        rows.pop()
    height = TOP + LINE * (len(rows) + 1) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(f'{command}: {duration(took_s)}')}</title>",
        f"<style>\n{_css()}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *(f'<circle class="dot" cx="{LEFT + 5 + 17 * at}" cy="17" r="5"/>' for at in range(3)),
        f'<text class="about" x="{LEFT + 56}" y="21">{escape(about)}</text>',
        f'<path class="rule" d="M1 34H{WIDTH - 1}"/>',
        f'<text class="command" x="{LEFT}" y="{TOP}">$ {escape(command)}</text>',
        *_drawn(rows),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _drawn(rows: Sequence[Row]) -> Iterator[str]:
    shown = ""
    for at, row in enumerate(rows, 1):
        if not row.text:
            continue
        y = TOP + LINE * at
        yield f'<text class="line" x="{LEFT}" y="{y}">{"".join(_spans(row))}</text>'
        when = duration(row.changed_s)
        if when != shown:
            yield f'<text class="time" x="{WIDTH - LEFT}" y="{y}">{when}</text>'
            shown = when


def _spans(row: Row) -> Iterator[str]:
    cells = row.cells[: len(row.text)]
    for style, group in groupby(cells, key=lambda cell: cell[1]):
        text = escape("".join(character for character, _ in group))
        yield f'<tspan class="{style}">{text}</tspan>' if style else text


def _css() -> str:
    light, dark = (
        "\n".join(f"{names}{{{rules[scheme]}}}" for names, rules in _COLOURS.items())
        for scheme in (0, 1)
    )
    return (
        f"{_SHAPES}text{{fill:#1f2328}}\n{light}\n"
        f"@media (prefers-color-scheme:dark){{\ntext{{fill:#f0f6fc}}\n{dark}\n}}\n"
    )


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s"


def machine() -> str:
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.machine()}, {cores} cores"
    return f"{system}, {platform.python_implementation()} {platform.python_version()}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT, help="where the command runs")
    parser.add_argument("--output", type=Path, default=PICTURE)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="by default: make demo")
    options = parser.parse_args(arguments)
    command = " ".join(options.command) or "make demo"
    if command == "make demo" and (ROOT / ".venv").exists():
        print("note: .venv exists, so this is not what a fresh clone shows", file=sys.stderr)
    code, terminal, took_s = record(command, options.folder)
    if code != 0:
        print(f"not recorded: `{command}` ended with {code}", file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(render(command, terminal.rows, took_s, machine()))
    print(f"written to {options.output}; it took {duration(took_s)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
