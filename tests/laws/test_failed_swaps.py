"""A version that fails or hangs is gone again, in every pair of run modes: the old one goes on, no
element is lost or repeated, and the order is kept."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faulty_versions import (
    HANGING,
    MODES,
    RAISING,
    TIMEOUT_S,
    WAIT_S,
    SwappedProcessor,
    batched,
    version,
)
from scale import sample

import torvyn
from torvyn._sandbox.component import guest_class
from torvyn.errors import FlowError, TorvynError
from torvyn.testing import as_variant as variant_of

GUESTS = Path(__file__).parents[1] / "sandbox" / "guests"
EVERY_PAIR = [(old, new) for old in MODES for new in MODES]
FEW_PAIRS = [("python", "thread"), ("thread", "async"), ("async", "python")]
THREE = [(good, broken, fix) for good in MODES for broken in MODES for fix in MODES]


def over(names, quick, *, full):
    return pytest.mark.parametrize(names, sample(quick, full=full), ids=str)


pairs = over(("old", "new"), FEW_PAIRS, full=EVERY_PAIR)
one_pair = over(("old", "new"), FEW_PAIRS[:1], full=EVERY_PAIR)
states = pytest.mark.parametrize("has_state", [True, False], ids=["state", "no-state"])
loads = over("is_loaded", [True], full=[True, False])


@pytest.fixture
def gate():
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.mark.promise("edge.failed-swaps")
@pairs
@states
@loads
@over("fault", ["restore", "first", "fifth"], full=RAISING)
def test_the_old_version_goes_on_after_one_that_raises(old, new, has_state, is_loaded, fault, gate):
    if fault == "restore" and not has_state:
        return
    run = SwappedProcessor(version(old, has_state), is_loaded)
    why = run.swap(version(new, has_state, fault, gate))
    run.finish()

    assert f"broken: {fault}" in why


@pytest.mark.promise("edge.failed-swaps")
@pairs
@over("has_state", [True], full=[True, False])
@loads
@over("fault", ["first hangs"], full=HANGING)
def test_the_old_version_goes_on_after_one_that_hangs(old, new, has_state, is_loaded, fault, gate):
    if fault == "restore hangs" and not has_state:
        return
    if fault == "fifth hangs" and new == "python":
        return  # Inside a turn nothing can end a call.
    run = SwappedProcessor(version(old, has_state), is_loaded)
    why = run.swap(version(new, has_state, fault, gate), init_timeout_s=0.1, timeout_s=TIMEOUT_S)
    run.finish()

    assert "not ready within" in why or "not return" in why


@over("old", ["async"], full=MODES)
@loads
def test_the_old_version_goes_on_after_one_that_blocks_its_event_loop(old, is_loaded, gate):
    run = SwappedProcessor(version(old), is_loaded)
    why = run.swap(version("async", fault="first blocks", gate=gate), timeout_s=TIMEOUT_S)
    run.finish()

    assert "not return" in why


@pairs
@loads
@over("fault", ["every", "thirds"], full=["first", "every", "fifth", "thirds"])
def test_elements_of_a_batch_that_fails_go_to_the_old_version(old, new, is_loaded, fault):
    run = SwappedProcessor(batched(old), is_loaded)
    why = run.swap(batched(new, fault))
    run.finish()

    assert f"broken: {fault}" in why


@over(("good", "broken", "fix"), THREE[1::9], full=THREE)
@pytest.mark.parametrize("fault", [None, "first", "fifth"])
def test_a_fix_keeps_the_way_back_to_the_last_version_that_worked(good, broken, fix, fault):
    run = SwappedProcessor(version(good))
    run.flow.swap("node", version(broken, fault="first"))
    if fault is None:
        run.flow.swap("node", version(fix))
        run.let_pass(20)
    else:
        assert f"broken: {fault}" in run.swap(version(fix, fault=fault))
    run.finish()

    assert run.returns == (fault is not None)


@pairs
@pytest.mark.parametrize("at", ["snapshot", "restore"])
def test_the_other_nodes_go_on_while_a_state_moves(old, new, at, gate):
    first, second = slow_versions(old, new, at, gate)
    run = SwappedProcessor(first)
    with ThreadPoolExecutor() as pool:
        swap = pool.submit(run.flow.swap, "node", second)
        assert (first if at == "snapshot" else second).is_waiting.wait(WAIT_S)
        run.let_pass_beside(50)
        assert not swap.done()
        gate.set()
        assert swap.result(WAIT_S).state == "restored"
    run.finish()


def slow_versions(old, new, at, gate):
    """One of them hangs in `snapshot` or `restore`."""
    first = version(old, fault="snapshot hangs" if at == "snapshot" else None, gate=gate)
    return first, version(new, fault="restore hangs" if at == "restore" else None, gate=gate)


@one_pair
@pytest.mark.parametrize("at", ["snapshot", "restore"])
def test_a_swap_ends_when_its_time_is_over(old, new, at, gate):
    first, second = slow_versions(old, new, at, gate)
    run = SwappedProcessor(first)
    with pytest.raises(FlowError, match=f"`{at}` of the .* did not return within 0.5 s"):
        run.flow.swap("node", second, timeout_s=TIMEOUT_S)
    run.finish()


@one_pair
@pytest.mark.parametrize("fault", ["snapshot", "snapshot hangs"])
def test_a_version_that_cannot_save_its_state_is_gone_again(old, new, fault, gate):
    run = SwappedProcessor(version(old))
    broken = version(new, fault="fifth", gate=gate)
    broken.snapshot = version("python", fault=fault, gate=gate).snapshot
    why = run.swap(broken, timeout_s=TIMEOUT_S)
    run.let_pass(20)
    run.stop()

    assert "broken: fifth; its state is that from before the swap" in why
    assert [text.split(":")[0] for text in run.sink.texts] == list(
        map(str, range(run.numbers.sent))
    )


def guest(name, folder, config=""):
    """A guest that passes what it gets on; `chaos` does what a text or its config says."""
    made = guest_class(GUESTS / f"{name}.wasm", name, folder)()
    made.config = config
    return made


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


def passing(mode, folder):
    return guest("processor", folder) if mode == "wasm" else variant_of(Passing(), mode)


class Passing(torvyn.Processor):
    def __init__(self, fault=None):
        super().__init__()
        self.fault = fault

    def process(self, element):
        if self.fault is not None:
            raise ValueError(f"broken: {self.fault}")
        return element.text


@loads
@pytest.mark.parametrize("new", MODES)
def test_a_guest_goes_on_after_a_version_in_another_run_mode(new, is_loaded, compiled):
    run = SwappedProcessor(passing("wasm", compiled), is_loaded, str)
    why = run.swap(variant_of(Passing("first"), new))
    run.finish()

    assert "broken: first" in why


@loads
@pytest.mark.parametrize("old", [*MODES, "wasm"])
@pytest.mark.parametrize("fault", ["trap", "error", "init"])
def test_the_old_version_goes_on_after_a_guest_that_fails(old, is_loaded, fault, compiled):
    config, text = ("trap", str) if fault == "init" else ("", lambda number: fault)
    run = SwappedProcessor(passing(old, compiled), is_loaded, text, text)
    why = run.swap(guest("chaos", compiled, config))
    run.finish()

    assert why


@loads
@pytest.mark.parametrize("new", MODES)
def test_native_code_goes_on_after_a_version_in_another_run_mode(new, is_loaded):
    run = SwappedProcessor("blocklist", is_loaded, str, config={"words": ["x"]})
    why = run.swap(variant_of(torvyn.filter(lambda element: 1 / 0), new))
    run.finish()

    assert "ZeroDivisionError" in why


@pytest.mark.parametrize("old", MODES)
def test_a_version_goes_on_after_native_code_that_cannot_start(old):
    run = SwappedProcessor(variant_of(torvyn.filter(lambda element: True), old), answer=str)
    with pytest.raises(TorvynError):
        run.flow.swap("node", "blocklist", config={"words": []})
    run.finish()
