"""The native module. Text that a person reads is never made there: errors carry fields."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Literal, Self, SupportsIndex, final

from typing_extensions import disjoint_base

from torvyn.contract.element import Context
from torvyn.contract.signals import End
from torvyn.link.plan import EdgePlan, Plan

__all__ = [
    "ChunkParser",
    "CompiledComponent",
    "Element",
    "EventParser",
    "FlowIterator",
    "FrameEncoder",
    "GuardedTexts",
    "ManualClock",
    "NativeFlow",
    "NativeStage",
    "NodeHandle",
    "PartialJson",
    "Port",
    "SandboxError",
    "SandboxGuest",
    "SentenceSplitter",
    "ServerEvent",
    "StopStrings",
    "TextGuard",
    "TextStreamer",
    "TokenTable",
    "TomlError",
    "Utf8Decoder",
    "VocabularyFault",
    "Waker",
    "WasmError",
    "Workers",
    "annotate_component",
    "capability_covers",
    "component_notes",
    "describe_component",
    "encode_component",
    "parse_toml",
    "read_gguf",
    "read_sentencepiece",
    "wit_files",
    "wit_worlds",
]

# element
@disjoint_base
class Element:
    """`torvyn.Element`: frozen, owns its data."""

    def __new__(
        cls,
        data: str | bytes,
        sequence: int = 0,
        timestamp_ns: int = 0,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> Self: ...
    @property
    def text(self) -> str:
        """The payload as text; raises `InvalidInput` when it is not UTF-8."""

    def text_lossy(self) -> str:
        """The payload as text, bad bytes replaced by U+FFFD."""

    @property
    def data(self) -> memoryview:
        """The payload as a read-only view of bytes; no copy."""

    @property
    def sequence(self) -> int: ...
    @property
    def timestamp_ns(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...
    @property
    def context(self) -> Context | None: ...
    def __len__(self) -> int: ...

# clock
@disjoint_base
class ManualClock:
    """The hand-driven clock of the test kit."""

    def __new__(cls, start_ns: int = 1_000_000_000) -> Self: ...
    @property
    def now_ns(self) -> int: ...
    def advance_ns(self, nanos: int) -> None: ...

# waker
@final
class Waker:
    """One wake-up line for an event loop: a descriptor that becomes readable when somebody
    rings."""

    def __new__(cls) -> Waker: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]:
        """Who has rung since the last time."""

# native
@final
class NativeStage:
    """A native part on its way into a flow; used once."""

    def __new__(cls, kind: str, parameters: dict[str, object]) -> NativeStage: ...

# port
@final
class Port:
    """The exchange of an offloaded stage, as its runner sees it."""

    def __new__(cls, role: str, ports: list[str]) -> Port: ...
    def notify(self, waker: Waker, token: int) -> None:
        """Be told through `waker` under `token` when there is something to do."""

    @property
    def stopped(self) -> bool: ...
    @property
    def idle(self) -> bool:
        """Whether the runner waits for the reactor, and the reactor for nothing of this port."""

    @property
    def has_results(self) -> bool:
        """Whether the reactor has not fetched all results yet."""

    def take(self) -> list[tuple[str, Any]]:
        """All tasks that are there: kind and value."""

    def credit(self) -> int:
        """How many elements may be made now."""

    def wait(self, for_credit: bool = False, timeout_s: float = 3600.0) -> bool:
        """Blocks until there is something to do. False when the flow wants no more."""

    def answer(self, value: object) -> bool:
        """The answer to the oldest element. False when those taken with it are not wanted any
        more."""

    def resumed(self) -> bool:
        """A sink that answered with PAUSE may be given elements again."""

    def emit(self, value: object) -> bool:
        """Something made before the answer is known."""

    def fail(self, error: BaseException, consumed: bool = True) -> bool:
        """The call for the oldest element failed; for a source there is none."""

    def fail_last(self, error: BaseException) -> bool:
        """The last word could not be said: a flush, a completion or a whole stream failed."""

    def pulled(self, value: object) -> float | None:
        """A source's item. The seconds to wait after `PENDING.after`, -1 after `PENDING`, else
        None."""

    def finish(self, value: object) -> None:
        """The last word: what a flush made, a completion, or the end of a source."""

# pool
@final
class Workers:
    """The worker threads."""

    def __new__(cls, count: int, on_blocked: Callable[[int, int | None, int], None]) -> Workers: ...
    @property
    def count(self) -> int: ...
    def stop(self, patience_s: float) -> int:
        """Ends the workers; how many were left behind because a component blocks them."""

# iterator
@final
class NodeHandle:
    """A node as its component may reach it, from any thread."""

    def wake(self) -> None: ...
    def resume(self) -> None: ...
    def note_findings(self, matches: int, exposed_chars: int) -> None: ...
    def interrupt(self) -> None: ...

@final
class FlowIterator:
    """Iterates over what leaves a flow, and drives it."""

    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def close(self) -> None:
        """What was taken from the flow and not handed out stays unread."""

# flow
@final
class NativeFlow:
    """The handle of a flow: build, drive, feed, ask, stop."""

    def __new__(
        cls,
        plan: Plan,
        edges: list[EdgePlan],
        work: list[Any],
        context: Context,
        *,
        on_error: Callable[[int, str, str, int, BaseException | None, int | None], None],
        deadline_ns: int | None = None,
        clock: ManualClock | None = None,
    ) -> NativeFlow: ...
    def drive(self, until_output: bool = False, wait: bool = True) -> str:
        """Runs turns here: gives `over`, `output`, `again` or `parked`."""

    def turn_once(self) -> tuple[str, int | None]:
        """One turn; with `parked`, the nanoseconds until the flow is due."""

    def attend(self) -> None:
        """From now on the calling thread drives, and is woken when it waits."""

    def attend_loop(self, waker: Waker, token: int) -> None:
        """From now on an event loop drives: `waker` rings `token`."""

    def start(self, workers: Workers) -> None:
        """From now on the workers drive."""

    def on_over(self, callback: Callable[[], None]) -> None:
        """Called once when the flow is over, on the thread that ran its last turn."""

    def wake(self) -> None: ...
    def cancel(self) -> None: ...
    def drain(self) -> None: ...
    def interrupt(self) -> None: ...
    def limit(self, elements: int) -> None:
        """Drain after so many elements of the sources; 0: pull nothing."""

    def node(self, index: int) -> NodeHandle: ...
    @property
    def state(self) -> str: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def key(self) -> int: ...
    @property
    def now_ns(self) -> int: ...
    def end(self) -> End | None: ...
    def take_failure(self) -> dict[str, Any] | None:
        """How the flow failed; given once."""

    def statistics(self) -> dict[str, Any]: ...
    def memory(self) -> tuple[int, int]:
        """Bytes of reactor state and of queue slots."""

    def trace(self, limit: int) -> None: ...
    def take_trace(self) -> tuple[list[tuple[int, str, int, int, int, int, int]], int]: ...
    def outputs(self, most: int = ...) -> list[Any]:
        """What has left the flow, without running it."""

    def feed_room(self) -> int: ...
    def feed(self, items: list[Any]) -> tuple[list[Any], int]:
        """Feeds as far as there is room, runs what can run; what came out, and how many were
        taken."""

    def feed_text(self, text: str) -> str | tuple[list[Any], int]:
        """`feed` of one text; what leaves is joined when it is text and nothing else."""

    def finish_feed(self, end: End | None) -> list[Any]: ...
    def iterate(self, on_end: Callable[[], None], text: bool = False) -> FlowIterator: ...
    def settle(self) -> None:
        """Counts what thread and async stages answered after the last turn. To be called when
        their runners have ended."""

    def give_back(self, count: int) -> None:
        """`count` of the outputs taken last were not read by anybody."""

    @property
    def current_node(self) -> int | None:
        """The index of the node whose component is being called."""

    def close(self) -> None: ...

# sandbox
class SandboxError(Exception):
    """A component cannot be compiled or linked, or a guest failed. `args`: a kind and words."""

@final
class CompiledComponent:
    """A sandboxed component: compiled, checked against the contract and linked."""

    def __new__(
        cls, code: bytes, counts_fuel: bool = False, role: str | None = None
    ) -> CompiledComponent:
        """Links what `precompile` made. It will be run as it is: trust who made it."""

    @staticmethod
    def precompile(wasm: bytes, counts_fuel: bool = False) -> bytes:
        """Compiled code. Takes any time and memory: call it in a process with limits."""

    @staticmethod
    def load(
        wasm: bytes,
        cache_dir: str | PathLike[str],
        counts_fuel: bool = False,
        role: str | None = None,
    ) -> CompiledComponent | None:
        """What was compiled before; None when the cache has nothing that it would load."""

    @staticmethod
    def remember(
        wasm: bytes, code: bytes, cache_dir: str | PathLike[str], counts_fuel: bool
    ) -> None:
        """Puts compiled code into the cache. It will be run as it is: trust who made it."""

    @property
    def role(self) -> str: ...
    @property
    def interface(self) -> str: ...
    @property
    def world(self) -> str: ...
    @property
    def imports(self) -> list[str]: ...
    @property
    def exports(self) -> list[str]: ...
    @property
    def capabilities(self) -> list[str]:
        """What its imports are there for."""

    @property
    def cache(self) -> Literal["hit", "miss"]: ...
    @property
    def compile_s(self) -> float: ...
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
        """Instantiates and calls `init`; `printer(channel, line, is_granted)` gets its prints,
        `auditor(kind, asked, count, suppressed)` the denials that are worth reading."""

@final
class SandboxGuest:
    """A guest that was started."""

    def stage(
        self,
        ports: list[str],
        flow_id: str,
        flow_name: str,
        trace_id: str,
        deadline_s: float | None,
    ) -> NativeStage: ...
    def teardown(self, timeout_s: float) -> None: ...
    @property
    def traps(self) -> int: ...
    @property
    def state_lost(self) -> int: ...
    @property
    def replaced(self) -> int: ...
    @property
    def replace_ns(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def denied(self) -> dict[str, int]: ...

def capability_covers(grant: str, asked: str, folder: str | PathLike[str]) -> bool:
    """Whether having one capability means having another; `ValueError` for what is none."""

# stops
@final
class StopStrings:
    """Text up to the first stop string that completes; of several, the first of the list."""

    def __new__(cls, stops: list[str], include: bool = False) -> StopStrings: ...
    def put(self, text: str) -> str:
        """What can no longer be part of a stop. After a match, nothing."""
    def finish(self) -> str:
        """The input is over: the text that waited."""
    def replace(self, stops: list[str]) -> str:
        """Other stops for what has not left; what leaves by it."""
    @property
    def matched(self) -> str | None: ...
    @property
    def held_bytes(self) -> int: ...

# guard
@final
class TextGuard:
    """One guarded stream of text. The native stage `guard` is made `like` one."""

    def __new__(cls, parameters: dict[str, Any]) -> TextGuard: ...
    def fork(self) -> TextGuard:
        """Another stream under the same rules."""
    def put(self, text: str) -> str:
        """What may leave."""
    def finish(self) -> str:
        """The input is over: everything is decided."""
    def clear(self) -> None: ...
    def take_findings(self) -> list[tuple[int, int, int, int]]:
        """What was found since the last time: rule, position, length, exposed characters."""
    @property
    def blocked(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...

@final
class GuardedTexts:
    """Elements through guards, each kind and choice as a text of its own, in order."""

    def __new__(cls, like: TextGuard, kinds: list[str]) -> GuardedTexts: ...
    def put(
        self, element: Any, kind: str, choice: int, text: str | None
    ) -> list[tuple[str | None, Any, bool]] | None:
        """None: the element may leave as it came. Else what may leave: a part of the text of an
        element, or None for the element itself; the element; whether nothing was taken out of it
        and this is the last part."""
    def finish(self) -> list[tuple[str | None, Any, bool]]:
        """The input is over: everything is decided."""
    def take_findings(self) -> list[tuple[int, int, int, int]]:
        """What was found since the last time: rule, position, length, exposed characters."""
    @property
    def blocked(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...

# text
@final
class SentenceSplitter:
    """Text to sentences, as it streams.

    In normal mode the outputs joined are the input, and they are the same for every split of it;
    in simple mode each `put` is one token. Lengths are in characters, `max = 0` means none.
    `language` is one of `languages()`, or `auto` to detect it from the text.
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
        """The ISO 639-1 codes that `language` takes, sorted."""

    def put(self, text: str) -> list[str]:
        """The sentences that this piece completes."""

    def finish(self) -> str | None:
        """The input is over: the rest, if there is one. The splitter is as new."""

    def flush_idle(self) -> str | None:
        """No input for a while: what is held leaves, and the text goes on afterwards."""

    def clear(self) -> None:
        """Forgets everything."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait here."""

