"""The test kit inside a guest: a component of any role, which comes as a parcel in the config.

Copied into the guest, never imported by the host. After each call the guest tells what has changed
in the component, so that the test's own object shows it; before each call it reads its letters.
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
from torvyn.sandbox.guest import (
    adapter,
    as_aggregator,
    as_filter,
    as_processor,
    as_router,
    as_sink,
    as_source,
)
from torvyn.testing import components, rebuild_source

STANDARD = (collections, contextlib, functools, itertools, json, math, operator, random, re, time)
PACKED = (components, rebuild_source, threading, torvyn)
"""A guest cannot import later: what components of tests may use is imported here."""

MARK, MORE = "\x1e", "\x1f"
CHUNK = 32_000


class Node:
    """What a running component asks of its node goes to the host with the next report."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.asked.append(name)


class Mirror:
    """What the host knows of the component's state."""

    def __init__(self, component: Any, captured: list[Any]) -> None:
        self.component, self.captured = component, captured
        self.node = component._node = Node()
        self.known: dict[Any, Any] = {}
        self.changes()

    def changes(self) -> list[tuple[Any, str, Any]]:
        found = []
        state = {name: value for name, value in vars(self.component).items() if name != "_node"}
        for key, value in (*state.items(), *enumerate(self.captured)):
            if callable(value):
                continue
            known = self.known.get(key, ...)
            if isinstance(value, list) and isinstance(known, list):
                if value[: len(known)] == known:
                    if len(value) > len(known):
                        found.append((key, "tail", value[len(known) :]))
                else:
                    found.append((key, "all", list(value)))
            elif known is not value and (known is ... or known != value):
                found.append((key, "all", value))
            copies = isinstance(value, (list, dict, set))
            self.known[key] = value.copy() if copies else value
        return found

    def report(self) -> None:
        changes = [change for change in self.changes() if _travels(change)]
        asked, self.node.asked = self.node.asked, []
        if changes or asked:
            text = base64.b85encode(pickle.dumps((changes, asked))).decode()
            for at in range(0, len(text), CHUNK):
                end = MARK if at + CHUNK >= len(text) else MORE
                print(f"{MARK}{text[at : at + CHUNK]}{end}")
        sys.stdout.flush()


def _travels(change: Any) -> bool:
    try:
        return bool(pickle.dumps(change))
    except Exception:
        return False


# Until the test says `wake` or `resume`, as in-process.
adapter.patience_ns = as_source.LONGEST_NS

mirror: Mirror | None = None
letters = ""
read = 0


def open_parcel(config: str) -> None:
    global mirror, letters
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parcel, letters, own_config = json.loads(config)
    load = pickle.Unpickler(io.BytesIO(base64.b85decode(parcel))).load
    cls, state = load()
    component = cls.__new__(cls)
    vars(component).update(state)
    mirror = Mirror(component, load())
    adapter.component = component
    component.init(own_config)


def read_letters() -> None:
    """What the test changed in its object since the last call."""
    global read
    while True:
        try:
            with open(f"{letters}/{read}", "rb") as letter:
                vars(adapter.component).update(pickle.load(letter))
        except FileNotFoundError:
            return
        read += 1


def told(call: Any) -> Any:
    @functools.wraps(call)
    def calls(*arguments: Any) -> Any:
        if mirror is not None:
            read_letters()
        try:
            return call(*arguments)
        finally:
            if mirror is not None:
                mirror.report()

    return calls


class Lifecycle:
    @told
    def init(self, config: str) -> None:
        adapter.guarded(open_parcel, config)

    @told
    def teardown(self) -> None:
        adapter.stop()


class PolledSource:
    pull = told(as_source.PolledSource.pull)
    notify_backpressure = told(as_source.PolledSource.notify_backpressure)


class Expander:
    process = told(as_processor.Expander.process)
    flush = told(as_processor.Expander.flush)


class Guard:
    evaluate = told(as_filter.Guard.evaluate)


class Router:
    route = told(as_router.Router.route)


class Aggregator:
    ingest = told(as_aggregator.Aggregator.ingest)
    flush = told(as_aggregator.Aggregator.flush)


class Sink:
    push = told(as_sink.Sink.push)
    complete = told(as_sink.Sink.complete)
