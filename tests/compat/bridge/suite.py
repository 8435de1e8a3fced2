"""The OpenAI Agents SDK's client of Cloudflare's bridge, as it is published, against a hub.

Told in the environment: SANDSHELL_URL, CLOUDFLARE_SANDBOX_API_KEY (an admin's token) and NARROW_TOKEN
(one for a single sandbox).
"""

import asyncio
import tempfile
import unittest

import aiohttp
import commands
import files
from agents.sandbox import (
    ExecTransportError,
    ExposedPortUnavailableError,
    Manifest,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.errors import ConfigurationError, MountConfigError, WorkspaceStartError
from agents.sandbox.manifest import Environment
from service import (
    BRIDGE,
    NARROW_TOKEN,
    TOKEN,
    URL,
    Raw,
    in_time,
    inner,
    options,
    patient_client,
    run,
    sandbox,
    sandbox_id,
    stream,
)

CLIENTS = 20


class Case(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        # Else each pause of a busy machine is told of.
        asyncio.get_event_loop().set_debug(False)


class Suite(Case):
    pass


def alone(scenario):
    async def test(self):
        async with sandbox() as session:
            await scenario(session)

    test.__doc__ = scenario.__doc__
    return test


for scenario in [*commands.ALL, *files.ALL]:
    setattr(Suite, f"test_{scenario.__name__}", alone(scenario))


class More(Case):
    async def test_a_large_file(self):
        async with sandbox() as session:
            await files.contents(session, 50_000_000)

    async def test_snapshots(self):
        with tempfile.TemporaryDirectory() as place:
            await files.snapshots(place)

    async def test_environment_of_the_manifest(self):
        manifest = Manifest(environment=Environment(value={"OF_MANIFEST": "a 'b' $c"}))
        async with sandbox(manifest=manifest) as session:
            await commands.manifest_environment(session)

    async def test_a_life(self):
        client = patient_client()
        session = await client.create(options=options())
        await session.start()
        await session.write("kept", stream(b"1"))
        await inner(session)._close_http()
        state = client.deserialize_session_state(client.serialize_session_state(session.state))
        # Found again, with what it has.
        again = await client.resume(state)
        assert await inner(again).running()
        await again.start()
        assert (await again.read("kept")).read() == b"1"
        async with Raw() as raw, Raw(base=URL) as native:
            known = await native.ask("GET", f"/v1/sandboxes/{sandbox_id(session)}")
            assert known[0] == 200 and known[1]["state"] == "ready", known
            await client.delete(again)
            path = f"/v1/sandbox/{sandbox_id(session)}"
            assert await raw.ask("DELETE", path) == (204, b"")
            assert await raw.ask("GET", path + "/running") == (200, {"running": False})
            # To ask did not make it.
            known = await native.ask("GET", f"/v1/sandboxes/{sandbox_id(session)}")
            assert known[1]["state"] == "gone", known

    async def test_tunnels(self):
        async with sandbox() as session, Raw() as raw, Raw(base=URL) as native, Raw(None, "") as web:
            await session.write("page.txt", stream(b"a page"))
            await run(session, "python3 -m http.server 8123 >/dev/null 2>&1 &")
            id = sandbox_id(session)
            listens = f"/v1/sandboxes/{id}/ports/8123/wait"
            await in_time(native.ask("POST", listens, json={}))
            path = f"/v1/sandbox/{id}/tunnel/8123"
            status, tunnel = await raw.ask("POST", path)
            assert status == 200 and tunnel["port"] == 8123, tunnel
            assert set(tunnel) == {"id", "port", "url", "hostname", "createdAt"}, tunnel
            address = tunnel["url"].replace("/?", "/page.txt?")
            assert await web.ask("GET", address) == (200, b"a page"), address
            assert (await raw.ask("POST", path))[1]["url"] == tunnel["url"]
            assert await raw.ask("DELETE", path) == (204, b"")
            assert (await web.ask("GET", address))[0] in (401, 403, 404)
            assert await raw.ask("DELETE", path) == (204, b"")
            status, refused = await raw.ask("POST", path, json={"name": "app"})
            assert (status, refused["code"]) == (502, "tunnel_error"), refused

    async def test_the_pool(self):
        async with Raw() as raw, Raw(NARROW_TOKEN) as narrow:
            status, stats = await raw.ask("GET", "/v1/pool/stats")
            assert status == 200, stats
            assert stats["total"] == stats["warm"] + stats["assigned"], stats
            assert set(stats) == {"warm", "assigned", "total", "config", "maxInstances"}, stats
            assert await raw.ask("POST", "/v1/pool/prime") == (200, {"ok": True})
            assert stats["config"]["warmTarget"] == 0, stats
            assert await raw.ask("POST", "/v1/pool/shutdown-prewarmed") == (200, {"ok": True})
            for method, path in [("GET", "stats"), ("POST", "prime")]:
                status, refused = await narrow.ask(method, f"/v1/pool/{path}")
                assert (status, refused["code"]) == (401, "unauthorized"), refused

    async def test_documents(self):
        async with Raw() as raw, Raw(None) as anyone:
            assert await anyone.ask("GET", "/health") == (200, {"ok": True})
            status, document = await raw.ask("GET", "/v1/openapi.json")
            assert status == 200 and document["openapi"].startswith("3.1"), document
            assert (await anyone.ask("GET", "/v1/openapi.json"))[0] == 401


class Crowd(Case):
    async def test_many_at_once(self):
        """The same with many clients, each with a sandbox of its own."""

        async def one():
            async with sandbox() as session:
                for scenario in [*commands.ALL, *files.ALL]:
                    await scenario(session)
                    await run(session, "chmod -R u+rwX . && find . -mindepth 1 -delete")

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(one())


class Errors(Case):
    """Each failure is the exception that the SDK has for it."""

    async def fails(self, kind, work, **context):
        with self.assertRaises(kind) as caught:
            await work
        for name, value in context.items():
            self.assertEqual(caught.exception.context.get(name), value, caught.exception.context)

    async def test_of_the_service(self):
        client = patient_client()
        wrong = client.create(options=options(token="sk_wrong"))
        await self.fails(ConfigurationError, wrong, http_status=401)
        narrow = client.create(options=options(token=NARROW_TOKEN))
        await self.fails(ConfigurationError, narrow, http_status=401)
        nowhere = client.create(options=options(url=URL + "/nowhere"))
        await self.fails(ConfigurationError, nowhere, http_status=404)
        closed = client.create(options=options(url="http://127.0.0.1:1"))
        await self.fails(ConfigurationError, closed)

    async def test_of_a_token_that_is_none(self):
        client = patient_client()
        session = await client.create(options=options())
        inner(session)._api_key = "sk_wrong"
        try:
            await self.fails(WorkspaceStartError, session.start())
            await self.fails(ExecTransportError, session.exec("true"), http_status=401)
            await self.fails(ExecTransportError, session.pty_exec_start("true"))
            await self.fails(
                WorkspaceArchiveReadError, inner(session)._persist_workspace_via_http(), http_status=401
            )
            assert not await inner(session).running()
        finally:
            await inner(session)._close_http()
            inner(session)._api_key = TOKEN
            await client.delete(session)

    async def test_of_commands(self):
        async with sandbox() as session:
            nul = session.exec("echo", "a\0b", shell=False)
            await self.fails(ExecTransportError, nul, http_status=400)
            await self.fails(ExecTransportError, session.exec(shell=False), http_status=400)
            port = session.resolve_exposed_port(80)
            await self.fails(ExposedPortUnavailableError, port)

    async def test_of_files(self):
        async with sandbox() as session:
            await run(session, "mkdir -p dir/full && touch file unread && chmod 000 unread && mkfifo pipe")
            await self.fails(WorkspaceReadNotFoundError, session.read("none"))
            await self.fails(WorkspaceReadNotFoundError, session.read("none/at/all"))
            await self.fails(WorkspaceArchiveReadError, session.read("dir"), http_status=502)
            await self.fails(WorkspaceArchiveReadError, session.read("unread"), http_status=502)
            await self.fails(WorkspaceArchiveReadError, session.read("pipe"), http_status=502)
            for place in ("dir", "file/below"):
                write = session.write(place, stream(b"x"))
                await self.fails(WorkspaceArchiveWriteError, write, http_status=502)
            # The SDK looks at paths itself; what it lets through is looked at again.
            outside = inner(session)
            outside._validate_path_access = as_it_is
            await self.fails(
                WorkspaceArchiveReadError, outside.read("/etc/passwd"), reason="path_escape"
            )
            await self.fails(
                WorkspaceArchiveWriteError,
                outside.write("/tmp/x", stream(b"")),
                reason="path_escape",
            )

    async def test_of_archives(self):
        async with sandbox() as session:
            await run(session, "printf before > kept")
            garbage = inner(session)._hydrate_workspace_via_http(stream(b"no archive" * 100))
            await self.fails(WorkspaceArchiveWriteError, garbage)
            await run(session, "mkdir unread && chmod 000 unread")
            persist = inner(session).persist_workspace()
            await self.fails(WorkspaceArchiveReadError, persist)
            assert await run(session, "cat kept") == b"before"

    async def test_of_mounts(self):
        async with sandbox() as session:
            mount = inner(session).mount_bucket(
                bucket="b", mount_path="/workspace/m", options={"endpoint": "https://s3.example"}
            )
            await self.fails(MountConfigError, mount, http_status=502)
            await self.fails(MountConfigError, inner(session).unmount_bucket("/workspace/m"))


async def as_it_is(path, *, for_write=False):
    return path


class BadInput(Case):
    """What is no request is refused in the bridge's own form."""

    async def test_it(self):
        async with sandbox() as session, Raw() as raw:
            at = f"/v1/sandbox/{sandbox_id(session)}"
            json = {"Content-Type": "application/json"}
            cases = [
                ("POST", at + "/exec", {"data": "{"}, 400),
                ("POST", at + "/exec", {"data": "[]"}, 400),
                ("POST", at + "/exec", {"json": {}}, 400),
                ("POST", at + "/exec", {"json": {"argv": []}}, 400),
                ("POST", at + "/exec", {"json": {"argv": "ls"}}, 400),
                ("POST", at + "/exec", {"json": {"argv": [1]}}, 400),
                ("POST", at + "/exec", {"json": {"argv": ["ls"], "timeout_ms": -1}}, 400),
                ("POST", at + "/exec", {"json": {"argv": ["ls"], "timeout_ms": "soon"}}, 400),
                ("POST", at + "/exec", {"json": {"argv": ["ls"], "cwd": "/etc"}}, 403),
                ("POST", at + "/exec", {"json": {"argv": ["ls"], "cwd": "../etc"}}, 403),
                ("POST", at + "/exec", {"json": {"argv": ["ls"], "cwd": "none"}}, 400),
                ("POST", at + "/exec", {"data": stream(b"x" * 3_000_000)}, 413),
                (
                    "POST",
                    at + "/exec",
                    {"json": {"argv": ["ls"]}, "headers": {"Session-Id": "a/../b"}},
                    400,
                ),
                ("GET", at + "/exec", {}, 405),
                ("GET", at + "/file/", {}, 400),
                ("GET", at + "/file/etc/passwd", {}, 403),
                ("GET", at + "/file//etc/passwd", {}, 403),
                ("GET", at + "/file/workspace/%2e%2e/etc/passwd", {}, 403),
                ("GET", at + "/file/workspace/%zz", {}, 400),
                ("GET", at + "/file/workspace/none", {}, 404),
                ("PUT", at + "/file/workspace/a%00b", {"data": b"x"}, 400),
                ("PUT", at + "/file/tmp/x", {"data": b"x"}, 403),
                ("PUT", at + "/file/workspace", {"data": b"x"}, 502),
                ("POST", at + "/persist?excludes=../x", {}, 400),
                ("POST", at + "/persist?excludes=/", {}, 400),
                ("POST", at + "/hydrate", {}, 400),
                ("POST", at + "/hydrate", {"data": b"no archive"}, 502),
                ("GET", at + "/pty", {}, 400),
                ("POST", at + "/session", {"data": "{"}, 400),
                ("POST", at + "/session", {"json": {"id": "../x"}}, 400),
                ("POST", at + "/session", {"json": {"cwd": "/none"}}, 400),
                ("DELETE", at + "/session/..%2fx", {}, 400),
                ("POST", at + "/tunnel/0", {}, 400),
                ("POST", at + "/tunnel/70000", {}, 400),
                ("POST", at + "/tunnel/web", {}, 400),
                ("POST", at + "/tunnel/8080", {"json": {"name": 1}}, 400),
                ("POST", at + "/mount", {"json": {"mountPath": "m", "options": {}}}, 400),
                ("POST", at + "/mount", {"json": {"mountPath": "/m"}}, 400),
                ("POST", at + "/unmount", {"data": "", "headers": json}, 400),
                ("GET", "/v1/sandbox/NOT_AN_ID/running", {}, 400),
                ("DELETE", "/v1/sandbox/" + "a" * 41, {}, 400),
                ("GET", "/v1/none", {}, 404),
                ("PUT", "/v1/sandbox", {}, 405),
            ]
            for method, path, settings, expected in cases:
                with self.subTest(f"{method} {path}"):
                    status, body = await raw.ask(method, path, **settings)
                    self.assertEqual(status, expected, (path, body))
                    self.assertEqual(set(body), {"error", "code"}, body)
            # What is refused makes no sandbox.
            never = f"never-{sandbox_id(session)[-20:]}"
            refused = await raw.ask("POST", f"/v1/sandbox/{never}/exec", json={"argv": []})
            self.assertEqual(refused[0], 400)
            async with Raw(base=URL) as native:
                self.assertEqual((await native.ask("GET", f"/v1/sandboxes/{never}"))[0], 404)
            # A path that is in the workspace after all.
            await session.write("x", stream(b"found"))
            found = await raw.ask("GET", at + "/file/workspace/a/%2E%2E/./x")
            self.assertEqual(found, (200, b"found"))

    async def test_a_socket_that_is_none(self):
        async with sandbox() as session:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            address = f"{BRIDGE}/v1/sandbox/{sandbox_id(session)}/pty"
            async with aiohttp.ClientSession(headers=headers) as http:
                for query in ("?cols=wide", "?cols=0&rows=0", "?session=..%2fx", "?shell=/none"):
                    with self.subTest(query), self.assertRaises(aiohttp.WSServerHandshakeError) as said:
                        await http.ws_connect(address + query)
                    self.assertIn(said.exception.status, (400, 502), query)

    async def test_the_sandbox_of_another(self):
        async with sandbox() as session, Raw(NARROW_TOKEN) as narrow:
            path = f"/v1/sandbox/{sandbox_id(session)}"
            status, body = await narrow.ask("POST", path + "/exec", json={"argv": ["true"]})
            self.assertEqual((status, body["code"]), (404, "invalid_request"))
            self.assertEqual(await narrow.ask("GET", path + "/running"), (200, {"running": False}))
            # It is there after a stranger's wish to end it.
            self.assertEqual(await narrow.ask("DELETE", path), (204, b""))
            self.assertTrue(await session.running())


if __name__ == "__main__":
    unittest.main(verbosity=2)
