"""The wire itself: bad input in every form, and binary messages, which the published clients never send."""

import base64
import gzip
import http.client
import json
import os
import struct
import sys
import urllib.parse

from connectrpc.code import Code
from e2b import Sandbox
from e2b.envd.filesystem import filesystem_pb
from e2b.envd.process import process_pb
from protobuf import Oneof

from checks import PATIENCE, patient

BASE = urllib.parse.urlsplit(os.environ["E2B_API_URL"])
KEY = {"X-API-Key": os.environ["E2B_API_KEY"]}
JSON = {"Content-Type": "application/json"}
STREAM = {"Content-Type": "application/connect+json"}
PROTO = {"Content-Type": "application/proto"}
PROTO_STREAM = {"Content-Type": "application/connect+proto"}


def ask(method, path, headers=None, body=None):
    connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
    connection.request(method, BASE.path + path, body, headers or {})
    reply = connection.getresponse()
    return reply.status, dict(reply.headers), reply.read()


def envelope(message, flags=0):
    return struct.pack(">BI", flags, len(message)) + message


def envelopes(body):
    while body:
        flags, length = struct.unpack(">BI", body[:5])
        yield flags, body[5 : 5 + length]
        body = body[5 + length :]


def refused(reply, status, code=None):
    """Plain failures have the status as their code, calls a word."""
    got, _, body = reply
    body = json.loads(body)
    assert got == status and body["code"] == (code or status) and body["message"], reply
    if code:
        Code(code)


def broken(reply, code):
    """A stream tells its failure at its end."""
    status, headers, body = reply
    assert status == 200 and headers["content-type"].startswith("application/connect+"), reply
    flags, end = list(envelopes(body))[-1]
    assert flags == 2 and json.loads(end)["error"]["code"] == code, reply


def control():
    refused(ask("GET", "/sandboxes"), 401)
    refused(ask("GET", "/sandboxes", {"X-API-Key": "e2b_sk_wrong"}), 401)
    refused(ask("POST", "/v2/sandboxes", {"X-API-Key": "e2b_wrong"}, b"{}"), 401)
    for body in (b"{", b"[]", b"{}", b'{"templateID": 5}', b'{"templateID": "base", "timeout": -1}',
                 b'{"templateID": "base", "timeout": 0}', b'{"templateID": "base", "timeout": 1e30}',
                 b'{"templateID": "base", "metadata": {"a": 1}}', b"\xff\xfe", b'{"templateID": "base", "mcp": {}}',
                 b'{"templateID": "base", "envVars": {"A=B": "x"}}',
                 b'{"templateID": "base", "network": {"denyOut": ["10.0.0.0/8"]}}'):
        refused(ask("POST", "/v2/sandboxes", KEY | JSON, body), 400)
    refused(ask("POST", "/v2/sandboxes", KEY | JSON, b'{"templateID": "../etc"}'), 404)
    refused(ask("GET", "/sandboxes/none", KEY), 404)
    refused(ask("DELETE", "/sandboxes/%00%2e%2e", KEY), 404)
    refused(ask("GET", "/v2/sandboxes?limit=0", KEY), 400)
    refused(ask("GET", "/v2/sandboxes?state=gone", KEY), 400)
    refused(ask("GET", "/v2/sandboxes?nextToken=x", KEY), 400)
    refused(ask("GET", "/templates", KEY), 501)
    refused(ask("POST", "/sandboxes/none/snapshots", KEY, b"{}"), 501)


