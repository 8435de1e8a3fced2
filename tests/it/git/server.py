"""Git over HTTP with basic authentication, for tests: `git http-backend` behind a small server.

Arguments: the directory of the repositories, and the SHA-256 of the expected credentials, so that
they stand nowhere in the clear. Paths below /open/ need none, /slow/ waits for /go before it sends
objects, /redirect/ leads to the same server by another name.
"""
import hashlib
import http.server
import os
import subprocess
import sys
import threading

root, expected = sys.argv[1:3]
go = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self):
        body = self.body()
        path, _, query = self.path.partition("?")
        if path == "/go":
            go.set()
            return self.plain(200)
        if path.startswith("/redirect/"):
            port = self.server.server_address[1]
            there = f"http://localhost:{port}/{self.path[10:]}"
            return self.plain(302, ("location", there))
        if path.startswith("/open/"):
            path = path[5:]
        else:
            given = self.headers.get("authorization", "").removeprefix("Basic ")
            if hashlib.sha256(given.encode()).hexdigest() != expected:
                if given:
                    print("wrong credentials", flush=True)
                return self.plain(401, ("www-authenticate", 'Basic realm="test"'))
        if path.startswith("/slow/"):
            path = path[5:]
            if self.command == "POST":
                print("paused", flush=True)
                go.wait()
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "REMOTE_USER": "someone",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((value for name, value in fields if name == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("listening on", server.server_address[1], "now", flush=True)
server.serve_forever()
