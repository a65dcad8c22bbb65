"""Two `tailrace autoscale` and an API server in memory that answers as a real one was recorded to: the tests of `make test-kubernetes`."""
import json
import shutil
import sys

import pytest

from harness import ROOT

sys.path[:0] = [str(ROOT / "tests" / "kubernetes" / folder) for folder in ("autoscale", "real")]
pytest.register_assert_rewrite("scenario", "world")
import protocol  # noqa: E402
from fake_api import RECORDED, FakeCluster  # noqa: E402
from scenario import *  # noqa: E402, F401, F403: the tests
from world import World  # noqa: E402


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    for program, package in (("prometheus", "prometheus"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: install the Debian package {package}")
    cluster = FakeCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start()
    try:
        world = World(cluster, interval_s=1, lease_s=3)
        yield world
        world.end()
    finally:
        cluster.stop()


def test_the_fake_server_was_asked_nothing_that_no_real_one_was_recorded_to_answer(world):
    assert not world.cluster.store.strange


def test_the_fake_server_answers_as_the_real_one_was_recorded_to(tmp_path):
    cluster = FakeCluster(tmp_path)
    cluster.start()
    try:
        answered = protocol.Conversation(cluster).normal()
    finally:
        cluster.stop()
    recorded = json.loads(RECORDED.read_text())
    assert len(answered) == len(recorded)
    for ours, theirs in zip(answered, recorded):
        assert ours == theirs


def test_the_fake_server_refuses_what_is_not_recorded(tmp_path):
    cluster = FakeCluster(tmp_path)
    cluster.start()
    try:
        for method, path in (("GET", "/api/v1/pods"), ("DELETE", "/api/v1/namespaces/default"), ("GET", "/api/v1/namespaces?limit=1&watch=1")):
            assert cluster.exchange(method, path, None, "", "")[0] == 501
    finally:
        cluster.stop()
