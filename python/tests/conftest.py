"""Settings of all tests: the same random numbers in each."""

import pytest

import talweg as tw


@pytest.fixture(autouse=True)
def seeded():
    tw.manual_seed(0)
