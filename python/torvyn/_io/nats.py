"""The connection to a NATS server: its addresses and credentials, requests, messages, and failures.

A broker that is away is not the end of a flow: the connection is established again for ever, with
delays that grow, and the caller keeps what it has and tries again. A service that starts before its
broker is normal, so a start waits until the broker is there; an address that can never work, or a
password that is wrong, ends the wait at once.

Both clients of a flow, this one and the native one for elements, read addresses here, so that they
mean the same to both: nats-py takes a password as it is written, and async-nats takes none from an
address. What is set besides an address comes before what it says.

Messages are stored with one subscription for the answers to all of them. A `request` per message
costs twice as much, and `publish_async` of the library never ends when the server answers with an
error. Everything runs on one event loop: that of a server, or the background loop for a flow.
`nats-py` is imported when a connection is made; it is in the extra `cluster`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from torvyn._io.backoff import Backoff
from torvyn._io.broker_login import NO_LOGIN, NO_SECRETS, BrokerLogin, Secrets, unusable
from torvyn._io.connection import Connection
from torvyn._io.event_loop import end_task, is_ending
from torvyn._io.packages import import_package, quiet_logger
from torvyn._io.restart import keep_task_running
from torvyn._io.safe_text import without_credentials
from torvyn._io.start_wait import StartWait
from torvyn._native import nkey_sign
from torvyn.errors import FlowError, StoreUnavailable, os_reason

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----\s*(\S+)\s*-+END [A-Z ]+-+")


def sign(seed: str, nonce: str) -> tuple[str, bytes]:
    """The public key, and its signature. Raises `broker.credentials` for what is no seed."""
    signed = nkey_sign(seed, nonce.encode())
    if signed is None:
        raise unusable(
            "the nkey in `[cluster]` is not the seed of a user: such seeds begin with `SU`"
        )
    return signed


def read_creds(text: str) -> tuple[str, str]:
    """The JWT and the seed of a `.creds` file. Raises `broker.credentials`."""
    blocks = dict(_BLOCK.findall(text))
    try:
        return blocks["NATS USER JWT"], blocks["USER NKEY SEED"]
    except KeyError as error:
        raise unusable(f"`credentials_file` of `[cluster]` has no block {error}") from None


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    urls: tuple[str, ...]
    """Without credentials."""
    secrets: Secrets = NO_SECRETS
    login: BrokerLogin = NO_LOGIN

    @classmethod
    def parse(cls, text: str, login: BrokerLogin = NO_LOGIN) -> BrokerAddresses:
        """`nats://user:password@host:port` or `nats://token@host:port`, several with commas between
        them. Special characters are percent-encoded. The first address with credentials counts."""
        parsed = [_split(url.strip()) for url in text.split(",")]
        urls = tuple(url._replace(netloc=url.netloc.rpartition("@")[2]).geturl() for url in parsed)
        known = next((url for url in parsed if url.username), None)
        if known is None:
            return cls(urls, login=login)
        name = unquote(known.username or "")
        if known.password is None:
            return cls(urls, Secrets(token=name), login)
        return cls(urls, Secrets(name, unquote(known.password)), login)

    def read_secrets(self) -> Secrets:
        """What is known now; raises `broker.credentials`."""
        found = self.login.read()
        if any(found):
            return found._replace(password=found.password or self.secrets.password)
        return self.secrets

    def check(self) -> None:
        """Raises `broker.credentials` if what is set cannot be used."""
        secrets = self.read_secrets()
        if secrets.creds is not None:
            sign(read_creds(secrets.creds)[1], "")
        elif secrets.nkey is not None:
            sign(secrets.nkey, "")
        self.tls_context()

    def tls_context(self) -> ssl.SSLContext | None:
        """None if nothing is said about TLS; raises `broker.credentials`."""
        login = self.login
        if not (login.ca_file or login.cert_file):
            return None
        try:
            context = ssl.create_default_context(cafile=login.ca_file or None)
            if login.cert_file:
                context.load_cert_chain(login.cert_file, login.key_file or None)
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (login.ca_file, login.cert_file, login.key_file)))
            reason = os_reason(error)
            raise unusable(
                f"the certificates of `[cluster]` ({files}) cannot be used: {reason}"
            ) from None
        return context


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url if "://" in url else f"nats://{url}")
    except ValueError as error:
        raise unavailable_at_start(without_credentials(url), str(error)) from None


logger = logging.getLogger("torvyn.jetstream")

CLOSE_TIMEOUT_S: Final = 2.0
OPEN_TIMEOUT_S: Final = 10.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0

Setup = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may be silent before another one is tried. Where there is only one, nothing
    is gained by haste. Native code has the same figures."""

    connect_s: int
    ping_s: float
    """The connection is lost when three of them pass without a word."""
    heartbeat_s: float
    """How often a consumer says that it is there; one that misses three is made anew."""
    answer_s: float
    """How long an answer may take before the connection counts as lost."""


