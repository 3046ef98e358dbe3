"""Runs a command on a pseudo-terminal: reads its screen and types keys.

Every wait has a time limit; if a text does not appear, the assertion shows the screen.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 30.0
# A process gets Ctrl-C only from its controlling terminal.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    def __init__(self, *arguments: object, cwd: Path, **variables: str) -> None:
        self._master, slave = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, "-m", "torvyn", *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**environment, "TERM": "xterm", "INPUTRC": os.devnull, **variables},
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""
        self._read_to = 0

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def expect(self, text: str) -> str:
        """Waits for the text, after the text of the last call; returns all output up to it."""
        until = time.monotonic() + LIMIT_S
        while (at := self.screen.find(text, self._read_to)) < 0:
            assert self._more(until), f"no {text!r} in {self.screen!r}"
        start, self._read_to = self._read_to, at + len(text)
        return self.screen[start : self._read_to]

    def ask(self, line: str) -> None:
        """Types a line at the prompt."""
        self.expect("> ")
        self.send(line + "\r")

    def interrupt_typing(self) -> None:
        """Presses Ctrl-C until something happens: Python misses a signal that arrives while its
        line editor handles a key."""
        for _ in range(int(LIMIT_S)):
            self.send(CTRL_C)
            if self._more(time.monotonic() + 1.0):
                return

    def wait(self) -> int:
        """The exit code."""
        until = time.monotonic() + LIMIT_S
        while self._more(until):
            pass
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _more(self, until: float) -> bool:
        left = until - time.monotonic()
        if left <= 0 or not select.select([self._master], [], [], left)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # on Linux: the other end is closed
            return False
        # Without the sequences that turn bracketed paste on and off.
        self.screen += re.sub(r"\x1b\[\?2004[hl]", "", data.decode()).replace("\r", "")
        return bool(data)
