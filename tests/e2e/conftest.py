import os

import pytest

from harness import BIN, SHARED


def pytest_configure(config):
    if not os.access(BIN, os.X_OK):
        raise pytest.UsageError(f"{BIN} is not there: run `make build` first, or set TAILRACE_BIN")


@pytest.fixture(scope="session")
def shared():
    """The folder with reference vectors and recordings; a clone that lacks it skips what needs it."""
    if not SHARED.is_dir():
        pytest.skip(f"no reference data at {SHARED} (set TAILRACE_SHARED)")
    return SHARED
