"""JetStream: streams, messages and entries that a NATS server stores.

Entries are values by key, each with a revision: a writer names the revision that it knows, so that
of two writers only one wins. They are those of a NATS key-value bucket, which `nats kv` shows.
Messages of a subject can be added in the same way.

A stream is made as it must be, emptied and looked at. It can be emptied at once only as a whole or
by subject: whoever wants less lists messages by their ids and deletes each. It is read in order,
from a position on, as fast as the caller makes room. The server forgets the consumer when the
connection ends; the next one continues behind the last message, and a consumer that has missed a
message is made anew.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from torvyn._io.background_loop import background_loop, wait_for
from torvyn._io.broker_login import NO_LOGIN, BrokerLogin
from torvyn._io.event_loop import end_task
from torvyn._io.nats import (
    MESSAGE_ID,
    NOT_FOUND,
    OPEN_TIMEOUT_S,
    WRONG_REVISION,
    BrokerAddresses,
    BrokerConnection,
    BrokerDenied,
    BrokerUnavailable,
    BrokerWait,
    Confirmed,
    Conflict,
    Denial,
    Message,
    Publisher,
    Refused,
    ask,
    check_addresses,
)
from torvyn._native import NatsClient


class Entries:
    """A bucket. `open` makes it if it is new."""

    def __init__(self, broker: BrokerConnection, publisher: Publisher, bucket: str) -> None:
        self._broker = broker
        self._bucket = bucket
        self.stream: Final = f"KV_{bucket}"
        self._revisions = Revisions(broker, publisher, self.stream)

    async def open(
        self, replicas: int = 1, max_age_s: float | None = None, description: str = ""
    ) -> StreamState:
        """Its description is that with which it was made."""
        spec = StreamSpec(
            name=self.stream,
            subjects=(f"$KV.{self._bucket}.>",),
            max_per_subject=1,
            max_age_s=max_age_s,
            replicas=replicas,
            description=description,
            is_bucket=True,
        )
        return await Streams(self._broker).ensure(spec)

    async def get(self, key: str) -> Entry | None:
        """The entry; None if there is none."""
        try:
            return await self._revisions.last(f"$KV.{self._bucket}.{key}")
        except Refused as error:
            raise self._unavailable(error) from error

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """Writes a value, and returns its revision. With `revision`, only if that is still the
        last one (0: none); raises `Conflict` otherwise."""
        try:
            return await self._revisions.append(f"$KV.{self._bucket}.{key}", value, revision)
        except Refused as error:
            raise self._unavailable(error) from error

    async def delete(self, key: str) -> None:
        """Removes a key and what it held."""
        subject = f"$KV.{self._bucket}.{key}"
        await Streams(self._broker).purge(self.stream, subject=subject)

    async def delete_before(self, keys: str, revision: int) -> None:
        """Removes keys (`*` and `>` match any) that were last written before a revision."""
        subject = f"$KV.{self._bucket}.{keys}"
        await Streams(self._broker).purge(self.stream, below=revision, subject=subject)

    async def keys(self, pattern: str) -> list[str]:
        """The keys that match."""
        prefix = f"$KV.{self._bucket}."
        try:
            found = await self._revisions.subjects(prefix + pattern)
        except Refused as error:
            raise self._unavailable(error) from error
        return [subject.removeprefix(prefix) for subject in found]

    def _unavailable(self, error: Refused) -> BrokerUnavailable:
        return BrokerUnavailable(f"{self._broker.address}: {error.text}", is_full=error.is_full)


PAGE_MESSAGES: Final = 256
GONE: Final = (10037, 10043, 10057)
"""Error codes of the server: there is no such message any more."""


class ListedMessage(NamedTuple):
    sequence: int
    id: str


class MessageList:
    """For the loop. All methods raise `BrokerUnavailable`."""

    def __init__(self, broker: BrokerConnection, stream: str) -> None:
        self._broker, self._stream = broker, stream
        self._consumer = ""

    async def next_page(self) -> list[ListedMessage]:
        """The next messages; none after the last one."""
        import nats

        try:
            if not self._consumer:
                self._consumer = await self._make_consumer()
            return await self._read_page(self._broker.require())
        except Refused as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error
        except (OSError, TimeoutError, nats.errors.Error) as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error}") from error

    async def _make_consumer(self) -> str:
        config = {
            "deliver_policy": "all",
            "ack_policy": "none",
            "headers_only": True,
            "inactive_threshold": int(60e9),
            "num_replicas": 1,
            "mem_storage": True,
        }
        request = {"stream_name": self._stream, "config": config}
        answer = await ask(self._broker, f"CONSUMER.CREATE.{self._stream}", request)
        return str(answer["name"])

    async def _read_page(self, client: Any) -> list[ListedMessage]:
        received: asyncio.Queue[Any] = asyncio.Queue()
        page: list[ListedMessage] = []
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=received.put)
        try:
            request = json.dumps({"batch": PAGE_MESSAGES, "no_wait": True}).encode()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
            await client.publish(subject, request, reply=inbox)
            while len(page) < PAGE_MESSAGES:
                message = await asyncio.wait_for(received.get(), self._broker.patience.answer_s)
                if message.subject == inbox:
                    break  # A status: there are no more.
                identity = (message.headers or {}).get(MESSAGE_ID, "")
                page.append(ListedMessage(numbers_of(message.reply)[0], identity))
        finally:
            await subscription.unsubscribe()
        return page

    async def delete(self, sequences: list[int]) -> None:
        """Messages that are gone already do not matter."""
        await asyncio.gather(*(self._delete(sequence) for sequence in sequences))

    async def _delete(self, sequence: int) -> None:
        request = {"seq": sequence, "no_erase": True}
        try:
            await ask(self._broker, f"STREAM.MSG.DELETE.{self._stream}", request)
        except Refused as error:
            if error.code not in GONE:
                raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error


logger = logging.getLogger("torvyn.jetstream")

EXPIRES_S: Final = 30.0
"""How long the server keeps a request for messages."""
HEARTBEATS_MISSED: Final = 3
"""A consumer that misses so many is made anew."""
LONGEST_SILENCE_S: Final = 15.0
"""The longest that a consumer may be silent: twice as long behind one that has delivered nothing,
because the server may be busy."""
MOST_MESSAGES: Final = 256
LARGE_BYTES: Final = 256 * 1024
"""The size of messages before any has come."""
RETRY_S: Final = 0.25


class StoredMessage(NamedTuple):
    sequence: int
    subject: str
    id: str
    body: bytes


class OrderedReader:
    """`receive` gets each message; `room_bytes` says how much more it wants now. After it had no
    room, call `wake`."""

    def __init__(
        self,
        broker: BrokerConnection,
        stream: str,
        subjects: Sequence[str],
        start: int,
        receive: Callable[[StoredMessage], None],
        room_bytes: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._stream, self._subjects = stream, list(subjects)
        self._next = max(start, 1)
        """The first message that was not received."""
        self._receive = receive
        self._room_bytes = room_bytes
        self._size_bytes = float(LARGE_BYTES)
        self._requested = 0
        self._consumer = ""
        self._inbox = ""
        self._delivered = 0
        self._heard_s = 0.0
        self._heartbeat_s = broker.patience.heartbeat_s
        self._silence_s = HEARTBEATS_MISSED * self._heartbeat_s
        self._is_broken = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._broker.teardowns.append(self.wake)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._broker.teardowns.remove(self.wake)
            await end_task(task)

    def wake(self) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            client = await self._broker.connected()
            try:
                await self._consume(client)
            except (BrokerUnavailable, Refused, OSError) as error:
                logger.debug("the consumer of `%s` has ended: %s", self._stream, error)
            except Exception as error:
                # What the library raises when the connection ends has no common class.
                logger.debug("the consumer of `%s` has failed: %r", self._stream, error)
            await asyncio.sleep(RETRY_S if self._broker.client is client else 0)

    async def _consume(self, client: Any) -> None:
        """One consumer, until something is wrong with it."""
        inbox = self._inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=self._on_message)
        self._requested = self._delivered = 0
        self._is_broken = False
        try:
            await self._make_consumer()
            loop = asyncio.get_running_loop()
            self._heard_s = loop.time()
            while not self._is_broken and self._broker.client is client:
                self._changed.clear()
                await self._request_more(client, inbox)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._heartbeat_s)
                if self._requested and loop.time() - self._heard_s > self._silence_s:
                    self._note_silence()
                    return
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    def _note_silence(self) -> None:
        first_s = HEARTBEATS_MISSED * self._heartbeat_s
        longer_s = min(2 * first_s, LONGEST_SILENCE_S)
        self._silence_s = first_s if self._delivered else longer_s

    async def _make_consumer(self) -> None:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": int(60e9),
            "num_replicas": 1,
            "mem_storage": True,
        }
        if len(self._subjects) == 1:
            config["filter_subject"] = self._subjects[0]
        elif self._subjects:
            config["filter_subjects"] = self._subjects
        request = {"stream_name": self._stream, "config": config}
        answer = await ask(self._broker, f"CONSUMER.CREATE.{self._stream}", request)
        self._consumer = answer["name"]

    async def _request_more(self, client: Any, inbox: str) -> None:
        room_bytes = self._room_bytes()
        if room_bytes <= 0:
            return
        # A message that is larger than all of the room comes alone.
        most = min(MOST_MESSAGES, max(int(room_bytes / self._size_bytes), 1))
        if self._requested > most // 2:
            return
        count = most - self._requested
        request = {
            "batch": count,
            "expires": int(EXPIRES_S * 1e9),
            "idle_heartbeat": int(self._heartbeat_s * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._requested += count
        await client.publish(subject, json.dumps(request).encode(), reply=inbox)

    async def _on_message(self, message: Any) -> None:
        if message.subject == self._inbox:
            self._on_status(message)
            return
        sequence, delivered = numbers_of(message.reply)
        if delivered != self._delivered + 1:
            # One was lost on the way, or this comes from an earlier consumer.
            self._break()
            return
        self._delivered = delivered
        self._requested = max(self._requested - 1, 0)
        self._next = sequence + 1
        self._size_bytes += (len(message.data) + 256 - self._size_bytes) / 8
        self._heard_s = asyncio.get_running_loop().time()
        headers = message.headers or {}
        identity = headers.get(MESSAGE_ID, "")
        self._receive(StoredMessage(sequence, message.subject, identity, message.data))
        if self._requested <= MOST_MESSAGES // 4:
            self._changed.set()

    def _on_status(self, message: Any) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status == "100":
            return
        if status == "408" or "Nats-Pending-Messages" in headers:
            left = headers.get("Nats-Pending-Messages")
            self._requested = max(self._requested - int(left), 0) if left else 0
            self._changed.set()
            return
        # The consumer is gone.
        self._break()

    def _break(self) -> None:
        self._is_broken = True
        self._changed.set()


def numbers_of(reply: str) -> tuple[int, int]:
    """The number of the message in its stream, and how many the consumer has delivered with it."""
    parts = reply.split(".")
    # Newer servers put the domain and the account before the stream.
    at = 5 if len(parts) < 11 else 7
    return int(parts[at]), int(parts[at + 1])


_LAST: Final = "Nats-Expected-Last-Subject-Sequence"


class Entry(NamedTuple):
    value: bytes
    revision: int


class Revisions:
    """The subjects of one stream."""

    def __init__(self, broker: BrokerConnection, publisher: Publisher, stream: str) -> None:
        self._broker, self._publisher = broker, publisher
        self.stream: Final = stream

    async def append(self, subject: str, body: bytes, last: int | None) -> int:
        """Stores a message behind the one with that number, 0 if there is none, or behind any;
        returns its own number. Raises `Conflict` if another message is there already, `Refused`, or
        `BrokerUnavailable`: then it may be stored nevertheless."""
        message = Message(subject, body, {} if last is None else {_LAST: str(last)})
        outcome = (await self._publisher.publish([message]))[0]
        if isinstance(outcome, Confirmed):
            return outcome.sequence
        if outcome.code in WRONG_REVISION:
            raise Conflict(subject)
        raise self._failure(outcome)

    async def last(self, subject: str) -> Entry | None:
        """The last message of a subject, and its number. Raises `Refused` or
        `BrokerUnavailable`."""
        request = {"last_by_subj": subject}
        try:
            answer = await ask(self._broker, f"STREAM.MSG.GET.{self.stream}", request)
        except Refused as error:
            if error.code in NOT_FOUND:
                return None
            raise self._failure(error) from error
        message = answer["message"]
        if "hdrs" in message and b"KV-Operation" in base64.b64decode(message["hdrs"]):
            # Somebody has deleted the key of a bucket.
            return None
        return Entry(base64.b64decode(message.get("data", "")), message["seq"])

    async def subjects(self, pattern: str) -> list[str]:
        """The subjects that have messages."""
        return await Streams(self._broker).subjects(self.stream, pattern)

    def _failure(self, error: Refused) -> Exception:
        if error.is_away:
            return BrokerUnavailable(f"{self._broker.address}: {error.text}")
        return error


_NS: Final = 1_000_000_000
_LIMITS: Final = ("max_msgs_per_subject", "max_bytes", "max_age", "duplicate_window")
"""What may be changed while messages wait."""
_REPLICAS: Final = "num_replicas"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream that refuses what exceeds its limits."""

    name: str
    subjects: tuple[str, ...]
    max_per_subject: int
    max_bytes: int = -1
    max_age_s: float | None = None
    duplicate_window_s: float = 120.0
    replicas: int = 1
    description: str = ""
    is_bucket: bool = False

    def config(self) -> dict[str, Any]:
        max_age_ns = int((self.max_age_s or 0) * _NS)
        window_ns = int(self.duplicate_window_s * _NS)
        config: dict[str, Any] = {
            "name": self.name,
            "subjects": list(self.subjects),
            "description": self.description,
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs": -1,
            "max_msgs_per_subject": self.max_per_subject,
            "max_bytes": self.max_bytes,
            "max_age": max_age_ns,
            # The server refuses a window that is longer than the age.
            "duplicate_window": min(window_ns, max_age_ns) if max_age_ns else window_ns,
            "num_replicas": self.replicas,
        }
        if self.is_bucket:
            return {**config, "allow_rollup_hdrs": True, "allow_direct": True}
        return {**config, "discard_new_per_subject": True}


@dataclass(frozen=True, slots=True)
class StreamState:
    description: str
    created: str
    """When it was made: a stream that was deleted and made again has other numbers."""
    messages: int
    bytes: int
    first: int
    last: int


class Streams:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    async def _ask(self, subject: str, request: Any = None) -> Any:
        try:
            return await ask(self._broker, subject, request)
        except Refused as error:
            if error.is_away:
                raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error
            raise

    async def state(self, name: str) -> StreamState | None:
        """None if there is no such stream."""
        try:
            return _state(await self._ask(f"STREAM.INFO.{name}"))
        except Refused as error:
            if error.code in NOT_FOUND:
                return None
            raise

    async def subjects(self, name: str, pattern: str) -> list[str]:
        """The subjects of the stream that match, and have messages."""
        answer = await self._ask(f"STREAM.INFO.{name}", {"subjects_filter": pattern})
        return list(answer["state"].get("subjects") or ())

    async def of_subjects(self, pattern: str) -> dict[str, StreamState]:
        """The streams whose subjects match, by name."""
        found: dict[str, StreamState] = {}
        while True:
            request = {"subject": pattern, "offset": len(found)}
            answer = await self._ask("STREAM.LIST", request)
            page = answer.get("streams") or ()
            found |= {each["config"]["name"]: _state(each) for each in page}
            if not page or len(found) >= answer["total"]:
                return found

    async def ensure(self, spec: StreamSpec) -> StreamState:
        """Makes the stream, or gives it new limits. Raises `Refused`."""
        config = spec.config()
        try:
            answer = await self._ask(f"STREAM.INFO.{spec.name}")
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise
            try:
                return _state(await self._ask(f"STREAM.CREATE.{spec.name}", config))
            except Refused as refusal:
                # Somebody else may have made it in the meantime.
                try:
                    answer = await self._ask(f"STREAM.INFO.{spec.name}")
                except Refused:
                    raise refusal from None
        found = answer["config"]
        changes = {key: config[key] for key in _LIMITS}
        if answer["state"]["messages"]:
            # The server deletes what waits above a smaller limit.
            changes = {key: _larger(found.get(key, 0), changes[key]) for key in _LIMITS}
        changes[_REPLICAS] = config[_REPLICAS]
        if any(found.get(key, 0) != value for key, value in changes.items()):
            answer = await self._ask(f"STREAM.UPDATE.{spec.name}", {**found, **changes})
        return _state(answer)

    async def purge(
        self, name: str, *, below: int | None = None, subject: str | None = None
    ) -> None:
        """Deletes messages: those with smaller numbers, those of a subject, or all."""
        request: dict[str, Any] = {}
        if below is not None:
            request["seq"] = below
        if subject is not None:
            request["filter"] = subject
        await self._ask(f"STREAM.PURGE.{name}", request)

    async def delete(self, name: str) -> None:
        try:
            await self._ask(f"STREAM.DELETE.{name}")
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise


def _larger(one: int, other: int) -> int:
    """Of two limits: no limit is 0 or less."""
    return max(one, other) if one > 0 and other > 0 else min(one, other)


def _state(answer: Any) -> StreamState:
    state = answer["state"]
    return StreamState(
        answer["config"].get("description", ""),
        answer["created"],
        state["messages"],
        state["bytes"],
        state["first_seq"],
        state["last_seq"],
    )


Result = TypeVar("Result")

WAIT_S: Final = 30.0
"""No call takes longer: each of its requests has a limit of its own."""


class BrokerThread:
    def __init__(
        self,
        urls: str,
        flow: str,
        start: BrokerWait | None = None,
        login: BrokerLogin = NO_LOGIN,
    ) -> None:
        check_addresses(urls)
        self._addresses = BrokerAddresses.parse(urls, login)
        # A file that cannot be read ends the start at once.
        self._addresses.check()
        self.loop = background_loop()
        self.broker, self.publisher, self.streams = self.call(self._make(urls, flow, login))
        try:
            (start or BrokerWait(flow, OPEN_TIMEOUT_S)).wait_for(self.broker.connection)
        except BaseException:
            self.close()
            raise

    async def _make(
        self, urls: str, flow: str, login: BrokerLogin
    ) -> tuple[BrokerConnection, Publisher, Streams]:
        broker = BrokerConnection(urls, flow, login)
        publisher = Publisher(broker)
        broker.begin()
        return broker, publisher, Streams(broker)

    @cached_property
    def data(self) -> NatsClient:
        """The connection for elements."""
        found = self._addresses
        login = found.login
        client = NatsClient(
            list(found.urls),
            **found.read_secrets()._asdict(),
            ca_file=login.ca_file or None,
            client_certificate=login.client_certificate,
        )
        if not client.wait(OPEN_TIMEOUT_S):
            client.close()
            raise BrokerUnavailable(f"no connection to {self.broker.address}")
        return client

    @property
    def denial(self) -> BrokerDenied | None:
        """A right that is missing, on either connection."""
        if self.broker.denial is not None or "data" not in self.__dict__:
            return self.broker.denial
        denial = Denial.parse(self.data.denial or "")
        return None if denial is None else BrokerDenied(self.broker.address, denial)

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine on the loop, and waits for it."""
        try:
            return wait_for(work, self.loop, WAIT_S)
        except TimeoutError:
            raise BrokerUnavailable("the broker does not answer") from None

    def soon(self, callback: Callable[[], Any]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        if (client := self.__dict__.pop("data", None)) is not None:
            client.close()
        self.call(self.broker.close())
