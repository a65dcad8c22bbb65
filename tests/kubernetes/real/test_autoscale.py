"""Two `tailrace autoscale` in a cluster that is etcd and kube-apiserver, started here."""
import sys

import pytest

from cluster import ROOT, Cluster

sys.path.insert(0, str(ROOT / "tests" / "kubernetes" / "autoscale"))
pytest.register_assert_rewrite("scenario", "world")
from scenario import *  # noqa: E402, F401, F403: the tests
from world import World  # noqa: E402


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        cluster.install_scaled_objects()
        world = World(cluster, interval_s=2, lease_s=6)
        yield world
        world.end()
    finally:
        cluster.stop()
