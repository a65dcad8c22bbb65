"""A cluster of etcd and kube-apiserver for all of these tests; behind each one's name how long it took, and what it tells."""
import sys

import pytest

from cluster import ROOT, Cluster

sys.path.insert(0, str(ROOT / "tests" / "kubernetes" / "autoscale"))
pytest.register_assert_rewrite("scenario", "world")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop()


def pytest_report_teststatus(report):
    if report.when == "call" and report.passed:
        told = dict(report.user_properties).get("told")
        return "passed", ".", f"ok, {report.duration:.1f} s" + (f": {told}" if told else "")
    return None
