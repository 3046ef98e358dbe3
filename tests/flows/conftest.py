"""What the tests of flows share: `run_flow` over every kind of part, and a clock moved by hand.

A test that takes `run_flow` or `run` runs in the sandbox too, unless `not_sandboxed` says why not.
"""

import weakref

import pytest
from not_sandboxed import REASONS

from torvyn.errors import MissingError
from torvyn.testing import VARIANTS, WASM, Clock
from torvyn.testing import run_flow as run_flow_once


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def sandbox():
    """The guest that runs the parts of all tests; made in a minute when it is not in the cache."""
    from torvyn.sandbox.compile_cache import compile_component
    from torvyn.testing.universal_guest import universal_guest

    try:
        return compile_component(universal_guest(), "universal-guest", role="sink")
    except MissingError as error:
        pytest.skip(f"NOT TESTED: flows of sandboxed parts: {error.message}; {error.hint}")


@pytest.fixture(params=[None, WASM], ids=["as-is", WASM])
def run(request):
    """`run_flow` with parts as they are; what still runs at the end of the test is cancelled."""
    yield from _closing(request)


@pytest.fixture(params=[*VARIANTS, WASM])
def run_flow(request):
    """`run_flow` once with parts of each kind."""
    yield from _closing(request)


def _closing(request):
    if request.param == WASM:
        request.getfixturevalue("sandbox")
    runs = []

    def run(*stages, **options):
        made = run_flow_once(*stages, **{"variant": request.param, **options})
        runs.append(weakref.ref(made))
        return made

    yield run
    for made in filter(None, (reference() for reference in runs)):
        made.close()


def pytest_collection_modifyitems(items):
    """Those that cannot run in the sandbox are left out there; the reason is in one place."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or WASM not in (call.params.get("run"), call.params.get("run_flow")):
            continue
        item.add_marker(pytest.mark.timeout(600))
        reason = REASONS.get(item.originalname) or REASONS.get(item.name)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
