// The bundle imports two modules that exist only inside a Worker. They are stood in for by classes that
// do nothing; the client itself is used as it was published.
import { register } from "node:module";

const STUBS = {
  "cloudflare:workers":
    "export class DurableObject {} export class WorkerEntrypoint {} export class RpcTarget {}" +
    " export const env = {}; export const tracing = {}; export function waitUntil() {}",
  "@cloudflare/containers":
    "export class Container {} export class ContainerProxy {}" +
    " export function getContainer() {} export function switchPort() {}",
};

const hook = `
const STUBS = ${JSON.stringify(STUBS)};
export async function resolve(name, context, next) {
  if (!(name in STUBS)) return next(name, context);
  return { url: "data:text/javascript," + encodeURIComponent(STUBS[name]), shortCircuit: true };
}`;

register("data:text/javascript," + encodeURIComponent(hook));
