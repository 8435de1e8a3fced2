// Connects an xterm.js terminal with one of a sandbox. xterm.js is not imported: any emulator of this shape will do.
//
//   const xterm = new Terminal();
//   xterm.loadAddon(new SandshellAddon(await sandbox.terminal()));

import type { Terminal, TerminalExit, TerminalWriter } from "./terminal.js";

interface Disposable {
  dispose(): void;
}

/** What is used of xterm.js. */
export interface Emulator {
  readonly cols: number;
  readonly rows: number;
  write(data: Uint8Array, callback?: () => void): void;
  resize(cols: number, rows: number): void;
  onData(listener: (data: string) => void): Disposable;
  onBinary(listener: (data: string) => void): Disposable;
  onResize(listener: (size: { cols: number; rows: number }) => void): Disposable;
}

export interface AddonOptions {
  /** `true`: what is typed and resized here has no effect. */
  readOnly?: boolean | undefined;
  /** Told when the program has ended. */
  onExit?: ((exit: TerminalExit) => void) | undefined;
  /** Told when the connection is lost for good, or something else fails. */
  onError?: ((error: unknown) => void) | undefined;
}

/** An addon of xterm.js: shows the screen as it is, then what follows, over as many connections as it takes. */
export class SandshellAddon {
  readonly #terminal: Terminal;
  readonly #options: AddonOptions;
  readonly #stop = new AbortController();
  readonly #subscriptions: Disposable[] = [];
  #writer: TerminalWriter | undefined;
  /** The size that the terminal is known to have; telling it again would go round in circles. */
  #size = "";

  constructor(terminal: Terminal, options: AddonOptions = {}) {
    this.#terminal = terminal;
    this.#options = options;
  }

  /** Called by xterm.js. */
  activate(emulator: Emulator): void {
    if (!this.#options.readOnly) this.#connectInput(emulator);
    void this.#show(emulator).catch((error: unknown) => this.#failed(error));
  }

  #connectInput(emulator: Emulator): void {
    // The emulator answers programs that ask where the cursor is, so nobody else must.
    const writer = this.#terminal.writer({ answers: true });
    this.#writer = writer;
    const write = (data: string | Uint8Array): void => void writer.write(data).catch((error: unknown) => this.#failed(error));
    const resize = (cols: number, rows: number): void => {
      const size = `${cols}x${rows}`;
      if (size === this.#size) return;
      this.#size = size;
      void this.#terminal.resize(cols, rows).catch((error: unknown) => this.#failed(error));
    };
    void writer.open().catch((error: unknown) => this.#failed(error));
    resize(emulator.cols, emulator.rows);
    this.#subscriptions.push(
      emulator.onData(write),
      // Each character stands for a byte.
      emulator.onBinary((data) => write(Uint8Array.from(data, (letter) => letter.charCodeAt(0)))),
      emulator.onResize(({ cols, rows }) => resize(cols, rows)),
    );
  }

  async #show(emulator: Emulator): Promise<void> {
    for await (const event of this.#terminal.events({ from: "screen", signal: this.#stop.signal })) {
      if (event.type === "output" || event.type === "redraw") {
        // The next piece is asked for when this one is drawn: a flood does not pile up here.
        await new Promise<void>((resolve) => emulator.write(event.bytes, resolve));
      } else if (event.type === "resize" && this.#options.readOnly) {
        emulator.resize(event.cols, event.rows);
      } else if (event.type === "resize") {
        // Somebody else's change; our own has come back.
        const size = `${event.cols}x${event.rows}`;
        if (size === this.#size) continue;
        this.#size = size;
        emulator.resize(event.cols, event.rows);
      } else if (event.type === "exit") {
        this.#options.onExit?.(event);
      }
    }
  }

  #failed(error: unknown): void {
    if (!this.#stop.signal.aborted) this.#options.onError?.(error);
  }

  /** Called by xterm.js. The terminal of the sandbox goes on. */
  dispose(): void {
    this.#stop.abort();
    for (const subscription of this.#subscriptions) subscription.dispose();
    this.#writer?.close();
  }
}
