"""The native module. It writes no text for people: `NativeError` carries fields.

Classes marked `type_check_only` are returned by methods and not exported.
"""

from asyncio import Future
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from os import PathLike
from typing import Any, Final, Literal, Self, SupportsIndex, final, overload, type_check_only

from typing_extensions import disjoint_base

from torvyn._contract.element import Context, Dataclass
from torvyn._contract.enums import CallOutcome, ErrorKind, FlowState, Role, TaskKind, TurnStatus
from torvyn._contract.signals import End
from torvyn._flow.swap_order import SwapOrder
from torvyn._link.plan import EdgePlan, Plan
from torvyn.engine.step import Step

__all__ = [
    "PARTS",
    "Batch",
    "ChunkParser",
    "CompiledComponent",
    "Database",
    "DirectSteps",
    "DirectText",
    "Element",
    "EventParser",
    "FileParser",
    "FrameEncoder",
    "ManualClock",
    "NativeError",
    "NativeFlow",
    "NativeStage",
    "PartialJson",
    "Port",
    "SentenceSplitter",
    "ServerEvent",
    "StopStrings",
    "TextGuard",
    "TextStreamer",
    "TokenTable",
    "Utf8Decoder",
    "Waker",
    "WasmTools",
    "WireClient",
    "WireExchange",
    "WireServer",
    "Workers",
    "text_field",
]

PARTS: list[str]
"""The parts of this build. What a missing part would define raises `MissingError`."""

class NativeError(ValueError):
    """A failure in native code. `args`: a kind, a message, and what the function documents."""

# Flows

