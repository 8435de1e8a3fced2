// A proxy that cuts connections in the middle of what the server sends.

import { once } from "node:events";
import { type Socket, connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";

export interface Proxy {
  url: string;
  /** How many connections were cut so far. */
  cuts: number;
  stop(): Promise<void>;
}

/** Cuts each connection after a random number of bytes from the server, up to `most`, until `times` were cut. */
export async function cuttingProxy(target: string, times: number, most: number): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const proxy: Proxy = { url: "", cuts: 0, stop };
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => sockets.delete(socket));
    }
    let budget = 1000 + Math.floor(Math.random() * (most - 1000));
    client.pipe(upstream);
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.end());
    upstream.on("data", (bytes) => {
      if (proxy.cuts >= times || bytes.length < budget) {
        budget -= bytes.length;
        if (!client.write(bytes)) {
          upstream.pause();
          client.once("drain", () => upstream.resume());
        }
        return;
      }
      proxy.cuts += 1;
      // By turns the polite way, which looks like an end, and the other.
      const rude = proxy.cuts % 2 === 0;
      upstream.removeAllListeners("data");
      client.end(bytes.subarray(0, budget), () => rude && client.resetAndDestroy());
      upstream.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return proxy;

  async function stop(): Promise<void> {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  }
}
