"""What `tailrace autoscale`, two of it, does in a cluster: the same tests against a real API server (tests/kubernetes/real, `make test-kubernetes`)
and against one that answers as recorded (tests/e2e/test_kubernetes.py, `make test`).

They run in this order, over one `world`. `tell` puts a few words behind the test's name.
"""
import time
import urllib.error

import pytest

from engines import DEPLOYMENTS, VARIANTS
from world import HPAS, LEASE, MERGE, OWN, SETTINGS, until

OURS = VARIANTS["own"]


@pytest.fixture
def tell(record_property):
    return lambda words: record_property("told", words)


@pytest.fixture(scope="module")
def learnt(world):
    """Both instances run, and one leads that has learnt each variant's engine."""
    def so():
        rate = 5 + 3 * (int(time.monotonic()) // 3 % 4)  # something to learn from
        world.load(own=rate, hpa=rate, keda=rate)
        leader = world.leading()
        return leader and all(leader.informed(variant) for variant in VARIANTS)
    until(so, 60, "parameters of each variant are learnt")
    return world


def test_of_two_instances_one_leads_and_the_other_says_who(world, tell):
    leader, follower = world.leader(), world.follower()
    assert world.lease_holder() == leader.identity
    until(lambda: follower.decisions().get("leader") == leader.identity, 10, "the other names the leader")
    assert not follower.leads()
    tell(f"{leader.identity} leads")


def test_deployment_hpa_and_scaled_object_are_found_and_their_engines_learnt(learnt):
    leader = learnt.leader()
    assert all(leader.informed(variant) for variant in VARIANTS)


def test_rising_demand_patches_the_scale_of_our_deployment_and_only_that(learnt, tell):
    before = learnt.replicas()
    learnt.load(own=35, hpa=35, keda=35)
    took_s = until(lambda: learnt.replicas() > before, 60, "our Deployment grows")
    leader = learnt.leader()
    for variant in ("hpa", "keda"):
        until(lambda variant=variant: (leader.wants(variant) or 0) > 1, 30, f"the gauge of {variant} grows")
        assert learnt.replicas(variant) == 1, f"{variant} is not ours to scale"
    learnt.load(hpa=20, keda=20)
    tell(f"from {before} to {learnt.replicas()} {took_s:.1f} s after demand rose; HPA's and KEDA's left at 1, "
         f"for which wva_desired_replicas says {leader.wants('hpa'):g} and {leader.wants('keda'):g}")


def test_an_event_tells_it_on_the_deployment(learnt, tell):
    def told():
        return [note for about, reason, note, by in learnt.event_notes() if about["name"] == OURS and reason == "ScaledUp"
                and about["uid"] == learnt.deployment()["metadata"]["uid"] and "tailrace" in by]
    until(told, 20, "an Event ScaledUp on our Deployment")
    tell(told()[0])


def test_an_edit_of_the_settings_is_in_force_within_one_cycle(learnt, tell):
    leader = learnt.leader()
    assert 0.03 not in leader.target_itl()
    before = leader.decisions()["cycle"]
    learnt.settings(targetTTFT=700.0, targetITL=30.0)
    took_s = until(lambda: 0.03 in leader.target_itl(), 10, "the new target is in force")
    assert leader.decisions()["cycle"] <= before + 2  # one may have been under way when it was edited
    tell(f"after {took_s:.1f} s, cycle {learnt.interval_s} s")


def test_a_wrong_edit_is_named_and_the_last_good_one_stays_in_force(learnt, tell):
    leader = learnt.leader()
    begun = time.monotonic()
    learnt.settings(targetITL="quick")
    until(lambda: leader.troubles("targetITL"), 10, "the mistake is named")
    said = leader.troubles("targetITL")[0].splitlines()[0]
    learnt.pass_cycles(2)
    assert 0.03 in leader.target_itl()
    learnt.never_fell(begun)
    learnt.settings(targetITL=30.0)
    until(lambda: not leader.troubles("targetITL"), 10, "it is gone when mended")
    tell(said)


def test_deleting_the_settings_deactivates_and_holds_the_replicas(learnt, tell):
    leader = learnt.leader()
    document = learnt.cluster.call("GET", SETTINGS)
    held = learnt.calm()
    begun = time.monotonic()
    assert held > 1
    learnt.cluster.call("DELETE", SETTINGS)
    took_s = until(lambda: set(leader.series("tailrace_autoscaler_active")) == {0}, 10, "no model is active")
    said = leader.troubles("does not exist")
    assert said
    learnt.load(own=1)
    learnt.pass_cycles(3)
    learnt.load(own=34 * held)
    learnt.pass_cycles(4)
    assert learnt.replicas() == held, "the load would move it both ways"
    learnt.load(own=12 * held)
    learnt.never_fell(begun)
    document["metadata"] = {key: document["metadata"][key] for key in ("name", "namespace", "labels")}
    learnt.apply({**document, "kind": "ConfigMap", "apiVersion": "v1"})
    until(lambda: set(leader.series("tailrace_autoscaler_active")) == {1}, 10, "active again")
    tell(f"after {took_s:.1f} s, {held} replicas: {said[0]}")


def test_a_single_dry_run_beside_them_prints_a_decision_and_changes_nothing(learnt, tell):
    learnt.calm()
    leader = learnt.leader()
    before, events = learnt.deployment(), len(learnt.event_notes())
    done = learnt.once("--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if OURS in line)
    assert learnt.deployment()["metadata"]["generation"] == before["metadata"]["generation"]
    assert len(learnt.event_notes()) == events and learnt.lease_holder() == leader.identity
    assert not (learnt.folder / "once.decisions").exists()
    tell(" ".join(row.split())[:120])


def test_a_killed_leader_is_followed_by_the_other_and_no_replica_changes(learnt, tell):
    held = learnt.calm()
    begun = time.monotonic()
    leader, follower = learnt.leader(), learnt.follower()
    leader.kill()
    took_s = until(follower.leads, 3 * learnt.lease_s, "the other leads")
    assert learnt.lease_holder() == follower.identity
    assert took_s > learnt.lease_s / 2, "it did not wait until the lease was over"
    until(lambda: follower.informed("own"), 10, "it decides")
    learnt.pass_cycles(3)
    assert learnt.replicas() == held
    learnt.never_fell(begun)
    learnt.start(leader.name + "-again")
    tell(f"after {took_s:.1f} s, lease {learnt.lease_s} s; {held} replicas")


def test_a_deleted_scaler_and_a_deleted_deployment_harm_no_other(learnt, tell):
    leader = learnt.leader()
    begun = time.monotonic()
    learnt.cluster.call("DELETE", f"{HPAS}/{VARIANTS['hpa']}")
    learnt.cluster.call("DELETE", f"{DEPLOYMENTS}/{VARIANTS['keda']}")  # its ScaledObject stays
    for variant in ("hpa", "keda"):
        until(lambda variant=variant: leader.wants(variant) is None, 15, f"the gauge of {variant} goes")
    conditions = [c["message"] for c in leader.decisions()["conditions"] if VARIANTS["keda"] in c["subject"] + c["message"]]
    assert any("does not exist" in message for message in conditions), conditions
    assert leader.informed("own")
    learnt.never_fell(begun)
    learnt.apply_scaler("hpa")
    until(lambda: leader.wants("hpa") is not None, 15, "the HPA is found again")
    tell(conditions[0])


def test_a_restart_of_the_server_within_a_cycle_loses_and_doubles_no_order(learnt, tell):
    begun, held = time.monotonic(), learnt.replicas()
    generation, orders = learnt.deployment()["metadata"]["generation"], len(learnt.orders())
    away_s = learnt.restart_api_in_a_cycle()
    back = time.time()

    def decides():
        leader = learnt.leading()
        return (leader and leader.informed("own") and leader.series("tailrace_autoscaler_blind") != [1]
                and leader.series("tailrace_autoscaler_last_cycle_timestamp_seconds")[0] > back)
    took_s = until(decides, 40, "one leads and decides again")
    assert len(learnt.running()) == 2
    learnt.never_fell(begun)
    learnt.settings(targetTTFT=700.0, targetITL=24.0)
    until(lambda: 0.024 in learnt.leader().target_itl(), 20, "the watch of the settings goes on")
    learnt.load(own=34 * held)
    until(lambda: learnt.replicas() > held, 60, "it scales again")
    moved = []

    def agree():  # an order that is just carried out is written down a moment later
        moved[:] = learnt.orders()[orders:]
        return learnt.deployment()["metadata"]["generation"] == generation + len(moved) and all(order["outcome"]["done"] for order in moved)
    until(agree, 15, "it is written as often as it was ordered")
    tell(f"away for {away_s:.1f} s, decides {took_s:.1f} s later; from {held} to {learnt.replicas()} replicas when demand rose, in {len(moved)} orders")


def test_a_server_that_dies_with_an_order_under_way_loses_and_doubles_none(learnt, tell):
    held = learnt.calm()
    generation, orders = learnt.deployment()["metadata"]["generation"], len(learnt.orders())
    learnt.cluster.lose_answer("PATCH", "/scale")
    learnt.load(own=34 * held)
    until(lambda: learnt.written(OURS) > held, 60, "an order is carried out")
    learnt.restart_api_in_a_cycle()
    until(lambda: learnt.leading() and learnt.leading().informed("own"), 40, "one decides again")
    learnt.pass_cycles(4)
    moved, done = [], []

    def agree():
        moved[:] = learnt.orders()[orders:]
        done[:] = [order for order in moved if order["outcome"]["done"]]
        now = learnt.deployment()
        return moved and len(done) <= now["metadata"]["generation"] - generation <= len(moved) and now["spec"]["replicas"] == moved[-1]["desired"]
    until(agree, 15, "no order is written twice, and each confirmed one once")
    tell(f"{len(moved)} orders, of {len(moved) - len(done)} the answer was lost; {learnt.replicas()} replicas")


def test_sigterm_ends_it_with_0_and_gives_the_lease_back(learnt, tell):
    held = learnt.calm()
    leader, follower = learnt.leader(), learnt.follower()
    assert leader.stop() == 0
    took_s = until(follower.leads, learnt.lease_s, "the other leads")
    assert follower.stop() == 0
    assert learnt.lease_holder() == ""
    assert learnt.replicas() == held
    tell(f"the other leads {took_s:.1f} s after its end; then nobody holds the lease, {held} replicas")


def test_a_single_run_takes_the_lease_acts_and_gives_it_back(learnt, tell):
    terms = learnt.cluster.call("GET", LEASE)["spec"]["leaseTransitions"]
    held = learnt.replicas()
    learnt.cluster.call("PATCH", f"{DEPLOYMENTS}/{OURS}", {"metadata": {"annotations": {"tailrace.dev/min-replicas": str(held + 1)}}}, MERGE)
    done = learnt.once()
    assert done.returncode == 0, done.stdout + done.stderr
    assert learnt.replicas() == held + 1, done.stdout + done.stderr
    assert learnt.lease_holder() == ""
    assert learnt.cluster.call("GET", LEASE)["spec"]["leaseTransitions"] == terms + 1
    tell(f"from {held} to {learnt.replicas()} replicas, the new minimum")


def test_each_order_of_the_whole_run_goes_on_from_the_one_before(learnt, tell):
    orders = learnt.orders()
    assert len({order["id"] for order in orders}) == len(orders)
    replicas = 1
    for order in orders:
        assert order["current"] + order["pending"] == replicas, (replicas, order)
        replicas = order["desired"]
    assert replicas == learnt.replicas()
    tell(" → ".join(["1"] + [str(order["desired"]) for order in orders]))


def test_the_roles_in_deploy_forbid_nothing_that_it_asks_for_and_allow_no_more(learnt):
    assert not learnt.forbidden()
    for method, path in (("GET", f"/api/v1/namespaces/{OWN}/secrets"), ("GET", f"/api/v1/namespaces/{OWN}/configmaps/tailrace-autoscaler"),
                         ("DELETE", f"{DEPLOYMENTS}/{OURS}"), ("GET", "/api/v1/namespaces/llm/secrets")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            learnt.cluster.call(method, path, token=learnt.token)
        assert refused.value.code == 403, (method, path)
