"""Runs a component inside the guest on a whole batch: the interfaces `batch-*` of 0.3.0.

A component with a batch method gets a `Batch`. Any other is called once per element, without a call
into the host for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from wit_world.imports import types  # type: ignore[import-not-found]

from torvyn._contract.element import TEXT, PureElement
from torvyn._contract.signals import Signal, Verdict
from torvyn._sandbox.guest import adapter
from torvyn.errors import ContractError

wire: Any = None
"""The generated module of the role's batch interface, set by the app."""

_VERDICTS = {"pass": 0, "drop": 1, "replace": 2, "block": 3, "hold": 4}


class BatchElement(PureElement):
    """An element of a batch. Its fields are read when they are used."""

    __slots__ = ("_at", "_batch")

    def __init__(self, batch: GuestBatch, at: int) -> None:
        object.__setattr__(self, "_batch", batch)
        object.__setattr__(self, "_at", at)

    @property
    def text(self) -> str:
        batch: GuestBatch = self._batch
        at: int = self._at
        return batch.texts[at]

    def __getattr__(self, name: str) -> Any:
        # Only called for empty slots.
        value = self._batch.field(name, self._at)
        object.__setattr__(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (PureElement, super().__reduce__()[1])


class GuestBatch(Sequence[PureElement]):
    """The elements that the host passed."""

    def __init__(self, raw: Any, context: Any) -> None:
        self._raw = raw
        self._context_handle = context
        self._context: Any = None
        self._texts: list[str] | None = None

    @property
    def texts(self) -> list[str]:
        if self._texts is None:
            data = self._raw.data
            if data.isascii():
                text = data.decode("ascii")
                spans = pairwise((0, *self._raw.ends))
                self._texts = [text[start:end] for start, end in spans]
            else:
                self._texts = [PureElement(each).text for each in self.payloads]
        return self._texts

    @property
    def payloads(self) -> list[bytes]:
        data = self._raw.data
        return [data[start:end] for start, end in self._spans()]

    def _spans(self) -> Iterator[tuple[int, int]]:
        start = 0
        for end in self._raw.ends:
            yield start, end
            start = end

    def field(self, name: str, at: int) -> Any:
        raw = self._raw
        if name == "_data":
            return raw.data[raw.ends[at - 1] if at else 0 : raw.ends[at]]
        if name == "sequence":
            return raw.sequences[at]
        if name == "timestamp_ns":
            return raw.timestamps_ns[at]
        if name == "content_type":
            return raw.content_type
        if name == "attributes":
            found = [each for each in raw.attributes if each.position == at]
            return adapter.attributes_from(found)
        if name == "context":
            return self.context()
        raise AttributeError(name)

    def context(self) -> Any:
        if self._context is None:
            self._context = adapter.context_from(self._context_handle)
        return self._context

    def end(self) -> None:
        """The borrow of the context ends with the call."""
        if self._context is None:
            self.context()
        self._context_handle = None

    def __len__(self) -> int:
        return len(self._raw.ends)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [BatchElement(self, each) for each in range(len(self))[at]]
        return BatchElement(self, range(len(self))[at])

    def __iter__(self) -> Iterator[PureElement]:
        return map(BatchElement, (self,) * len(self), range(len(self)))


class Outputs:
    """Collects outputs and failures for the host."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.ends: list[int] = []
        self.origins: list[int] = []
        self.details: list[Any] = []
        self.failures: list[Any] = []
        self.content_type: str | None = None
        self._size = 0

    def add(self, at: int, result: Any) -> None:
        """What the component returned for the element at a position."""
        if result is None:
            return
        if adapter.is_emission(result):
            self._add_one(at, result)
        elif isinstance(result, BaseException):
            self.fail(at, result)
        else:
            for item in adapter.items_of(result):
                self._add_one(at, item)

    def add_texts(self, texts: Sequence[str]) -> None:
        """One text for each of the first elements, when there are no other outputs yet. Nearly all
        results are texts, and the interpreter is slow inside a guest: no code runs for each."""
        if not texts:
            return
        joined = "".join(texts)
        try:
            data = joined.encode()
        except UnicodeEncodeError:
            # Only the element at fault fails.
            for at, text in enumerate(texts):
                self.add_safely(at, str, text)
            return
        is_ascii = len(data) == len(joined)
        lengths = map(len, texts if is_ascii else map(str.encode, texts))
        self.data, self.ends = [data], list(accumulate(lengths))
        self.origins, self.content_type = list(range(len(texts))), TEXT
        self._size = len(data)

    def add_safely(self, at: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a call, or None after a failure of this element."""
        count, parts, size = len(self.ends), len(self.data), self._size
        try:
            result = call(*arguments)
            self.add(at, result)
        except Exception as error:
            del self.data[parts:], self.ends[count:], self.origins[count:]
            self._size = size
            self.details = [each for each in self.details if each.position < count]
            self.fail(at, error)

    def fail(self, at: int, error: Any) -> None:
        self.failures.append(wire.Failure(at, adapter.process_error(error)))

    def _add_one(self, at: int, item: Any) -> None:
        data, content_type, attributes, keep = adapter.parts_of(item)
        if self.content_type is None:
            self.content_type = content_type
        if content_type != self.content_type or attributes is not None or keep:
            pairs = adapter.attribute_pairs(attributes)
            listed = None if pairs is None else [wire.Attribute(*pair) for pair in pairs]
            detail = wire.Detail(len(self.ends), content_type, listed, keep)
            self.details.append(detail)
        self._size += len(data)
        self.data.append(data)
        self.ends.append(self._size)
        self.origins.append(at)

    def finish(self) -> Any:
        data = b"".join(self.data)
        kind = self.content_type or TEXT
        return wire.Outputs(data, self.ends, self.origins, kind, self.details, self.failures)


def _entries(result: Any, batch: GuestBatch, method: str) -> Any:
    if not isinstance(result, (list, tuple)) or len(result) != len(batch):
        got = f"a list of {len(result)}" if isinstance(result, (list, tuple)) else type(result)
        message = f"`{method}` returned {got} for {len(batch)} elements"
        raise ContractError("contract.wrong-result", message)
    return result


def _run(call: Callable[[GuestBatch], Any], raw: Any, context: Any) -> Any:
    """Calls with a batch that is borrowed for the length of the call."""
    batch = GuestBatch(raw, context)
    try:
        return adapter.call_component(call, batch)
    finally:
        batch.end()


def process(batch: GuestBatch) -> Any:
    outputs, component = Outputs(), adapter.component
    if adapter.has_batch_method():
        result = component.process_batch(batch)
        if result is not None:
            _add_entries(outputs, _entries(result, batch, "process_batch"))
        return outputs.finish()
    _process_each(outputs, component.process, batch)
    return outputs.finish()


def _add_entries(outputs: Outputs, entries: Sequence[Any]) -> None:
    if set(map(type, entries)) == {str}:
        outputs.add_texts(entries)
        return
    for at, entry in enumerate(entries):
        outputs.add(at, entry)


def _process_each(outputs: Outputs, call: Callable[..., Any], batch: GuestBatch) -> None:
    texts: list[str] = []
    elements = enumerate(batch)
    for at, element in elements:
        result = _attempt(call, element)
        if type(result) is str:
            texts.append(result)
            continue
        outputs.add_texts(texts)
        # A generator runs here, before the next element.
        outputs.add_safely(at, _identity, result)
        break
    else:
        outputs.add_texts(texts)
    for at, element in elements:
        outputs.add_safely(at, call, element)


def _identity(result: Any) -> Any:
    return result


def ingest(batch: GuestBatch) -> Any:
    outputs, component = Outputs(), adapter.component
    if adapter.has_batch_method():
        outputs.add(len(batch) - 1, component.ingest_batch(batch))
        return outputs.finish()
    for at, element in enumerate(batch):
        outputs.add_safely(at, component.ingest, element)
    return outputs.finish()


def evaluate(batch: GuestBatch) -> Any:
    outputs, verdicts, component = Outputs(), bytearray(), adapter.component
    reason = ""
    if adapter.has_batch_method():
        entries = _entries(component.evaluate_batch(batch), batch, "evaluate_batch")
    else:
        entries = [_attempt(component.evaluate, element) for element in batch]
    for at, entry in enumerate(entries):
        if entry is True or entry is Verdict.PASS:
            verdicts.append(0)
            continue
        if isinstance(entry, Verdict) and entry.kind == "block":
            reason = reason or entry.reason or ""
        verdicts.append(_verdict(outputs, at, entry))
    return wire.Verdicts(bytes(verdicts), outputs.finish(), reason)


def _verdict(outputs: Outputs, at: int, entry: Any) -> int:
    if entry is False:
        return 1
    if isinstance(entry, Verdict):
        if entry.kind == "replace":
            outputs.add_safely(at, lambda: entry.text)
        return _VERDICTS[entry.kind]
    if not isinstance(entry, Exception):
        entry = adapter.wrong_result(entry, "bool or Verdict")
    outputs.fail(at, entry)
    return 1


def _attempt(call: Callable[..., Any], element: Any) -> Any:
    try:
        return call(element)
    except Exception as error:
        return error


def push(batch: GuestBatch) -> Any:
    component, failures = adapter.component, []
    if adapter.has_batch_method():
        result = component.push_batch(batch)
        if isinstance(result, (list, tuple)):
            entries = enumerate(_entries(result, batch, "push_batch"))
            failures = [(at, entry) for at, entry in entries if entry is not None]
            result = None
        return _pushed(len(batch), adapter.signal_of(result), failures)
    for at, element in enumerate(batch):
        result = _attempt(component.push, element)
        if isinstance(result, Exception):
            failures.append((at, result))
        elif adapter.signal_of(result) is Signal.PAUSE:
            return _pushed(at + 1, Signal.PAUSE, failures)
    return _pushed(len(batch), Signal.READY, failures)


def _pushed(taken: int, signal: Signal, failures: list[tuple[int, Any]]) -> Any:
    listed = [wire.Failure(at, adapter.process_error(error)) for at, error in failures]
    return wire.Pushed(taken, types.BackpressureSignal[signal.name], listed)


class BatchProcessor:
    def process_batch(self, batch: Any, context: Any) -> Any:
        return _run(process, batch, context)


class BatchAggregator:
    def ingest_batch(self, batch: Any, context: Any) -> Any:
        return _run(ingest, batch, context)


class BatchFilter:
    def evaluate_batch(self, batch: Any, context: Any) -> Any:
        return _run(evaluate, batch, context)


class BatchSink:
    def push_batch(self, batch: Any, context: Any) -> Any:
        return _run(push, batch, context)


__all__ = ["BatchAggregator", "BatchFilter", "BatchProcessor", "BatchSink"]
