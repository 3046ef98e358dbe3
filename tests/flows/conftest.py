"""What the tests of flows share: `run_flow` over every kind of part, and a clock moved by hand."""

import weakref

import pytest

from torvyn.testing import PARTS, Clock
from torvyn.testing import run_flow as run_flow_once


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def run():
    """`run_flow` with parts as they are; what still runs at the end of the test is cancelled."""
    yield from _closing()


@pytest.fixture(params=PARTS)
def run_flow(request):
    """`run_flow` once with parts of each kind."""
    yield from _closing(parts=request.param)


def _closing(**fixed):
    runs = []

    def run(*stages, **options):
        made = run_flow_once(*stages, **{**fixed, **options})
        runs.append(weakref.ref(made))
        return made

    yield run
    for made in filter(None, (reference() for reference in runs)):
        made.close()
