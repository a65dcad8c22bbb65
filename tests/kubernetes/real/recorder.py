#!/usr/bin/env python3
"""Passes plain HTTP on to the API server of a cluster.py folder and writes what was said to a file.

Usage: recorder.py FOLDER OUTPUT.json   prints its URL; ends and writes at SIGTERM

One exchange: method, target, content_type, body; status, answer. Headers, and with them tokens, are not kept.
"""
import http.client
import http.server
import json
import pathlib
import signal
import ssl
import sys
import threading

exchanges = []
lock = threading.Lock()


def shortened(text):
    """Without managedFields: who wrote which field, which nobody here reads and which is most of an object."""
    def strip(value):
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key != "managedFields"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    lines = [json.dumps(strip(json.loads(line)), separators=(",", ":")) for line in text.splitlines() if line.startswith("{")]
    return "\n".join(lines) if lines else text.strip()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind = self.headers.get("Content-Type", "")
        entry = {"method": self.command, "target": self.path, "content_type": kind, "body": body.decode(), "status": 0, "answer": ""}
        with lock:
            exchanges.append(entry)
        server = http.client.HTTPSConnection("127.0.0.1", self.server.api_port, context=self.server.tls, timeout=180)
        server.request(self.command, self.path, body=body or None, headers={"Content-Type": kind, "Accept": "application/json"})
        answer = server.getresponse()
        entry["status"] = answer.status
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
        if "watch=1" in self.path and answer.status == 200:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.follow(answer, entry)
        else:
            text = answer.read()
            entry["answer"] = text.decode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        server.close()

    def follow(self, answer, entry):
        self.wfile.flush()
        while line := answer.readline():
            entry["answer"] += line.decode()
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            except OSError:  # the client has seen enough
                return

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on


def main():
    folder, output = pathlib.Path(sys.argv[1]), sys.argv[2]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.api_port = json.loads((folder / "cluster.json").read_text())["api"]
    server.tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    server.tls.load_cert_chain(str(folder / "admin.crt"), str(folder / "admin.key"))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
    with lock:
        kept = [{**entry, "body": shortened(entry["body"]), "answer": shortened(entry["answer"])} for entry in exchanges]
    pathlib.Path(output).write_text("[\n" + ",\n".join(json.dumps(entry) for entry in kept) + "\n]\n")


if __name__ == "__main__":
    main()
