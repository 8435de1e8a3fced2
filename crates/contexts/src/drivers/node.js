// The built-in driver for JavaScript. Runs in a Node of the sandbox, from a file without a name.
//
// Talks on descriptor 14, a socket, in the same messages as the Python driver. Descriptor 13 is for
// single bytes: `i` interrupts, `g` says that a displayed value was taken in. A thread of ours reads
// them even while the main thread is in a loop.
//
// Code is evaluated as the console of a browser does it (V8's REPL mode): top-level const, let and
// class stay and may be declared again, await works, the value of the last expression comes out.
// What user code can see of us: a global `display`, and process.exit, which ends the run only.
//
// This runs in a realm of its own: the Object, JSON, Map and so on named here are not those that user
// code can change. What is shared with it (Node's modules, the global object) is taken at the start.
(function drive(require, load, host) {
  'use strict';
  const { Buffer, URL, process, setImmediate } = host;
  const { writeSync } = require('fs');
  const net = require('net');
  const inspector = require('inspector');
  const { Worker } = require('worker_threads');
  const { inspect, types } = require('util');
  const { isNativeError, isUint8Array } = types;
  const { builtinModules, createRequire } = require('module');
  const { pathToFileURL } = require('url');
  const { chdir, cwd, env, reallyExit } = process;
  const base64Slice = Buffer.prototype.base64Slice;
  const plain = host.Object.prototype;
  const encoder = new host.TextEncoder();
  const decoder = new host.TextDecoder('utf-8', { ignoreBOM: true });
  const encode = encoder.encode.bind(encoder);
  const decode = decoder.decode.bind(decoder);
  const CONTROL = 14;
  const INTERRUPTS = 13;
  const LARGEST = 64 << 20;
  // Strings longer than this are kept by nobody; a string is quoted in pieces of the other length.
  const LONGEST_STRING = 32 << 20;
  const PIECE = 1 << 20;
  const LONGEST_ERROR = 1 << 20;
  const session = new inspector.Session();
  session.connect();
  const post = session.post.bind(session);

  // Counts that the thread below shares: interrupts that the main thread saw, and values taken in.
  const seen = new Int32Array(new SharedArrayBuffer(4));
  const gone = new Int32Array(new SharedArrayBuffer(4));
  const never = new Int32Array(new SharedArrayBuffer(4));

  function send(...strings) {
    const parts = strings.map((text) => encode(String(text)));
    const size = parts.reduce((sum, part) => sum + 4 + part.length, 0);
    if (size > LARGEST) return send('dropped', strings[1]);
    const message = new Uint8Array(4 + size);
    const numbers = new DataView(message.buffer);
    numbers.setUint32(0, size);
    let at = 4;
    for (const part of parts) {
      numbers.setUint32(at, part.length);
      message.set(part, at + 4);
      at += 4 + part.length;
    }
    writeAll(CONTROL, message);
  }

  function writeAll(fd, data) {
    let at = 0;
    while (at < data.length) {
      try {
        at += writeSync(fd, data, at);
      } catch (error) {
        if (error.code === 'EPIPE') reallyExit(0);
        if (error.code !== 'EAGAIN') throw error;
        // The socket is full: wait a moment without the event loop, which is the user's.
        Atomics.wait(never, 0, 0, 1);
      }
    }
  }

  // Output goes out at once, whatever the code does next.
  for (const stream of [process.stdout, process.stderr]) {
    stream._handle?.setBlocking?.(true);
  }

  // Rich forms.

  const METHODS = [
    ['text/html', 'toHtml', '_repr_html_'],
    ['text/markdown', 'toMarkdown', '_repr_markdown_'],
    ['image/svg+xml', 'toSvg', '_repr_svg_'],
    ['image/png', 'toPng', '_repr_png_'],
    ['text/latex', 'toLatex', '_repr_latex_'],
    ['application/json', null, '_repr_json_'],
  ];

  function asText(mime, value) {
    if (isUint8Array(value)) return base64Slice.call(value);
    if (mime === 'application/json' || mime.endsWith('+json')) return JSON.stringify(value);
    return String(value);
  }

  function isPlain(value) {
    if (Array.isArray(value)) return true;
    const proto = Object.getPrototypeOf(value);
    return proto === plain || proto === null;
  }

  // As inspect does it, which cannot do much at a time: too many escapes in one string end Node.
  function quoted(text) {
    if (text.length <= PIECE) return inspect(text, { maxStringLength: null });
    const has = (part) => text.includes(part);
    const free = !has("'") ? "'" : !has('"') ? '"' : !has('`') && !has('${') ? '`' : null;
    const pieces = [];
    for (let at = 0; at < text.length; ) {
      let end = at + PIECE;
      const last = text.charCodeAt(end - 1);
      if (last >= 0xd800 && last < 0xdc00) end -= 1;
      // Where every quote occurs, all three in a piece make it escape the single ones.
      const all = free ? '' : `'"\``;
      const shown = inspect(text.slice(at, end) + all, { maxStringLength: null, breakLength: Infinity });
      pieces.push(shown.slice(1, free ? -1 : -5));
      at = end;
    }
    const quote = free ?? "'";
    return quote + pieces.join('') + quote;
  }

  function forms(value) {
    const found = new Map();
    if (value !== null && (typeof value === 'object' || typeof value === 'function')) {
      const bundle = value[Symbol.for('Jupyter.display')] ?? value._repr_mimebundle_;
      if (typeof bundle === 'function') {
        for (const [mime, part] of Object.entries(bundle.call(value) ?? {})) found.set(mime, part);
      }
      for (const [mime, ...names] of METHODS) {
        const method = names.map((name) => name && value[name]).find((f) => typeof f === 'function');
        if (method && !found.has(mime)) {
          const made = method.call(value);
          if (made !== undefined && made !== null) found.set(mime, made);
        }
      }
      if (typeof value === 'object' && isPlain(value) && !found.has('application/json')) {
        try {
          const text = JSON.stringify(value);
          if (text !== undefined && text.length <= 1 << 20) found.set('application/json', value);
        } catch {
          // Circular, or a BigInt: it has no JSON form.
        }
      }
    }
    // A string is shown whole; long ones within something else are cut, as Node does.
    if (typeof value === 'string') found.set('text/plain', quoted(value));
    else if (!found.has('text/plain')) found.set('text/plain', inspect(value));
    return [...found].flatMap(([mime, part]) => [mime, asText(mime, part)]);
  }

  function sendValue(isMain, value) {
    if (typeof value === 'string' && value.length > LONGEST_STRING) send('dropped', isMain);
    else send('data', isMain, ...forms(value));
  }

  function display(...values) {
    for (const value of values) {
      const before = Atomics.load(gone, 0);
      sendValue('0', value);
      // What is written next must not be taken for written before.
      while (Atomics.load(gone, 0) === before) Atomics.wait(gone, 0, before);
    }
  }
  Object.defineProperty(host, 'display', { value: display, writable: true, configurable: true });

  // Dynamic import for evaluated code, which has no module around it: the code calls it by this name.
  Object.defineProperty(host, Symbol.for('sandshell.import'), {
    value: (name, options) => {
      const text = String(name);
      const isPath = text.startsWith('./') || text.startsWith('../') || text.startsWith('/');
      const url = isPath ? new URL(text, pathToFileURL(cwd() + '/')).href : text;
      return importHere(url, options);
    },
  });
  const importHere = (url, options) => {
    if (url.includes(':') || builtinModules.includes(url)) return load(url, options);
    try {
      // A package is looked for where the code runs.
      const found = createRequire(cwd() + '/package.json').resolve(url);
      return load(pathToFileURL(found).href, options);
    } catch {
      return load(url, options);
    }
  };

  // The end of a run.

  class Exit {
    constructor(code) {
      this.code = code;
    }
  }
  const exitProcess = process.exit;
  process.exit = function exit(code) {
    if (!current) return exitProcess.call(process, code);
    throw new Exit(code ?? process.exitCode ?? 0);
  };

  let current = null;
  let count = 0;

  function finish(run, status) {
    if (current !== run) return;
    current = null;
    for (const [name, value] of run.before) {
      if (value === undefined) delete env[name];
      else env[name] = value;
    }
    send('done', status);
  }

  // Our frames and Node's evaluation are not the user's business.
  function cleaned(stack) {
    const lines = String(stack).split('\n');
    const cut = lines.findIndex((line) => /^\s+at .*(node:inspector|\[eval|<driver>)/.test(line));
    return cut < 0 ? lines : lines.slice(0, cut);
  }

  const cut = (text) => (text.length <= LONGEST_ERROR ? text : `${text.slice(0, LONGEST_ERROR)} (cut)`);

  function reportError(error, syntaxAt) {
    let words;
    try {
      words = described(error, syntaxAt).map(String);
    } catch {
      // Its own code shows it, and fails.
      words = ['Error', 'an error that cannot be shown', 'Error: an error that cannot be shown'];
    }
    send('error', ...words.map(cut));
  }

  function described(error, syntaxAt) {
    if (error instanceof Exit) return ['ProcessExit', error.code, `process.exit(${error.code})`];
    if (isNativeError(error) || error instanceof host.Error) {
      const lines = cleaned(cut(String(error.stack ?? error)));
      if (syntaxAt) lines.splice(1, 0, syntaxAt);
      if (error.cause !== undefined) lines.push(`[cause]: ${inspect(error.cause)}`);
      return [error.name ?? 'Error', error.message ?? '', ...lines];
    }
    const shown = typeof error === 'string' ? error : inspect(error);
    return ['Uncaught', shown, `Uncaught ${shown}`];
  }

  // Where the inspector puts the value that a remote object stands for. It is known to it by its id.
  const tray = Object.create(null);
  let trayId;
  const door = 'sandshell.door';
  host[door] = tray;
  post('Runtime.evaluate', { expression: `globalThis['${door}']` }, (failed, answer) => {
    trayId = answer.result.objectId;
  });
  delete host[door];

  function valueOf(remote) {
    if (remote.type === 'undefined') return undefined;
    // Strings, numbers, booleans and null are here already.
    if (!remote.objectId && !remote.unserializableValue) return remote.value;
    const argument = remote.objectId
      ? { objectId: remote.objectId }
      : { unserializableValue: remote.unserializableValue };
    const functionDeclaration = 'function(value) { this.value = value }';
    post('Runtime.callFunctionOn', { objectId: trayId, functionDeclaration, arguments: [argument] });
    const { value } = tray;
    tray.value = undefined;
    return value;
  }

  function start(code, changes) {
    count += 1;
    const run = { number: count, before: [] };
    current = run;
    for (let at = 0; at + 2 < changes.length; at += 3) {
      const [name, isSet, value] = changes.slice(at, at + 3);
      run.before.push([name, env[name]]);
      if (isSet === '1') env[name] = value;
      else delete env[name];
    }
    const name = `run-${count}.js`;
    const request = {
      expression: `${code}\n//# sourceURL=${name}`,
      replMode: true,
      awaitPromise: true,
      objectGroup: 'run',
    };
    post('Runtime.evaluate', request, (failed, answer) => {
      if (current !== run) return;
      try {
        if (failed) {
          // Terminated; or Node is about to end, and must not seem to go on.
          setImmediate(interrupted, run);
        } else if (answer.exceptionDetails) {
          const details = answer.exceptionDetails;
          const error = details.exception ? valueOf(details.exception) : new Error(details.text);
          const syntax = isNativeError(error) && error.name === 'SyntaxError' && !/\n\s+at run-/.test(error.stack);
          // An end that comes too early is found in the line that we added.
          const line = Math.min(details.lineNumber + 1, code.split('\n').length);
          reportError(error, syntax ? `    at ${name}:${line}` : null);
          finish(run, 'error');
        } else {
          const value = valueOf(answer.result);
          if (value !== undefined) sendValue('1', value);
          // A moment later, so that a rejection nobody handles is still this run's.
          setImmediate(finish, run, 'ok');
        }
      } catch (error) {
        // A form that the user's own code gives.
        reportError(error);
        finish(run, 'error');
      }
      post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
    });
  }

  function interrupted(run) {
    if (current !== run || run === null) return;
    send('error', 'Interrupted', 'the run was interrupted', 'Interrupted: the run was interrupted');
    finish(run, 'error');
  }

  // What nobody catches. In a run it is the run's error; between runs it goes to stderr.
  function uncaught(error) {
    const run = current;
    if (run) {
      reportError(error);
      finish(run, 'error');
    } else {
      writeAll(2, encode(`Uncaught ${described(error)[1]}\n`));
    }
  }
  // An exception in here would leave Node alive and the run without an end.
  function uncaughtOrEnd(error) {
    try {
      uncaught(error);
    } catch {
      reallyExit(7);
    }
  }
  process.on('uncaughtException', uncaughtOrEnd);
  process.on('unhandledRejection', uncaughtOrEnd);
  process.on('SIGINT', () => interrupted(current));

  // Interrupts: the thread asks the main thread first; one that does not answer is in a loop, and
  // what it executes is terminated.
  const watcher = new Worker(
    `
    const { parentPort, workerData } = require('worker_threads');
    const net = require('net');
    const inspector = require('inspector');
    const socket = new net.Socket({ fd: workerData.fd, readable: true, writable: false });
    socket.on('data', (data) => {
      for (const byte of data) {
        if (byte === 0x67) {
          Atomics.add(workerData.gone, 0, 1);
          Atomics.notify(workerData.gone, 0);
        }
      }
      if (!data.includes(0x69)) return;
      const before = Atomics.load(workerData.seen, 0);
      parentPort.postMessage('interrupt');
      setTimeout(() => {
        if (Atomics.load(workerData.seen, 0) !== before) return;
        // Connected for this moment only: Node waits for such a session when it exits.
        const session = new inspector.Session();
        session.connectToMainThread();
        session.post('Runtime.terminateExecution', () => session.disconnect());
      }, 30);
    });
    socket.on('error', () => {});
    parentPort.postMessage('ready');
    `,
    { eval: true, workerData: { fd: INTERRUPTS, seen, gone }, stdout: false, stderr: false },
  );
  watcher.on('message', (message) => {
    if (message === 'ready') {
      send('hello', `Node ${process.version}`);
      return;
    }
    Atomics.add(seen, 0, 1);
    interrupted(current);
  });
  watcher.on('error', () => {});
  watcher.unref();

  // Messages from the agent.

  let pending = new Uint8Array(0);
  const socket = new net.Socket({ fd: CONTROL, readable: true, writable: false });
  socket.on('data', (data) => {
    const joined = new Uint8Array(pending.length + data.length);
    joined.set(pending);
    joined.set(data, pending.length);
    pending = joined;
    const sizeAt = (at) => new DataView(pending.buffer, pending.byteOffset).getUint32(at);
    while (pending.length >= 4 && pending.length >= 4 + sizeAt(0)) {
      const end = 4 + sizeAt(0);
      const strings = [];
      for (let at = 4; at < end; at += 4 + sizeAt(at)) {
        strings.push(decode(pending.subarray(at + 4, at + 4 + sizeAt(at))));
      }
      pending = pending.subarray(end);
      take(strings);
    }
  });
  socket.on('end', () => reallyExit(0));
  socket.on('error', () => reallyExit(0));

  function take([kind, ...rest]) {
    if (kind === 'init') {
      try {
        chdir(rest[0]);
        send('ready');
      } catch (error) {
        send('refused', error.code ?? error.message);
      }
    } else {
      // Out of this callback, so that a termination ends the code and not the reading.
      setImmediate(start, rest[0], rest.slice(1));
    }
  }
});
