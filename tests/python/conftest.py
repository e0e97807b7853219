"""What all Python tests share: property tests that are the same on every run and do not look at the clock."""

import pathlib

import hypothesis
import pytest

hypothesis.settings.register_profile("ebbtide", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ebbtide")


@pytest.fixture(scope="session")
def checkout():
    return pathlib.Path(__file__).resolve().parents[2]
