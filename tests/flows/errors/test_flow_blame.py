"""Whatever a component does, the error has a code, names the node, and blames nobody else."""

import asyncio
import threading
from itertools import pairwise

import hostile_components as hostile
import pytest
from hostile_components import (
    ANSWERED,
    CALLED,
    CULPRIT,
    HARMLESS,
    ITERATED,
    METACLASSES,
    MODES,
    READ,
)

import torvyn
from torvyn._contract.roles import METHODS, ROLES
from torvyn._io.background_loop import background_loop
from torvyn.errors import BugError, ContractError, Fatal, FlowError, LinkError, TorvynError
from torvyn.testing import CollectingSink, ScriptedSource

EVERY_ROLE = pytest.mark.parametrize("role", ROLES)
EVERY_MODE = pytest.mark.parametrize("mode", MODES)


class Neighbour(torvyn.Processor):
    """Counts how often it was started and torn down."""

    def __init__(self):
        super().__init__()
        self.started = self.torn = 0

    def init(self, config):
        self.started += 1

    def process(self, element):
        return element

    def teardown(self):
        self.torn += 1


def around(role, component):
    """A flow in which the component has its role under the name `culprit`, and its neighbour."""
    flow, neighbour = torvyn.Flow(), Neighbour()
    order = {
        "source": [CULPRIT, "neighbour", "sink"],
        "sink": ["source", "neighbour", CULPRIT],
    }.get(role, ["source", "neighbour", CULPRIT, "sink"])
    parts = {"source": ScriptedSource(["1", "2", "3"]), "sink": CollectingSink()}
    parts |= {"neighbour": neighbour, CULPRIT: component}
    for name in order:
        flow.add(name, parts[name])
    for left, right in pairwise(order):
        flow.connect(f"{left}:a" if left == CULPRIT and role == "router" else left, right)
    return flow, neighbour


def run_on_loop(flow):
    asyncio.run(flow.run_async())


DRIVERS = (torvyn.Flow.run, run_on_loop)


def failure(role, component, drive):
    """What the flow raises; whatever was started has been torn down by then."""
    flow, neighbour = around(role, component)
    with pytest.raises(TorvynError) as caught:
        drive(flow)
    assert neighbour.torn == neighbour.started
    assert not isinstance(caught.value, BugError)
    assert f"`{CULPRIT}`" in caught.value.message
    return caught.value


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", READ)
def test_an_attribute_that_cannot_be_used_is_found_before_the_flow_starts(role, mode, case):
    component = hostile.make_hostile(role, mode, READ[case](role))

    error = failure(role, component, torvyn.Flow.run)

    assert isinstance(error, LinkError)
    assert error.code in ("contract.bad-attribute", "contract.wrong-signature")


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", CALLED)
def test_what_a_call_raises_names_the_node_and_the_method(role, mode, case):
    method = METHODS[role]
    for drive in DRIVERS:
        raised = CALLED[case]()
        component = hostile.make_hostile(role, mode, {method: hostile.raising(raised)})

        error = failure(role, component, drive)

        assert f"failed in `{method}`" in error.message
        assert error.node == CULPRIT
        is_plain = isinstance(raised, Exception) or "cancelled" in error.message
        assert error.code == ("component.internal" if is_plain else "component.fatal")


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", CALLED)
def test_what_init_raises_names_the_node(role, mode, case):
    for drive in DRIVERS:
        raised = CALLED[case]()
        component = hostile.make_hostile(role, mode, {"init": hostile.raising(raised)})

        error = failure(role, component, drive)

        assert error.code == "reactor.init-failed"
        assert f"failed in `init`: {type(raised).__name__}" in error.message


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", CALLED)
def test_what_teardown_raises_is_logged_with_its_node(role, mode, case, caplog):
    component = hostile.make_hostile(role, mode, {"teardown": hostile.raising(CALLED[case]())})
    flow, neighbour = around(role, component)

    flow.run()

    assert (flow.state, neighbour.torn) == ("completed", 1)
    assert f"node `{CULPRIT}` failed in `teardown`" in caplog.text
    assert background_loop().is_running()


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", ANSWERED)
def test_a_wrong_answer_is_a_breach_of_the_contract(role, mode, case):
    method = METHODS[role]
    component = hostile.make_hostile(role, mode, {method: hostile.giving(ANSWERED[case])})

    error = failure(role, component, torvyn.Flow.run)

    # Objects that raise when they are iterated have been asked for their items.
    codes = ("contract.wrong-result", "component.internal")
    assert error.code in (codes if role == "router" else codes[:1])