@final
class Utf8Decoder:
    """Bytes to text, as they stream.

    Joined it equals `bytes.decode(errors="replace")` of the whole for every split.
    """

    def __new__(cls) -> Utf8Decoder: ...
    def put(self, data: bytes) -> str:
        """Every character that these bytes complete; a bad byte is U+FFFD."""

    def finish(self) -> str:
        """The input is over: U+FFFD if a character never became whole. The decoder is as new."""

    def clear(self) -> None:
        """Forgets what waits."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for the rest of their character: 0 to 3."""

# vocabulary
class VocabularyFault(ValueError):
    """A file that is no tokenizer. `args`: `invalid`, `too-large` or `unsupported`, and why."""

    args: tuple[str, str]

@disjoint_base
class TokenTable:
    """Token ids to bytes, shared by all streamers of a tokenizer."""

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
        """The bytes of a token; None for an id between others that stands for nothing."""

    def is_special(self, id: int) -> bool:
        """Whether a token is a sign of the model rather than text."""

def read_gguf(
    path: str | PathLike[str],
) -> tuple[str, list[bytes], list[int], bool | None]:
    """The tokenizer of a GGUF file: model, tokens, types, `add_space_prefix`."""

def read_sentencepiece(
    data: bytes,
) -> tuple[list[tuple[bytes, int]], bytes, bool, bool, bool, bool]:
    """Pieces with types, the unknown piece's surface, and four rules of the model."""

