// Git in the sandbox. Paths are directories of repositories; the one that relative paths start at by default.

import type {
  CallOptions, GitBranchesReply, GitCloneReply, GitCommit, GitCommitReply, GitDiffReply, GitHeadReply, GitProgress, GitPullReply, GitPushReply,
  GitStatusReply, RequestOptions, Wire,
} from "./schema.js";
import { postWithProgress } from "./progress.js";
import type { Scope } from "./scope.js";

type GitRequest<Name extends keyof Wire, Without extends string = never> = RequestOptions<Name, Without> & CallOptions;

export class Git {
  readonly #scope: Scope;

  /** @internal */
  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Clones a repository; credentials in `auth` hold for this call alone. */
  clone(url: string, options: GitRequest<"GitCloneRequest", "url"> & { onProgress?: (progress: GitProgress) => void } = {}): Promise<GitCloneReply> {
    const { signal, onProgress, ...json } = options;
    if (!onProgress) return this.#post("clone", { ...json, signal }, { url });
    return postWithProgress(this.#scope, "/git/clone", { url, ...json }, "done", onProgress, signal);
  }

  status(options: GitRequest<"GitStatusRequest"> = {}): Promise<GitStatusReply> {
    return this.#post("status", options);
  }

  /** What changed: in the working tree, `staged`, or between `from` and `to`. */
  diff(options: GitRequest<"GitDiffRequest"> = {}): Promise<GitDiffReply> {
    return this.#post("diff", options);
  }

  /** One page of commits, newest first. */
  log(options: GitRequest<"GitLogRequest"> = {}): Promise<{ items: GitCommit[]; nextCursor?: string | null }> {
    return this.#post("log", options);
  }

  /** All branches; makes or deletes one first if asked to. */
  branches(options: GitRequest<"GitBranchesRequest"> = {}): Promise<GitBranchesReply> {
    return this.#post("branches", options);
  }

  /** Switches to a branch, tag or commit; `create` makes the branch. */
  checkout(target: string, options: GitRequest<"GitCheckoutRequest", "target"> = {}): Promise<GitHeadReply> {
    return this.#post("checkout", options, { target });
  }

  add(options: GitRequest<"GitAddRequest">): Promise<GitStatusReply> {
    return this.#post("add", options);
  }

  commit(message: string, options: GitRequest<"GitCommitRequest", "message"> = {}): Promise<GitCommitReply> {
    return this.#post("commit", options, { message });
  }

  pull(options: GitRequest<"GitPullRequest"> = {}): Promise<GitPullReply> {
    return this.#post("pull", options);
  }

  push(options: GitRequest<"GitPushRequest"> = {}): Promise<GitPushReply> {
    return this.#post("push", options);
  }

  #post<T>(verb: string, options: CallOptions, named: object = {}): Promise<T> {
    const { signal, ...json } = options;
    return this.#scope.post(`/git/${verb}`, { ...named, ...json }, signal);
  }
}
