// Sandshell for TypeScript: a safe computer to drive from a program. `Sandbox` is where to begin.

export { Agent, Hub, Images, Sandbox, Tokens, type CreateOptions, type ListSandboxesOptions } from "./hub.js";
export { Computer, Environment, type EventsOptions, type ExecOptions, type ExecStreamOptions } from "./computer.js";
export {
  Process, WaitError, type Collected, type Command, type InputOptions, type LogWaitOptions, type OutputOptions, type PortWaitOptions,
  type ProcessOptions, type RawOutputOptions, type WaitOptions,
} from "./process.js";
export { Session, type SessionEvent, type SessionExecOptions, type SessionExit, type SessionOptions } from "./session.js";
export { Terminal, TerminalWriter, type TerminalEvent, type TerminalEventsOptions, type TerminalExit, type TerminalOptions } from "./terminal.js";
export {
  CommandResult, ExecResult, OutputChunk, SessionExecResult, Streams, type OutputEvent, type OutputExit, type OutputGap, type StreamName,
} from "./output.js";
export {
  Files, Watch, type ArchiveOptions, type FileOptions, type ListOptions, type ReadOptions, type WatchEvent, type WatchOptions, type WriteOptions,
} from "./files.js";
export { Git } from "./git.js";
export { Backups, type BackupOptions, type RestoreOptions } from "./backups.js";
export { Ports, type PortEvent } from "./ports.js";
export { CodeResult, Context, Contexts, type ContextOptions, type RunEvent, type RunOptions } from "./contexts.js";
export * from "./errors.js";
export type * from "./schema.js";
export type { ConnectionOptions } from "./transport.js";
export type { Data, StreamData } from "./bytes.js";
export type { Camel } from "./wire.js";
