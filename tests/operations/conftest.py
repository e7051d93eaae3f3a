import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy/grafana"))

import stack as stack_module  # noqa: E402


@pytest.fixture(scope="session")
def stack():
    with stack_module.loaded_stack() as running:
        yield running
