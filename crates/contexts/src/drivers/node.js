// The built-in driver for JavaScript. Runs in a Node of the sandbox, from a file without a name.
//
// Talks on descriptor 14, a socket, in the same messages as the Python driver. Descriptor 13 is for
// single bytes: `i` interrupts, `g` says that a displayed value was taken in. A thread of ours reads
// them even while the main thread is in a loop.
//
// Code is evaluated as the console of a browser does it (V8's REPL mode): top-level const, let and
// class stay and may be declared again, await works, the value of the last expression comes out.
// What user code can see of us: a global `display`, and process.exit, which ends the run only.
(function drive(require, load) {
  'use strict';
  const fs = require('fs');
  const net = require('net');
  const util = require('util');
  const inspector = require('inspector');
  const { Worker } = require('worker_threads');
  const CONTROL = 14;
  const INTERRUPTS = 13;
  const session = new inspector.Session();
  session.connect();

  // Counts that the thread below shares: interrupts that the main thread saw, and values taken in.
  const seen = new Int32Array(new SharedArrayBuffer(4));
  const gone = new Int32Array(new SharedArrayBuffer(4));

  const asBytes = (text) => (Buffer.isBuffer(text) ? text : Buffer.from(String(text), 'utf8'));

  function send(...strings) {
    const parts = [Buffer.alloc(4)];
    let size = 0;
    for (const text of strings) {
      const data = asBytes(text);
      const head = Buffer.alloc(4);
      head.writeUInt32BE(data.length);
      parts.push(head, data);
      size += 4 + data.length;
    }
    parts[0].writeUInt32BE(size);
    writeAll(CONTROL, Buffer.concat(parts));
  }

  function writeAll(fd, data) {
    let at = 0;
    while (at < data.length) {
      try {
        at += fs.writeSync(fd, data, at);
      } catch (error) {
        if (error.code === 'EPIPE') process.reallyExit(0);
        if (error.code !== 'EAGAIN') throw error;
        // The socket is full: wait a moment without the event loop, which is the user's.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
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
    if (Buffer.isBuffer(value) || value instanceof Uint8Array) return Buffer.from(value).toString('base64');
    if (mime === 'application/json' || mime.endsWith('+json')) return JSON.stringify(value);
    return String(value);
  }

  function isPlain(value) {
    if (Array.isArray(value)) return true;
    const proto = Object.getPrototypeOf(value);
    return proto === Object.prototype || proto === null;
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
    const options = typeof value === 'string' ? { maxStringLength: null } : {};
    if (!found.has('text/plain')) found.set('text/plain', util.inspect(value, options));
    return [...found].flatMap(([mime, part]) => [mime, asText(mime, part)]);
  }

  function display(...values) {
    for (const value of values) {
      const before = Atomics.load(gone, 0);
      send('data', '0', ...forms(value));
      // What is written next must not be taken for written before.
      while (Atomics.load(gone, 0) === before) Atomics.wait(gone, 0, before);
    }
  }
  Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true });

  // Dynamic import for evaluated code, which has no module around it: the code calls it by this name.
  const { pathToFileURL } = require('url');
  Object.defineProperty(globalThis, Symbol.for('sandshell.import'), {
    value: (name, options) => {
      const text = String(name);
      const isPath = text.startsWith('./') || text.startsWith('../') || text.startsWith('/');
      const url = isPath ? new URL(text, pathToFileURL(process.cwd() + '/')).href : text;
      return importHere(url, options);
    },
  });
  const importHere = (url, options) => {
    const { builtinModules, createRequire } = require('module');
    if (url.includes(':') || builtinModules.includes(url)) return load(url, options);
    try {
      // A package is looked for where the code runs.
      const found = createRequire(process.cwd() + '/package.json').resolve(url);
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
  const reallyExit = process.exit;
  process.exit = function exit(code) {
    if (!current) return reallyExit.call(process, code);
    throw new Exit(code ?? process.exitCode ?? 0);
  };

  let current = null;
  let count = 0;

  function finish(run, status) {
    if (current !== run) return;
    current = null;
    for (const [name, value] of run.before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    send('done', status);
  }

  // Our frames and Node's evaluation are not the user's business.
  function cleaned(stack) {
    const lines = String(stack).split('\n');
    const cut = lines.findIndex((line) => /^\s+at .*(node:inspector|\[eval|<driver>)/.test(line));
    return cut < 0 ? lines : lines.slice(0, cut);
  }

  function reportError(error, syntaxAt) {
    if (error instanceof Exit) {
      send('error', 'ProcessExit', String(error.code), `process.exit(${error.code})`);
      return;
    }
    if (error instanceof Error || util.types.isNativeError(error)) {
      let lines;
      try {
        lines = cleaned(error.stack ?? error);
      } catch {
        lines = [String(error.name)];
      }
      if (syntaxAt) lines.splice(1, 0, syntaxAt);
      if (error.cause !== undefined) lines.push(`[cause]: ${util.inspect(error.cause)}`);
      send('error', error.name ?? 'Error', error.message ?? '', ...lines);
    } else {
      const shown = typeof error === 'string' ? error : util.inspect(error);
      send('error', 'Uncaught', shown, `Uncaught ${shown}`);
    }
  }

  // The value a remote object stands for, through a door that is open for this moment only.
  function valueOf(remote) {
    if (remote.type === 'undefined') return undefined;
    let value;
    const door = Symbol('door');
    globalThis[door] = (v) => {
      value = v;
    };
    const argument = remote.objectId
      ? { objectId: remote.objectId }
      : remote.unserializableValue
        ? { unserializableValue: remote.unserializableValue }
        : { value: remote.value };
    session.post('Runtime.evaluate', { expression: 'globalThis' }, (failed, global) => {
      if (failed) return;
      session.post('Runtime.callFunctionOn', {
        objectId: global.result.objectId,
        functionDeclaration:
          'function(v){for(const s of Object.getOwnPropertySymbols(this))if(s.description==="door")this[s](v)}',
        arguments: [argument],
      });
    });
    delete globalThis[door];
    return value;
  }

  function start(code, changes) {
    count += 1;
    const run = { number: count, before: [] };
    current = run;
    for (let at = 0; at + 2 < changes.length; at += 3) {
      const [name, isSet, value] = changes.slice(at, at + 3);
      run.before.push([name, process.env[name]]);
      if (isSet === '1') process.env[name] = value;
      else delete process.env[name];
    }
    const name = `run-${count}.js`;
    const request = {
      expression: `${code}\n//# sourceURL=${name}`,
      replMode: true,
      awaitPromise: true,
      objectGroup: 'run',
    };
    session.post('Runtime.evaluate', request, (failed, answer) => {
      if (current !== run) return;
      try {
        if (failed) {
          interrupted(run);
        } else if (answer.exceptionDetails) {
          const details = answer.exceptionDetails;
          const error = details.exception ? valueOf(details.exception) : new Error(details.text);
          const syntax = util.types.isNativeError(error) && error.name === 'SyntaxError' && !/\n\s+at run-/.test(error.stack);
          // An end that comes too early is found in the line that we added.
          const line = Math.min(details.lineNumber + 1, code.split('\n').length);
          reportError(error, syntax ? `    at ${name}:${line}` : null);
          finish(run, 'error');
        } else {
          const value = valueOf(answer.result);
          if (value !== undefined) send('data', '1', ...forms(value));
          // A moment later, so that a rejection nobody handles is still this run's.
          setImmediate(finish, run, 'ok');
        }
      } catch (error) {
        // A form that the user's own code gives.
        reportError(error);
        finish(run, 'error');
      }
      session.post('Runtime.releaseObjectGroup', { objectGroup: 'run' });
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
      writeAll(2, asBytes(`Uncaught ${util.inspect(error)}\n`));
    }
  }
  process.on('uncaughtException', uncaught);
  process.on('unhandledRejection', uncaught);
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

  let pending = Buffer.alloc(0);
  const socket = new net.Socket({ fd: CONTROL, readable: true, writable: false });
  socket.on('data', (data) => {
    pending = pending.length ? Buffer.concat([pending, data]) : data;
    while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32BE(0)) {
      const body = pending.subarray(4, 4 + pending.readUInt32BE(0));
      pending = pending.subarray(4 + body.length);
      const strings = [];
      for (let at = 0; at < body.length; ) {
        const size = body.readUInt32BE(at);
        strings.push(body.subarray(at + 4, at + 4 + size).toString('utf8'));
        at += 4 + size;
      }
      take(strings);
    }
  });
  socket.on('end', () => process.reallyExit(0));
  socket.on('error', () => process.reallyExit(0));

  function take([kind, ...rest]) {
    if (kind === 'init') {
      try {
        process.chdir(rest[0]);
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
