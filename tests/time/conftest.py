"""Fixtures for the tests of time and keys."""

import pytest

from torvyn.testing import Clock


@pytest.fixture
def clock():
    return Clock()
