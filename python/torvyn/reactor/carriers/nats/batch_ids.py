"""What identifies a batch on the broker, as its `Nats-Msg-Id`.

    WRITER.SERIES.GENERATION.PARTITION.FIRST.COUNT

The elements of a series are numbered per partition, without gaps. A segment whose progress is saved
continues its series after a crash; a source that publishes at once begins a new one. The last batch
of a run has no elements, and the run in the place of the generation. Native code makes and reads
them; here they are needed for ends, and for what is discarded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

END: Final = "end"


class BatchId(NamedTuple):
    writer: int
    """Which replica of the segment has written it."""
    series: str
    generation: str
    """Which start of the segment has written it; at the end of a stream, the run."""
    partition: int
    first: int
    elements: int
    """0 at the end of a stream."""

    def __str__(self) -> str:
        count = self.elements or END
        parts = (self.writer, self.series, self.generation, self.partition, self.first, count)
        return ".".join(map(str, parts))

    @classmethod
    def parse(cls, text: str) -> BatchId | None:
        """None if something else has written the message."""
        parts = text.split(".")
        if len(parts) != len(cls._fields):
            return None
        try:
            count = 0 if parts[5] == END else int(parts[5])
            return cls(int(parts[0]), parts[1], parts[2], int(parts[3]), int(parts[4]), count)
        except ValueError:
            return None
