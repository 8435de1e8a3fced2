"""A small HTTP/1.1 server for tests of the proxy; says on which port it listens, then serves.

Written on bare streams so that every byte it gets and gives is under control.
"""
import asyncio
import base64
import hashlib
import json
import struct
import sys

connections = 0
drops = 0
go = asyncio.Queue()
gone = asyncio.Event()
BLOCK = bytes(range(256)) * 4096  # 1 MiB


async def read_body(reader, headers):
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = b""
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                trailers = b""
                while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                    trailers += line
                return body, trailers
            body += await reader.readexactly(size)
            await reader.readexactly(2)
    return await reader.readexactly(int(headers.get(b"content-length", b"0"))), b""


def answer(writer, body, status=b"200 OK", more=b""):
    head = b"HTTP/1.1 %s\r\ncontent-length: %d\r\n%s\r\n" % (status, len(body), more)
    writer.write(head + body)


async def web_socket(reader, writer, headers):
    magic = headers[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(magic).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    while True:
        first, second = await reader.readexactly(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await reader.readexactly(8))
        mask = await reader.readexactly(4)
        data = await reader.readexactly(size)
        mask = (mask * (size // 4 + 1))[:size]
        data = (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
        if size < 126:
            head = bytes([first, size])
        elif size < 65536:
            head = bytes([first, 126]) + struct.pack(">H", size)
        else:
            head = bytes([first, 127]) + struct.pack(">Q", size)
        writer.write(head + data)
        await writer.drain()
        if first & 15 == 8:
            return


async def one(reader, writer, number):
    """Answers one request; says whether the connection stays."""
    global drops
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].split(b"\r\n")
    method, target, _ = lines[0].split(b" ", 2)
    headers = {k.lower(): v.strip() for k, v in (line.split(b":", 1) for line in lines[1:])}
    path = target.split(b"?")[0]
    if path == b"/ws":
        await web_socket(reader, writer, headers)
        return False
    if path == b"/hang":
        await reader.read()
        gone.set()
        return False
    body, trailers = await read_body(reader, headers)
    if path == b"/hello":
        answer(writer, b"hello")
    elif path.startswith(b"/status/"):
        status = path.rsplit(b"/", 1)[1]
        answer(writer, b"status " + status, status + b" As asked", b"x-own: yes\r\n")
    elif path == b"/connection":
        answer(writer, json.dumps({"this": number, "all": connections}).encode())
    elif path == b"/big":
        blocks = int(target.split(b"=")[1])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (blocks * (len(BLOCK) + 8)))
        for block in range(blocks):
            writer.write(struct.pack(">Q", block) + BLOCK)
            await writer.drain()
    elif path == b"/trailers":
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n")
        writer.write(b"5\r\nhello\r\n0\r\nx-sum: abc\r\n\r\n")
    elif path == b"/sse":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        count = 0
        while True:
            event = b"data: %d\n\n" % count
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            if not await go.get():
                break
            count += 1
        writer.write(b"0\r\n\r\n")
    elif path in (b"/go", b"/stop"):
        await go.put(path == b"/go")
        answer(writer, b"")
    elif path == b"/old":
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nold")
        return False
    elif path == b"/close":
        answer(writer, b"bye")
        return False
    elif path == b"/drop":
        drops += 1
        return False
    elif path == b"/drops":
        answer(writer, b"%d" % drops)
    elif path == b"/gone":
        await gone.wait()
        answer(writer, b"gone")
    elif path == b"/origin":
        fields = b'clear-site-data: "*"\r\nstrict-transport-security: max-age=9\r\nalt-svc: h2=":1"\r\n'
        fields += b"set-cookie: app=1; Path=/; Domain=localhost\r\n"
        fields += b"set-cookie: sandshell_port_1=bad; Path=/v1/ports/1/proxy/\r\n"
        answer(writer, b"", b"200 OK", fields)
    elif path == b"/unasked":
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
    elif path == b"/redirect":
        answer(writer, b"", b"302 Found", b"location: /hello?x\r\nservice-worker-allowed: /\r\n")
    else:
        answer(writer, head + body + trailers, b"200 OK", b"set-cookie: a=1\r\nset-cookie: b=2\r\n")
    await writer.drain()
    return True


async def serve(reader, writer):
    global connections
    connections += 1
    number = connections
    try:
        while await one(reader, writer, number):
            pass
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = await asyncio.start_server(serve, host, port, limit=1 << 20)
    print("listening on", server.sockets[0].getsockname()[1], "now", flush=True)
    await server.serve_forever()


asyncio.run(main())
