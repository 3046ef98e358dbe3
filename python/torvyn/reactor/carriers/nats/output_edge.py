"""The end of a `nats` edge that publishes: batches on their way to the broker.

Native code numbers, publishes and retries the batches. Those of a segment that is saved by cuts
wait until its entry is written; the others leave by themselves, without a step in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torvyn._native import Bell, EdgeLog, NatsOutput
from torvyn.jetstream import BrokerUnavailable, Message
from torvyn.jetstream.connection import ALONE
from torvyn.jetstream.publisher import MESSAGE_ID
from torvyn.reactor.carriers.nats.names import EdgeNames
from torvyn.reactor.carriers.wired_plan import DurableEdge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
    from torvyn.reactor.carriers.wired_plan import WiredPlan

BATCH_BYTES: Final = 256 * 1024
"""The most that a message of several elements has."""
BUFFER_BYTES: Final = 1024 * 1024
"""What waits in front of the broker before the writer pauses."""
HEAD_BYTES: Final = 2048
"""What a message and a batch of one element have besides its payload."""


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Who writes: what the ids of batches begin with."""

    writer: int
    series: str
    generation: int
    run: str


class OutputEdge:
    """For the carrier thread."""

    def __init__(self, wired: DurableEdge, segment: int, names: EdgeNames) -> None:
        self.name = wired.log
        self.wired = wired
        self.names = names
        self.writer_segment: int | None = segment
        self.reader_segment: int | None = None
        self.options = wired.edge
        self.first: dict[int, int] = {}
        """The numbers with which this process has begun."""
        self._is_ended = False
        self._is_last = False

    def open(
        self,
        bell: Bell,
        broker: BrokerThread,
        identity: WriterIdentity,
        numbers: Mapping[str, int],
        key: Callable[[Any], str] | None,
        field: str | None,
        *,
        is_cut: bool,
        outbox: Iterable[Message] = (),
    ) -> None:
        """`field`: of JSON objects, which may be the key; `is_cut`: its batches wait for the entry
        of their segment."""
        self._broker = broker
        most = broker.broker.max_payload - HEAD_BYTES
        log_bell = bell if is_cut else Bell()
        batch_bytes = min(BATCH_BYTES, most)
        self.log = EdgeLog(log_bell, 0, BUFFER_BYTES, most, not is_cut, batch_bytes, key, field)
        self.identity = identity
        self.first = {int(partition): number for partition, number in numbers.items()}
        self._native = NatsOutput(
            broker.data,
            self.log,
            bell,
            takes=not is_cut,
            prefix=self.names.prefix,
            partitions=self.names.partitions,
            writer=identity.writer,
            series=identity.series,
            generation=f"g{identity.generation}",
            run=identity.run,
            next=self.first,
            outbox=[(each.subject, each.headers[MESSAGE_ID], each.body) for each in outbox],
        )

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.writer = native.node(wired.index(self.wired.writer))
        self._native.attach(self.writer)

    @property
    def waits(self) -> int:
        """How many batches were taken from the writer, and are not on the broker yet."""
        return len(self._native)

    @property
    def is_idle(self) -> bool:
        return not self.log.pending[0] and not self.waits

    @property
    def next(self) -> dict[int, int]:
        """The next number of each partition."""
        return self._native.next

    @property
    def sent(self) -> dict[int, int]:
        """By partition: up to which number the broker has everything."""
        return self._native.sent

    @property
    def confirmed(self) -> int:
        """Elements that the broker has confirmed."""
        return self._native.confirmed

    @property
    def refusals(self) -> int:
        """How often the broker was full."""
        return self._native.refusals

    def owed(self, *, is_from_before: bool = False) -> list[Message]:
        """The batches that wait, in their order; `is_from_before`: those of an earlier process."""
        owed = self._native.owed(is_from_before=is_from_before)
        return [Message(subject, body, {MESSAGE_ID: identity}) for subject, identity, body in owed]

    def take(self) -> None:
        """What waits is taken by itself."""

    def take_all(self) -> None:
        """Takes everything: for a cut, or because the flow has ended."""
        self._native.take_all()
        self._is_last = True

    def publish(self) -> BrokerUnavailable | None:
        """Publishes what waits, and waits for the broker. Returns an error if a subject is full:
        its batches stay, and are tried again by themselves."""
        self._native.release()
        outcome, text = self._native.wait(ALONE.answer_s)
        if outcome == "full":
            return BrokerUnavailable(f"`{self.name}` is full on the broker", is_full=True)
        if outcome == "refused":
            raise self._refusal(text)
        if outcome == "away":
            raise BrokerUnavailable(f"{self._broker.broker.address} confirms nothing")
        return None

    def check(self) -> None:
        """Raises if what leaves by itself cannot leave now. At the end of the flow, waits for
        it."""
        if self._is_last:
            self.publish()
        elif (text := self._native.failure) is not None:
            raise self._refusal(text)
        elif self.waits and not self._broker.data.is_connected:
            raise BrokerUnavailable(f"no connection to {self._broker.broker.address}")

    def _refusal(self, text: str) -> BrokerUnavailable:
        return BrokerUnavailable(f"the broker refuses a batch of `{self.name}`: {text}")

    def fail(self, message: str) -> None:
        """Ends the flow."""
        self.log.fail(message)
        self.writer.resume()

    def refill(self) -> None:
        """An output has no reader."""

    def finish_if_drained(self, *, is_last: bool = False) -> None:
        """Says that the stream has ended, once everything before it is on the broker. `is_last`:
        what waits is published before it."""
        if self._is_ended or not self.log.is_closed or not (is_last or self.is_idle):
            return
        self._is_ended = True
        self._native.add_end()

    def stop(self) -> None:
        self._native.stop()
