"""Two `tailrace autoscale` in a cluster of real processes."""
import pytest

from scenario import *  # noqa: F401, F403: the tests
from world import World


@pytest.fixture(scope="module")
def world(cluster):
    world = World(cluster, interval_s=2, lease_s=6)
    yield world
    world.end()
