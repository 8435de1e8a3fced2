"use strict";
// Shows the OpenAPI document of this agent and sends requests to it.
//
// No library and no other address than this agent's own. Text of the document or of an answer gets
// into the page as text only. The token lives in the input field and nowhere else.

const METHODS = ["get", "put", "post", "patch", "delete", "head", "options"];
const byId = (id) => document.getElementById(id);
let spec = null;
let operations = [];
let running = null;

/** Makes an element: properties by name, then children (elements or text). */
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Prose with `code` in it, in paragraphs. */
function prose(text) {
  return (text || "").split(/\n\s*\n/).filter(Boolean).map((paragraph) => make("p", {}, inline(paragraph)));
}

function inline(text) {
  return (text || "").split(/(`[^`]+`)/).map((part) =>
    part.startsWith("`") && part.length > 2 ? make("code", {}, part.slice(1, -1)) : part);
}

function resolve(schema) {
  const seen = new Set();
  while (schema && schema.$ref && !seen.has(schema.$ref)) {
    seen.add(schema.$ref);
    const path = schema.$ref.replace(/^#\//, "").split("/");
    schema = path.reduce((node, key) => node && node[key.replace(/~1/g, "/").replace(/~0/g, "~")], spec);
  }
  return schema || {};
}

const refName = (schema) => (schema && schema.$ref ? schema.$ref.split("/").pop() : "");

function typeOf(schema) {
  if (!schema) return "any";
  if (schema.$ref) return refName(schema);
  if (schema.contentSchema) return "JSON of " + typeOf(schema.contentSchema);
  const several = schema.oneOf || schema.anyOf;
  if (several) return several.map(typeOf).join(" | ");
  if (schema.allOf) return schema.allOf.map(typeOf).join(" & ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = [].concat(schema.type || "any");
  return types.map((type) => {
    if (type === "array") return typeOf(schema.items) + "[]";
    if (type === "object" && schema.additionalProperties && !schema.properties)
      return "{ [key]: " + typeOf(schema.additionalProperties) + " }";
    return schema.format && type !== "null" ? type + " (" + schema.format + ")" : type;
  }).join(" | ");
}

/** A schema as a tree; parts of it are made when they are opened, so that cycles do no harm. */
function schemaTree(schema) {
  const full = resolve(schema);
  const list = make("ul", { class: "schema" });
  for (const part of full.oneOf || full.anyOf || full.allOf || []) {
    if (part.type !== "null") list.append(make("li", {}, branch(typeOf(part), part)));
  }
  for (const [name, property] of Object.entries(full.properties || {})) {
    const required = (full.required || []).includes(name);
    const head = [make("code", {}, name), " ", make("span", { class: "dim" }, typeOf(property) + (required ? "" : ", optional"))];
    list.append(make("li", {}, branch(head, property), " ", inline(property.description || resolve(property).description)));
  }
  if (full.items) list.append(make("li", {}, branch(["items: ", typeOf(full.items)], full.items)));
  if (!list.childElementCount) list.append(make("li", {}, typeOf(full)));
  return list;
}

function branch(head, schema) {
  const target = [schema, schema.contentSchema, schema.items, schema.additionalProperties, ...(schema.oneOf || schema.anyOf || [])]
    .find((part) => part && typeof part === "object" && (resolve(part).properties || resolve(part).oneOf));
  if (!target) return make("span", {}, head);
  const details = make("details", {}, make("summary", {}, head));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(schemaTree(target));
  });
  return details;
}

function exampleOf(content) {
  if (!content) return undefined;
  if (content.example !== undefined) return content.example;
  const first = Object.values(content.examples || {})[0];
  if (first) return first.value;
  return resolve(content.schema).example;
}

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function read(document) {
  const found = [];
  for (const [path, item] of Object.entries(document.paths || {})) {
    for (const method of METHODS.filter((name) => item[name])) {
      const operation = item[method];
      const parameters = [...(item.parameters || []), ...(operation.parameters || [])].map(resolve);
      const id = operation.operationId || method + path;
      found.push({ id, path, method, operation, parameters, tag: (operation.tags || ["other"])[0] });
    }
  }
  return found;
}

function showNav() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const nav = byId("nav");
  nav.replaceChildren();
  let tag = null;
  // What one came for first, the service itself last.
  const order = [...new Set(operations.map((entry) => entry.tag))].sort((a, b) => (a === "service") - (b === "service"));
  const sorted = order.flatMap((name) => operations.filter((entry) => entry.tag === name));
  for (const entry of sorted) {
    const text = [entry.method, entry.path, entry.tag, entry.operation.summary, entry.id].join(" ").toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    if (entry.tag !== tag) nav.append(make("h2", {}, (tag = entry.tag)));
    nav.append(make("a", { href: "#" + entry.id, title: entry.operation.summary || "",
      "aria-current": current() === entry ? "page" : undefined },
      make("span", { class: "method " + entry.method }, entry.method), make("span", { class: "mono" }, entry.path)));
  }
  if (!nav.childElementCount) nav.append(make("p", { class: "dim" }, "Nothing fits."));
}