# streamer
@final
class TextStreamer:
    """Token ids or bytes to text, as they stream.

    Joined it equals the text of all ids for every split. A call that fails changes nothing.
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
        """The input is over: what waits, by the policy for the tail. The streamer is as new."""

    def clear(self) -> None:
        """Forgets everything."""

    @property
    def held_bytes(self) -> int:
        """Bytes that wait: of an unfinished character, and of a grapheme that may go on."""

# toml
class TomlError(ValueError):
    """`args` are `(kind, message, start, end)`; kind is `syntax` or `too-deep`, in bytes."""

    args: tuple[str, str, int, int]

def parse_toml(text: str) -> tuple[str, int, int, Any]:
    """A tree of `(kind, start, end, value)`; a table's value is `[(key, start, end, node)]`."""

# Components of WebAssembly

class WasmError(ValueError):
    """Bytes that are no component. `args`: a kind, words of the tool, names it speaks of.

    The kinds are `malformed`, `no-world`, `world-unknown`, `unfit` and `contract`.
    """

def encode_component(core: bytes, world: str | None = None) -> tuple[bytes, str]:
    """The component of a core module, and its world: the given one or that of its exports."""

def describe_component(component: bytes) -> dict[str, Any]:
    """World, imports, exports, notes and sizes of a component; nothing is compiled."""

