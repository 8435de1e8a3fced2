"""What the generator of requests needs to know about this API.

Bounds what would last (waits, streams), points some requests at things that exist, and adds a check of
the form of failures. Nothing here hides an answer: every one is checked as it came.
"""

import atexit
import json
import random
import time
from collections.abc import MutableMapping

import requests
import schemathesis

# No generated call may last longer; also far below the request timeout.
LONGEST_MS = 300
# How long a stream that does not end by itself is read.
STREAM_SECONDS = 0.3
OCTETS = ("application/octet-stream", "application/x-tar", "application/gzip", "application/zstd")

# Made by `inside` before the run; the last segment of a path that they fill.
THERE = {
    "processes": ["live", "ended"],
    "sessions": ["there"],
    "terminals": ["screen", "over"],
    "contexts": ["shell"],
    "backups": ["saved"],
}
# Also made: what lies in /workspace, and a port that something listens on.
PLACES = ["tree", "tree/file.txt", "tree/link"]
REPOSITORY = "repo"
PORT = 8000

# Failures of something outside the agent, documented as such.
OUTSIDE = {"git_network", "port_unreachable", "storage_failed", "timed_out", "no_space"}

chance = random.Random(1)

# Whether the next request asks for events.
wish = {"events": False}

# Events by name, to be told at the end: a check that saw none is no proof.
seen = {}
atexit.register(lambda: print(f"Events checked: {seen}"))


def bound(body, properties):
    """Bounds the times of a JSON body that has them."""
    for name in ("timeout_ms", "grace_ms"):
        if name not in properties:
            continue
        value = body.get(name)
        if value is None or (isinstance(value, int) and value > LONGEST_MS):
            body[name] = LONGEST_MS


def properties_of(case):
    """The fields of the operation's JSON body."""
    document = case.operation.schema.raw_schema
    found = set()

    def walk(schema):
        while isinstance(schema, dict) and "$ref" in schema:
            node = document
            for part in schema["$ref"].lstrip("#/").split("/"):
                node = node[part]
            schema = node
        if isinstance(schema, dict):
            found.update(schema.get("properties", {}))
            for key in ("oneOf", "anyOf", "allOf"):
                for item in schema.get(key, []):
                    walk(item)

    item = document["paths"].get(case.path, {}).get(case.method.lower(), {})
    for content in item.get("requestBody", {}).get("content", {}).values():
        walk(content.get("schema", {}))
    return found


def good_contents(case):
    """The content types of good answers, with their schemas."""
    item = case.operation.schema.raw_schema["paths"].get(case.path, {}).get(case.method.lower(), {})
    for status, answer in item.get("responses", {}).items():
        if status.startswith("2"):
            for kind, content in answer.get("content", {}).items():
                yield kind, content.get("schema", {})


@schemathesis.hook
def before_call(context, case, kwargs):
    properties = properties_of(case)
    if isinstance(case.body, dict):
        bound(case.body, properties)
    elif "timeout_ms" in properties and isinstance(case.body, type(schemathesis.core.NotSet())):
        # A wait without a body has no bound.
        case.body = {"timeout_ms": LONGEST_MS}
        case.media_type = "application/json"
    # Half of the answers that can be events are asked for as events.
    kinds = [kind for kind, _ in good_contents(case)]
    # (Told to `send`: a case whose headers were changed is no longer checked for missing ones.)
    wish["events"] = "text/event-stream" in kinds and (len(kinds) == 1 or chance.random() < 0.5)
    parts = case.path.split("/")
    ids = THERE.get(parts[2]) if len(parts) > 3 and parts[3] == "{id}" else None
    # Deleting or killing what the others need would make most requests meaningless.
    destructive = case.method == "DELETE" or parts[-1] in ("kill", "signal")
    if ids and not destructive and chance.random() < 0.5 and case.path_parameters:
        case.path_parameters["id"] = chance.choice(ids)
    # One text for another, so that a request that is wrong elsewhere stays so.
    place = place_for(case, parts)
    for values in (case.body, case.query):
        if place and isinstance(values, MutableMapping) and isinstance(values.get("path"), str):
            values["path"] = place
    port = (case.path_parameters or {}).get("port")
    # What is behind the proxy answers as it likes, which the document cannot know.
    if "proxy" not in parts and isinstance(port, int) and 0 < port < 65536 and chance.random() < 0.5:
        case.path_parameters["port"] = PORT