ALONE: Final = Patience(connect_s=5, ping_s=20, heartbeat_s=5, answer_s=5)
CLUSTER: Final = Patience(connect_s=2, ping_s=0.4, heartbeat_s=0.4, answer_s=2)


class BrokerConnection:
    """All methods are for one event loop. `setups` are called with each new connection, before
    anything else uses it."""

    def __init__(self, urls: str, component: str, login: BrokerLogin = NO_LOGIN) -> None:
        self._nats = import_package("nats", f"`{component}`", "cluster")
        quiet_logger("nats")
        self._addresses = BrokerAddresses.parse(urls, login)
        self._servers = list(self._addresses.urls)
        """Those that were named, and those that they have named; the next one to try is first."""
        self.patience: Final = CLUSTER if len(self._servers) > 1 else ALONE
        self.address: Final = without_credentials(urls)
        self.connection: Final = Connection(component, self.address)
        self.setups: list[Setup] = []
        self.teardowns: list[Callable[[], None]] = []
        """Called when a connection has ended."""
        self.denial: BrokerDenied | None = None
        """The first right that was missing."""
        self.on_denial: set[Callable[[Denial], Denial | None]] = set()
        """Called when a right is missing; whoever needs it returns it as it was written."""
        self.client: Any = None
        """The connected client, or None."""
        self._ready = asyncio.Event()
        self._closed = asyncio.Event()
        """Whether the present connection has ended."""
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)
        self._failed = 0
        """How many tries in a row have failed."""
        self._reason = ""
        self._task: asyncio.Task[None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when the connection was established."""

    def begin(self) -> None:
        """Connects, without waiting for it."""
        work = keep_task_running(self._run, self.connection.lost)
        self._task = asyncio.get_running_loop().create_task(work)

    async def open(self, timeout_s: float = OPEN_TIMEOUT_S) -> None:
        """Connects; raises `broker.away` if that takes too long."""
        self.begin()
        try:
            await asyncio.wait_for(self._ready.wait(), timeout_s)
        except TimeoutError:
            await self.close()
            reason = self.connection.status.reason or "it does not answer"
            raise unavailable_at_start(self.address, reason) from None

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)
        self.connection.close()

    def require(self) -> Any:
        """The connected client; raises if there is none now."""
        if self.client is None or not self.client.is_connected:
            reason = self.connection.status.reason or self._reason or "there is no connection"
            raise BrokerUnavailable(f"no connection to {self.address}: {reason}")
        return self.client

    async def connected(self) -> Any:
        """Waits for a connection and returns the client."""
        while self.client is None:
            await self._ready.wait()
        return self.client

    @property
    def is_cluster(self) -> bool:
        """Whether several servers were named."""
        return len(self._addresses.urls) > 1

    @property
    def max_payload(self) -> int:
        """The largest message, with its headers, that the server takes."""
        return int(self.require().max_payload)

    @property
    def version(self) -> tuple[int, int]:
        """The version of the server."""
        found = self.require().connected_server_version
        return int(found.major), int(found.minor)

    async def reconnect(self, reason: str) -> None:
        """Gives up a connection on which nothing is answered."""
        client, self._reason, closed = self.client, reason, self._closed
        if client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)
            # A client whose `close` was interrupted says nothing.
            closed.set()

    async def _run(self) -> None:
        while True:
            reason = await self._session()
            if is_ending():
                return
            self.connection.lost(reason)
            self._failed += 1
            # The servers of a cluster are tried one after the other, and then again after a pause.
            if self._failed % len(self._servers) == 0:
                await asyncio.sleep(self._backoff.next_delay_s())
            else:
                await asyncio.sleep(FIRST_DELAY_S)

    async def _session(self) -> str:
        """One connection, from its beginning to its end; returns why it has ended."""
        closed = self._closed = asyncio.Event()
        self._reason = ""
        client = None
        try:
            client = await self._connect(closed)
            if is_ending():
                return ""
            for setup in self.setups:
                await setup(client)
            self._established(client)
            await closed.wait()
        except FlowError as error:
            # Its settings cannot be used; a file may be there again.
            return self._reason or error.message
        except (OSError, TimeoutError, ValueError, self._nats.errors.Error) as error:
            return self._reason or os_reason(error).removeprefix("nats: ")
        finally:
            self.client = None
            self._ready.clear()
            for teardown in list(self.teardowns):
                teardown()
            if client is not None:
                await _close(client)
        return self._reason or "the server closed the connection"

    def _established(self, client: Any) -> None:
        self.client = client
        self._failed = 0
        self._backoff.reset()
        self.connection.connected()
        self._ready.set()
        self.on_change()

    async def _connect(self, closed: asyncio.Event) -> Any:
        async def on_closed() -> None:
            closed.set()

        # One at a time: a server that is frozen accepts connections, and must not be the next one.
        server = self._servers.pop(0)
        self._servers.append(server)
        client = self._nats.NATS()
        connecting = client.connect(
            [server],
            **self._authentication(client),
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=self.patience.connect_s,
            ping_interval=self.patience.ping_s,
            error_cb=self._on_error,
            closed_cb=on_closed,
        )
        try:
            await asyncio.wait_for(connecting, self.patience.connect_s)
        except BaseException:
            await _close(client)
            raise
        self._add_servers(client)
        return client

    def _authentication(self, client: Any) -> dict[str, Any]:
        """How the server knows us. Secrets are read again each time: they may have changed."""
        secrets = self._addresses.read_secrets()
        found: dict[str, Any] = {"tls": self._addresses.tls_context()}
        seed = secrets.nkey
        if secrets.creds is not None:
            jwt, seed = read_creds(secrets.creds)
            found["user_jwt_cb"] = jwt.encode
        if seed is not None:
            # What nats-py has for it needs a package of its own.
            client._public_nkey = sign(seed, "")[0]
            return {**found, "signature_cb": lambda nonce: base64.b64encode(sign(seed, nonce)[1])}
        return {**found, "token": secrets.token, "user": secrets.user, "password": secrets.password}

    def _add_servers(self, client: Any) -> None:
        """Those of the same cluster, in the place of one that is lost."""
        known = {urlsplit(each).netloc for each in self._servers}
        found = (each for each in client.discovered_servers if each.netloc not in known)
        self._servers += [each.geturl() for each in found]

    async def _on_error(self, error: Exception) -> None:
        text = os_reason(error).removeprefix("nats: ")
        if (denial := Denial.parse(text)) is None:
            self._reason = text
            return
        found = [callback(denial) for callback in tuple(self.on_denial)]
        self.denied(next((each for each in found if each is not None), denial))

    def denied(self, denial: Denial) -> BrokerDenied:
        """What a missing right means for its caller. The first one is kept: nothing can go on."""
        error = BrokerDenied(self.address, denial)
        if self.denial is None:
            self.denial = error
            logger.error("%s", error.message, extra={"event": "broker.denied", "hint": error.hint})
        return error


async def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.flush(), CLOSE_TIMEOUT_S)
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), CLOSE_TIMEOUT_S)


FULL: Final = (10077, 10047)
"""Error codes of the server: a stream or a subject has reached its limit."""
WRONG_REVISION: Final = (10071, 10164)
"""Error codes of the server: somebody else has written the entry."""
NO_STREAM: Final = 503
"""The code of an answer that no stream gave."""
DENIED_HINT: Final = (
    "give the user this right in `permissions` of the server; the guide to clusters lists all that "
    "flows need"
)
_REJECTIONS: Final = ("authorization violation", "authentication", "certificate required")
"""What the reasons say then."""
_DENIED: Final = re.compile(
    r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE
)
NOT_FOUND: Final = (10037, 10059)
"""Error codes of the server: there is no such message, or no such stream."""


class BrokerUnavailable(StoreUnavailable):
    """The broker cannot take this now. Some of it may be stored nevertheless."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(
            "limit" if is_full else "io",
            message,
            hint="wait until the edge is drained, or raise its limits"
            if is_full
            else "check the NATS server; the flow continues by itself",
            code="broker.full" if is_full else "broker.away",
        )