def component_notes(component: bytes) -> dict[str, str]:
    """What a component says of itself, such as its `unit` and `ports`."""

def annotate_component(component: bytes, name: str, text: str) -> bytes:
    """The component with one more note on itself, such as `unit` and `tokens`."""

def wit_worlds(folder: str | PathLike[str]) -> list[str]:
    """The worlds of a project's own WIT; raises `WasmError` when it does not resolve."""

def wit_files() -> list[tuple[str, str]]:
    """The built-in contracts: paths and texts."""

# events
@final
class ServerEvent:
    """One event of a stream."""

    @property
    def event(self) -> str:
        """Its type; `message` unless the stream says otherwise."""

    @property
    def data(self) -> str: ...
    @property
    def id(self) -> str:
        """The last id the stream has given."""

@final
class EventParser:
    """Bytes of an event stream to events."""

    def __new__(cls, *, line_limit: int = 1048576, event_limit: int = 8388608) -> EventParser: ...
    def put(self, data: bytes) -> list[ServerEvent]:
        """Every event that these bytes complete. What came before a failure is given first, the
        failure next time."""

    def finish(self) -> None:
        """The input is over: raises what stopped the parser. A half event is dropped, as the
        standard says."""

    @property
    def held_bytes(self) -> int:
        """Bytes of an event that has not ended."""

    @property
    def last_event_id(self) -> str:
        """What to send as `Last-Event-ID` when coming back."""

    @property
    def retry_ms(self) -> int | None:
        """How long to wait before coming back, when the stream said so."""

