"""A running flow whose processor is exchanged for versions that fail, and a model of its output."""

import asyncio
import threading
import time
from dataclasses import replace

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink, check_account
from torvyn.testing import as_variant as variant_of

MODES = ("python", "thread", "async")
RAISING = ("init", "restore", "first", "every", "fifth")
HANGING = ("init hangs", "restore hangs", "first hangs", "fifth hangs")
TIMEOUT_S = 0.5
WAIT_S = 30


class Count(torvyn.Processor):
    """Numbers what it receives. Fails as `fault` says, until `gate` opens."""

    def __init__(self, fault=None, gate=None):
        super().__init__()
        self.fault, self.gate, self.count, self.calls = fault, gate, 0, 0
        self.is_waiting = threading.Event()

    def init(self, config):
        self.fail("init")

    def process(self, element):
        self.calls += 1
        if self.is_at_fault():
            self.fail(self.fault.removesuffix(" hangs"))
        return self.answer(element)

    def answer(self, element):
        self.count += 1
        return f"{element.text}:{self.count}"

    def is_at_fault(self):
        at = {"first": self.calls == 1, "every": True, "fifth": self.calls == 5}
        return self.fault is not None and at.get(self.fault.split()[0], False)

    def fail(self, at):
        if self.fault == at:
            raise ValueError(f"broken: {at}")
        if self.fault == f"{at} hangs":
            self.is_waiting.set()
            assert self.gate.wait(WAIT_S)


class Stateful(Count):
    def snapshot(self):
        self.fail("snapshot")
        return self.count

    def restore(self, state):
        self.fail("restore")
        self.count = state


class Stateless(Count):
    def answer(self, element):
        return f"{element.text}:{int(element.text) + 1}"


def version(mode, has_state=True, fault=None, gate=None):
    kind = Stateful if has_state else Stateless
    if mode != "async":
        return variant_of(kind(fault, gate), mode)

    class Async(kind):
        async def process(self, element):
            self.calls += 1
            if self.is_at_fault() and self.fault == "first blocks":
                self.gate.wait(WAIT_S)
            elif self.is_at_fault() and self.fault.endswith("hangs"):
                while not self.gate.is_set():
                    await asyncio.sleep(0.01)
            elif self.is_at_fault():
                self.fail(self.fault)
            return self.answer(element)

    return Async(fault, gate)


class Numbers(torvyn.Source):
    """Sends numbers: as many as are asked for, or under load as many as fit, until it is told to
    stop."""

    def __init__(self, is_loaded, text=str):
        super().__init__()
        self.text = text
        self.is_loaded, self.asked, self.sent, self.has_stopped = is_loaded, 0, 0, False

    def pull(self):
        if self.sent < self.asked or (self.is_loaded and not self.has_stopped):
            self.sent += 1
            return self.text(self.sent - 1)
        return None if self.has_stopped else torvyn.PENDING.after(0.001)


class SwappedProcessor:
    """Runs numbers -> node -> sink; `finish` compares what arrived with the model."""

    def __init__(self, old, is_loaded=False, answer=None, text=str, config=None):
        """`answer`: what the old version makes of a number, `text` what the source does."""
        self.answer = answer or (lambda number: f"{number}:{number + 1}")
        self.numbers, self.sink = Numbers(is_loaded, text), CollectingSink()
        self.flow = torvyn.Flow().add("numbers", self.numbers).add("node", old, config=config)
        self.flow.add("sink", self.sink)
        self.flow.connect("numbers", "node").connect("node", "sink")
        self.beside = Numbers(is_loaded=False)
        self.sink_beside = CollectingSink()
        self.flow.add("beside", self.beside).add("other", self.sink_beside)
        self.flow.connect("beside", "other")
        self.flow.start()
        self.let_pass(20)

    def let_pass(self, elements):
        """Waits until so many more elements have arrived."""
        goal = len(self.sink.texts) + elements
        self.numbers.asked = max(self.numbers.asked, self.numbers.sent) + elements
        until(lambda: len(self.sink.texts) >= goal, self.flow)

    def let_pass_beside(self, elements):
        """The same in a part of the flow that is not swapped."""
        goal = len(self.sink_beside.texts) + elements
        self.beside.asked += elements
        until(lambda: len(self.sink_beside.texts) >= goal, self.flow)

    def swap(self, new, init_timeout_s=None, **options):
        """Returns why the new version is gone again."""
        returns = self.returns
        node = self.flow._new_node("node", new, None)
        if init_timeout_s is not None:
            node = replace(node, init_timeout_s=init_timeout_s)
        try:
            self.flow._swap_node(node, **options)
        except FlowError as error:
            return str(error)
        self.numbers.asked = self.numbers.sent + 10
        until(lambda: self.returns > returns, self.flow)
        return self.flow.swaps[-1].error

    @property
    def returns(self):
        return sum(report.is_return for report in self.flow.swaps)

    def stop(self):
        self.numbers.has_stopped = self.beside.has_stopped = True
        assert self.flow.wait(WAIT_S)

    def finish(self):
        self.let_pass(20)
        self.stop()
        assert self.sink.texts == [self.answer(n) for n in range(self.numbers.sent)]
        check_account(self.flow.statistics)


def until(holds, flow):
    give_up_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < give_up_s
        assert not flow.wait(0), flow.error
        threading.Event().wait(0.001)


class Batched(Stateless):
    """Takes what waits in one call, and fails with some of it."""

    def process_batch(self, batch):
        return [self.result(element) for element in batch]

    def process(self, element):
        result = self.result(element)
        if isinstance(result, Exception):
            raise result
        return result

    def result(self, element):
        self.calls += 1
        fails = self.is_at_fault() or (self.fault == "thirds" and self.calls % 3 == 1)
        return ValueError(f"broken: {self.fault}") if fails else self.answer(element)


def batched(mode, fault=None):
    if mode != "async":
        return variant_of(Batched(fault), mode)

    class Async(Batched):
        async def process_batch(self, batch):
            return [self.result(element) for element in batch]

        async def process(self, element):
            return super().process(element)

    return Async(fault)
