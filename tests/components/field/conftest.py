"""Fixtures for the tests of components with a connection."""

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
    """Starts components; a source is woken as in a flow."""
    return lambda cls, config: start(cls, config, Woken())


@pytest.fixture
def free_port():
    return find_free_port()
