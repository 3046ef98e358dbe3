"""Runs inside the universal guest: a component of any role, serialized in the config.

Copied into the guest, never imported by the host. Before each call the guest reads state updates
from the test; after each call it reports what changed in the component.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import functools
import io
import itertools
import json
import math
import operator
import pickle
import random
import re
import sys
import threading
import time
from typing import Any

import torvyn
from torvyn._contract.config import init_argument
from torvyn._sandbox.guest import (
    adapter,
    as_aggregator,
    as_filter,
    as_processor,
    as_router,
    as_sink,
    as_source,
)
from torvyn.testing import _components, _rebuild_source

STANDARD = (collections, contextlib, functools, itertools, json, math, operator, random, re, time)
INCLUDED = (_components, _rebuild_source, threading, torvyn)
"""A guest cannot import later, so this module imports what components of tests may use."""

REPORT_START, REPORT_CONTINUES = "\x1e", "\x1f"
LINE_CHARS = 4_000
"""The host cuts lines of more than 4096 bytes from a guest that may not print."""


class Node:
    """Records the calls of a component to its node, for the next report."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


class StateReporter:
    """Reports changes of the component's state to the host."""

    def __init__(self, component: Any, captured: list[Any]) -> None:
        self.component, self.captured = component, captured
        self.node = component._node = Node()
        self.reported: dict[Any, Any] = {}
        self.changes()

    def changes(self) -> list[tuple[Any, str, Any]]:
        changes = []
        state = {name: value for name, value in vars(self.component).items() if name != "_node"}
        for key, value in (*state.items(), *enumerate(self.captured)):
            if callable(value):
                continue
            known = self.reported.get(key, ...)
            if isinstance(value, list) and isinstance(known, list):
                if value[: len(known)] == known:
                    if len(value) > len(known):
                        changes.append((key, "tail", value[len(known) :]))
                else:
                    changes.append((key, "all", list(value)))
            elif known is not value and (known is ... or known != value):
                changes.append((key, "all", value))
            copies = isinstance(value, (list, dict, set))
            self.reported[key] = value.copy() if copies else value
        return changes

    def report(self) -> None:
        changes = [change for change in self.changes() if _is_picklable(change)]
        calls, self.node.calls = self.node.calls, []
        if changes or calls:
            text = base64.b85encode(pickle.dumps((changes, calls))).decode()
            for at in range(0, len(text), LINE_CHARS):
                is_last = at + LINE_CHARS >= len(text)
                end = REPORT_START if is_last else REPORT_CONTINUES
                print(f"{REPORT_START}{text[at : at + LINE_CHARS]}{end}")
        sys.stdout.flush()


def _is_picklable(change: Any) -> bool:
    try:
        return bool(pickle.dumps(change))
    except Exception:
        return False


# Wait for `wake` or `resume`, as in-process.
adapter.poll_delay_ns = as_source.MAX_DELAY_NS

reporter: StateReporter | None = None
update_folder = ""
updates_read = 0


def load_component(config: str) -> None:
    global reporter, update_folder
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    serialized, update_folder, own_config = json.loads(config)
    load = pickle.Unpickler(io.BytesIO(base64.b85decode(serialized))).load
    cls, state = load()
    component = cls.__new__(cls)
    vars(component).update(state)
    reporter = StateReporter(component, load())
    adapter.component = component
    component.init(init_argument(component, own_config))


def read_updates() -> None:
    """Applies the changes that the test made to its object since the last call."""
    global updates_read
    while True:
        try:
            with open(f"{update_folder}/{updates_read}", "rb") as update:
                vars(adapter.component).update(pickle.load(update))
        except FileNotFoundError:
            return
        updates_read += 1


def synchronized(call: Any) -> Any:
    """Reads updates before the call and reports changes after it."""

    @functools.wraps(call)
    def wrapper(*arguments: Any) -> Any:
        if reporter is not None:
            read_updates()
        try:
            return call(*arguments)
        finally:
            if reporter is not None:
                reporter.report()

    return wrapper


class Lifecycle:
    @synchronized
    def init(self, config: str) -> None:
        adapter.call_component(load_component, config)

    @synchronized
    def teardown(self) -> None:
        adapter.stop()


class PolledSource:
    pull = synchronized(as_source.PolledSource.pull)
    notify_backpressure = synchronized(as_source.PolledSource.notify_backpressure)


class Expander:
    process = synchronized(as_processor.Expander.process)
    flush = synchronized(as_processor.Expander.flush)


class Guard:
    evaluate = synchronized(as_filter.Guard.evaluate)


class Router:
    route = synchronized(as_router.Router.route)


class Aggregator:
    ingest = synchronized(as_aggregator.Aggregator.ingest)
    flush = synchronized(as_aggregator.Aggregator.flush)


class Sink:
    push = synchronized(as_sink.Sink.push)
    complete = synchronized(as_sink.Sink.complete)