@pytest.mark.parametrize("role", ["processor", "filter", "aggregator"])
@EVERY_MODE
@pytest.mark.parametrize("case", ANSWERED)
def test_a_wrong_answer_of_flush_is_a_breach_of_the_contract(role, mode, case):
    component = hostile.make_hostile(role, mode, {"flush": hostile.giving(ANSWERED[case])})

    error = failure(role, component, torvyn.Flow.run)

    assert error.code == "contract.wrong-result"
    assert "failed in `flush`" in error.message


@pytest.mark.parametrize("mode", ["inline", "thread"])
@pytest.mark.parametrize("case", ITERATED)
def test_an_iter_that_gives_no_iterator_is_the_sources_fault(mode, case):
    for drive in DRIVERS:
        methods = {"__iter__": ITERATED[case], "pull": None}
        component = hostile.make_hostile("source", mode, methods)

        error = failure("source", component, drive)

        is_raised = case in CALLED
        assert isinstance(error, FlowError if is_raised else ContractError)
        if not is_raised:
            assert error.code == "contract.wrong-result"
            assert "`__iter__` returned" in error.message


@pytest.mark.parametrize("case", ITERATED)
def test_an_aiter_that_gives_no_iterator_is_the_sources_fault(case):
    for drive in DRIVERS:
        methods = {"__aiter__": ITERATED[case], "pull": None}
        component = hostile.make_hostile("source", "inline", methods)

        error = failure("source", component, drive)

        if case not in CALLED:
            assert error.code == "contract.wrong-result"
            assert "`__aiter__` returned" in error.message


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("case", HARMLESS)
def test_what_torvyn_never_asks_of_a_component_does_not_matter(role, mode, case):
    flow, _ = around(role, hostile.make_hostile(role, mode, HARMLESS[case]))

    flow.run()

    assert flow.state == "completed"


@EVERY_ROLE
@EVERY_MODE
@pytest.mark.parametrize("meta", METACLASSES)
def test_an_odd_metaclass_does_not_matter(role, mode, meta):
    flow, _ = around(role, hostile.make_hostile(role, mode, {}, meta))

    flow.run()

    assert flow.state == "completed"


@pytest.mark.parametrize("make", [hostile.Liar, lambda: 5, lambda: None])
def test_what_is_no_component_is_refused(make):
    with pytest.raises(ContractError) as caught:
        torvyn.Flow(["a"], make())

    assert caught.value.code == "contract.not-a-component"


@pytest.mark.parametrize("policy", ["skip", {"policy": "retry", "max": 3}])
def test_no_policy_lives_with_a_component_that_exits(policy):
    calls = []

    def leave(element):
        calls.append(element.text)
        raise SystemExit(3)

    flow = torvyn.Flow(["a", "b"], torvyn.processor(leave), CollectingSink(), on_error=policy)

    with pytest.raises(Fatal, match=r"node `processor` failed .* on element 0: SystemExit: 3"):
        flow.run()

    assert calls == ["a"]
    assert flow.state == "failed"


def interrupting(element):
    raise KeyboardInterrupt


def test_a_keyboard_interrupt_on_the_main_thread_interrupts_and_tells_where():
    flow = torvyn.Flow(["a"], torvyn.processor(interrupting), CollectingSink())

    with pytest.raises(KeyboardInterrupt) as caught:
        flow.run()

    assert flow.state == "cancelled"
    assert "node `processor` failed in `process` on element 0" in caught.value.__notes__[0]


def test_a_keyboard_interrupt_on_another_thread_is_the_components_own():
    flow = torvyn.Flow(["a"], torvyn.processor(interrupting), CollectingSink())
    raised = []

    def drive():
        try:
            flow.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join()

    assert [type(error) for error in raised] == [Fatal]
    assert raised[0].node == "processor"


@pytest.mark.parametrize("run", ["thread", "async"])
def test_a_keyboard_interrupt_of_a_stage_elsewhere_is_its_own(run):
    component = hostile.make_hostile("processor", run, {"process": lambda *_: interrupting(None)})

    error = failure("processor", component, torvyn.Flow.run)

    assert error.code == "component.fatal"