const current = () => operations.find((entry) => "#" + entry.id === decodeURIComponent(location.hash));

function show() {
  stop();
  showNav();
  const main = byId("main");
  const entry = current();
  main.replaceChildren();
  main.scrollTop = 0;
  if (!entry) {
    main.append(make("h2", {}, spec.info.title), ...prose(spec.info.description),
      make("p", {}, operations.length + " operations. Paste the token above to try them; it is kept in this page only and is gone when the page is closed."));
    return;
  }
  const { operation } = entry;
  main.append(
    make("h2", {}, operation.summary || entry.id),
    make("p", { class: "mono" }, make("span", { class: "method " + entry.method }, entry.method), " ", entry.path),
    ...prose(operation.description), tryIt(entry));
  const body = operation.requestBody && resolve(operation.requestBody);
  for (const [kind, content] of Object.entries((body && body.content) || {})) {
    main.append(make("h3", {}, "Request ", make("span", { class: "dim" }, kind + (refName(content.schema) ? ", " + refName(content.schema) : ""))),
      ...prose(body.description), schemaTree(content.schema));
  }
  main.append(make("h3", {}, "Answers"));
  for (const [status, raw] of Object.entries(operation.responses || {})) {
    const answer = resolve(raw);
    const details = make("details", { open: status.startsWith("2") },
      make("summary", {}, make("code", { class: status < "400" ? "" : "bad" }, status), " ", inline(answer.description)));
    for (const [kind, content] of Object.entries(answer.content || {})) {
      details.append(make("p", { class: "dim" }, kind), schemaTree(content.schema));
      const example = exampleOf(content);
      if (example !== undefined) details.append(make("pre", {}, pretty(example)));
    }
    main.append(details);
  }
}

/** The form of an operation and the answer to its last request. */
function tryIt(entry) {
  const fields = entry.parameters.filter((parameter) => parameter.in !== "cookie").map((parameter) => {
    const schema = resolve(parameter.schema);
    const values = schema.enum || (schema.type === "boolean" ? ["true", "false"] : null);
    const input = values
      ? make("select", {}, ["", ...values].map((value) => make("option", { value }, String(value))))
      : make("input", { spellcheck: "false", autocomplete: "off" });
    input.setAttribute("aria-label", parameter.name);
    input.dataset.name = parameter.name;
    return { parameter, input };
  });
  const body = entry.operation.requestBody && resolve(entry.operation.requestBody);
  const [bodyKind, bodyContent] = Object.entries((body && body.content) || {})[0] || [];
  const example = exampleOf(bodyContent);
  const text = bodyKind ? make("textarea", { "aria-label": "Body", spellcheck: "false", id: "body" }) : null;
  if (text) text.value = example === undefined ? "" : pretty(example);
  const kinds = Object.entries(entry.operation.responses || {})
    .filter(([status]) => status.startsWith("2")).flatMap(([, answer]) => Object.keys(resolve(answer).content || {}));
  const accept = make("select", { "aria-label": "Accept" }, [...new Set(kinds)].map((kind) => make("option", { value: kind }, kind)));
  const send = make("button", { class: "send", type: "submit" }, "Send");
  const cancel = make("button", { type: "button", disabled: true, onclick: stop }, "Stop");
  const result = make("div", { id: "result", "aria-live": "polite" });
  const curl = make("pre", { id: "curl" });
  const copy = make("button", { type: "button", onclick: () => copyText(curl.textContent, copy) }, "Copy");

  const request = () => {
    let path = entry.path;
    const query = [];
    const headers = {};
    for (const { parameter, input } of fields) {
      const value = input.value;
      if (parameter.in === "path") path = path.replace("{" + parameter.name + "}", encodeURIComponent(value) || "{" + parameter.name + "}");
      else if (value === "") continue;
      else if (parameter.in === "query") query.push(encodeURIComponent(parameter.name) + "=" + encodeURIComponent(value));
      else headers[parameter.name] = value;
    }
    if (kinds.length > 1 || accept.value === "text/event-stream") headers.Accept = accept.value;
    const content = text && text.value !== "" ? text.value : undefined;
    if (content !== undefined) headers["Content-Type"] = bodyKind;
    return { url: path + (query.length ? "?" + query.join("&") : ""), method: entry.method.toUpperCase(), headers, body: content };
  };
  const refresh = () => { curl.textContent = curlOf(request()); };
  const socket = Boolean((entry.operation.responses || {})["101"]);
  send.disabled = socket;
  const form = make("form", { oninput: refresh, onsubmit: (event) => {
    event.preventDefault();
    refresh();
    perform(request(), result, send, cancel);
  } },
  make("h3", {}, "Try it"),
  fields.length ? make("table", {}, fields.map(({ parameter, input }) => make("tr", {},
    make("td", {}, make("code", {}, parameter.name), make("div", { class: "dim" }, parameter.in + (parameter.required ? ", required" : ""))),
    make("td", {}, input),
    make("td", {}, inline(parameter.description))))) : null,
  text,
  make("div", { class: "row" }, send, cancel, kinds.length > 1 ? make("label", {}, "Answer as ", accept) : null),
  socket ? make("p", { class: "dim" }, "This is a WebSocket and cannot be tried here; a page opens it with a ticket from ", make("code", {}, "POST /v1/tickets"), ".") : null,
  result,
  make("div", { class: "row" }, make("span", { class: "dim" }, "The same with curl"), copy), curl);
  refresh();
  return form;
}

