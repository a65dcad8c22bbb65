"""The Pods of each Deployment, and what their engines count.

There is no kubelet and no controller in these tests: a thread keeps as many ready Pods as each Deployment asks for, and an HTTP server
answers for their engines with vLLM's metrics.
"""
import collections
import http.server
import json
import socketserver
import threading
import time
import urllib.error

DEPLOYMENTS = "/apis/apps/v1/namespaces/llm/deployments"
PODS = "/api/v1/namespaces/llm/pods"
VARIANTS = {"own": "llama-a100", "hpa": "llama-h100", "keda": "llama-l40s"}  # as in deploy/examples


class Engines:
    """The Pods of each Deployment, as a kubelet would have them run, and what their engines count."""
    INPUT, OUTPUT = 500, 100
    ALPHA_S, BETA_S, GAMMA_S = 8e-3, 2e-5, 1.5e-7  # one replica ends 43 requests a second at most

    def __init__(self, cluster):
        self.cluster = cluster
        self.lock = threading.Lock()
        self.rate = dict.fromkeys(VARIANTS.values(), 0.0)  # requests per second of each Deployment
        self.asked = collections.defaultdict(list)  # (time, spec.replicas) of each Deployment
        self.pods = {name: [] for name in VARIANTS.values()}
        self.totals = {}
        self.at = time.monotonic()
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=loop, daemon=True) for loop in (self.run_pods, self.run_load)]
        engines = self

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = engines.page(self.path.rsplit("/", 1)[1]).encode()
                self.send_response(200 if text else 404)
                self.send_header("content-type", "text/plain; version=0.0.4")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Page)
        self.threads.append(threading.Thread(target=self.server.serve_forever, daemon=True))
        for thread in self.threads:
            thread.start()

    def run_load(self):
        while not self.ending.wait(0.1):
            with self.lock:
                now = time.monotonic()
                passed_s, self.at = now - self.at, now
                for name, pods in self.pods.items():
                    for pod in pods:
                        self.serve(pod, self.rate[name] / len(pods), passed_s)

    def iteration_s(self, running):
        context = self.INPUT + self.OUTPUT / 2
        return self.ALPHA_S + self.BETA_S * running * (1 + self.INPUT / self.OUTPUT) + self.GAMMA_S * running * context

    def serve(self, pod, rate, passed_s):
        running = rate * self.OUTPUT * self.ALPHA_S
        for _ in range(30):  # Little's law, to its fixed point
            running = min(256.0, rate * self.OUTPUT * self.iteration_s(running))
        itl_s = self.iteration_s(running)
        totals = self.totals.setdefault(pod, collections.Counter())
        done = rate * passed_s
        totals["done"] += done
        totals["ttft_s"] += done * (itl_s + self.BETA_S * self.INPUT)
        totals["itl_s"] += done * (self.OUTPUT - 1) * itl_s
        totals["running"] = running

    def page(self, pod):
        with self.lock:
            totals = self.totals.get(pod)
            if totals is None:
                return ""
            done = totals["done"]
            tokens = done * (self.OUTPUT - 1)
            lines = [f'vllm:num_requests_running{{model_name="m"}} {totals["running"]}', 'vllm:num_requests_waiting{model_name="m"} 0',
                     f'vllm:request_success_total{{model_name="m",finished_reason="stop"}} {done}', 'vllm:kv_cache_usage_perc{model_name="m"} 0.2']
            for metric, total, count in (("request_prompt_tokens", done * self.INPUT, done), ("request_generation_tokens", done * self.OUTPUT, done),
                                         ("time_to_first_token_seconds", totals["ttft_s"], done), ("inter_token_latency_seconds", totals["itl_s"], tokens)):
                lines += [f'vllm:{metric}_sum{{model_name="m"}} {total}', f'vllm:{metric}_count{{model_name="m"}} {count}',
                          f'vllm:{metric}_bucket{{model_name="m",le="+Inf"}} {count}']
            # Each model has its own name, which the page cannot know before the Pod is there.
            return "\n".join(lines).replace('model_name="m"', f'model_name="{model_of(pod)}"') + "\n"

    def run_pods(self):
        while not self.ending.wait(0.2):
            try:
                self.sync()
            except (OSError, KeyError, TypeError):
                pass  # the server restarts, or an object went in between

    def sync(self):
        found = {d["metadata"]["name"]: d for d in self.cluster.call("GET", DEPLOYMENTS)["items"]}
        for name, deployment in found.items():
            wanted = deployment["spec"]["replicas"]
            self.asked[name].append((time.monotonic(), wanted))
            running = list(self.pods[name])
            for i in range(len(running), wanted):
                self.start(deployment, f"{name}-{i}", i)
            for pod in running[wanted:]:
                self.remove(name, pod)
            if deployment.get("status", {}).get("readyReplicas", 0) != wanted:
                self.cluster.call("PATCH", f"{DEPLOYMENTS}/{name}/status", {"status": {"replicas": wanted, "readyReplicas": wanted}},
                                  "application/merge-patch+json")
        for name in set(self.pods) - set(found):
            for pod in list(self.pods[name]):
                self.remove(name, pod)

    def start(self, deployment, pod, i):
        template = deployment["spec"]["template"]
        try:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{deployment['metadata']['name']}-1", "uid": "1", "controller": True}
            metadata = {"name": pod, "namespace": "llm", "labels": template["metadata"]["labels"], "ownerReferences": [owner]}
            self.cluster.call("POST", PODS, {"metadata": metadata, "spec": {**template["spec"], "nodeName": "node"}})
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        address = f"10.{list(VARIANTS.values()).index(deployment['metadata']['name'])}.0.{i + 1}"
        self.cluster.call("PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [
            {"type": "Ready", "status": "True"}]}}, "application/merge-patch+json")
        with self.lock:
            self.pods[deployment["metadata"]["name"]].append(pod)
        self.write_targets()

    def remove(self, name, pod):
        with self.lock:
            self.pods[name].remove(pod)
        self.write_targets()
        self.cluster.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")

    def write_targets(self):
        """As the PodMonitor of a kube-prometheus-stack names them: namespace, pod."""
        here = f"127.0.0.1:{self.server.server_port}"
        targets = [{"targets": [here], "labels": {"__metrics_path__": f"/pods/{pod}", "namespace": "llm", "pod": pod, "instance": pod}}
                   for pods in self.pods.values() for pod in pods]
        path = self.cluster.folder / "targets.json"
        path.with_suffix(".new").write_text(json.dumps(targets))
        path.with_suffix(".new").rename(path)

    def end(self):
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join()


def model_of(pod):
    return f"org/{pod.rsplit('-', 1)[0]}"