def place_for(case, parts):
    """A path that exists, for half of the requests that only look; others could take it from them."""
    if chance.random() < 0.5:
        return None
    if parts[1:3] == ["v1", "git"]:
        return REPOSITORY
    looks = case.method == "GET" or parts[-1] in ("find", "search", "changes")
    return chance.choice(PLACES) if parts[1:3] == ["v1", "files"] and looks else None


@schemathesis.serializer("application/x-tar")
def tar(context, value):
    """An archive is made of bytes like any other; hardly ever a good one."""
    return value if isinstance(value, bytes) else str(value).encode()


def too_large(value):
    """Whether a number in there does not fit 63 bits.

    The agent takes unsigned 64-bit numbers. The document calls them int64, because generators of
    clients make 32-bit numbers of every wider format; so a number between the two is no mistake.
    """
    if isinstance(value, dict):
        return any(map(too_large, value.values()))
    if isinstance(value, list):
        return any(map(too_large, value))
    if isinstance(value, str) and value.isdecimal():
        return int(value) > 2**63 - 1
    return isinstance(value, (int, float)) and value > 2**63 - 1


@schemathesis.hook
def filter_case(context, case):
    resumed = {name: value for name, value in dict(case.headers or {}).items() if name.lower() == "last-event-id"}
    return not any(map(too_large, (case.body, dict(case.query or {}), resumed)))


_send = requests.adapters.HTTPAdapter.send


def send(self, request, **options):
    """Reads a stream for a while and lets go of it."""
    if wish["events"]:
        request.headers["Accept"] = "text/event-stream"
    response = _send(self, request, **options)
    kind = response.headers.get("content-type", "")
    events = kind.startswith("text/event-stream")
    # (An archive may break off, when something in it cannot be read.)
    octets = kind.startswith(OCTETS) and "content-length" not in response.headers
    connection = getattr(response.raw, "_connection", None)
    if (events or octets) and getattr(connection, "sock", None):
        connection.sock.settimeout(STREAM_SECONDS)
    # Events are read by schemathesis itself, which stops when they pause.
    if octets:
        until = time.monotonic() + STREAM_SECONDS
        data = b""
        try:
            while time.monotonic() < until:
                piece = response.raw.read1(65536)
                if not piece:
                    break
                data += piece
        except Exception:
            pass  # Quiet for the whole time: what came is what there is.
        response._content = data
        response._content_consumed = True
        response.close()
    return response


requests.adapters.HTTPAdapter.send = send


@schemathesis.check
def no_fault_of_ours(context, response, case):
    """No 5xx, except those that tell of something outside the agent."""
    if response.status_code < 500:
        return
    code = None
    try:
        code = response.json().get("code")
    except Exception:
        pass
    assert code in OUTSIDE, f"{response.status_code} {code}"


@schemathesis.check
def failures_are_problems(context, response, case):
    """Every failure is a problem document that says what, why and for which request."""
    if response.status_code < 400:
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/problem+json", kind
    if case.method == "HEAD":
        return
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code, problem
    assert problem["detail"] and problem["title"] and problem["code"], problem
    assert problem["request_id"] == response.headers["x-request-id"][0], problem


@schemathesis.check
def events_are_named(context, response, case):
    """Every event of a stream is one that the document names. Its data is checked with the schemas."""
    kind = response.headers.get("content-type", [""])[0]
    if not kind.startswith("text/event-stream"):
        return
    schema = next(schema for kind, schema in good_contents(case) if kind == "text/event-stream")
    schemas = case.operation.schema.raw_schema["components"]["schemas"]
    named = schemas[schema["$ref"].split("/")[-1]]["discriminator"]["mapping"]
    for line in response.content.decode().splitlines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
            assert name in named, f"{name} is not in {list(named)}"
            seen[name] = seen.get(name, 0) + 1