@final
class ChunkParser:
    """Bytes of an OpenAI stream: `(index, text)` for the common chunk, a `ServerEvent` for every
    other."""

    def __new__(
        cls, dialect: str, *, line_limit: int = 1048576, event_limit: int = 8388608
    ) -> ChunkParser: ...
    def put(self, data: bytes) -> list[tuple[int, str] | ServerEvent]:
        """What these bytes complete. What came before a failure is given first, the failure next
        time."""

    def finish(self) -> None:
        """The input is over: raises what stopped the parser."""

    @property
    def held_bytes(self) -> int:
        """Bytes of an event that has not ended."""

# frames
@disjoint_base
class FrameEncoder:
    """Frames into bytes. JSON is given as text; without `seq` a frame gets the next number."""

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
    def seq(self) -> int:
        """The number of the last frame; deltas count from 1."""

    @property
    def choices(self) -> int:
        """How many choices the answer has."""

    def start(self) -> bytes: ...
    def text(
        self,
        text: str,
        index: int = 0,
        kind: str = "text",
        logprobs: str | None = None,
        seq: int | None = None,
    ) -> bytes:
        """New text of a choice. `logprobs` is JSON in the dialect's form."""

    def call(
        self,
        call: tuple[int, str | None, str | None, str],
        index: int = 0,
        logprobs: str | None = None,
        seq: int | None = None,
    ) -> bytes:
        """A piece of a call: `call` is its index, id, name and arguments."""

    def meta(self, data: str, seq: int | None = None) -> bytes: ...
    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes: ...
    def end(
        self,
        finish: list[tuple[int, str, str | None, str | None, str | None]],
        usage: tuple[int, int, int, int] | None = None,
        timing: str | None = None,
        seq: int | None = None,
    ) -> bytes:
        """`finish` has index, reason, matched stop, who stopped it and on which side a guard did;
        `usage` prompt, completion, cached and reasoning tokens."""

    def heartbeat(self) -> bytes: ...

# partial
@final
class PartialJson:
    """Tool arguments and other JSON, while it arrives."""

    def __new__(cls, *, depth_limit: int = 128) -> PartialJson: ...
    def put(self, text: str) -> None:
        """Feeds a piece of the text; every character is looked at once."""

    def finish(self) -> Any:
        """The input is over: the whole value. Raises when it is not whole."""

    @property
    def value(self) -> Any:
        """What is known: whole keys, numbers and literals, and texts as far as they have come.

        None before the first. Containers are not copied: they grow. A text that is open is copied
        each time it has grown.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the value is whole."""
