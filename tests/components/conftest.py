"""Fixtures for the tests of components: a started component and a manual clock."""

import contextlib

import pytest


class HandClock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def start(clock):
    """A component after `init`, with the hand-driven clock in its place; torn down at the end."""
    with contextlib.ExitStack() as stack:

        def started(cls, config="", node=None):
            component = cls(config)
            component._clock = clock
            component._node = node
            component.init(config)
            stack.callback(component.teardown)
            stack.callback(component.unblock)
            return component

        yield started
