"""deploy/'s own files applied to a cluster, a real Prometheus, engines, and two `tailrace autoscale`."""
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BIN, Program, free_port, wait_until  # noqa: E402
from engines import DEPLOYMENTS, VARIANTS, Engines  # noqa: E402

OWN = "workload-variant-autoscaler-system"
KINDS = {"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
         "ConfigMap": "/api/v1/namespaces/{}/configmaps", "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
         "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
         "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
         "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
         "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
         "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
         "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
         "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects"}
SETTINGS = f"/api/v1/namespaces/{OWN}/configmaps/wva-queueing-model-config"
STATE = f"/api/v1/namespaces/{OWN}/configmaps/tailrace-autoscaler-state"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/tailrace-autoscaler"
EVENTS = "/apis/events.k8s.io/v1/namespaces/llm/events"
HPAS = KINDS["HorizontalPodAutoscaler"].format("llm")
MERGE = "application/merge-patch+json"


def documents(path):
    return list(yaml.safe_load_all((ROOT / "deploy" / path).read_text()))


def until(so, at_most_s, what):
    """Waits for it; the seconds that it took."""
    begun = time.monotonic()
    wait_until(so, at_most_s, lambda: what, interval=0.05)
    return time.monotonic() - begun


class Autoscaler(Program):
    """One process, as a pod of deploy/autoscaler.yaml, but for the addresses and shorter times."""

    def __init__(self, world, name):
        self.name = name
        super().__init__("autoscale", "-c", str(world.config), env=world.environment(name))
        self.identity = f"{os.uname().nodename}:{self.process.pid}"

    def alive(self):
        return self.process.poll() is None

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['metrics']}{path}", timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError:
            return ""

    def series(self, name, **labels):
        """Values of that metric whose labels include these."""
        out = []
        for line in self.get("/metrics").splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                out.append(float(line.rsplit(" ", 1)[1]))
        return out

    def leads(self):
        return self.series("tailrace_autoscaler_leader") == [1]

    def informed(self, variant):
        name = VARIANTS[variant]
        return (self.series("tailrace_autoscaler_informed", variant_name=name) == [1]
                and bool(self.series("tailrace_autoscaler_alpha_seconds", variant_name=name)))

    def wants(self, variant):
        """The exported number; None where there is none."""
        return next(iter(self.series("wva_desired_replicas", variant_name=VARIANTS[variant])), None)

    def target_itl(self):
        return self.series("tailrace_autoscaler_slo_seconds", model="org/llama-a100", kind="itl")

    def decisions(self):
        return json.loads(self.get("/tailrace/v1/decisions") or "{}")

    def troubles(self, word):
        return [t["message"] for t in self.decisions().get("troubles", []) if word in t["subject"] + t["message"]]


