# Written by scripts/generate from _async/transport.py: change that one.
"""Requests: sending, retrying, and telling failures.

Owns the connections and the rule of retries. Every POST carries an idempotency key and every other
method here is idempotent by itself, so a request whose answer was lost is sent again and done once.
A body that can be read only once is not sent again.

```text
  send ──► answer ──► 2xx ──────────────► done
   ▲          ├─────► 429, 503 ──► wait Retry-After ─┐
   │          └─────► else ──────► ApiError          │
   ├── cut, refused, silent ──► wait, growing ───────┤
   └──────────── while retries are left ◄────────────┘
```
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import httpx

from .._decode import decode
from .._version import VERSION
from .._wire import Settings, query, without_none
from ..errors import ApiError, ConnectionFailed, ProtocolError
from ._io import Content, HttpClient, HttpTransport, WebSocket, body_of, open_websocket, sleep

T = TypeVar("T")

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to come about."""
ANSWER_TIMEOUT = 60.0
"""Seconds of silence after which a call that does no long work is given up."""
MAX_RETRIES = 6
"""How often something is tried again: over about five seconds, in which a hub can be restarted."""
LONGEST_PAUSE = 5.0
"""Seconds between two tries at most; also the longest Retry-After that is waited for."""

TOKEN_HINT = "The token is `token`, else SANDSHELL_TOKEN, else what is in the file SANDSHELL_TOKEN_FILE."
"""Where a token comes from here; the service speaks of HTTP."""


class Transport:
    """A pool of connections to one service."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.settings: Settings = Settings.of(url, token)
        self.max_retries: int = max_retries
        self._headers = {"user-agent": f"sandshell-python/{VERSION}", "accept-encoding": "identity"}
        if self.settings.token:
            self._headers["authorization"] = f"Bearer {self.settings.token}"
        # Streams hold a connection each, so the pool itself has no limit.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        socket = self.settings.unix_socket
        self._http = HttpClient(
            headers=self._headers,
            transport=HttpTransport(uds=socket, limits=limits) if socket else None,
            limits=limits,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            trust_env=not self.settings.is_local(),
        )

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── Requests with a whole answer ─────────────────────────────────────────────────────────────

    def get(self, kind: type[T], path: str, params: Mapping[str, Any] | None = None) -> T:
        return decode(kind, self.json("GET", path, params=params))

    def post(
        self, kind: type[T], path: str, body: Mapping[str, Any] | None = None, *, long: bool = False
    ) -> T:
        return decode(kind, self.json("POST", path, body=body or {}, long=long))

    def delete(self, kind: type[T], path: str) -> T:
        return decode(kind, self.json("DELETE", path, long=True))

    def json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        long: bool = False,
        key: str | None = None,
        once: bool = False,
    ) -> Any:
        """The JSON answer. `long`: the answer comes when some work is done, however late."""
        response = self.send(
            method,
            path,
            params=params,
            body=body,
            content=content,
            headers=headers,
            silence=None if long else ANSWER_TIMEOUT,
            key=key,
            once=once,
        )
        return _json_of(response)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = ANSWER_TIMEOUT,
        key: str | None = None,
        once: bool = False,
        stream: bool = False,
        retries: int | None = None,
    ) -> httpx.Response:
        """The answer, whole or with `stream` just begun; a problem is raised."""
        retries = self.max_retries if retries is None else retries
        all_headers = dict(headers or {})
        if method == "POST":
            all_headers["idempotency-key"] = key or uuid.uuid4().hex
        once = once or not (content is None or isinstance(content, (str, bytes)))
        tries = 0
        while True:
            request = self._http.build_request(
                method,
                self.settings.base_url + path,
                params=query(params) if params else None,
                json=without_none(body) if body is not None else None,
                content=body_of(content) if content is not None else None,
                headers=all_headers,
                timeout=httpx.Timeout(silence, connect=CONNECT_TIMEOUT, write=None, pool=None),
            )
            try:
                response = self._http.send(request, stream=True)
                try:
                    if response.is_success:
                        if not stream:
                            response.read()
                        return response
                    response.read()
                finally:
                    if not (stream and response.is_success):
                        response.close()
                problem = _problem_of(response)
            except httpx.InvalidURL as error:
                raise ValueError(str(error)) from error
            except httpx.TransportError as error:
                tries += 1
                if once and not isinstance(error, httpx.ConnectError):
                    raise ConnectionFailed(f"{method} {path}: {_words(error)}") from error
                if tries > retries:
                    where = self.settings.unix_socket or self.settings.base_url
                    raise ConnectionFailed(
                        f"{method} {path}: no answer from {where}: {_words(error)}; "
                        "perhaps no hub runs there (`sandshell serve` starts one)"
                    ) from error
                self.pause(tries)
                continue
            tries += 1
            after = problem.retry_after
            if after is None or after > LONGEST_PAUSE or once or tries > retries:
                raise problem
            sleep(after)

    def pause(self, tries: int) -> None:
        """Waits before another try: longer each time, and not all clients at once."""
        sleep(min(0.05 * 2.0**tries, LONGEST_PAUSE) * random.uniform(0.5, 1.0))

    # ── Streams ──────────────────────────────────────────────────────────────────────────────────

    def websocket(self, path: str) -> WebSocket:
        """Opens a WebSocket; no retries here, its user resumes."""
        settings = self.settings
        headers = {"authorization": self._headers["authorization"]} if settings.token else {}
        url = settings.websocket_url(path)
        return open_websocket(url, headers, settings.unix_socket, settings.is_local())


def _words(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__


def _json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise ProtocolError(f"{response.request.url} did not answer with JSON: {error}") from error


def _problem_of(response: httpx.Response) -> ApiError:
    """The failure that an answer tells of, also when it is no problem document of ours."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {
            "detail": f"{response.status_code} {response.reason_phrase} from {response.request.url}",
            "request_id": response.headers.get("x-request-id"),
        }
    if document.get("code") == "unauthorized":
        document["hint"] = TOKEN_HINT
    try:
        after = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        after = None
    return ApiError.of(document, status=response.status_code, retry_after=after)
