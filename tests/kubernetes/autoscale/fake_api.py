"""A Kubernetes API server in memory, as far as the autoscaler and its tests need one, with TLS on a port of the loopback.

What a real kube-apiserver answered (tests/kubernetes/data/protocol.json) rules it. The defaults that it adds to objects are taken from there; a
request of a kind that is not there is refused with 501 and named in `strange`; and test_kubernetes.py has the same conversation with it.
It knows accounts by their tokens and holds them to the roles that were created.
"""
import copy
import http.server
import json
import pathlib
import socket
import socketserver
import ssl
import threading
import time
import urllib.parse
import uuid

import protocol
from cluster import Cluster

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data" / "protocol.json"
MERGE = "application/merge-patch+json"
CORE, APPS, RBAC = "api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1"
KINDS = {(CORE, "namespaces"): "Namespace", (CORE, "nodes"): "Node", (CORE, "serviceaccounts"): "ServiceAccount", (CORE, "configmaps"): "ConfigMap",
         (CORE, "pods"): "Pod", (APPS, "deployments"): "Deployment", (APPS, "replicasets"): "ReplicaSet",
         (RBAC, "roles"): "Role", (RBAC, "rolebindings"): "RoleBinding", (RBAC, "clusterroles"): "ClusterRole",
         (RBAC, "clusterrolebindings"): "ClusterRoleBinding", ("apis/autoscaling/v2", "horizontalpodautoscalers"): "HorizontalPodAutoscaler",
         ("apis/keda.sh/v1alpha1", "scaledobjects"): "ScaledObject", ("apis/coordination.k8s.io/v1", "leases"): "Lease",
         ("apis/events.k8s.io/v1", "events"): "Event"}
ADMIN, NOBODY = "admin", "system:anonymous"


class Refused(Exception):
    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.code = code
        self.document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
                         "details": details, "code": code}


class Request:
    """A request's parts: apis/apps/v1, namespace, deployments, name, scale."""

    def __init__(self, method, target, content_type, body):
        self.method, self.target, self.content_type, self.body = method, target, content_type, body
        path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        parts = path.strip("/").split("/")
        base = 2 if parts[0] == "api" else 3
        self.version, rest = "/".join(parts[:base]), parts[base:]
        self.ns, rest = (rest[1], rest[2:]) if len(rest) > 2 and rest[0] == "namespaces" else ("", rest)
        self.plural, self.name, self.sub = (rest + ["", "", ""])[:3]
        self.group = "" if base == 2 else parts[1]
        self.kind = KINDS.get((self.version, self.plural))
        self.what = self.plural + (f".{self.group}" if self.group else "")

    def selected_name(self):
        return self.query.get("fieldSelector", "").removeprefix("metadata.name=")

    def verb(self):
        if self.method == "GET":
            return "watch" if self.query.get("watch") == "1" else "get" if self.name else "list"
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[self.method]

    def details(self, name):
        return {**({"name": name} if name else {}), **({"group": self.group} if self.group else {}), "kind": self.plural}

    def refused(self, code, reason, words, name=None):
        name = self.name if name is None else name
        return Refused(code, reason, words.format(f'{self.what} "{name}"'), **self.details(name))

    def invalid(self, name, field, message, kind=None, group=None):
        causes = [{"reason": "FieldValueInvalid", "message": message, "field": field}]
        kind, group = kind or self.plural, self.group if group is None else group
        what = kind + (f".{group}" if group else "")
        details = {"name": name, **({"group": group} if group else {}), "kind": kind, "causes": causes}
        return Refused(422, "Invalid", f'{what} "{name}" is invalid: {field}: {message}', **details)