class Denial(NamedTuple):
    """The server does not let us publish on a subject, or subscribe to it."""

    is_publish: bool
    subject: str

    @classmethod
    def parse(cls, text: str) -> Denial | None:
        """Of what the server says; None if it says something else. nats-py makes it lower case."""
        found = _DENIED.search(text)
        if found is None:
            return None
        return cls(found[1].lower() == "publish", found[2])

    @property
    def right(self) -> str:
        return f"{'publish on' if self.is_publish else 'subscribe to'} `{self.subject}`"


class BrokerDenied(BrokerUnavailable):
    """A right is missing at the broker."""

    def __init__(self, address: str, denial: Denial) -> None:
        message = f"the broker at {address} does not let us {denial.right}"
        StoreUnavailable.__init__(self, "io", message, hint=DENIED_HINT, code="broker.denied")

    @property
    def is_lasting(self) -> bool:
        """Only somebody who changes the server's configuration can help."""
        return True


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def is_full(self) -> bool:
        return self.code in FULL

    @property
    def is_away(self) -> bool:
        """Whether the server may accept it later: it starts, or its store does not answer."""
        return self.code in (NO_STREAM, 10008, 10009, 10023)


class Conflict(Exception):
    """Somebody else has written the entry."""


def unavailable_at_start(urls: str, reason: str) -> FlowError:
    hint = "start a NATS server with JetStream (`nats-server -js`), or correct `[cluster] nats`"
    if is_rejection(reason):
        hint = "correct the credentials in `[cluster]`; the guide to clusters lists the settings"
    return FlowError("broker.away", f"the broker at {urls} cannot be used: {reason}", hint=hint)


