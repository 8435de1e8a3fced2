// The shapes of the API under the names that programs use.

import type { components } from "./generated/api.js";
import type { Camel } from "./wire.js";

/** Shapes as they stand on the wire. */
export type Wire = components["schemas"];

type Shape<Name extends keyof Wire> = Camel<Wire[Name]>;

export type ArchiveCounts = Shape<"ArchiveCounts">;
export type AuditEntry = Shape<"AuditEntry">;
export type BackupProgress = Shape<"BackupProgress">;
export type BackupRecord = Shape<"BackupRecord">;
export type ChangesReply = Shape<"ChangesReply">;
export type CommandRecord = Shape<"CommandRecord">;
export type ContextInterruptReply = Shape<"ContextInterruptReply">;
export type ContextRecord = Shape<"ContextRecord">;
export type CopyReply = Shape<"CopyReply">;
export type EnvReply = Shape<"EnvReply">;
export type ErrorCode = Wire["ErrorCode"];
export type FileEntry = Shape<"FileEntry">;
export type FileEvent = Shape<"FileEvent">;
export type FindReply = Shape<"FindReply">;
export type GitBranchesReply = Shape<"GitBranchesReply">;
export type GitCloneReply = Shape<"GitCloneReply">;
export type GitCommit = Shape<"GitCommit">;
export type GitCommitReply = Shape<"GitCommitReply">;
export type GitDiffReply = Shape<"GitDiffReply">;
export type GitHeadReply = Shape<"GitHeadReply">;
export type GitProgress = Shape<"GitProgress">;
export type GitPullReply = Shape<"GitPullReply">;
export type GitPushReply = Shape<"GitPushReply">;
export type GitStatusReply = Shape<"GitStatusReply">;
export type HttpCheck = Shape<"HttpCheck">;
export type ImageRecord = Shape<"ImageRecord">;
export type InterruptReply = Shape<"InterruptReply">;
export type KillReply = Shape<"KillReply">;
export type Language = Wire["Language"];
export type PortExposure = Shape<"PortExposure">;
export type PortRecord = Shape<"PortRecord">;
export type PortUnexposed = Shape<"PortUnexposed">;
export type PortWaitReply = Shape<"PortWaitReply">;
export type Preview = Shape<"Preview">;
export type Problem = Shape<"Problem">;
export type ProcessRecord = Shape<"ProcessRecord">;
export type Protection = Shape<"Protection">;
export type RemoveReply = Shape<"RemoveReply">;
export type RestoreReply = Shape<"RestoreReply">;
export type RunEnd = Shape<"RunEnd">;
export type RunError = Shape<"RunError">;
export type RunResult = Shape<"RunResult">;
export type RunStarted = Shape<"RunStarted">;
export type SandboxEvent = Shape<"SandboxEvent">;
export type SandboxPatch = Shape<"SandboxPatch">;
export type SandboxRecord = Shape<"SandboxRecord">;
export type SandboxSpec = Shape<"SandboxSpec">;
export type SandboxState = Wire["SandboxState"];
export type SandboxStats = Shape<"SandboxStats">;
export type SearchMatch = Shape<"SearchMatch">;
export type SearchReply = Shape<"SearchReply">;
export type SearchSummary = Shape<"SearchSummary">;
export type SessionRecord = Shape<"SessionRecord">;
export type SignalReply = Shape<"SignalReply">;
export type StdinReply = Shape<"StdinReply">;
export type TerminalRecord = Shape<"TerminalRecord">;
export type TerminalScreen = Shape<"TerminalScreen">;
export type TokenCreated = Shape<"TokenCreated">;
export type TokenRecord = Shape<"TokenRecord">;
export type Truncated = Shape<"Truncated">;
export type VersionInfo = Shape<"VersionInfo">;
export type WaitReply = Shape<"WaitReply">;
export type WatchReady = Shape<"WatchReadyEvent">;

/** The fields of a request without those that the library fills in or names otherwise. */
export type RequestOptions<Name extends keyof Wire, Without extends string = never> = Omit<Camel<Wire[Name]>, Without>;

/** What every call takes. */
export interface CallOptions {
  /** Gives the call up. */
  signal?: AbortSignal | undefined;
}