/** A line for a shell. It names the token by a variable, so that it can be shown and kept. */
function curlOf(request) {
  const quote = (value) => "'" + value.replace(/'/g, "'\\''") + "'";
  const parts = ["curl -sS", request.headers.Accept === "text/event-stream" ? " -N" : ""];
  if (request.method !== "GET" && !(request.method === "POST" && request.body !== undefined)) parts.push(" -X " + request.method);
  parts.push(" " + quote(location.origin + request.url), " \\\n  -H \"Authorization: Bearer $TOKEN\"");
  for (const [name, value] of Object.entries(request.headers)) parts.push(" \\\n  -H " + quote(name + ": " + value));
  if (request.body !== undefined) parts.push(" \\\n  --data-binary " + quote(request.body));
  return parts.join("");
}

function stop() {
  if (running) running.abort();
  running = null;
}

async function perform(request, result, send, cancel) {
  stop();
  const abort = (running = new AbortController());
  const token = byId("token").value.trim();
  const headers = token ? { ...request.headers, Authorization: "Bearer " + token } : request.headers;
  const output = make("pre", {});
  const status = make("p", {}, "Waiting for the answer…");
  result.replaceChildren(status, output);
  send.disabled = true;
  cancel.disabled = false;
  const began = performance.now();
  try {
    const answer = await fetch(request.url, { method: request.method, headers, body: request.body,
      signal: abort.signal, cache: "no-store", credentials: "omit", redirect: "manual" });
    const kind = answer.headers.get("content-type") || "";
    status.replaceChildren(make("code", { class: answer.ok ? "" : "bad" }, String(answer.status)), " ",
      make("span", { class: "dim" }, kind + ", " + Math.round(performance.now() - began) + " ms, request " + answer.headers.get("x-request-id")));
    await showBody(answer, kind, output);
    if (answer.status === 401) status.append(" Paste the agent's token at the top.");
  } catch (error) {
    status.textContent = error.name === "AbortError" ? "Stopped." : "No answer: " + error.message;
  } finally {
    send.disabled = false;
    cancel.disabled = true;
    if (running === abort) running = null;
  }
}

/** Shows a body as it comes; of a long one only so much that the page stays usable. */
async function showBody(answer, kind, output) {
  const most = 1 << 20;
  if (kind.includes("json")) {
    const text = await answer.text();
    try {
      output.textContent = JSON.stringify(JSON.parse(text), null, 2).slice(0, most);
    } catch {
      output.textContent = text.slice(0, most);
    }
    return;
  }
  const reader = answer.body && answer.body.getReader();
  const decoder = new TextDecoder();
  let shown = 0;
  for (;;) {
    const { done, value } = reader ? await reader.read() : { done: true };
    if (done) return;
    const text = decoder.decode(value, { stream: true });
    output.append(text.slice(0, Math.max(0, most - shown)));
    shown += text.length;
    if (shown > most) {
      output.append("\n… the rest is not shown");
      return reader.cancel();
    }
    output.scrollTop = output.scrollHeight;
  }
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

async function start() {
  try {
    const answer = await fetch("/openapi.json", { credentials: "omit" });
    spec = await answer.json();
  } catch (error) {
    byId("main").replaceChildren(make("p", { class: "bad" }, "The document cannot be read: " + error.message));
    return;
  }
  operations = read(spec);
  byId("version").textContent = spec.info.version;
  byId("filter").addEventListener("input", showNav);
  addEventListener("hashchange", () => { show(); byId("main").focus(); });
  show();
}

start();
