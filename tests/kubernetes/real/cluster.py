#!/usr/bin/env python3
"""A real Kubernetes API server on this machine: etcd and kube-apiserver on free ports of the loopback, nothing else.

Usage: cluster.py start FOLDER        prints nothing; FOLDER/admin.kubeconfig and FOLDER/tailrace.kubeconfig speak to it
       cluster.py restart-api FOLDER  kills kube-apiserver, waits 3 s and starts it again
       cluster.py stop FOLDER

The account of tailrace.kubeconfig is system:serviceaccount:tailrace:tailrace by a bearer token, without any right until
somebody grants it one; admin.kubeconfig has a client certificate of system:masters.
"""
import base64
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from harness import free_port  # noqa: E402
VERSION = "1.35.4"


def api_server_program():
    cache = pathlib.Path(os.environ.get("TAILRACE_KUBERNETES_CACHE", ROOT / ".cache" / "kubernetes"))
    return cache / f"kube-apiserver-v{VERSION}"


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.facts_file = self.folder / "cluster.json"

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = {"etcd": free_port(), "etcd_peer": free_port(), "api": free_port()}
        self.facts_file.write_text(json.dumps(facts))
        self._make_certificates()
        self._write_kubeconfigs()
        peer = f"http://127.0.0.1:{facts['etcd_peer']}"
        self._spawn("etcd", ["etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync",
                             "--listen-client-urls", f"http://127.0.0.1:{facts['etcd']}",
                             "--advertise-client-urls", f"http://127.0.0.1:{facts['etcd']}",
                             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                             "--initial-cluster", f"default={peer}"])
        self.start_api()

    def start_api(self):
        facts = json.loads(self.facts_file.read_text())
        at = self.folder
        self._spawn("api", [
            str(api_server_program()), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={facts['api']}", f"--etcd-servers=http://127.0.0.1:{facts['etcd']}",
            "--service-cluster-ip-range=10.96.0.0/24", "--authorization-mode=RBAC",
            f"--client-ca-file={at}/ca.crt", f"--tls-cert-file={at}/server.crt", f"--tls-private-key-file={at}/server.key",
            f"--token-auth-file={at}/tokens.csv", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={at}/account.key", f"--service-account-key-file={at}/account.key",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none", "--profiling=false",
            "--max-requests-inflight=100", "--shutdown-delay-duration=0s", "--v=1"])
        self.wait_ready()

    def wait_ready(self, timeout_s=180):
        end = time.monotonic() + timeout_s
        while True:
            try:
                self.call("GET", "/readyz")
                return
            except OSError as error:  # urllib's own errors too
                if time.monotonic() > end:
                    raise SystemExit(f"kube-apiserver is not ready after {timeout_s} s: {error}\n" + self.log("api")[-2000:])
                time.sleep(0.25)

    def wait_served(self, path, timeout_s=30):
        """A new kind of objects is served some time after its definition was created."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                return self.call("GET", path)
            except urllib.error.HTTPError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def start_all(self):
        self.start()
        self.install_scaled_objects()

    def install_scaled_objects(self):
        """KEDA's kind, as far as anybody here reads it."""
        self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", (HERE / "scaled_object_crd.json").read_text())
        self.wait_served("/apis/keda.sh/v1alpha1/scaledobjects")

    def hang(self):
        """It answers nothing any more, while connections stay; until restart_api()."""
        os.kill(int((self.folder / "api.pid").read_text()), signal.SIGSTOP)

    def lose_answer(self, method, ending):
        """A real server cannot be told to: whether the answer to an order is lost is for chance."""

    def stored_replicas(self, path):
        return self.call("GET", path)["spec"]["replicas"]

    def restart_api(self, pause_s=3.0):
        """As a crash does, without notice."""
        self._end("api", signal.SIGKILL)
        time.sleep(pause_s)
        self.start_api()

    def stop(self):
        self._end("api")
        self._end("etcd")

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def call(self, method, path, body=None, content_type="application/json", token=""):
        """The answer's document. An administrator asks, or whose token it is. Raises urllib.error.HTTPError."""
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        with self._open(method, path, data, content_type, token) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith("{") else text

    def exchange(self, method, path, body, content_type, token):
        """Status and text, whatever they are; `token` None: nobody asks."""
        try:
            with self._open(method, path, body.encode() if body else None, content_type, token) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def _open(self, method, path, data, content_type, token):
        facts = json.loads(self.facts_file.read_text())
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        headers = {"Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif token is not None:
            context.load_cert_chain(str(self.folder / "admin.crt"), str(self.folder / "admin.key"))
        request = urllib.request.Request(f"https://127.0.0.1:{facts['api']}{path}", data=data, method=method, headers=headers)
        return urllib.request.urlopen(request, context=context, timeout=30)

    def _spawn(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        (self.folder / f"{name}.pid").write_text(str(process.pid))

    def _end(self, name, how=signal.SIGTERM):
        pid_file = self.folder / f"{name}.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text())
        pid_file.unlink()
        try:
            os.kill(pid, how)
            for _ in range(300):
                try:
                    if os.waitpid(pid, os.WNOHANG)[0] == pid:
                        return
                except ChildProcessError:  # another process's child
                    os.kill(pid, 0)
                    if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                        return
                time.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            pass

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")  # quickly made

    def _make_certificates(self):
        self._openssl("req", "-x509", *self.KEY, "-nodes", "-days", "2", "-subj", "/CN=test-ca",
                      "-keyout", "ca.key", "-out", "ca.crt")
        (self.folder / "server.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        for name, subject in (("server", "/CN=kube-apiserver"), ("admin", "/O=system:masters/CN=admin")):
            self._openssl("req", *self.KEY, "-nodes", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
            extensions = ["-extfile", "server.ext"] if name == "server" else []
            self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                          "-days", "2", "-out", f"{name}.crt", *extensions)
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "account.key")
        token = os.urandom(16).hex()
        (self.folder / "token").write_text(token)
        (self.folder / "tokens.csv").write_text(f"{token},system:serviceaccount:tailrace:tailrace,tailrace\n")

    def kubeconfig(self, user, namespace="tailrace"):
        """The document, which is YAML too. `user`: a token, or the keys of a user."""
        facts = json.loads(self.facts_file.read_text())
        user = {"token": user} if isinstance(user, str) else user
        cluster = {"server": f"https://127.0.0.1:{facts['api']}", "certificate-authority-data": self._inline("ca.crt")}
        return {"apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [{"name": "test", "cluster": cluster}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
                "users": [{"name": "user", "user": user}]}

    def _inline(self, name):
        return base64.b64encode((self.folder / name).read_bytes()).decode()

    def _write_kubeconfigs(self):
        users = {"admin": {"client-certificate-data": self._inline("admin.crt"), "client-key-data": self._inline("admin.key")},
                 "tailrace": {"tokenFile": f"{self.folder}/token"}}
        for name, user in users.items():
            (self.folder / f"{name}.kubeconfig").write_text(json.dumps(self.kubeconfig(user)))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "restart-api", "stop"):
        print(__doc__, file=sys.stderr)
        return 2
    cluster = Cluster(sys.argv[2])
    {"start": cluster.start_all, "restart-api": cluster.restart_api, "stop": cluster.stop}[sys.argv[1]]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
