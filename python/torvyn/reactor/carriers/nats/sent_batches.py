"""Discards what a writer has sent in earlier runs, for a start with `--fresh`.

Replicas that write to one edge start one after another. One that starts later must not delete what
an earlier one has sent in the new run, so each deletes its own batches only.
"""

from __future__ import annotations

from torvyn.jetstream.message_list import MessageList
from torvyn.reactor.carriers.nats.batch_ids import BatchId
from torvyn.reactor.carriers.nats.broker_thread import BrokerThread


def discard_sent(broker: BrokerThread, stream: str, writer: int, writers: int) -> None:
    """`writer`: which of the `writers` replicas this one is."""
    if writers == 1:
        broker.call(broker.streams.purge(stream))
        return
    messages = MessageList(broker.broker, stream)
    while page := broker.call(messages.next_page()):
        own = [each.sequence for each in page if _is_own(each.id, writer, writers)]
        broker.call(messages.delete(own))


def _is_own(identity: str, writer: int, writers: int) -> bool:
    """Whether this replica discards the batch. One of a replica that there is no more belongs to
    all."""
    batch = BatchId.parse(identity)
    return batch is None or batch.writer == writer or batch.writer >= writers