@disjoint_base
class Element:
    """`torvyn.Element`: frozen, owns its data."""

    def __new__(
        cls,
        data: str | bytes | dict[str, Any] | Dataclass,
        sequence: int = 0,
        timestamp_ns: int = 0,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> Self: ...
    text: Final[str]
    def text_lossy(self) -> str: ...
    def json(self) -> Any: ...
    data: Final[memoryview]
    sequence: Final[int]
    timestamp_ns: Final[int]
    content_type: Final[str]
    attributes: Final[Mapping[str, Any]]
    context: Final[Context | None]
    def __len__(self) -> int: ...

@final
class Batch:
    """`torvyn.Batch`: the elements of one call."""

    def __new__(
        cls, elements: Iterable[Element | str | bytes | dict[str, Any] | Dataclass]
    ) -> Batch: ...
    texts: Final[list[str]]
    payloads: Final[list[bytes]]
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> Element: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[Element]: ...
    def __iter__(self) -> Iterator[Element]: ...

@disjoint_base
class ManualClock:
    """The clock of the test kit. It moves only when a test advances it."""

    def __new__(cls, start_ns: int = 1_000_000_000) -> Self: ...
    now_ns: Final[int]
    def advance_ns(self, nanos: int) -> None: ...

@final
class Waker:
    """A file descriptor that an event loop waits for. It becomes readable on a wake-up."""

    def __new__(cls) -> Waker: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...  # The tokens of the wake-ups since the last call

@final
class NativeStage:
    """A native stage for one flow."""

    def __new__(cls, kind: str, parameters: dict[str, object]) -> NativeStage: ...

@final
class Bell:
    """Wakes the carrier thread of a flow."""

    def __new__(cls) -> Bell: ...
    def ring(self) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...  # False: the time passed before it rang

@final
class BatchReceipts:
    """The receipts of a batch; without `settle` its elements are never acknowledged."""

    def settle(self) -> None: ...

@final
class Database:
    """An SQLite database. Errors are `sqlite3.Error` with an `sqlite_errorcode`."""

    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        mark: str | PathLike[str] | None = None,
        is_read_only: bool = False,
    ) -> Self: ...
    def execute(
        self, sql: str, values: tuple[Any, ...] | None = None, *, is_quick: bool = False
    ) -> list[tuple[Any, ...]]:
        """One that `is_quick` only touches memory, and keeps the interpreter."""

    def page(
        self, sql: str, values: tuple[Any, ...], max_bytes: int
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Rows until their blobs have so many bytes, and whether those were all. What cannot be
        read ends the page; it raises when it comes first."""

    def commit(self, mark: bytes | None = None) -> None:
        """Commits, and then writes the mark to its file, unsynced."""

    @property
    def wal_pages(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def serialize(self) -> bytes: ...
    def close(self) -> None: ...

@final
class EdgeLog:
    """What the two ends of an edge that leaves the process share with its carrier."""

    def __new__(
        cls,
        bell: Bell,
        next_sequence: int,
        buffer_bytes: int,
        max_element_bytes: int,
        pauses: bool,
        batch_bytes: int | None = None,  # A batch of several elements has at most so many bytes
        key: Callable[[Any], str] | None = None,  # Batches keep the keys of elements apart
        field: str | None = None,  # A text of JSON objects that is the key, where it is simple
    ) -> EdgeLog: ...
    def set_offset(self, offset_ns: int) -> None: ...  # Unix time less the flow's time
    def step_offset(self, offset_ns: int) -> None: ...  # the wall clock was set
    # First number, count, Unix time of the newest element, body, receipts, key
    def take(self) -> tuple[int, int, int, bytes, BatchReceipts, str | None] | None: ...
    # Batches that `take` returns next; returns the number of their first element
    def put_back(self, batches: list[bytes], now_ns: int) -> int: ...
    @staticmethod
    def encode(payload: bytes, time_ns: int) -> bytes: ...  # A batch of one element
    # Unix time, content type, attributes as JSON or nothing, payload
    @staticmethod
    def decode(batch: bytes) -> list[tuple[int, str, bytes, bytes]]: ...
    def fail(
        self, message: str
    ) -> None: ...  # The flow fails with the next element, or attempt to read one
    pending: Final[tuple[int, int]]  # Elements and bytes that wait for the carrier
    is_closed: Final[bool]  # Whether the writer's input has ended
    def supply(
        self,
        body: bytes,
        first: int,
        start: int,
        end: int,  # The elements from `start` on, before `end`
        *,
        is_backlog: bool,
        is_historical: bool = False,
        is_live: bool = False,
    ) -> int: ...
    # Takes a range back from the reader if it has emitted none of it: then `expected` elements wait
    def withdraw(self, start: int, end: int, expected: int) -> bool: ...
    # Takes everything back that was not emitted: first and last numbers
    def withdraw_all(self) -> list[tuple[int, int]]: ...
    waiting: Final[tuple[int, int]]  # Elements and bytes that wait for the reader
    live_bytes: Final[int]  # Bytes that wait for the reader ahead of everything else
    unsettled: Final[int]
    def finish(self) -> None: ...  # Nothing more will be supplied
    def take_settled(self) -> list[tuple[int, int]]: ...
    # What became too old behind the reader; it is settled like the rest, now or later
    def take_expired(self) -> list[tuple[int, int]]: ...
    def take_emitted(self) -> list[tuple[int, int]]: ...

@final
class NatsClient:
    """A connection to a NATS server, for elements. It is established again for ever."""

    def __new__(
        cls,
        addresses: list[str],
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        nkey: str | None = None,  # A seed
        creds: str | None = None,  # The content of a `.creds` file
        ca_file: str | None = None,
        client_certificate: tuple[str, str] | None = None,  # Its file, and that of its key
    ) -> NatsClient: ...
    def wait(self, timeout_s: float) -> bool: ...  # Whether there is a connection now
    @property
    def is_connected(self) -> bool: ...
    @property
    def denial(self) -> str | None: ...  # What the server does not allow, in its words
    def close(self) -> None: ...

# The public key of an nkey, and its signature; None for what is no seed
def nkey_sign(seed: str, nonce: bytes) -> tuple[str, bytes] | None: ...

@final
class NatsOutput:
    """The end of a `nats` edge that publishes."""

    def __new__(
        cls,
        client: NatsClient,
        log: EdgeLog,
        owner: Bell,  # Rung when everything is published, or cannot be
        *,
        takes: bool,  # It takes what waits in the log; otherwise `take_all` and `release` do
        prefix: str,
        partitions: int,
        writer: int,
        series: str,
        generation: str,
        run: str,
        next: dict[int, int],  # By partition: the number of its next element
        outbox: list[tuple[str, str, bytes]],  # What an earlier process owed: subject, id, body
    ) -> NatsOutput: ...
    def attach(self, node: NodeHandle) -> None: ...
    def take_all(self) -> None: ...
    def add_end(self) -> None: ...  # The stream has ended, behind everything that waits
    def release(self) -> None: ...  # Everything that waits now may be sent
    # `done`, `full`, `away` or `refused`, and what the server says
    def wait(self, timeout_s: float) -> tuple[str, str]: ...
    def owed(self, *, is_from_before: bool) -> list[tuple[str, str, bytes]]: ...
    def __len__(self) -> int: ...  # Batches that are not confirmed
    @property
    def next(self) -> dict[int, int]: ...
    @property
    def sent(self) -> dict[int, int]: ...  # Up to which numbers the broker has everything
    @property
    def confirmed(self) -> int: ...  # Elements
    @property
    def refusals(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    def stop(self) -> None: ...

@final
class NatsInput:
    """The end of a `nats` edge that reads."""

    def __new__(
        cls,
        log: EdgeLog,
        owner: Bell,  # Rung when there may be something to save
        *,
        position: int,
        seen: dict[str, Any] | None,  # As `saved` has returned it
        generation: str,
        number: int,  # Added to the numbers of elements
        ignores_start: bool,
        on_end: Callable[[int, str, str, int, int], bool],
        on_damage: Callable[[int, str], None],
        on_refusal: Callable[[str], None],
    ) -> NatsInput: ...
    def attach(self, node: NodeHandle) -> None: ...
    # `created`: when the stream was made; another one of the name is not read
    def start(self, client: NatsClient, stream: str, created: str, subjects: list[str]) -> None: ...
    @property
    def is_caught_up(self) -> bool: ...  # Everything was read that the stream has
    # A writer has ended, and the message that says so is gone
    def note_lost_end(
        self, writer: int, series: str, run: str, partition: int, first: int
    ) -> None: ...
    def stop(self) -> None: ...
    def finish(self) -> None: ...  # The run is over
    def settle(self, position: int) -> None: ...
    # Ends (writer, series, run, partition, number), and the last messages of partitions
    def advance(
        self, is_over: bool
    ) -> tuple[list[tuple[int, str, str, int, int]], list[tuple[int, int]]]: ...
    @property
    def position(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def changes(self) -> int: ...
    # Elements: received, of them written by earlier processes, repeated, damaged
    @property
    def counts(self) -> tuple[int, int, int, int]: ...
    def saved(self) -> dict[str, Any]: ...  # The batches that are settled
    # How many elements each series of a writer has had
    def note_sent(self, writer: int, partition: int, sent: dict[str, int]) -> None: ...
    def missing(self, series: str | None = None, first: dict[int, int] | None = None) -> int: ...

@final
class Port:
    """The exchange between an offloaded stage's runner and the reactor."""

    def __new__(cls, role: Role | str, ports: list[str], acknowledges: bool = False) -> Port: ...
    def notify(self, waker: Waker, token: int) -> None: ...
    stopped: Final[bool]
    # Whether the runner waits for the reactor, and the reactor has no result to collect
    @property
    def idle(self) -> bool: ...
    has_results: Final[bool]
    @property
    def given(self) -> int: ...  # How many results it has given to the flow
    def take(self) -> list[tuple[TaskKind, Any]]: ...  # All tasks, as kind and value
    def take_settled(self) -> int: ...  # How many more elements of a source are settled
    def credit(self) -> int: ...  # How many elements the component may emit now
    # Blocks until there is a task. False when the flow has stopped
    def wait(self, for_credit: bool = False, timeout_s: float = 3600.0) -> bool: ...
    # The result for the oldest element. False when the reactor recalled the elements after it
    def answer(self, value: object, held_elements: int | None = None) -> bool: ...
    # The component gets all that waits in one call; before the flow is built
    def take_batches(self) -> None: ...
    # The results for the oldest elements, from a batch method
    def answer_batch(self, value: object, count: int, held_elements: int | None = None) -> bool: ...
    def resumed(self) -> bool: ...
    def emit(self, value: object) -> bool: ...  # An output that precedes the result
    def fail(self, error: BaseException, consumed: bool = True) -> bool: ...
    # A flush, a completion or a whole stream failed
    def fail_last(self, error: BaseException) -> bool: ...
    # A source's item. Returns the seconds to wait: -1 after `PENDING`, None for an item
    def pulled(self, value: object) -> float | None: ...
    # What `pull_batch` returned, in the same way
    def pulled_batch(self, value: object, most: int) -> float | None: ...
    # The result of a flush or a completion, or the end of a source
    def finish(self, value: object) -> None: ...

@final
class Workers:
    """The worker threads."""

    def __new__(cls, count: int, on_blocked: Callable[[int, int | None, int], None]) -> Workers: ...
    count: Final[int]
    # Stops the workers. Returns how many a component still blocks
    def stop(self, timeout_s: float) -> int: ...

@final
@type_check_only
class NodeHandle:
    """Controls one node from any thread."""

    def wake(self) -> None: ...
    def resume(self) -> None: ...
    now_ns: Final[int | None]
    def note_findings(self, matches: int, exposed_chars: int) -> None: ...
    def interrupt(self) -> None: ...
    # Exchanges the stage between two elements. False: the flow is gone
    def swap(self, order: SwapOrder) -> bool: ...
    def end_trial(self) -> None: ...  # The new stage needs no way back any more
    # The new stage does not return from a call: the old one takes its place again
    def fail_trial(self) -> None: ...
    # Goes on with the stage that it has, although it was held for a swap
    def let_go(self) -> None: ...

@final
@type_check_only
class RetiredStage:
    """A stage that was exchanged for another one."""

    def release(self) -> None: ...  # Stops its worker, or closes it

@final
@type_check_only
class FlowIterator:
    """Iterates over a flow's outputs and runs the flow."""

    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def close(self) -> None: ...

@final
class NativeFlow:
    """One run of a flow."""

    def __new__(
        cls,
        plan: Plan,
        edges: list[EdgePlan],
        work: list[Any],
        context: Context,
        *,
        on_error: Callable[[int, ErrorKind, str, int, BaseException | None, int | None], None],
        deadline_ns: int | None = None,
        clock: ManualClock | None = None,
        checkpoints: tuple[list[int], list[bool], Callable[..., None]] | None = None,
        contexts: list[Context] | None = None,
        # Node, kind, message, exception, sequence, batch of what was refused: is it stored?
        store_refused: Callable[
            [int, ErrorKind, str, BaseException | None, int | None, bytes | None], bool
        ]
        | None = None,
    ) -> NativeFlow: ...
    # Runs turns on this thread
    def drive(self, until_output: bool = False, wait: bool = True) -> TurnStatus: ...
    # One turn; of a parked flow, the nanoseconds until it is due
    def turn_once(self) -> tuple[TurnStatus, int | None]: ...
    def drive_from_thread(self) -> None: ...  # From now on the calling thread runs the flow
    # From now on an event loop runs the flow
    def drive_from_loop(self, waker: Waker, token: int) -> None: ...
    def start(self, workers: Workers) -> None: ...  # From now on the workers run the flow
    # Called once, on the thread that runs the last turn
    def set_end_callback(self, callback: Callable[[], None]) -> None: ...
    # Called before each turn on a worker
    def set_turn_callback(self, callback: Callable[[], object]) -> None: ...
    def wake(self) -> None: ...
    def cancel(self) -> None: ...
    def drain(self) -> None: ...
    def interrupt(self) -> None: ...
    def limit(self, elements: int) -> None: ...  # Drains the flow after so many source elements
    def node(self, index: int) -> NodeHandle: ...
    state: Final[FlowState]
    is_over: Final[bool]
    key: Final[int]
    now_ns: Final[int]
    def end(self) -> End | None: ...
    def take_failure(self) -> dict[str, Any] | None: ...
    def statistics(self) -> dict[str, Any]: ...
    def memory(self) -> tuple[int, int]: ...  # Bytes of reactor state and of queue slots
    def trace(self, limit: int) -> None: ...
    def take_trace(self) -> tuple[list[tuple[int, CallOutcome, int, int, int, int, int]], int]: ...
    # The outputs so far, without running the flow
    def outputs(self, most: int = ...) -> list[Any]: ...
    # Feeds as many items as fit and runs the flow. Returns its outputs and the count
    def feed(self, items: list[Any]) -> tuple[list[Any], int]: ...
    # `feed` for one text. Outputs that are all text are joined
    def feed_text(self, text: str) -> str | tuple[list[Any], int]: ...
    def finish_feed(self, end: End | None) -> list[Any]: ...
    def iterate(self, on_end: Callable[[], None], text: bool = False) -> FlowIterator: ...
    # Counts the results that arrived after the last turn. Call it when all runners ended
    def count_late_results(self) -> None: ...
    def request_cut(self, segment: int) -> None: ...
    def release_cut(self, segment: int) -> None: ...
    # Exchanges parts of the graph in a turn; their segments are at rest
    def issued(self, index: int) -> int: ...
    def settle_checkpoint(self, index: int, count: int) -> None: ...
    # How many settled elements the source at the index has not been told about
    def take_acknowledgements(self, index: int) -> int: ...
    def count_unread(self, outputs: int) -> None: ...  # The caller did not read the last outputs
    @property
    def current_node(self) -> int | None: ...  # The index of the node whose component is running
    def close(self) -> None: ...

# WebAssembly

@final
class CompiledComponent:
    """A component that is compiled, checked against the contract and linked."""

    def __new__(
        cls, code: bytes, counts_fuel: bool = False, role: str | None = None
    ) -> CompiledComponent:
        """Links code from `precompile`. The code runs unchecked: its author must be trusted."""

    # Compiles. Time and memory are unbounded: call it in a process with limits
    @staticmethod
    def precompile(wasm: bytes, counts_fuel: bool = False, target: str | None = None) -> bytes: ...
    @staticmethod
    def engine_id(target: str) -> str:
        """Identifies the engine whose code for a target, such as `x86_64-unknown-linux-gnu`, this
        build can load."""

    @staticmethod
    def load(
        wasm: bytes,
        cache_dir: str | PathLike[str],
        counts_fuel: bool = False,
        role: str | None = None,
    ) -> CompiledComponent | None:
        """The component from the cache, if it has it."""

    @staticmethod
    def remember(
        wasm: bytes, code: bytes, cache_dir: str | PathLike[str], counts_fuel: bool
    ) -> None:
        """Stores code from `precompile` in the cache."""

    # Whether a grant covers a request; `ValueError` for text that is not a capability
    @staticmethod
    def capability_covers(grant: str, request: str, folder: str | PathLike[str]) -> bool: ...
    role: Final[str]
    interface: Final[str]
    has_state: Final[bool]
    world: Final[str]
    imports: Final[list[str]]
    exports: Final[list[str]]
    capabilities: Final[list[str]]
    cache: Final[Literal["hit", "miss"]]
    compile_s: Final[float]
    def start(
        self,
        config: str,
        *,
        max_memory_bytes: int,
        call_timeout_s: float,
        init_timeout_s: float,
        fuel: int | None,
        seed: int | None,
        grants: list[str],
        printer: Callable[[str, str, bool], object],
        auditor: Callable[[str, str, int, int], object],
    ) -> SandboxGuest:
        """Instantiates the guest and calls its `init`. `printer` receives channel, line and whether
        the channel is granted; `auditor` kind, request, count and suppressed count of a denial."""

@final
@type_check_only
class SandboxGuest:
    """A running guest."""

    def stage(
        self,
        ports: list[str],
        flow_id: str,
        flow_name: str,
        trace_id: str,
        deadline_s: float | None,
    ) -> NativeStage: ...
    # The state of a guest outside a running flow
    def snapshot(self) -> bytes | None: ...
    def restore(self, state: bytes) -> None: ...
    def teardown(self, timeout_s: float) -> None: ...
    traps: Final[int]
    state_lost: Final[int]
    replaced: Final[int]
    replace_ns: Final[int]
    refused: Final[int]
    memory_bytes: Final[int]
    denied: Final[dict[str, int]]

@final
class WasmTools:
    """Reads and writes component files. Kinds of errors: `malformed`, `no-world`, `world-unknown`,
    `unfit`, `contract`; the third argument lists names."""

    # The component of a core module, and its world (by default that of its exports)
    @staticmethod
    def encode(core: bytes, world: str | None = None) -> tuple[bytes, str]: ...
    @staticmethod
    def describe(component: bytes) -> dict[str, Any]: ...
    # The notes in a component, such as its `unit` and `ports`
    @staticmethod
    def notes(component: bytes) -> dict[str, str]: ...
    # The component with one more note
    @staticmethod
    def annotate(component: bytes, name: str, text: str) -> bytes: ...
    # The worlds of a folder of WIT files
    @staticmethod
    def wit_worlds(folder: str | PathLike[str]) -> list[str]: ...
    @staticmethod
    def wit_files() -> list[tuple[str, str]]: ...  # The built-in WIT files, as paths and texts

@final
class FileParser:
    @staticmethod
    def toml(text: str) -> tuple[str, int, int, Any]:
        """A tree of `(kind, start, end, value)`; a table's value is `[(key, start, end, node)]`.
        Errors are `syntax` or `too-deep`, with message, start and end."""

    @staticmethod
    def gguf(
        path: str | PathLike[str],
    ) -> tuple[str, list[bytes], list[int], bool | None]:
        """The tokenizer of a GGUF file: model, tokens, types, `add_space_prefix`. Errors are
        `invalid`, `too-large` or `unsupported`."""

    @staticmethod
    def sentencepiece(
        data: bytes,
    ) -> tuple[list[tuple[bytes, int]], bytes, bool, bool, bool, bool]:
        """Pieces with types, the unknown piece's surface, and four rules of the model."""

# Text

def text_field(element: Any, name: str) -> str | None:
    """The text of a field of a flat JSON object. None also where only a parser can tell."""

@final
class StopStrings:
    """Passes text up to the first stop string that completes."""

    def __new__(cls, stops: list[str], include: bool = False) -> StopStrings: ...
    def put(self, text: str) -> str:
        """The text that can no longer be part of a stop string. After a match, nothing."""

    def finish(self) -> str:
        """Ends the input and returns the buffered text."""

    def replace(self, stops: list[str]) -> str:
        """Changes the stop strings for the buffered and the coming text."""

    matched: Final[str | None]
    @property
    def held_bytes(self) -> int:
        """Bytes in the buffer."""

@final
class TextGuard:
    """Guards one stream of text. `NativeStage("guard")` takes its rules from one."""

    def __new__(cls, parameters: dict[str, Any]) -> TextGuard: ...
    def fork(self) -> TextGuard: ...  # A guard with the same rules for another stream
    def elements(self, kinds: list[str]) -> GuardedTexts: ...
    def put(self, text: str) -> str: ...  # The text that may be sent
    def finish(self) -> str: ...
    def clear(self) -> None: ...
    # The matches since the last call: rule, position, length, exposed characters
    def take_findings(self) -> list[tuple[int, int, int, int]]: ...
    blocked: Final[bool]
    held_bytes: Final[int]

@final
@type_check_only
class GuardedTexts:
    """Guards elements in order; each kind and choice is a text of its own."""

    @staticmethod
    def address(element: Any) -> tuple[str, int]: ...  # Its kind and choice
    def put(
        self, element: Any, kind: str, choice: int, text: str | None
    ) -> list[tuple[str | None, Any, bool]] | None:
        """None: send the element unchanged. Otherwise what to send: text (None: the element
        itself), element, and whether this is the last part of an element without a match."""

    def finish(self) -> list[tuple[str | None, Any, bool]]: ...
    def take_findings(self) -> list[tuple[int, int, int, int]]: ...
    blocked: Final[bool]
    held_bytes: Final[int]

@final
class SentenceSplitter:
    """Splits streaming text into sentences.

    In normal mode the joined output equals the input, however the input is split; in simple mode
    each `put` is one token. Lengths are in characters; `max = 0` means no limit. `language` is one
    of `languages()`, or `auto` to detect it from the text.
    """

    def __new__(
        cls,
        mode: Literal["normal", "simple"] = "normal",
        first_min: int = 0,
        min: int = 0,
        max: int = 0,
        language: str = "auto",
    ) -> SentenceSplitter: ...
    @staticmethod
    def languages() -> list[str]:
        """The ISO 639-1 codes that `language` accepts, sorted."""

    def put(self, text: str) -> list[str]:
        """The sentences that this piece completes."""

    def finish(self) -> str | None:
        """Ends the input: returns the rest, if any, and resets the splitter."""

    def flush_idle(self) -> str | None:
        """Returns the buffered text when no input has come for a while; the text continues."""

    def clear(self) -> None:
        """Resets the splitter."""

    @property
    def held_bytes(self) -> int:
        """Bytes in the buffer."""

@final
class Utf8Decoder:
    """Decodes streaming UTF-8. The joined output equals `bytes.decode(errors="replace")`."""

    def __new__(cls) -> Utf8Decoder: ...
    def put(self, data: bytes) -> str:
        """The characters that these bytes complete; an invalid byte becomes U+FFFD."""

    def finish(self) -> str:
        """Ends the input: returns U+FFFD for an incomplete character and resets the decoder."""

    def clear(self) -> None:
        """Resets the decoder."""

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete character: 0 to 3."""

@disjoint_base
class TokenTable:
    """Maps token ids to bytes; all streamers of a tokenizer share it."""

    def __new__(
        cls,
        tokens: list[bytes | None],
        special: list[int] = ...,
        *,
        first: list[bytes | None] | None = None,
        first_until: Literal["token", "taken", "text"] = "token",
        strip: int = 0,
        replace_each_byte: bool = False,
        special_separates: bool = False,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __getitem__(self, id: int, /) -> bytes | None:
        """The bytes of a token; None for an unused id."""

    def is_special(self, id: int) -> bool:
        """Whether a token controls the model instead of being text."""

@final
class TextStreamer:
    """Turns streaming token ids or bytes into text.

    The joined output equals the text of all ids, however they are split. A call that fails changes
    nothing.
    """

    def __new__(
        cls,
        vocabulary: TokenTable | None = None,
        *,
        skip_special: bool = True,
        tail: Literal["replace", "drop", "error"] = "replace",
        bad_bytes: Literal["replace", "drop", "error"] = "replace",
        unknown: Literal["error", "skip", "replace"] = "error",
        graphemes: bool = False,
        continues: bool = False,
    ) -> TextStreamer: ...
    def put(self, tokens: SupportsIndex | Iterable[SupportsIndex] | bytes | bytearray) -> str:
        """The text that this id, these ids or these bytes complete."""

    def finish(self) -> str:
        """Ends the input: returns the buffered text as `tail` says and resets the streamer."""

    def clear(self) -> None:
        """Resets the streamer."""

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete character, and of a grapheme that may continue."""

# Wire

@final
class ServerEvent:
    """One server-sent event."""

    event: Final[str]
    data: Final[str]
    id: Final[str]

@final
class EventParser:
    """Parses a stream of server-sent events."""

    def __new__(cls, *, line_limit: int = 1048576, event_limit: int = 8388608) -> EventParser: ...
    def put(self, data: bytes) -> list[ServerEvent]:
        """The events that these bytes complete. After an error, the next call raises it."""

    def finish(self) -> None:
        """Ends the input: raises the error that stopped the parser, drops an incomplete event."""

    held_bytes: Final[int]
    last_event_id: Final[str]
    retry_ms: Final[int | None]

@final
class ChunkParser:
    """Parses an OpenAI stream: `(index, text)` for common chunks, `ServerEvent` for others."""

    def __new__(
        cls, dialect: str, *, line_limit: int = 1048576, event_limit: int = 8388608
    ) -> ChunkParser: ...
    def put(self, data: bytes) -> list[tuple[int, str] | ServerEvent]: ...
    def finish(self) -> None: ...
    held_bytes: Final[int]

@disjoint_base
class FrameEncoder:
    """Encodes frames. JSON is passed as text; without `seq` a frame gets the next number."""

    def __new__(
        cls,
        dialect: str,
        framing: str,
        *,
        id: str,
        flow: str,
        created: int,
        epoch: str,
        choices: int = 1,
        include_usage: bool = False,
        stream_id: str | None = None,
    ) -> Self: ...
    @property
    def seq(self) -> int: ...  # The number of the last frame; deltas count from 1
    choices: Final[int]
    def start(self) -> bytes: ...
    def text(
        self,
        text: str,
        index: int = 0,
        kind: str = "text",
        logprobs: str | None = None,
        seq: int | None = None,
    ) -> bytes: ...
    def call(
        self,
        call: tuple[int, str | None, str | None, str],
        index: int = 0,
        logprobs: str | None = None,
        seq: int | None = None,
    ) -> bytes:
        """A piece of a tool call: its index, id, name and arguments."""

    def meta(self, data: str, seq: int | None = None) -> bytes: ...
    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes: ...
    def usage(self, usage: tuple[int, int, int, int]) -> bytes:
        """The chunk with the usage, for an OpenAI client that requested it; nothing for others."""

    def end(
        self,
        finish: list[tuple[int, str, str | None, str | None, str | None]],
        usage: tuple[int, int, int, int] | None = None,
        timing: str | None = None,
        seq: int | None = None,
    ) -> bytes:
        """`finish`: index, reason, matched stop, the node that stopped and its side; `usage`:
        prompt, completion, cached and reasoning tokens."""

    def heartbeat(self) -> bytes: ...

@disjoint_base
class MessageEncoder:
    """Numbers the frames of an answer, and encodes those with new text as gRPC messages."""

    def __new__(cls, choices: int) -> Self: ...
    @property
    def seq(self) -> int: ...  # The number of the last frame; deltas count from 1
    @property
    def choices(self) -> int: ...
    def number(self, seq: int | None = None) -> int:
        """The next number, or the given one; counting continues from there."""
    def encode_text(
        self, text: str, index: int = 0, kind: str = "text", seq: int | None = None
    ) -> bytes:
        """A frame with new text; empty if it is half a surrogate pair, which waits for the other
        half."""
    def join(self, text: str, index: int) -> str:
        """The text with the half that waits in front, and without one at its end."""
    def release(self) -> list[int]:
        """The answer ends: the choices whose half of a pair is alone."""

@final
class PartialJson:
    """Parses JSON while it arrives."""

    def __new__(cls, *, depth_limit: int = 128) -> PartialJson: ...
    def put(self, text: str) -> None:
        """Parses a piece of the text; every character once."""

    def finish(self) -> Any:
        """Ends the input and returns the value. Raises when it is incomplete."""

    @property
    def value(self) -> Any:
        """The value so far, None before it begins. Containers grow in place; a string that has
        grown is copied."""

    is_complete: Final[bool]

@final
class WireServer:
    """A listening socket and its connections, driven by another loop. Give the descriptor of the
    socket away; `tls` is a certificate chain and its key, as PEM."""

    def __new__(
        cls,
        fd: int,
        *,
        max_body_bytes: int,
        max_bodies_bytes: int,
        body_timeout_s: float,
        head_timeout_s: float,
        keep_alive_s: float,
        max_connections: int,
        max_unknown: int,
        max_unknown_per_address: int,
        has_keys: bool,
        max_streams: int,
        tls: tuple[bytes, bytes] | None = None,
    ) -> Self: ...
    def fileno(self) -> int:
        """Readable when there is something to do."""
    def turn(self) -> tuple[list[WireExchange | tuple[int, int | str]], float | None]:
        """Reads and writes what is ready. Returns new exchanges and events (0: room, 1: half
        closed, 2: left, 4: message, each with the number of the exchange; 3: not accepted, with
        the reason), and in how many seconds a timer is due."""
    def counts(self) -> tuple[int, int, int, int]:
        """Connections that are open, that brought a valid key, that were closed to make room, that
        found no room."""
    def set_tls(self, chain: bytes, key: bytes) -> None:
        """Another certificate and key, as PEM, for connections from now on."""
    def drain(self) -> None:
        """Connections end when their requests are answered, except those that carry gRPC; new ones
        are answered once."""
    def stop_accepting(self) -> None:
        """Another process accepts what is coming now."""
    def stop(self) -> None:
        """Accepts no more connections; open ones end when their requests are answered."""
    def close(self) -> None:
        """Closes every connection."""

@final
class WireExchange:
    """One request and its answer."""

    @property
    def id(self) -> int: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def authority(self) -> str | None: ...
    @property
    def hosts(self) -> int: ...
    @property
    def peer(self) -> str: ...
    def take_body(self) -> bytes: ...  # once
    @property
    def body_error(self) -> Literal["too-large", "slow", "refused", "malformed", "left"] | None: ...
    @property
    def is_left(self) -> bool: ...
    @property
    def idle_s(self) -> float | None:
        """Seconds since something was appended; None if nothing was."""
    def headers(self) -> dict[str, str]: ...
    def recognise(self) -> None:
        """The request has a valid key: its connection does not count among those of strangers."""
    @property
    def is_websocket(self) -> bool:
        """Whether the client asks for a WebSocket; messages are then framed."""
    def receive(self) -> str | bytes | None:
        """The next message of the client. None: wait for the event, unless no more come."""
    @property
    def messages_end(
        self,
    ) -> Literal["complete", "left", "too-large", "malformed", "bad-text", "slow"] | None:
        """Why no more messages come, when all were received."""
    def hold(
        self, status: int, headers: list[tuple[str, str]], parts: Sequence[bytes] = ...
    ) -> None:
        """The head of an answer, and its first parts. They are sent with what is appended next, or
        by `release`; until then, `respond` may replace them."""
    def release(self) -> None:
        """Sends what is held."""
    @property
    def is_held(self) -> bool:
        """Whether nothing was sent of what `hold` took."""
    def respond(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    @property
    def has_room(self) -> bool:
        """Whether more may be appended; if not, an event tells when."""
    def append(self, data: bytes, is_last: bool = False) -> bool:
        """False: wait until there is room. Raises `ConnectionResetError` when nobody reads."""
    def append_text(
        self,
        encoder: FrameEncoder,
        text: str,
        index: int,
        kind: str,
        opening: bytes | None = None,
    ) -> bool:
        """`append` of a frame with new text. `opening` replaces the bracket with which it
        begins, and ends with a comma."""
    def append_text_message(
        self, encoder: MessageEncoder, text: str, index: int, kind: str
    ) -> bool:
        """`append` of a gRPC message with new text."""
    def append_data(self, data: bytes) -> bool:
        """`append` of a message to a WebSocket that is not text."""
    def close(self, code: int, reason: str) -> None:
        """Closes a WebSocket."""
    def abort_after(self, seconds: float) -> None:
        """What is not sent over HTTP/2 by then is dropped, and the answer broken."""
    @property
    def is_call(self) -> bool:
        """Whether it is a gRPC call, which carries messages in both directions."""
    def finish(self, trailers: list[tuple[str, str]] | None = None) -> None: ...
    def abort_unless_finished(self) -> None: ...

@final
class WireClient:
    """A client of HTTP servers, driven by another loop. `roots` are the certificates of
    authorities, as PEM; needed for `https`."""

    def __new__(
        cls, *, connect_timeout_s: float, keep_alive_s: float, roots: bytes | None = None
    ) -> Self: ...
    def fileno(self) -> int:
        """Readable when there is something to do."""
    def turn(self) -> tuple[list[Future[None]], float | None]:
        """Reads and writes what is ready. Returns the futures of replies that have more to read,
        and in how many seconds a timer is due."""
    def post(
        self,
        host: str,
        port: int,
        is_tls: bool,
        addresses: list[str],
        path: str,
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> WireReply:
        """Sends a POST request to `host`, which has these addresses, over a kept connection if
        there is one."""
    @property
    def connections(self) -> int: ...
    @property
    def draining(self) -> int:
        """Connections that wait for the end of a body."""
    def close(self) -> None:
        """Closes every connection."""

@final
class DirectText:
    """Where text goes in native code, and what was counted on the way. `clock_s` is the time now,
    by the clock of the times that `take` returns. Texts are sent together up to those limits.
    `opening` replaces the bracket with which a frame begins; before a gRPC message it is what
    precedes the length of the message."""

    def __new__(
        cls,
        exchange: WireExchange,
        encoder: FrameEncoder | MessageEncoder,
        clock_s: float,
        most_texts: int,
        most_bytes: int,
        opening: bytes | None = None,
    ) -> Self: ...
    def put(self, text: str, flow: NativeFlow | None) -> int:
        """Puts text through the flow. 0: not taken; 1: kept until `flush`; 2: the same, and it is
        time to flush; 3: what left the flow is for Python."""
    def flush(self) -> bool:
        """Sends what was kept. False: the client has left, or must be waited for."""
    def take(self) -> tuple[int, list[float], list[Element] | None]:
        """Since the last call: the tokens, when text was delivered, and what left the flow, if that
        is for Python."""
    def close(self) -> None:
        """From now on, all text goes to Python."""
    def drop(self) -> None:
        """`close` for a client that does not want the text that was kept."""

@final
class DirectSteps:
    """The steps of an engine that are left to Python. While it is open, steps with text of the only
    choice go to the client; None comes out when the reader must flush, absorb, or let others have
    their turns."""

    def __new__(cls, engine: AsyncIterator[Step]) -> Self: ...
    def open(self, text: DirectText, flow: NativeFlow | None, tokens_left: int) -> None:
        """From the next step on, text goes there, while there are less than so many tokens."""
    def shut(self) -> None:
        """From the next step on, everything comes out. From any thread."""
    @property
    def is_turn_over(self) -> bool:
        """Whether the engine was left because it has not waited for a while."""
    def begin_turn(self) -> None:
        """Others had their turns."""
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[Step | None]: ...
    def __await__(self) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> Any: ...
    def close(self) -> None: ...

@final
@type_check_only
class WireReply:
    """The response to a request, while it arrives."""

    @property
    def status(self) -> int | None: ...
    def headers(self) -> dict[str, str]: ...
    def take(self) -> bytes | list[tuple[int, str] | ServerEvent] | None:
        """What has arrived, or the parts that the direct path has left; nothing at the end; None
        if more may come."""
    def arm(
        self,
        direct: DirectText,
        parser: ChunkParser,
        tokens_left: int,
        flow: NativeFlow | None = None,
    ) -> None:
        """From now on, chunks with text only go through the flow to the answer of `direct`, until
        something else arrives or there are so many tokens, one per chunk. It may be called before
        the head has arrived: a response that is not an event stream is left to Python."""
    def disarm(self) -> None:
        """From now on, everything goes to Python."""
    @property
    def direct_idle_s(self) -> float | None:
        """Seconds since the direct path last took text; None if it never has."""
    def wait(self, future: Future[None], knows_head: bool) -> bool:
        """Lets `turn` return the future when there is more. False: there is something already."""
    @property
    def failure(
        self,
    ) -> tuple[Literal["connect-timeout", "unreachable", "tls", "broken"], str] | None:
        """Why the response is not complete, and details."""
    def cancel(self) -> None:
        """Closes the connection."""
    def release(self) -> None:
        """Keeps the connection if the body ends within a moment."""