def is_rejection(reason: str) -> bool:
    """Whether the server answers, and does not know us."""
    return any(each in reason.lower() for each in _REJECTIONS)


MESSAGE_ID: Final = "Nats-Msg-Id"


class Message(NamedTuple):
    subject: str
    body: bytes
    headers: Mapping[str, str]


class Confirmed(NamedTuple):
    """The message is stored; before this call, if it is a duplicate."""

    sequence: int
    is_duplicate: bool


Outcome = Confirmed | Refused


class _Round:
    """The answers that one call waits for."""

    def __init__(self, subjects: Sequence[str]) -> None:
        self.subjects = subjects
        self.outcomes: list[Outcome | None] = [None] * len(subjects)
        self.missing = len(subjects)
        self.is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def denied_by(self, denial: Denial) -> Denial | None:
        """The denial, with the subject as it was written; None if it concerns another one."""
        if not denial.is_publish:
            return denial
        found = (each for each in self.subjects if each.lower() == denial.subject)
        subject = next(found, None)
        return None if subject is None else denial._replace(subject=subject)

    def answer(self, at: int, outcome: Outcome) -> None:
        if self.outcomes[at] is None:
            self.outcomes[at] = outcome
            self.missing -= 1
            if not self.missing and not self.is_done.done():
                self.is_done.set_result(None)


class Publisher:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker
        self._inbox = ""
        self._number = 0
        self._rounds: dict[str, _Round] = {}
        broker.setups.append(self._subscribe)
        broker.teardowns.append(self._fail_rounds)
        broker.on_denial.add(self._on_denial)

    async def _subscribe(self, client: Any) -> None:
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    def _fail_rounds(self) -> None:
        for waiting in self._rounds.values():
            if not waiting.is_done.done():
                waiting.is_done.set_exception(BrokerUnavailable("the connection was lost"))
        self._rounds.clear()

    def _on_denial(self, denial: Denial) -> Denial | None:
        """A message that the server does not let pass is not answered."""
        written = None
        for waiting in self._rounds.values():
            found = waiting.denied_by(denial)
            if found is not None and not waiting.is_done.done():
                written = found
                waiting.is_done.set_exception(self._broker.denied(found))
        return written

    async def publish(
        self, messages: Sequence[Message], wait_s: float | None = None
    ) -> list[Outcome]:
        """What the server says to each message, in their order. Raises `BrokerUnavailable`: then
        some of them may be stored."""
        client = self._broker.require()
        self._number += 1
        number = str(self._number)
        waiting = self._rounds[number] = _Round([message.subject for message in messages])
        prefix = f"{self._inbox}.{number}-"
        try:
            for at, (subject, body, headers) in enumerate(messages):
                await client.publish(subject, body, reply=f"{prefix}{at}", headers=headers)
            await asyncio.wait_for(waiting.is_done, wait_s or self._broker.patience.answer_s)
        except TimeoutError:
            await self._broker.reconnect("the server does not confirm messages")
            raise BrokerUnavailable(f"{self._broker.address} confirms nothing") from None
        except (OSError, _client_errors()) as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error}") from error
        finally:
            self._rounds.pop(number, None)
        return [outcome for outcome in waiting.outcomes if outcome is not None]

    async def _on_answer(self, message: Any) -> None:
        number, _, at = message.subject.rpartition(".")[2].partition("-")
        waiting = self._rounds.get(number)
        if waiting is None:
            return
        try:
            answer = read_answer(message.data)
        except Refused as error:
            waiting.answer(int(at), error)
        else:
            waiting.answer(int(at), Confirmed(answer["seq"], answer.get("duplicate", False)))


