"""Collects spans and metrics and sends them to a collector, from its own thread.

`put` never blocks. What the collector does not accept now goes to a spool on disk and is sent
later, oldest first, by this process or the next one. Without a spool, spans wait in a queue in
memory. Whatever is dropped is counted.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from torvyn._durable.backend import MIN_LOG_BYTES
from torvyn._io.backoff import Backoff
from torvyn._observe.metrics import Collect, Metric
from torvyn._observe.otlp_messages import metrics_request, traces_request
from torvyn._observe.otlp_sender import SIGNALS, Endpoint, Request, Sender, Signal
from torvyn._observe.otlp_spool import Spool
from torvyn._observe.spans import Span
from torvyn.errors import StoreUnavailable, TorvynError

logger = logging.getLogger("torvyn.observe")

MIN_SPOOL_BYTES: Final = len(SIGNALS) * MIN_LOG_BYTES
_LONGEST_PAUSE_S: Final = 30.0
_WAITING_METRICS: Final = 60
"""Without a spool, so many snapshots of metrics wait; a later one makes up for most of an older."""


class OtlpExporter:
    """Starts its thread at once; `close` sends or spools the rest, within its time limit."""

    def __init__(
        self,
        endpoint: str,
        *,
        protocol: str = "http",
        headers: str = "",
        service: str = "torvyn",
        attributes: Mapping[str, str] | None = None,
        spool: Path | None = None,
        spool_bytes: int = 32 * MIN_LOG_BYTES,
        capacity: int = 2048,
        batch: int = 256,
        every_s: float = 1.0,
        metrics_every_s: float = 10.0,
        timeout_s: float = 5.0,
        close_s: float = 2.0,
    ) -> None:
        """`endpoint` is the collector's address, such as `http://127.0.0.1:4318`; `protocol` is
        `http` or `grpc`. The queue holds up to `capacity` spans; they are sent every `every_s`, or
        as soon as a batch is full. Raises `ValueError` if `spool_bytes` is below
        `MIN_SPOOL_BYTES`."""
        if spool_bytes < MIN_SPOOL_BYTES:
            raise ValueError(f"spool_bytes must be at least {MIN_SPOOL_BYTES}, got {spool_bytes}")
        self._sender = _make_sender(Endpoint.parse(endpoint, headers), protocol, timeout_s)
        self._resource = {
            "service.name": service,
            "host.name": socket.gethostname(),
            **(attributes or {}),
        }
        self._capacity, self._batch = capacity, batch
        self._every_s, self._metrics_every_s, self._close_s = every_s, metrics_every_s, close_s
        self._queue: deque[Span] = deque()
        self._snapshots: deque[Request] = deque()
        self._collects: list[Collect] = []
        self._changed = threading.Condition()
        self._is_closing = self._is_aborted = self._has_warned = False
        self._backoff = Backoff(every_s, _LONGEST_PAUSE_S)
        self._retry_at_s = 0.0
        self._start_ns, self._metrics_due_s = time.time_ns(), 0.0
        self._sent: Counter[Signal] = Counter()
        self._dropped: Counter[Signal] = Counter()
        self._spool_path, self._spool_bytes = spool, spool_bytes
        self._spool: Spool | None = None
        self._has_backlog = False
        self._thread = threading.Thread(target=self._run, name="torvyn-otlp", daemon=True)
        self._thread.start()

    @property
    def queue_length(self) -> int:
        """Spans that wait in memory."""
        return len(self._queue)

    @property
    def sent(self) -> int:
        """Spans that the collector accepted, with those that an earlier process spooled."""
        return self._sent["traces"]

    @property
    def dropped(self) -> int:
        """Spans that no collector will get."""
        return self.dropped_of("traces")

    @property
    def points_sent(self) -> int:
        """Data points of metrics that the collector accepted."""
        return self._sent["metrics"]

    def dropped_of(self, signal: Signal) -> int:
        """Spans (`traces`) or data points (`metrics`) that no collector will get."""
        spool = self._spool
        return self._dropped[signal] + (0 if spool is None else spool.dropped[signal])

    def put(self, span: Span) -> None:
        """Sends a span soon. It is dropped and counted when the queue is full."""
        with self._changed:
            if self._is_closing or len(self._queue) >= self._capacity:
                self._dropped["traces"] += 1
                return
            self._queue.append(span)
            # Only once per batch: waking the thread for every span would slow the caller.
            if len(self._queue) == self._batch:
                self._changed.notify()

    def collect(self, collect: Collect) -> None:
        """Sends these metrics every `metrics_every_s`, and once more at the end."""
        with self._changed:
            self._collects.append(collect)

    def close(self) -> None:
        """Drops and counts the spans that can be neither sent nor spooled in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(self._close_s / 2)
        if self._thread.is_alive():
            self._is_aborted = True
            self._sender.abort()
            self._thread.join(self._close_s / 2)
        with self._changed:
            self._dropped["traces"] += len(self._queue)
            self._queue.clear()
        for signal, what in (("traces", "trace spans"), ("metrics", "data points")):
            if dropped := self.dropped_of(signal):  # type: ignore[arg-type]
                logger.warning("%d %s were dropped", dropped, what)

    # On the exporter's thread

    def _run(self) -> None:
        if self._spool_path is not None and self._spool_path.exists():
            self._open_spool()  # left by an earlier process
        while not self._is_closing:
            self._wait()
            self._work()
        self._metrics_due_s = self._retry_at_s = 0.0
        self._work()
        self._sender.close()
        if self._spool is not None:
            self._spool.close()

    def _open_spool(self) -> None:
        """Not before there is something to store; not again if it failed."""
        path, self._spool_path = self._spool_path, None
        if path is None:
            return
        try:
            self._spool = Spool(path, self._spool_bytes)
            self._has_backlog = self._spool.length > 0
        except TorvynError as error:
            logger.warning("telemetry is kept in memory only: %s", error.message)

    def _spooled(self, request: Request) -> bool:
        self._open_spool()
        return self._spool is not None and self._spool.append(request, time.time_ns())

    def _wait(self) -> None:
        def is_due() -> bool:
            # After a failure, a full batch does not shorten the pause.
            is_full = len(self._queue) >= self._batch
            return self._is_closing or (is_full and self._can_send)

        with self._changed:
            self._changed.wait_for(is_due, self._every_s)

    @property
    def _can_send(self) -> bool:
        return not self._is_aborted and time.monotonic() >= self._retry_at_s

    def _work(self) -> None:
        """Spans and metrics go to the collector; to the spool if it is away or behind."""
        self._snapshot_metrics()
        try:
            if self._has_backlog and self._can_send and not self._is_closing:
                self._drain_spool()
            while (taken := self._next_spans()) and self._deliver(*taken):
                pass
            while self._snapshots and self._deliver(self._snapshots[0], self._snapshots.popleft):
                pass
            if self._has_backlog and self._can_send:
                self._drain_spool()
        except StoreUnavailable as error:
            logger.debug("the spool is unavailable: %s", error.message)

    def _next_spans(self) -> tuple[Request, Any] | None:
        """A request with the oldest spans, and what removes them from the queue."""
        with self._changed:
            spans = list(islice(self._queue, self._batch))
        if not spans:
            return None
        body = traces_request(spans, self._resource)
        while self._spool is not None and len(body) > self._spool.max_request_bytes:
            spans = spans[: max(len(spans) // 2, 1)]
            body = traces_request(spans, self._resource)
            if len(spans) == 1:
                break

        def remove() -> None:
            with self._changed:
                for _ in range(min(len(spans), len(self._queue))):
                    self._queue.popleft()

        return Request("traces", body, len(spans)), remove

    def _snapshot_metrics(self) -> None:
        if not self._collects or time.monotonic() < self._metrics_due_s:
            return
        self._metrics_due_s = time.monotonic() + self._metrics_every_s
        metrics = list(self._metrics())
        count = sum(len(metric.points) for metric in metrics)
        body = metrics_request(metrics, self._resource, self._start_ns, time.time_ns())
        self._snapshots.append(Request("metrics", body, count))
        if len(self._snapshots) > _WAITING_METRICS:
            self._dropped["metrics"] += self._snapshots.popleft().count

    def _metrics(self) -> Iterator[Metric]:
        for collect in tuple(self._collects):
            try:
                yield from (metric for metric in collect() if metric.points)
            except Exception:
                logger.debug("metrics could not be collected", exc_info=True)

    def _deliver(self, request: Request, remove: Any) -> bool:
        """Sends or spools a request, and removes it from where it waited."""
        is_done = not self._has_backlog and self._can_send and self._send(request)
        if not is_done:
            if not self._spooled(request):
                return False
            self._has_backlog = True
        remove()
        return True

    def _send(self, request: Request) -> bool:
        """False if it must be sent again."""
        result = self._sender.send(request)
        if result.is_final:
            self._sent[request.signal] += request.count - result.rejected
            self._dropped[request.signal] += result.rejected
            self._backoff.reset()
        else:
            delay_s = self._backoff.next_delay_s(result.retry_after_s)
            self._retry_at_s = time.monotonic() + delay_s
        self._warn(result.problem)
        return result.is_final

    def _drain_spool(self) -> None:
        spool = self._spool
        assert spool is not None
        while page := spool.page():
            sent = None
            for spooled in page:
                if not self._send(spooled.request):
                    break
                sent = spooled
            if sent is not None:
                spool.remove(sent)
            if sent is not page[-1] or self._is_closing:
                return
        self._has_backlog = False

    def _warn(self, problem: str) -> None:
        """Warns once, until the collector accepts everything again."""
        if problem and not self._has_warned:
            logger.warning("the telemetry collector %s", problem)
        self._has_warned = bool(problem)


def _make_sender(endpoint: Endpoint, protocol: str, timeout_s: float) -> Sender:
    if protocol == "grpc":
        from torvyn._observe.otlp_sender import GrpcSender

        return GrpcSender(endpoint, timeout_s)
    from torvyn._observe.otlp_sender import HttpSender

    return HttpSender(endpoint, timeout_s)
