"""What the tests of flows share: `run_flow` over every kind of component, and a manual clock.

A test with `run_flow` or `run` runs in the sandbox too, unless `sandbox_exceptions` says why not.
"""

import weakref

import pytest
from sandbox_exceptions import REASONS

from torvyn.testing import VARIANTS, WASM, Clock
from torvyn.testing import run_flow as run_flow_once


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def sandbox():
    """The guest that runs the components of all tests; building it takes a minute."""
    from torvyn._sandbox.compiler import compile_component
    from torvyn.testing._sandbox_variant import universal_guest

    return compile_component(universal_guest(), "universal-guest", role="sink")


@pytest.fixture(params=[None, WASM], ids=["as-is", WASM])
def run(request):
    """`run_flow` with components as they are; cancels flows that still run after the test."""
    yield from _closed_runs(request)


@pytest.fixture(params=[*VARIANTS, WASM])
def run_flow(request):
    """`run_flow` once per kind of component."""
    yield from _closed_runs(request)


def _closed_runs(request):
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
    """Skips tests that cannot run in the sandbox, with their reason."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or WASM not in (call.params.get("run"), call.params.get("run_flow")):
            continue
        item.add_marker(pytest.mark.timeout(600))
        reason = REASONS.get(item.originalname) or REASONS.get(item.name)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
