// Times `true` in a session, through the client as it was published. Prints milliseconds as a JSON list.
import "./workers.mjs";
const { SandboxClient } = await import("@cloudflare/sandbox");

const client = new SandboxClient({ baseUrl: process.env.BASE, retryTimeoutMs: 1000 });
const [unheard, count] = [Number(process.env.WARM_UP), Number(process.env.COUNT)];
const samples = [];
for (let n = 0; n < unheard + count; n++) {
  const start = performance.now();
  const { exitCode } = await client.commands.execute("true", "bench");
  if (n >= unheard) samples.push(performance.now() - start);
  if (exitCode !== 0) throw new Error(`it ended with ${exitCode}`);
}
console.log(JSON.stringify(samples));
