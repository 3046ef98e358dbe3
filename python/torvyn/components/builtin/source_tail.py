"""`tail`: follows a file that others append to, one element per line.

A file that was renamed is read to its end before the new one is opened; a file that was truncated
is read from its beginning. An incomplete last line waits for its end. After a restart it continues
behind the last line that was settled, also in files that were rotated meanwhile.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import deque
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.file_position import FINGERPRINT_BYTES, FilePosition
from torvyn.components.files.rotation import find_rotated
from torvyn.components.line_format import LineFormat, LineSplitter, SplitLine, line_options
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable, os_reason

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="tail",
    role="source",
    summary="Follows a file that grows, through rotation, and continues after a restart.",
    options=(
        Option("path", "text", None, "The file to follow; it may appear later.", required=True),
        Option(
            "start",
            "choice",
            "beginning",
            "Where to start in a file that is there when the flow starts for the first time.",
            choices=("beginning", "end"),
        ),
        Option("poll", "duration", 0.25, "The time between two looks at the end of the file."),
        *line_options(1024 * 1024),
    ),
    main="path",
    example="""\
[flow.main.nodes.log]
component = "tail"
config = { path = "/var/log/sensors.jsonl", format = "jsonl" }
""",
)

CHUNK_BYTES: Final = 64 * 1024


class Tail(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"

    _descriptor: int | None = None
    _name = ""
    _prefix = b""
    _is_finished = False

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._path: str = os.path.expanduser(options["path"])
        self._poll = PENDING.after(options["poll"])
        self._format = LineFormat.of(SPEC, options)
        self.connection = Connection("tail", self._path)
        self._seeks_end = options["start"] == "end" and os.path.exists(self._path)
        self._lines: deque[SplitLine] = deque()
        self._rotated: list[str] = []
        self._position: FilePosition | None = None

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        LineFormat.of(SPEC, options)
        if not options["path"] or not options["poll"]:
            name = "poll" if options["path"] else "path"
            raise wrong_config(SPEC, f"`{name}` is empty or 0", f"set `{name}`")

    def pull(self) -> str | Output | Pending:
        while True:
            while self._lines:
                line = self._take()
                if line is not None:
                    return line
            if not self._fill():
                return self._poll

    def snapshot(self) -> dict[str, Any] | None:
        """The position behind the last line that was returned."""
        if self._descriptor is not None:
            return self._position_in(self._descriptor).to_state()
        return self._position.to_state() if self._position else None

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self._seeks_end = False
        self._position = position = FilePosition.from_state(state)
        if self._open(self._path) and position.is_same_file(self._current):
            self._seek(position)
            return
        self._close()
        self._rotated = find_rotated(self._path, position)
        if self._rotated and self._open(self._rotated.pop(0)):
            self._seek(position)
            return
        logger.warning(
            "`tail`: the file of the saved position in %s is gone; lines may be missing",
            self._path,
            extra={"event": "tail.position-lost", "path": self._path},
        )
        self._position = None

    def teardown(self) -> None:
        self._close()
        connection = getattr(self, "connection", None)
        if connection is not None:
            connection.close()

    def _take(self) -> str | Output | None:
        line = self._lines.popleft()
        self._offset += line.size_bytes
        self._number += 1
        where = f"line {self._number} of {self._name}"
        if line.data is None:
            raise self._format.too_long(where)
        return self._format.decode(line.data, where)

    def _fill(self) -> bool:
        """Reads on; returns whether there may be lines, or more to read."""
        if self._descriptor is None or self._is_finished:
            self._close()
            return self._open(self._rotated.pop(0) if self._rotated else self._path)
        try:
            if self._was_truncated():
                self._start(0)
            chunk = os.pread(self._current, CHUNK_BYTES, self._read_offset)
        except OSError as error:
            raise Unavailable(f"cannot read {self._name}: {os_reason(error)}") from error
        if not chunk:
            return self._finish_if_rotated()
        self._read_offset += len(chunk)
        if len(self._prefix) < FINGERPRINT_BYTES:
            self._prefix = os.pread(self._current, min(FINGERPRINT_BYTES, self._read_offset), 0)
        self._saw_rotation = False
        self._lines.extend(self._splitter.feed(chunk))
        return True

    def _was_truncated(self) -> bool:
        """Whether the file is shorter than what was read, or was truncated and has grown again."""
        size = os.fstat(self._current).st_size
        if size == self._read_offset:
            return False
        changed = os.pread(self._current, len(self._prefix), 0) != self._prefix
        if size > self._read_offset and not changed:
            return False
        logger.warning(
            "`tail`: %s was truncated; reading it from its beginning",
            self._name,
            extra={"event": "tail.truncated", "path": self._name},
        )
        return True

    def _finish_if_rotated(self) -> bool:
        """At the end of the open file: whether to go on with another one."""
        if self._name == self._path and not self._was_replaced():
            return False
        if not self._saw_rotation:
            # Its writer may still hold the old file open: look at it once more.
            self._saw_rotation = True
            return self._name != self._path
        last = self._splitter.flush()
        if last is not None:
            self._lines.append(last)
        self._is_finished = True
        return True

    def _was_replaced(self) -> bool:
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        open_file = os.fstat(self._current)
        return (now.st_dev, now.st_ino) != (open_file.st_dev, open_file.st_ino)

    def _open(self, path: str) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.connection.lost(os_reason(error))
            return False
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            self.connection.lost("not a regular file")
            return False
        self._descriptor, self._name = descriptor, path
        self._start(os.fstat(descriptor).st_size if self._seeks_end else 0)
        self._seeks_end = False
        self.connection.connected()
        return True

    def _start(self, offset: int, line: int = 0) -> None:
        """Reads on from an offset at which a line starts."""
        self._offset = self._read_offset = offset
        self._number = line
        self._splitter = LineSplitter(self._format.max_bytes)
        self._prefix = os.pread(self._current, min(FINGERPRINT_BYTES, offset), 0)
        self._is_finished = self._saw_rotation = False

    def _seek(self, position: FilePosition) -> None:
        self._start(position.offset, position.line)

    @property
    def _current(self) -> int:
        if self._descriptor is None:
            raise Unavailable(f"{self._path} is not open")
        return self._descriptor

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._position = self._position_in(descriptor)
            os.close(descriptor)

    def _position_in(self, descriptor: int) -> FilePosition:
        return FilePosition.of(descriptor, self._offset, self._number, self._prefix)
