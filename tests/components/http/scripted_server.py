"""An HTTP server with scripted answers."""

import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ScriptedServer(ThreadingHTTPServer):
    """Answers with the scripted status codes in turn, then with 200, or what `rejects` says about a
    body. It keeps what it received."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = deque()
        self.received = []
        self.bodies = []
        self.accepted = []
        self.rejects = lambda body: None
        self.connections = set()
        self.release = threading.Event()
        self.release.set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/in"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, *statuses, text="ok", **headers):
        self.script.extend((status, headers, text) for status in statuses)

    def next_answer(self, body):
        if self.script:
            return self.script.popleft()
        status = self.rejects(body) or 200
        if status == 200:
            self.accepted.append(body)
        return status, {}, "ok"

    def close(self):
        self.release.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.connections.add(self.client_address)
        server.received.append(self.headers)
        server.bodies.append(body)
        server.release.wait(20)
        status, headers, text = server.next_answer(body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments):
        """Nothing."""