def merged(old, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def defaulted(value, sent, answered):
    """`value` with what a real server added to `sent`, an object of the same kind, in what it `answered`."""
    if isinstance(value, dict) and isinstance(answered, dict):
        sent = sent if isinstance(sent, dict) else {}
        out = {key: defaulted(item, sent.get(key), answered.get(key)) for key, item in value.items() if item != {} or key in answered}
        out.update({key: copy.deepcopy(item) for key, item in answered.items() if key not in sent and key not in out})
        return out
    if isinstance(value, list) and isinstance(answered, list) and answered and isinstance(sent, list) and sent:
        return [defaulted(item, sent[0], answered[0]) for item in value]
    return copy.deepcopy(value)


def matches(selector, labels):
    return all(labels.get(pair.partition("=")[0]) == pair.partition("=")[2] for pair in selector.split(",") if pair)


class Store:
    """Objects, their history, and what is asked of them; one request at a time."""

    def __init__(self):
        recorded = json.loads(RECORDED.read_text())
        self.forms = {protocol.form(e["method"], e["target"], e["content_type"]) for e in recorded}
        self.examples = {e["answer"]["kind"]: (e["body"], e["answer"]) for e in recorded if e["method"] == "POST" and e["status"] == 201}
        self.objects = {}  # by (version, plural, ns, name)
        self.history = []  # (version, type, key, object)
        self.version = 100
        self.tokens = {}  # → user
        self.strange = []
        self.roles_known = True
        self.changed = threading.Condition()
        for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
            self.handle(ADMIN, Request("POST", "/api/v1/namespaces", "application/json", json.dumps({"metadata": {"name": name}})))

    def handle(self, user, request):
        """Status and document, or text."""
        with self.changed:
            try:
                return self.carry_out(user, request)
            except Refused as refused:
                return refused.code, refused.document

    def carry_out(self, user, request):
        if user is None:
            refused = Refused(401, "Unauthorized", "Unauthorized")
            del refused.document["details"]
            raise refused
        self.authorize(user, request)
        form = protocol.form(request.method, request.target, request.content_type)
        if form not in self.forms:
            self.strange.append(form)
            raise Refused(501, "NotImplemented", f"what a real server answers to this is not recorded: {form}")
        if request.kind is None:
            return 404, "404 page not found\n"
        body = self.body_of(request)
        if request.method == "POST" and request.sub == "token":
            return 201, self.token(request, body)
        if request.method == ("PUT" if not request.name else "POST") and (request.method == "PUT" or request.name):
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        return getattr(self, request.verb() + ("_scale" if request.sub == "scale" else ""))(request, body)

    # --- who may ---

    def authorize(self, user, request):
        if user == ADMIN or (self.roles_known and any(self.allows(rule, request) for rule in self.rules(user, request.ns))):
            return
        about = request.plural + (f"/{request.sub}" if request.sub else "")
        where = f'in the namespace "{request.ns}"' if request.ns else "at the cluster scope"
        name = request.name or request.selected_name()
        subject = f'{request.what} "{name}"' if name else request.what
        raise Refused(403, "Forbidden", f'{subject} is forbidden: User "{user}" cannot {request.verb()} resource "{about}" in API group '
                      f'"{request.group}" {where}', **request.details(name))

    def rules(self, user, ns):
        for (version, plural, at, _), binding in self.objects.items():
            if version != RBAC or plural not in ("rolebindings", "clusterrolebindings") or (plural == "rolebindings" and at != ns):
                continue
            if any(f"system:serviceaccount:{s.get('namespace')}:{s['name']}" == user for s in binding["subjects"]):
                role = binding["roleRef"]
                key = ("roles", at) if role["kind"] == "Role" else ("clusterroles", "")
                yield from self.objects.get((RBAC, *key, role["name"]), {"rules": []})["rules"]

    @staticmethod
    def allows(rule, request):
        resource = request.plural + (f"/{request.sub}" if request.sub else "")
        names = rule.get("resourceNames")
        return (request.group in rule["apiGroups"] and resource in rule["resources"] and request.verb() in rule["verbs"]
                and (not names or (request.name or request.selected_name()) in names))

    def token(self, request, body):
        token = uuid.uuid4().hex
        self.tokens[token] = f"system:serviceaccount:{request.ns}:{request.name}"
        answer = defaulted(body, *self.examples["TokenRequest"])
        answer["metadata"].update(name=request.name, namespace=request.ns, uid=str(uuid.uuid4()))
        answer["status"]["token"] = token
        return answer

    # --- objects ---

    def body_of(self, request):
        if request.method in ("GET", "DELETE"):
            return None
        if request.method == "PATCH" and request.content_type != MERGE:
            raise Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        if request.content_type not in ("application/json", MERGE):
            refused = Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: "
                              "application/json, application/yaml, application/vnd.kubernetes.protobuf")
            del refused.document["details"]
            raise refused
        try:
            return json.loads(request.body)
        except ValueError:
            refused = Refused(400, "BadRequest", f"the object provided is unrecognized (must be of type {request.kind}): couldn't get version/kind; "
                              f"json parse error: invalid character 'n' looking for beginning of object key string ({request.body})")
            del refused.document["details"]
            raise refused from None

    def key(self, request, name=None):
        return request.version, request.plural, request.ns, request.name if name is None else name

    def find(self, request):
        found = self.objects.get(self.key(request))
        if found is None:
            raise request.refused(404, "NotFound", "{} not found")
        return found

    def write(self, request, name, value, how):
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        key = self.key(request, name)
        if how == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = value
        self.history.append((self.version, how, key, copy.deepcopy(value)))
        self.changed.notify_all()
        return value

    def update_to(self, request, old, new):
        if new == old:
            return old
        noted = request.kind == "Deployment" and new["metadata"].get("annotations") != old["metadata"].get("annotations")
        if "generation" in old["metadata"] and (noted or new.get("spec") != old.get("spec")):
            new["metadata"]["generation"] += 1
        return self.write(request, request.name, new, "MODIFIED")

    def same_version(self, request, metadata, old):
        """Compare and swap, where the writer names a version."""
        asked = metadata.get("resourceVersion")
        if asked is not None and asked != old["metadata"]["resourceVersion"]:
            raise request.refused(409, "Conflict", "Operation cannot be fulfilled on {}: the object has been modified; please apply your changes "
                                  "to the latest version and try again")

    def create(self, request, body):
        name = body["metadata"]["name"]
        if request.ns and (CORE, "namespaces", "", request.ns) not in self.objects:
            raise Refused(404, "NotFound", f'namespaces "{request.ns}" not found', name=request.ns, kind="namespaces")
        if self.key(request, name) in self.objects:
            raise request.refused(409, "AlreadyExists", "{} already exists", name)
        if len(body.get("note", "")) > 1024:
            raise request.invalid(name, "message", 'Invalid value: "": can have at most 1024 characters', "Event", "")
        sent, answered = self.examples[request.kind] if request.kind in self.examples else ({}, {})
        metadata, example = body["metadata"], answered.get("metadata", {})
        made = defaulted({key: item for key, item in body.items() if key != "metadata"}, {**sent, "metadata": None}, answered)
        made["metadata"] = {key: copy.deepcopy(item) for key, item in metadata.items() if item != {}}
        made["metadata"].update(uid=str(uuid.uuid4()), creationTimestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        if "generation" in example:
            made["metadata"]["generation"] = 1
        if request.kind == "Namespace":
            made["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
        return 201, self.write(request, name, made, "ADDED")

    def get(self, request, _):
        return 200, self.find(request)

    def list(self, request, _):
        found = [value for (version, plural, ns, name), value in sorted(self.objects.items(), key=lambda item: item[0])
                 if (version, plural) == (request.version, request.plural) and (not request.ns or ns == request.ns)
                 and matches(request.query.get("labelSelector", ""), value["metadata"].get("labels", {}))
                 and request.selected_name() in ("", name)]
        begin, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", len(found) or 1))
        page, custom = found[begin:begin + limit], request.kind == "ScaledObject"
        metadata = {"resourceVersion": str(self.version), **({"continue": ""} if custom else {})}
        if len(found) > begin + limit:
            metadata.update({"continue": str(begin + limit), "remainingItemCount": len(found) - begin - limit})
        # Items of a list have no kind, but for those of a custom one.
        items = [{key: item for key, item in value.items() if custom or key not in ("kind", "apiVersion")} for value in page]
        return 200, {"kind": f"{request.kind}List", "apiVersion": request.version.partition("/")[2], "metadata": metadata, "items": items}

    def update(self, request, body):
        old = self.find(request)
        if "resourceVersion" not in body["metadata"]:
            raise request.invalid(request.name, "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
        self.same_version(request, body["metadata"], old)
        return 200, self.update_to(request, old, {**copy.deepcopy(body), "metadata": {**old["metadata"], **body["metadata"]}})

    def patch(self, request, body):
        old = self.find(request)
        self.same_version(request, body.get("metadata", {}), old)
        if request.sub == "status":
            new = {**copy.deepcopy(old), "status": merged(old.get("status", {}), body.get("status", {}))}
            if request.kind == "Pod":
                new["status"]["conditions"] = [{"lastProbeTime": None, "lastTransitionTime": None, **c} for c in new["status"].get("conditions", [])]
        else:
            new = merged(copy.deepcopy(old), body)
        return 200, self.update_to(request, old, new)

    def delete(self, request, _):
        old = copy.deepcopy(self.find(request))
        self.write(request, request.name, old, "DELETED")
        if request.kind != "Pod":
            return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                         "details": {**request.details(request.name), "uid": old["metadata"]["uid"]}}
        old["metadata"].update(generation=2, deletionTimestamp="now", deletionGracePeriodSeconds=0)
        return 200, old

    # --- the scale of a Deployment ---

    def get_scale(self, request, _):
        found = self.find(request)
        metadata = {key: found["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
        selector = ",".join(f"{k}={v}" for k, v in found["spec"]["selector"]["matchLabels"].items())
        spec = {"replicas": found["spec"]["replicas"]} if found["spec"]["replicas"] else {}
        return 200, {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec,
                     "status": {"replicas": found.get("status", {}).get("replicas", 0), "selector": selector}}

    def patch_scale(self, request, body):
        old = self.find(request)
        self.same_version(request, body.get("metadata", {}), old)
        wanted = body["spec"]["replicas"]
        if wanted < 0:
            raise request.invalid(request.name, "spec.replicas", f"Invalid value: {wanted}: must be greater than or equal to 0", "Scale", "autoscaling")
        new = copy.deepcopy(old)
        new["spec"]["replicas"] = wanted
        self.update_to(request, old, new)
        return self.get_scale(request, None)

    # --- watching ---

    def watch(self, request, _):
        since = request.query.get("resourceVersion", "")
        if not since.isdigit():
            refused = Refused(500, "", f'resourceVersion: Invalid value: "{since}": strconv.ParseUint: parsing "{since}": invalid syntax')
            del refused.document["details"], refused.document["reason"]
            raise refused
        return 200, self.follow(request, int(since))

    def follow(self, request, since):
        """Lines, as they come; None where there is nothing to say for a moment."""
        end = time.monotonic() + float(request.query["timeoutSeconds"])
        while time.monotonic() < end:
            with self.changed:
                news = [item for item in self.history if item[0] > since]
                if not news:
                    self.changed.wait(0.1)
            if not news:
                yield None
            for version, how, (of, plural, ns, name), value in news:
                since = version
                if (of, plural) == (request.version, request.plural) and request.ns in ("", ns) and request.selected_name() in ("", name):
                    yield {"type": how, "object": value}


class FakeCluster(Cluster):
    """The same from outside as a Cluster of real processes."""

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_certificates()
        self.store = Store()
        self.port = 0
        self.hung = self.lost = None
        self.start_api()
        self.facts_file.write_text(json.dumps({"api": self.port}))

    def start_api(self):
        self.hung, self.connections = threading.Event(), set()
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.cluster = self
        self.port = self.server.server_address[1]
        self.server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.tls.load_cert_chain(str(self.folder / "server.crt"), str(self.folder / "server.key"))
        self.server.tls.load_verify_locations(str(self.folder / "ca.crt"))
        self.server.tls.verify_mode = ssl.CERT_OPTIONAL
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def hang(self):
        self.hung.set()

    def lose_answer(self, method, ending):
        """The next such request is carried out, and then the server hangs."""
        self.lost = (method, ending)

    def stored_replicas(self, path):
        request = Request("GET", path, "", "")
        with self.store.changed:
            return self.store.find(request)["spec"]["replicas"]

    def restart_api(self, pause_s=1.0):
        self.stop()
        time.sleep(pause_s)
        self.store.roles_known = False  # as a real one for a moment
        self.start_api()
        time.sleep(0.3)
        self.store.roles_known = True

    def stop(self):
        self.hung.set()
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, *_):
        """Connections break: that is what these tests do."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.cluster = self.server.cluster
        self.cluster.connections.add(self.request)
        self.hung = self.cluster.hung
        self.request.settimeout(180)
        self.raw = self.request
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.cluster.connections.discard(self.raw)
        self.cluster.connections.add(self.request)
        super().setup()

    def finish(self):
        self.cluster.connections.discard(self.request)
        super().finish()

    def log_message(self, *_):
        pass

    def user(self):
        """None for a token that nobody was given."""
        certificate = self.request.getpeercert() or {}
        if ("organizationName", "system:masters") in [pair for item in certificate.get("subject", ()) for pair in item]:
            return ADMIN
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return self.cluster.store.tokens.get(token) if kind == "Bearer" else NOBODY

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.stay_while_hung()
        request = Request(self.command, self.path, self.headers.get("Content-Type", ""), body)
        status, answer = self.cluster.store.handle(self.user(), request)
        if self.cluster.lost and self.command == self.cluster.lost[0] and self.path.endswith(self.cluster.lost[1]) and status == 200:
            self.cluster.lost = None
            self.cluster.hang()
        self.stay_while_hung()
        self.send_response(status)
        if hasattr(answer, "__next__"):
            return self.stream(answer)
        data = answer if isinstance(answer, str) else json.dumps(answer) + "\n"
        self.send_header("Content-Type", "text/plain; charset=utf-8" if isinstance(answer, str) else "application/json")
        self.send_header("Content-Length", str(len(data.encode())))
        self.end_headers()
        self.wfile.write(data.encode())

    def stream(self, lines):
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self.stay_while_hung()
            if line is not None:
                data = json.dumps(line).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def stay_while_hung(self):
        """A server that hangs is not heard of again: it is killed then."""
        if self.hung.is_set():
            self.rfile.read(1)
            raise ConnectionAbortedError("killed")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer
