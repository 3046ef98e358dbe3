"""Fixtures for the tests of components with a connection."""

import contextlib
import threading

import pytest
from waiting import find_free_port


class Woken:
    """Stands in for the running node of a source: notes that it was woken."""

    def __init__(self):
        self.event = threading.Event()

    def wake(self):
        self.event.set()


@pytest.fixture
def running(start):
    """Starts components and tears them down; a source is woken as in a flow."""
    with contextlib.ExitStack() as stack:

        def started(cls, config):
            component = cls(config)
            component._node = Woken()
            component.init(config)
            stack.callback(component.teardown)
            stack.callback(component.unblock)
            return component

        yield started


@pytest.fixture
def free_port():
    return find_free_port()