class World:
    def __init__(self, cluster, interval_s, lease_s):
        self.cluster = cluster
        self.folder = cluster.folder
        self.interval_s, self.lease_s = interval_s, lease_s
        self.instances, self.names = [], []
        self.away = []  # (from, to) in Unix seconds: while the API server was not there or not itself yet
        self.engines = self.prometheus = None
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        self.apply_deploy()
        self.write_account()
        for variant in VARIANTS:
            self.apply_variant(variant)
        # A new replica teaches at once; steps are small, and one may follow the other.
        self.settings(transientDelay="0s", stabilisation={"upPods": 2, "upPercent": "off", "upPeriod": "1s"})
        self.engines = Engines(self.cluster)
        self.engines.write_targets()
        self.start_prometheus()
        self.start("first")
        self.start("second")

    # --- what is there ---

    def apply(self, document):
        return self.cluster.call("POST", KINDS[document["kind"]].format(document["metadata"].get("namespace")), document)

    def apply_deploy(self):
        for path in documents("kustomization.yaml")[0]["resources"] + ["rbac-scale.yaml"]:
            for document in documents(path):
                if document["kind"] == "ConfigMap" and document["metadata"]["name"] == "tailrace-autoscaler":
                    self.config = self.folder / "autoscaler.yaml"
                    self.config.write_text(document["data"]["autoscaler.yaml"])
                if document["kind"] in ("Namespace", "ServiceAccount", "ConfigMap") or "Role" in document["kind"]:
                    self.apply(document)
        self.apply({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "llm"}})

    def write_account(self):
        """The token that a pod of that ServiceAccount would have."""
        answer = self.cluster.call("POST", f"/api/v1/namespaces/{OWN}/serviceaccounts/tailrace-autoscaler/token",
                                   {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        self.token = answer["status"]["token"]
        self.kubeconfig = self.folder / "autoscaler.kubeconfig"
        self.kubeconfig.write_text(json.dumps(self.cluster.kubeconfig(self.token, OWN)))

    def apply_variant(self, variant):
        """deploy/examples: our Deployment; a bare one beneath an annotated HPA and beneath a ScaledObject."""
        name = VARIANTS[variant]
        deployment = json.loads(json.dumps(documents("examples/deployment.yaml")[0]).replace("llama-a100", name))
        notes = deployment["metadata"].pop("annotations")
        if variant == "own":
            deployment["metadata"]["annotations"] = {**notes, "tailrace.dev/model-id": f"org/{name}", "tailrace.dev/max-replicas": "64"}
        deployment["spec"]["replicas"] = 1
        uid = self.apply(deployment)["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": True}
        self.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {**deployment["spec"], "replicas": 1},
                    "metadata": {"name": f"{name}-1", "namespace": "llm", "labels": {"app": name}, "ownerReferences": [owner]}})
        if variant != "own":
            self.apply_scaler(variant)

    def apply_scaler(self, variant):
        scaler = documents({"hpa": "examples/hpa.yaml", "keda": "examples/scaledobject-prometheus.yaml"}[variant])[0]
        scaler["metadata"]["annotations"]["llm-d.ai/model-id"] = f"org/{VARIANTS[variant]}"
        self.apply(scaler)

    def start_prometheus(self):
        port = free_port()
        self.prometheus_url = f"http://127.0.0.1:{port}"
        (self.folder / "prometheus.yaml").write_text(json.dumps({
            "global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "vllm", "file_sd_configs": [
                {"files": [str(self.folder / "targets.json")], "refresh_interval": "1s"}]}]}))
        with open(self.folder / "prometheus.log", "ab") as log:
            self.prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yaml", f"--web.listen-address=127.0.0.1:{port}",
                 f"--storage.tsdb.path={self.folder}/prometheus"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

        def ready():
            try:
                return urllib.request.urlopen(self.prometheus_url + "/-/ready", timeout=5).status == 200
            except OSError:
                return False
        until(ready, 30, "Prometheus is ready")

    # --- the program ---

    def environment(self, name):
        change = {"INTERVAL": f"{self.interval_s}s", "KUBERNETES_KUBECONFIG": self.kubeconfig, "PROMETHEUS_URL": self.prometheus_url,
                  "METRICS_LISTEN": "127.0.0.1:0", "KEDA_LISTEN": f"127.0.0.1:{free_port()}", "OBSERVE_WINDOW": "6s",
                  "KUBERNETES_LEASE_DURATION": f"{self.lease_s}s", "KUBERNETES_LEASE_RENEW": f"{self.lease_s * 2 / 3:g}s",
                  "KUBERNETES_LEASE_RETRY": f"{self.lease_s / 6:g}s", "DECISION_LOG_FILE": self.folder / f"{name}.decisions"}
        return {f"TAILRACE_AUTOSCALER_{key}": str(value) for key, value in change.items()}

    def start(self, name):
        self.instances.append(Autoscaler(self, name))
        self.names.append(name)
        return self.instances[-1]

    def once(self, *flags):
        self.names.append("once")
        return subprocess.run([BIN, "autoscale", "-c", str(self.config), "--once", *flags], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **self.environment("once")})

    def running(self):
        return [a for a in self.instances if a.alive()]

    def leading(self):
        """None where none does, or where the gauge of one that did is of its cycle before."""
        leading = [a for a in self.running() if a.leads()]
        return leading[0] if len(leading) == 1 else None

    def leader(self):
        """Waits for one."""
        until(self.leading, 10 * self.lease_s, "one leads")
        return self.leading()

    def follower(self):
        leader = self.leader()
        return next(a for a in self.running() if a is not leader)

    def lease_holder(self):
        return self.cluster.call("GET", LEASE)["spec"].get("holderIdentity", "")

    def logs(self):
        return "".join(a.logs() for a in self.instances)

    # --- what goes on ---

    def deployment(self, variant="own"):
        return self.cluster.call("GET", f"{DEPLOYMENTS}/{VARIANTS[variant]}")

    def replicas(self, variant="own"):
        return self.deployment(variant)["spec"]["replicas"]

    def written(self, name):
        """The replicas of that Deployment, also from a server that answers no more."""
        return self.cluster.stored_replicas(f"{DEPLOYMENTS}/{name}")

    def load(self, **rates):
        """Requests per second of each."""
        with self.engines.lock:
            for variant, rate in rates.items():
                self.engines.rate[VARIANTS[variant]] = float(rate)

    def calm(self):
        """A load that what is there carries easily, and no order any more; how many replicas there are."""
        self.load(own=12 * self.replicas())

        def quiet():
            orders = len(self.orders())
            self.pass_cycles(3)
            return len(self.orders()) == orders
        until(quiet, 60, "nothing is ordered any more")
        return self.replicas()

    def settings(self, **changes):
        """An administrator edits the entry `default`; None removes a key."""
        text = yaml.safe_load(self.cluster.call("GET", SETTINGS)["data"]["default"])
        text = {key: value for key, value in {**text, **changes}.items() if value is not None}
        self.cluster.call("PATCH", SETTINGS, {"data": {"default": json.dumps(text)}}, MERGE)

    def event_notes(self):
        return [(e["regarding"], e["reason"], e["note"], e["reportingController"])
                for e in self.cluster.call("GET", EVENTS)["items"]]

    def pass_cycles(self, count):
        time.sleep(count * self.interval_s)

    def never_fell(self, since):
        for name, asked in self.engines.asked.items():
            seen = [count for at, count in list(asked) if at >= since]
            falls = [(a, b) for a, b in zip(seen, seen[1:]) if b < a]
            assert not falls, f"replicas of {name} fell: {falls}"

    def restart_api_in_a_cycle(self):
        """The server stops answering, is asked by a cycle meanwhile, dies and comes back; for how long it was away."""
        begun = time.time()
        self.cluster.hang()
        before = {a: a.decisions()["cycle"] for a in self.running()}
        self.pass_cycles(2.5)
        for autoscaler, cycle in before.items():
            assert autoscaler.decisions()["cycle"] <= cycle + 1, "its cycle does not wait for the server"
        self.cluster.restart_api()
        self.away.append((begun, time.time() + 20))  # a watch that was refused is tried again by and by
        return time.time() - begun

    def orders(self):
        """Decisions about our Deployment that moved it or were to, of all processes, in order of time."""
        lines = [json.loads(line) for path in self.folder.glob("*.decisions") for line in path.read_text().splitlines()]
        return sorted((line for line in lines if line["variant"] == VARIANTS["own"] and line["action"] != "hold"),
                      key=lambda line: line["time_s"])

    def forbidden(self):
        """Log lines about refused requests, but for those while the server came back: it knows no roles at first."""
        out = []
        for line in self.logs().splitlines():
            if "orbidden" in line:
                at = datetime.datetime.fromisoformat(line.split()[0].removeprefix("time=").replace("Z", "+00:00")).timestamp()
                if not any(begun <= at <= back for begun, back in self.away):
                    out.append(line)
        return out

    def end(self):
        for autoscaler in self.instances:
            autoscaler.__exit__()
        if self.engines:
            self.engines.end()
        if self.prometheus:
            self.prometheus.terminate()
            self.prometheus.wait()
