"""What tests of answers through flows are made of: flows with stages here and elsewhere."""

from __future__ import annotations

import asyncio
import threading

import torvyn
from torvyn.components import Blocklist, Sentence


def blocks(*words, action="block", **config):
    return Blocklist({"words": [*words], "mode": "stream", "action": action, **config})


class Upper(torvyn.Processor):
    def process(self, element):
        return element.text.upper()


class AsyncUpper(torvyn.Processor):
    async def process(self, element):
        return element.text.upper()


class ThreadUpper(Upper):
    run = "thread"


class Stuck(torvyn.Processor):
    """Never gives anything back, until it is let go."""

    begun = threading.Event()

    async def process(self, element):
        self.begun.set()
        await asyncio.Event().wait()


class Fails(torvyn.Processor):
    """Fails at a word, after what came before it."""

    def process(self, element):
        if "bad" in element.text:
            raise torvyn.InvalidInput("a bad word")
        return element.text


class AsyncFails(Fails):
    async def process(self, element):
        return super().process(element)


class Footer(torvyn.Processor):
    """Adds text at the end."""

    def process(self, element):
        return element.text

    def flush(self):
        return ["(end)"]


STAGES = {"inline": Upper, "async": AsyncUpper, "thread": ThreadUpper}


def upper_flow(where, **options):
    """Makes flows that capitalise: here, on a loop, or on a thread; then sentences."""
    return lambda: torvyn.Flow(STAGES[where](), Sentence(), **options)
