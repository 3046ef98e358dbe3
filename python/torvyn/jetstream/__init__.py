"""JetStream: streams, messages and entries that a NATS server stores.

failures   what the server and its absence mean for the caller
addresses  where the server is, and who we are there
nkeys      signs what the server asks to be signed
connection  the connection, which is established again for ever
start_wait  how long a start waits for the server
requests   asks the server, and reads its answers
publisher  stores messages, and waits until the server has them
entries    values with revisions, of which only one writer can win
revisions  messages of a subject, of which only one writer can add the next
streams    makes streams as they must be, empties them, and looks at them
reader     reads a stream in order, from a position on
message_list  lists messages by their ids, and deletes some of them

Everything runs on one event loop: that of a server, or the background loop for a flow. `nats-py` is
imported when a connection is made; it is in the extra `cluster`.
"""

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.entries import Entries
from torvyn.jetstream.failures import BrokerDenied, BrokerUnavailable, Conflict, Refused
from torvyn.jetstream.publisher import Confirmed, Message, Publisher
from torvyn.jetstream.reader import OrderedReader, StoredMessage
from torvyn.jetstream.revisions import Entry, Revisions
from torvyn.jetstream.streams import Streams, StreamSpec, StreamState

__all__ = [
    "BrokerConnection",
    "BrokerDenied",
    "BrokerUnavailable",
    "Confirmed",
    "Conflict",
    "Entries",
    "Entry",
    "Message",
    "OrderedReader",
    "Publisher",
    "Refused",
    "Revisions",
    "StoredMessage",
    "StreamSpec",
    "StreamState",
    "Streams",
]