def inside(sandbox):
    token = sandbox._envd_access_token
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": token}
    start, stat = "/process.Process/Start", "/filesystem.Filesystem/Stat"
    wrong = here | {"X-Access-Token": token[:-1] + ("0" if token[-1] != "0" else "1")}
    other = here | {"E2b-Sandbox-Id": "sb-other"}
    for headers in (wrong, other, {"E2b-Sandbox-Id": sandbox.sandbox_id}):
        refused(ask("POST", stat, headers | JSON, b"{}"), 401, "unauthenticated")
        broken(ask("POST", start, headers | STREAM, envelope(b"{}")), "unauthenticated")
        refused(ask("GET", "/files?path=/etc/hostname", headers), 401)
        refused(ask("GET", "/health", headers), 401)
        refused(ask("POST", "/execute", headers | {"E2b-Sandbox-Port": "49999"} | JSON, b"{}"), 401)
    refused(ask("POST", stat, here | JSON, b"{"), 400, "invalid_argument")
    refused(ask("POST", stat, here | JSON, b'{"path": 5}'), 400, "invalid_argument")
    refused(ask("POST", stat, here | JSON, b'{"path": "a\\u0000b"}'), 400, "invalid_argument")
    refused(ask("POST", stat, here | {"Content-Type": "text/plain"}, b"{}"), 400, "invalid_argument")
    refused(ask("POST", stat, here | JSON | {"Content-Encoding": "gzip"}, b"{}"), 501, "unimplemented")
    refused(ask("POST", stat, here | JSON | {"Authorization": "Basic !"}, b"{}"), 401, "unauthenticated")
    refused(ask("POST", stat, here | PROTO, b"\x0a\x05ab"), 400, "invalid_argument")
    refused(ask("POST", "/process.Process/Nothing", here | JSON, b"{}"), 501, "unimplemented")
    refused(ask("POST", "/process.Process/SendSignal", here | JSON,
                b'{"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}'), 404, "not_found")
    refused(ask("POST", "/process.Process/SendInput", here | JSON,
                b'{"process": {}, "input": {"stdin": "!"}}'), 400, "invalid_argument")
    broken(ask("POST", start, here | STREAM, b""), "invalid_argument")
    broken(ask("POST", start, here | STREAM, b"\0\0\0"), "invalid_argument")
    broken(ask("POST", start, here | STREAM, envelope(b"{")), "invalid_argument")
    broken(ask("POST", start, here | STREAM, envelope(b"{}")), "invalid_argument")
    broken(ask("POST", start, here | STREAM, envelope(b"{}", flags=1)), "unimplemented")
    broken(ask("POST", start, here | STREAM, b"\0\xff\xff\xff\xff{}"), "invalid_argument")
    broken(ask("POST", start, here | STREAM, envelope(b'{"process": {"cmd": "/nowhere"}}')), "invalid_argument")
    broken(ask("POST", "/process.Process/StreamInput", here | STREAM,
               envelope(b'{"data": {"input": {"stdin": ""}}}')), "invalid_argument")
    refused(ask("GET", "/files", here), 400)
    refused(ask("GET", "/files?path=none", here), 404)
    refused(ask("POST", "/files?path=a", here, b"x"), 400)
    refused(ask("POST", "/files", here | {"Content-Type": "application/octet-stream"}, b"x"), 400)
    form = here | {"Content-Type": "multipart/form-data; boundary=x"}
    refused(ask("POST", "/files?path=a", form, b"--x\r\nbroken"), 400)
    refused(ask("POST", "/files?path=a", form, b"--x--\r\n"), 400)
    packed = here | {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    assert ask("POST", "/files?path=a", packed, b"no gzip")[0] >= 400
    assert not sandbox.files.exists("a")
    status, headers, body = ask("GET", "/files?path=/etc/hostname", here | {"Range": "bytes=0-1"})
    assert (status, len(body), headers["content-length"]) == (206, 2, "2")
    status, headers, _ = ask("GET", "/files?path=/etc/hostname", here)
    etag = headers["etag"]
    assert ask("GET", "/files?path=/etc/hostname", here | {"If-None-Match": etag})[0] == 304
    refused(ask("GET", "/files?path=/etc/hostname", here | {"Range": "bytes=999999-"}), 416)
    at = here | {"E2b-Sandbox-Port": "49999"}
    refused(ask("POST", "/execute", at | JSON, b"{}"), 400)
    refused(ask("GET", "/nothing", at), 404)
    refused(ask("GET", "/health", here | {"E2b-Sandbox-Port": "x"}), 400)
    assert ask("GET", "/health", here)[0] == 204
    assert json.loads(ask("GET", "/metrics", here)[2])["cpu_count"] > 0
    assert json.loads(ask("GET", "/envs", here)[2])["HOME"] == "/home/user"
    # Some clients do not name the sandbox whose token they show, others name it in requests about it.
    assert ask("GET", "/health", {"X-Access-Token": token})[0] == 204
    assert ask("GET", f"/sandboxes/{sandbox.sandbox_id}", KEY | here)[0] == 200
    # A token of the hub opens the inside as well.
    assert ask("GET", "/health", KEY | {"E2b-Sandbox-Id": sandbox.sandbox_id})[0] == 204


def binary(sandbox):
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    config = process_pb.ProcessConfig(cmd="/bin/sh", args=["-c", 'printf "$A\\377"; exit 300'], envs={"A": "ä"})
    asked = process_pb.StartRequest(process=config, stdin=False).to_binary()
    status, headers, body = ask("POST", "/process.Process/Start", here | PROTO_STREAM, envelope(asked))
    assert (status, headers["content-type"]) == (200, "application/connect+proto")
    *events, last = list(envelopes(body))
    assert last == (2, b"{}")
    events = [process_pb.StartResponse.from_binary(message).event.event for _, message in events]
    assert events[0].field == "start" and events[0].value.pid > 0
    assert b"".join(one.value.output.value for one in events[1:-1]) == b"\xc3\xa4\xff"
    assert (events[-1].value.exit_code, events[-1].value.status) == (44, "exit status 44")
    sandbox.files.write("here", "12345")
    asked = filesystem_pb.StatRequest(path="here").to_binary()
    status, _, body = ask("POST", "/filesystem.Filesystem/Stat", here | PROTO, asked)
    entry = filesystem_pb.StatResponse.from_binary(body).entry
    assert (entry.name, entry.size, entry.type) == ("here", 5, filesystem_pb.FileType.FILE)
    shown = sandbox.files.get_info("here")
    assert entry.modified_time.to_datetime() == shown.modified_time
    waiting = sandbox.commands.run("cat; exit 2", background=True, stdin=True)
    selector = process_pb.ProcessSelector(selector=Oneof("pid", waiting.pid))
    asked = process_pb.SendInputRequest(
        process=selector, input=process_pb.ProcessInput(input=Oneof("stdin", b"\0bytes"))
    )
    assert ask("POST", "/process.Process/SendInput", here | PROTO, asked.to_binary())[0] == 200
    asked = process_pb.SendSignalRequest(process=selector, signal=process_pb.Signal.SIGTERM)
    assert ask("POST", "/process.Process/SendSignal", here | PROTO, asked.to_binary())[0] == 200
    listed = process_pb.ListResponse.from_binary(ask("POST", "/process.Process/List", here | PROTO, b"")[2])
    assert isinstance(listed.processes, list)


def by_name(sandbox):
    """What `E2B_DOMAIN` leads to, behind whatever ends its TLS."""
    token = {"X-Access-Token": sandbox._envd_access_token}

    def at(name, path, headers=None, method="GET", body=None):
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
        connection.request(method, path, body, {"Host": f"{name}.e2b.test"} | (headers or {}))
        reply = connection.getresponse()
        return reply.status, dict(reply.headers), reply.read()

    identity = sandbox.sandbox_id
    status, _, body = at("api", f"/sandboxes/{identity}", KEY)
    assert status == 200 and json.loads(body)["domain"] == "e2b.test", body
    refused(at("api", "/v2/sandboxes"), 401)
    assert at(f"49983-{identity}", "/health", token)[0] == 204
    refused(at(f"49983-{identity}", "/health"), 401)
    refused(at("49983-sb-other", "/health", token), 401)
    refused(at("nothing", "/health", token), 400)
    sandbox.files.write("named", "by its name")
    url = urllib.parse.urlsplit(sandbox.download_url("named"))
    assert at(f"49983-{identity}", f"/files?{url.query}")[2] == b"by its name"
    status, _, body = at(f"49999-{identity}", "/contexts", token)
    assert status == 200 and json.loads(body) == []
    serve = "python3 -u -c 'import http.server as h; s=h.ThreadingHTTPServer((\"127.0.0.1\", 8000), h.SimpleHTTPRequestHandler); print(1); s.serve_forever()'"
    server = sandbox.commands.run(serve, background=True, timeout=0)
    assert next(iter(server))[0].startswith("1")
    assert at(f"8000-{identity}", "/named", token)[2] == b"by its name"
    assert at(f"8000-{identity}", "/named", {"E2B-Traffic-Access-Token": token["X-Access-Token"]})[0] == 200
    refused(at(f"8000-{identity}", "/named"), 401)
    there = {"E2b-Sandbox-Id": identity, "E2b-Sandbox-Port": "8000"}
    assert ask("GET", "/named", there | token)[2] == b"by its name"
    server.kill()
    with patient(Sandbox.create(network={"allow_public_traffic": True}, request_timeout=PATIENCE)) as public:
        server = public.commands.run(serve, background=True, timeout=0)
        assert next(iter(server))[0].startswith("1")
        assert at(f"8000-{public.sandbox_id}", "/")[0] == 200
        refused(at(f"49983-{public.sandbox_id}", "/metrics"), 401)


ECHO = """
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = json.dumps([self.path, {name.lower(): value for name, value in self.headers.items()}]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8001), Echo)
print(1)
server.serve_forever()
"""


def at_a_port(sandbox):
    """A server has its own name, keys and signed files."""
    sandbox.files.write("echo.py", ECHO)
    server = sandbox.commands.run("python3 -u echo.py", background=True, timeout=0)
    assert next(iter(server))[0].startswith("1")
    name = f"8001-{sandbox.sandbox_id}.e2b.test"
    token = {"X-Access-Token": sandbox._envd_access_token}

    def said(headers):
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
        connection.request("GET", "/files?signature=own", None, {"Host": name} | headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return json.loads(reply.read())

    path, headers = said(token | {"X-API-Key": "its own"})
    assert path == "/files?signature=own" and headers["x-api-key"] == "its own", (path, headers)
    assert "x-access-token" not in headers and headers["x-forwarded-host"] == name, headers
    assert "x-api-key" not in said(KEY)[1]
    server.kill()


def signed(sandbox):
    """A signed address is for the one file that was signed."""
    sandbox.files.write("open", "for all")
    sandbox.files.write("shut", "for none")
    query = urllib.parse.urlsplit(sandbox.download_url("open")).query
    assert ask("GET", f"/files?{query}")[2] == b"for all"
    for again in (f"path=shut&{query}", f"{query}&path=shut", f"%70ath=shut&{query}", f"{query}&signature=v1_x",
                  f"username=root&username=&{query}", f"signature_expiration=1&signature_expiration=2&{query}"):
        refused(ask("GET", f"/files?{again}"), 400)
    refused(ask("GET", "/files?path=open&signature=v1_x"), 401)


def bounds(sandbox):
    """What is small to ask for and could be much to do."""
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    sandbox.files.write("deep/er/file", "x")
    asked = json.dumps({"path": "deep", "depth": 2**32 - 1}).encode()
    status, _, body = ask("POST", "/filesystem.Filesystem/ListDir", here | JSON, asked)
    assert (status, [one["name"] for one in json.loads(body)["entries"]]) == (200, ["er", "file"]), body
    form = here | {"Content-Type": "multipart/form-data; boundary=x"}
    reply = ask("POST", "/files?path=a", form, b"a" * (24 << 20))
    refused(reply, 400)
    # Not that it was incomplete: it was not read to its end.
    assert b"failed to read" in reply[2], reply
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    assert ask("POST", "/files?path=long", form, head + b"a" * (24 << 20) + b"\r\n--x--\r\n")[0] == 200
    assert sandbox.files.get_info("long").size == 24 << 20
    packed = here | {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    assert ask("POST", "/files?path=zeros", packed, gzip.compress(bytes(64 << 20)))[0] == 200
    assert sandbox.files.get_info("zeros").size == 64 << 20


def queue(sandbox):
    """Whoever leaves before its turn stops nobody else."""
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    here |= {"E2b-Sandbox-Port": "49999"} | JSON

    def execute(code):
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
        connection.request("POST", BASE.path + "/execute", json.dumps({"code": code}), here)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return connection, reply

    def output(reply):
        events = [json.loads(line) for line in reply.read().splitlines()]
        assert not [event for event in events if event["type"] == "error"], events
        return "".join(event["text"] for event in events if event["type"] == "stdout")

    _, first = execute("import time; time.sleep(3); print('whole')")
    assert json.loads(first.readline())["type"] == "number_of_executions"
    connection, second = execute("time.sleep(60)")
    second.close()
    connection.close()
    assert output(first) == "whole\n"
    # Its turn came, and nobody waited for its end.
    assert output(execute("print('next')")[1]) == "next\n"


def terminals(sandbox):
    """A program on a terminal is told to end, whoever's it is."""
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    config = {"cmd": "sleep", "args": ["60"]}
    asked = envelope(json.dumps({"process": config, "pty": {"size": {"cols": 80, "rows": 24}}}).encode())
    for user in (b"user:", b"root:"):
        who = {"Authorization": "Basic " + base64.b64encode(user).decode()}
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
        connection.request("POST", BASE.path + "/process.Process/Start", asked, here | STREAM | who)
        reply = connection.getresponse()
        _, length = struct.unpack(">BI", reply.read(5))
        pid = json.loads(reply.read(length))["event"]["start"]["pid"]
        end = json.dumps({"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"}).encode()
        assert ask("POST", "/process.Process/SendSignal", here | JSON, end)[0] == 200
        assert b"signal: terminated" in reply.read()


def lent():
    """A sandbox's own token ends with the one that made it."""
    bearer = {"Authorization": "Bearer " + KEY["X-API-Key"].removeprefix("e2b_")}

    def hub(method, path, body=None):
        connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
        connection.request(method, path, body, bearer | JSON)
        reply = connection.getresponse()
        answer = reply.read()
        assert reply.status < 300, answer
        return json.loads(answer or b"null")

    made = hub("POST", "/v1/tokens", json.dumps({"scopes": ["create"]}))
    sandbox = Sandbox.create(api_key="e2b_" + made["token"], request_timeout=PATIENCE)
    sandbox.files.write("mine", "x")
    address = "/files?" + urllib.parse.urlsplit(sandbox.download_url("mine")).query
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    assert ask("GET", "/health", here)[0] == 204 and ask("GET", address)[0] == 200
    hub("DELETE", f"/v1/tokens/{made['id']}")
    refused(ask("GET", "/health", here), 401)
    refused(ask("GET", "/", here | {"E2b-Sandbox-Port": "8000"}), 401)
    refused(ask("GET", address), 401)
    assert ask("GET", "/health", KEY | {"E2b-Sandbox-Id": sandbox.sandbox_id})[0] == 204
    hub("DELETE", f"/v1/sandboxes/{sandbox.sandbox_id}")


def keepalive(sandbox):
    """A silent stream says that it lives, as often as it is asked to."""
    here = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": sandbox._envd_access_token}
    asked = json.dumps({"process": {"cmd": "sleep", "args": ["86392"]}}).encode()
    headers = here | STREAM | {"Keepalive-Ping-Interval": "1"}
    connection = http.client.HTTPConnection(BASE.hostname, BASE.port, timeout=150)
    connection.request("POST", BASE.path + "/process.Process/Start", envelope(asked), headers)
    reply = connection.getresponse()

    def event():
        _, length = struct.unpack(">BI", reply.read(5))
        return json.loads(reply.read(length))["event"]

    pid = event()["start"]["pid"]
    assert event() == {"keepalive": {}}
    reply.close()
    connection.close()
    assert sandbox.commands.kill(pid) is True


def main():
    control()
    with patient(Sandbox.create(request_timeout=PATIENCE)) as sandbox:
        inside(sandbox)
        binary(sandbox)
        by_name(sandbox)
        keepalive(sandbox)
        signed(sandbox)
        bounds(sandbox)
        queue(sandbox)
        at_a_port(sandbox)
        terminals(sandbox)
    lent()
    print("ok the wire")


if __name__ == "__main__":
    sys.exit(main())
