#!/usr/bin/env python3
"""One conversation with an API server: everything that the autoscaler and its tests ask for, and what a server must refuse.

run(ask) has it with any server, ask(who, method, path, body, content_type) → (status, text). `who` is "admin", "account" (a ServiceAccount that
may do a little), "nobody" or a "stranger" with a false token. Two servers behave alike where exchanges, normal()ised, are the same: tests/kubernetes/data/protocol.json is what a
real kube-apiserver said.

Usage: protocol.py FOLDER OUTPUT      has it with the fresh cluster of ../real/cluster.py in FOLDER, and keeps what was said
"""
import json
import pathlib
import re
import sys

NS = "probe"
MERGE = "application/merge-patch+json"
CORE, APPS, RBAC = f"/api/v1/namespaces/{NS}", f"/apis/apps/v1/namespaces/{NS}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NS}"
DEPLOYMENTS, PODS, MAPS, SETS = f"{APPS}/deployments", f"{CORE}/pods", f"{CORE}/configmaps", f"{APPS}/replicasets"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NS}/events"
HPAS = f"/apis/autoscaling/v2/namespaces/{NS}/horizontalpodautoscalers"
SCALED = f"/apis/keda.sh/v1alpha1/namespaces/{NS}/scaledobjects"
TIME = "2026-11-30T12:00:00.000000Z"
VOLATILE = {"uid": "(uid)", "resourceVersion": "(version)", "creationTimestamp": "(time)", "token": "(token)", "continue": "(token)",
            "expirationTimestamp": "(time)", "deletionTimestamp": "(time)"}

TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
    "containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.11.0", "args": ["--max-num-seqs=256"],
                    "ports": [{"name": "http", "containerPort": 8000}],
                    "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5},
                    "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
RULES = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
         {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
         {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["settings"], "verbs": ["list", "watch"]},
         {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["tailrace"], "verbs": ["get", "update"]},
         {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
         {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]


def normal(value):
    """Without what differs from one server, or one moment, to the next."""
    if isinstance(value, dict):
        return {key: VOLATILE[key] if key in VOLATILE and value[key] else normal(item) for key, item in value.items() if key != "managedFields"}
    return [normal(item) for item in value] if isinstance(value, list) else value


def normal_answer(text):
    """Of a document, or of a watch's lines; other text is left as it is."""
    lines = [line for line in text.splitlines() if '"BOOKMARK"' not in line]
    try:
        documents = [normal(json.loads(line)) for line in lines]
    except ValueError:
        return text
    return documents[0] if len(documents) == 1 else documents or ""


def form(method, target, content_type):
    """What kind of request it is: names and values left out."""
    path, _, query = target.partition("?")
    parts = path.strip("/").split("/")
    base = 2 if parts[0] == "api" else 3
    rest = parts[base:]
    spaced = len(rest) > 2 and rest[0] == "namespaces"
    own = rest[2:] if spaced else rest
    shape = "/".join(parts[:base] + (["namespaces", "*"] if spaced else []) + [("*" if i == 1 else part) for i, part in enumerate(own)])
    keys = sorted(item.partition("=")[0] for item in query.split("&") if item and not item.startswith("continue="))
    return f"{method} /{shape}" + ("?" + "&".join(keys) if keys else "") + (f" {content_type}" if method not in ("GET", "DELETE") else "")


def run(ask):
    def say(method, path, body=None, who="admin", kind="application/json"):
        _, text = ask(who, method, path, body if body is None or isinstance(body, str) else json.dumps(body), kind)
        return json.loads(text) if text.startswith("{") and text.count("\n") <= 1 else text

    def version(document):
        return document["metadata"]["resourceVersion"]

    # Who is who, and may do what
    say("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    say("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    say("GET", "/api/v1/namespaces?limit=500")
    say("GET", "/api/v1/nodes?limit=500")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "probe", "namespace": NS}}
    say("POST", f"{CORE}/serviceaccounts", account)
    say("GET", f"{APPS}/deployments?limit=500", who="nobody")
    say("GET", f"{APPS}/deployments?limit=500", who="stranger")
    say("POST", f"{CORE}/serviceaccounts/probe/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    say("GET", f"{DEPLOYMENTS}?limit=500", who="account")
    about, subject = {"name": "probe", "namespace": NS}, {"kind": "ServiceAccount", "name": "probe", "namespace": NS}
    say("POST", f"{RBAC}/roles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": about, "rules": RULES})
    say("POST", f"{RBAC}/rolebindings", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": about, "subjects": [subject],
                                         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "probe"}})
    rules = [{"apiGroups": ["leaderworkerset.x-k8s.io", "keda.sh"], "resources": ["leaderworkersets", "scaledobjects"], "verbs": ["list"]}]
    say("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                                                                    "metadata": {"name": "probe"}, "rules": rules})
    say("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "probe"}, "subjects": [subject],
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "probe"}})
    for _ in range(50):  # it takes a moment until a role is in force
        if ask("account", "GET", "/apis/keda.sh/v1alpha1/scaledobjects?limit=500", None, "", note=False)[0] == 200:
            break
    say("GET", "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets?limit=500", who="account")
    say("GET", "/apis/llmd.ai/v1alpha1/variantautoscalings?limit=500", who="account")
    say("GET", "/apis/llmd.ai/v1alpha1/variantautoscalings?limit=500")
    say("GET", "/apis/keda.sh/v1alpha1/scaledobjects?limit=500", who="account")
    say("GET", f"{CORE}/secrets", who="account")
    say("GET", f"{CORE}/configmaps/other", who="account")

    # Deployments: defaults, lists in pages, scale
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": NS, "annotations": {"tailrace.dev/model-id": "m"}},
                  "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}}
    made = say("POST", DEPLOYMENTS, deployment)
    say("POST", DEPLOYMENTS, deployment)
    say("POST", DEPLOYMENTS, deployment, kind="text/plain")
    say("POST", DEPLOYMENTS, "{no json")
    say("PUT", DEPLOYMENTS, deployment)
    say("POST", f"{DEPLOYMENTS}/a", deployment)
    say("DELETE", f"{DEPLOYMENTS}/a", who="account")
    say("GET", f"{DEPLOYMENTS}/a")
    say("GET", f"{DEPLOYMENTS}/none")
    say("POST", DEPLOYMENTS, json.loads(json.dumps(deployment).replace('"a"', '"b"')))
    page = say("GET", f"{DEPLOYMENTS}?limit=1", who="account")
    say("GET", f"{DEPLOYMENTS}?limit=1&continue={page['metadata']['continue']}", who="account")
    say("GET", f"{DEPLOYMENTS}?limit=500", who="account")
    say("GET", "/apis/apps/v1/deployments?limit=500", who="account")
    say("GET", "/apis/apps/v1/deployments?limit=500")
    say("GET", DEPLOYMENTS)
    scale = say("GET", f"{DEPLOYMENTS}/a/scale", who="account")
    change = {"metadata": {"resourceVersion": version(scale)}, "spec": {"replicas": 2}}
    say("PATCH", f"{DEPLOYMENTS}/a/scale", change, who="account")
    say("PATCH", f"{DEPLOYMENTS}/a/scale", change, who="account", kind=MERGE)
    say("PATCH", f"{DEPLOYMENTS}/a/scale", change, who="account", kind=MERGE)
    say("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": -1}}, who="account", kind=MERGE)
    say("PATCH", f"{DEPLOYMENTS}/none/scale", {"spec": {"replicas": 1}}, who="account", kind=MERGE)
    say("PATCH", f"{DEPLOYMENTS}/a", {"spec": {"replicas": 1}}, who="account", kind=MERGE)
    say("PATCH", f"{DEPLOYMENTS}/a", {"metadata": {"annotations": {"tailrace.dev/min-replicas": "2"}}}, kind=MERGE)
    say("PUT", f"{DEPLOYMENTS}/a/scale", scale, who="account")
    say("PATCH", f"{DEPLOYMENTS}/a/status", {"status": {"replicas": 2, "readyReplicas": 2}}, kind=MERGE)
    say("GET", f"{DEPLOYMENTS}/a/scale", who="account")
    say("GET", f"{DEPLOYMENTS}/none/scale", who="account")

    # What stands beside them
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": made["metadata"]["uid"], "controller": True}
    say("POST", SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE},
                       "metadata": {"name": "a-1", "namespace": NS, "labels": {"app": "a"}, "ownerReferences": [owner]}})
    say("GET", f"{SETS}?labelSelector=app%3Da&limit=500")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a-1", "uid": "1", "controller": True}
    pod = {"metadata": {"name": "a-0", "namespace": NS, "labels": {"app": "a"}, "ownerReferences": [owner]}, "spec": {**TEMPLATE["spec"], "nodeName": "node"}}
    say("POST", PODS, pod)
    say("POST", PODS, pod)
    say("PATCH", f"{PODS}/a-0/status", {"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                                                   "conditions": [{"type": "Ready", "status": "True"}]}}, kind=MERGE)
    say("GET", f"{PODS}?labelSelector=app%3Da&limit=500")
    say("GET", f"{PODS}?labelSelector=app%3Dother&limit=500")
    say("DELETE", f"{PODS}/a-0?gracePeriodSeconds=0")
    say("DELETE", f"{PODS}/a-0?gracePeriodSeconds=0")
    metric = {"type": "External", "external": {"metric": {"name": "wva_desired_replicas", "selector": {"matchLabels": {"variant_name": "a"}}},
                                               "target": {"type": "AverageValue", "averageValue": "1"}}}
    policy = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}
    say("POST", HPAS, {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                       "metadata": {"name": "a", "namespace": NS, "annotations": {"llm-d.ai/managed": "true"}},
                       "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "minReplicas": 1, "maxReplicas": 8,
                                "metrics": [metric], "behavior": {"scaleUp": policy, "scaleDown": policy}}})
    say("GET", "/apis/autoscaling/v2/horizontalpodautoscalers?limit=500")
    say("DELETE", f"{HPAS}/a")
    say("POST", SCALED, {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a", "namespace": NS, "annotations": {"llm-d.ai/managed": "true"}},
                         "spec": {"scaleTargetRef": {"name": "a"}, "minReplicaCount": 0, "maxReplicaCount": 16, "triggers": [{"type": "prometheus"}]}})
    say("GET", "/apis/keda.sh/v1alpha1/scaledobjects?limit=500", who="account")
    say("DELETE", f"{SCALED}/a")

    # The Lease: compare and swap
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "tailrace", "namespace": NS},
             "spec": {"holderIdentity": "first", "leaseDurationSeconds": 6, "leaseTransitions": 0, "acquireTime": TIME, "renewTime": TIME}}
    say("GET", f"{LEASES}/tailrace", who="account")
    held = say("POST", LEASES, lease, who="account")
    say("POST", LEASES, lease, who="account")
    held["spec"].update(holderIdentity="second", leaseTransitions=1)
    say("PUT", f"{LEASES}/tailrace", held, who="account")
    say("PUT", f"{LEASES}/tailrace", held, who="account")
    say("PUT", f"{LEASES}/tailrace", lease, who="account")
    say("PUT", f"{LEASES}/other", {**lease, "metadata": {"name": "other", "namespace": NS}}, who="account")
    held = say("GET", f"{LEASES}/tailrace", who="account")
    held["spec"].update(holderIdentity="", leaseDurationSeconds=1)
    say("PUT", f"{LEASES}/tailrace", held, who="account")
    say("DELETE", f"{LEASES}/tailrace", who="account")

    # Events
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a.1", "namespace": NS}, "eventTime": TIME,
             "reportingController": "tailrace.dev/autoscaler", "reportingInstance": "here", "type": "Normal", "reason": "ScaledUp", "action": "Scale",
             "note": "from 1 to 2", "regarding": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "namespace": NS, "uid": made["metadata"]["uid"]}}
    say("POST", EVENTS, event, who="account")
    say("POST", EVENTS, {**event, "metadata": {"name": "a.2", "namespace": NS}, "note": "x" * 1025}, who="account")
    say("PATCH", f"{EVENTS}/a.1", {"series": {"count": 2, "lastObservedTime": TIME}}, who="account", kind=MERGE)
    say("PATCH", f"{EVENTS}/none", {"series": {"count": 2, "lastObservedTime": TIME}}, who="account", kind=MERGE)
    say("GET", EVENTS)

    # ConfigMaps: written by compare and swap, watched
    say("GET", f"{MAPS}/state")
    say("POST", "/api/v1/namespaces/none/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "none"}})
    state = say("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "state", "namespace": NS, "labels": {}}, "data": {"state.json": "{}"}})
    change = {"metadata": {"resourceVersion": version(state)}, "data": {"state.json": "{1}"}}
    say("PATCH", f"{MAPS}/state", change, kind=MERGE)
    say("PATCH", f"{MAPS}/state", change, kind=MERGE)
    say("PATCH", f"{MAPS}/none", {"data": {}}, kind=MERGE)
    named = f"{MAPS}?fieldSelector=metadata.name%3Dsettings"
    empty = say("GET", f"{named}&limit=500", who="account")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": NS, "labels": {"a": "b"}}, "data": {"default": "x: 1"}}
    say("POST", MAPS, settings)
    say("PATCH", f"{MAPS}/settings", {"data": {"default": "x: 2"}}, kind=MERGE)
    listed = say("GET", f"{named}&limit=500", who="account")
    say("DELETE", f"{MAPS}/settings")
    follow = f"{named}&watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion="
    say("GET", follow + version(empty), who="account")
    say("GET", follow + version(listed), who="account")
    say("GET", follow + "nonsense", who="account")
    say("GET", f"{MAPS}?watch=1&resourceVersion={version(listed)}&timeoutSeconds=1", who="account")
    say("DELETE", f"{MAPS}/settings")
    for path in (f"{DEPLOYMENTS}/a", f"{DEPLOYMENTS}/b", f"{SETS}/a-1"):
        say("DELETE", path)


class Conversation:
    """Has it with a cluster, and keeps what was said."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.exchanges = []
        self.token = ""
        run(self.ask)

    def ask(self, who, method, target, body, content_type, note=True):
        token = {"admin": "", "account": self.token, "nobody": None, "stranger": "nonsense"}[who]
        status, text = self.cluster.exchange(method, target, body, content_type if body else "", token)
        if target.endswith("/token"):
            self.token = json.loads(text)["status"]["token"]
        if note:
            self.exchanges.append({"who": who, "method": method, "target": target, "content_type": content_type if body else "",
                                   "body": body or "", "status": status, "answer": text})
        return status, text

    def normal(self):
        return [normal_exchange(exchange) for exchange in self.exchanges]


def normal_exchange(exchange):
    target = re.sub(r"(continue|resourceVersion)=(?!nonsense)[^&]+", r"\1=…", exchange["target"])
    return {**exchange, "target": target, "body": normal_answer(exchange["body"]), "answer": normal_answer(exchange["answer"])}


def written(exchanges):
    """As they are kept: one a line."""
    return "[\n" + ",\n".join(json.dumps(exchange, ensure_ascii=False, separators=(",", ":")) for exchange in exchanges) + "\n]\n"


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "real"))
    from cluster import Cluster
    pathlib.Path(sys.argv[2]).write_text(written(Conversation(Cluster(sys.argv[1])).normal()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