def _client_errors() -> type[Exception]:
    import nats

    found: type[Exception] = nats.errors.Error
    return found


async def ask(
    broker: BrokerConnection, subject: str, request: Any = None, *, client: Any = None
) -> Any:
    """The answer as JSON; raises `Refused`, or `BrokerUnavailable` if there is none. `client`: of a
    connection that is not established yet."""
    import nats

    used = client or broker.require()
    body = b"" if request is None else json.dumps(request).encode()
    subject = f"$JS.API.{subject}"
    asking = used.request(subject, body, timeout=broker.patience.answer_s)
    try:
        message = await _or_denied(broker, subject, asking)
    except nats.errors.NoRespondersError:
        raise BrokerUnavailable(f"JetStream does not answer at {broker.address}") from None
    except (nats.errors.TimeoutError, TimeoutError, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        raise BrokerUnavailable(f"{broker.address} does not answer to `{subject}`") from None
    except (OSError, nats.errors.Error) as error:
        raise BrokerUnavailable(f"{broker.address}: {error}") from error
    return read_answer(message.data)


async def _or_denied(broker: BrokerConnection, subject: str, asking: Awaitable[Any]) -> Any:
    """The answer; raises `BrokerDenied` as soon as the server says that a right is missing: a
    request that it does not let pass has no answer."""
    denied: asyncio.Future[Denial] = asyncio.get_running_loop().create_future()

    def on_denial(denial: Denial) -> Denial | None:
        # Of a subscription, it is the one for answers.
        if denied.done() or (denial.is_publish and denial.subject != subject.lower()):
            return None
        found = denial._replace(subject=subject) if denial.is_publish else denial
        denied.set_result(found)
        return found

    broker.on_denial.add(on_denial)
    answer = asyncio.ensure_future(asking)
    try:
        await asyncio.wait((answer, denied), return_when=asyncio.FIRST_COMPLETED)
        if denied.done():
            raise broker.denied(denied.result())
        return answer.result()
    finally:
        broker.on_denial.discard(on_denial)
        answer.cancel()


def read_answer(data: bytes) -> Any:
    """The answer; raises `Refused` if it is an error."""
    if not data:
        raise Refused(NO_STREAM, "no stream stores the subject")
    answer = json.loads(data)
    error = answer.get("error")
    if error:
        raise Refused(error.get("err_code", 0), error.get("description", "refused"))
    return answer


SCHEMES: Final = ("nats", "tls", "ws", "wss")
LASTING: Final = (
    "certificate verify failed",
    "connect url",
    "invalid url",
)
"""What the reasons say that do not pass by themselves."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.02


class BrokerWait(StartWait):
    def wait_for(self, connection: Connection) -> None:
        """Waits until it is established; raises `broker.away` if that makes no sense any more."""
        pause_s = FIRST_PAUSE_S
        while not connection.is_connected:
            reason = connection.status.reason or "it does not answer"
            if _is_lasting(reason) or not self.may_wait(pause_s):
                raise unavailable_at_start(connection.address, reason)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def check_addresses(urls: str) -> None:
    """Raises if an address has a scheme that no NATS server has."""
    for url in (each.strip() for each in urls.split(",")):
        scheme, found, _ = url.partition("://")
        if found and scheme not in SCHEMES:
            expected = ", ".join(f"`{each}://`" for each in SCHEMES)
            reason = f"`{scheme}://` is not one of {expected}"
            raise unavailable_at_start(without_credentials(url), reason)


def _is_lasting(reason: str) -> bool:
    lowered = reason.lower()
    return is_rejection(reason) or any(each in lowered for each in LASTING)
