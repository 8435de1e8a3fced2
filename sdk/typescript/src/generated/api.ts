// Made by `npm run gen` from openapi/hub-v1.json. Change that, not this.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description What came out of an archive, or went into one. */
        ArchiveCounts: {
            /**
             * Format: int64
             * @description Bytes in the files.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Directories.
             */
            directories: number;
            /**
             * Format: int64
             * @description Regular files, hard links included.
             */
            files: number;
            /**
             * Format: int64
             * @description Entries passed over: FIFOs, sockets and devices, and what could not be read when that was
             *     allowed.
             */
            skipped: number;
            /**
             * Format: int64
             * @description Symbolic links.
             */
            symlinks: number;
        };
        /** @description Something that was done, or refused, and by whom. */
        AuditEntry: {
            /**
             * @description What was done, such as `sandbox.create`.
             * @example sandbox.create
             */
            action: string;
            /**
             * Format: date-time
             * @description When.
             */
            at: string;
            /** @description What else there is to know. */
            detail?: string | null;
            /**
             * Format: int64
             * @description Its number; later ones are higher.
             */
            id: number;
            /** @description `ok`, or the code of the problem. */
            outcome: string;
            /** @description The id of the request. */
            request_id?: string | null;
            /** @description The sandbox or token it was done to. */
            target?: string | null;
            /** @description The token that asked; left out when the hub did it by itself. */
            token?: string | null;
        };
        /** @description The making of a backup: `backup` or `error` is the last. */
        BackupEvents: components["schemas"]["BackupEventsProgress"] | components["schemas"]["BackupEventsBackup"] | components["schemas"]["BackupEventsError"];
        /** @description `event: backup`; its data is JSON in one line. */
        BackupEventsBackup: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "backup";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: error`; its data is JSON in one line. */
        BackupEventsError: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "error";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: progress`; its data is JSON in one line. */
        BackupEventsProgress: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "progress";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description A saved directory tree. */
        BackupId: string;
        /**
         * @description SSE `event: progress`. The last event is `backup` (a backup record), `restored` (the reply) or
         *     `error` (a problem).
         */
        BackupProgress: {
            /**
             * Format: int64
             * @description Bytes of the archive written, sent or fetched so far.
             */
            archive_bytes: number;
            /**
             * Format: int64
             * @description Bytes in these files.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Files so far.
             */
            files: number;
            /** @description What is being done. */
            stage: components["schemas"]["BackupStage"];
        };
        /** @description A saved directory tree. */
        BackupRecord: {
            /** @description What is in it; while it is being made, what is in it so far. */
            contents: components["schemas"]["ArchiveCounts"];
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When it will be deleted.
             */
            expires_at?: string | null;
            /** @description Its id. */
            id: components["schemas"]["BackupId"];
            /** @description The directory it was made from. */
            path: string;
            /** @description The exact path, when it is not UTF-8. */
            path_base64?: string | null;
            /** @description SHA-256 of the archive, as hexadecimal digits; absent while it is being made. */
            sha256?: string | null;
            /**
             * Format: int64
             * @description Bytes of the archive.
             */
            size: number;
            /** @description Where it is in its life. */
            state: components["schemas"]["BackupState"];
            /** @description Whether the archive is kept here. If not, a restore needs `download`. */
            stored: boolean;
        };
        /**
         * @description `POST /v1/backups`: saves the tree at `path`, or takes in one from `download`.
         * @example {
         *       "exclude": [
         *         "node_modules"
         *       ],
         *       "id": "monday",
         *       "path": "/workspace",
         *       "ttl_ms": 86400000
         *     }
         */
        BackupRequest: {
            download?: components["schemas"]["Download"] | null;
            /**
             * @description Globs of what to leave out. One without `/` is matched against the name, one with it against
             *     the path below `path`.
             */
            exclude?: string[];
            /** @description Whether what .gitignore files exclude is left out; `.git` itself is kept. False by default. */
            gitignore?: boolean;
            id?: components["schemas"]["BackupId"] | null;
            /** @description The directory. With `download`: where a restore without a path puts it. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Pass over and count what the user may not read. Otherwise the first such file is an error. */
            skip_unreadable?: boolean;
            /**
             * Format: int64
             * @description It is deleted this long after it was made. Kept until deleted by default.
             */
            ttl_ms?: number | null;
            upload?: components["schemas"]["Upload"] | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /**
         * @description What a backup or a restore is doing.
         * @enum {string}
         */
        BackupStage: "packing" | "uploading" | "downloading" | "unpacking";
        /**
         * @description Where a backup is in its life.
         *
         *     ```text
         *     creating ──► ready ──► (deleted, or its time is over)
         *         └──► (failed: nothing of it is kept)
         *     ```
         * @enum {string}
         */
        BackupState: "creating" | "ready";
        /**
         * @description How upper and lower case are told apart.
         * @enum {string}
         */
        CaseMode: "sensitive" | "insensitive" | "smart";
        /** @description Answer to `POST /v1/files/changes`. */
        ChangesReply: {
            reason?: components["schemas"]["RescanReason"] | null;
            /** @description Whether something changed. */
            status: components["schemas"]["ChangesStatus"];
            /**
             * Format: int64
             * @description The version now. Whatever ended before the request is in it.
             */
            version: number;
        };
        /**
         * @description `POST /v1/files/changes`: has anything changed since a version?
         * @example {
         *       "exclude": [
         *         "node_modules"
         *       ],
         *       "path": "/workspace",
         *       "since": 1767225600000012
         *     }
         */
        ChangesRequest: {
            /** @description Nothing that matches one of these globs, nor anything below it. */
            exclude?: string[];
            /** @description Only files that match one of these globs. */
            include?: string[];
            /** @description What to watch: a directory or a file. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /** @description Also everything below. True by default. */
            recursive?: boolean | null;
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description The version of an earlier answer or event. Without it, the answer gives one to begin with.
             */
            since?: number | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /**
         * @description Whether something changed.
         * @enum {string}
         */
        ChangesStatus: "unchanged" | "changed" | "rescan";
        /** @description What was changed. */
        ChmodReply: {
            /**
             * Format: int64
             * @description Files and directories changed.
             */
            changed: number;
        };
        /**
         * @description `POST /v1/files/chmod`.
         * @example {
         *       "mode": "0755",
         *       "path": "/workspace/run.sh"
         *     }
         */
        ChmodRequest: {
            /** @description The permission bits: octal text such as `"0755"`, or the bits as a number (493). */
            mode: components["schemas"]["FileMode"];
            /** @description What is changed. A symbolic link is followed. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /** @description Also everything below; symbolic links are left alone. False by default. */
            recursive?: boolean;
            /** @description Relative paths start at this session's directory. */
            session?: string | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description SSE `event: command`: the session took the command in. First event of a streamed session exec. */
        CommandEvent: {
            /** @description The command's id. */
            command_id: components["schemas"]["CommandId"];
        };
        /** @description One command run in a session. */
        CommandId: string;
        /** @description An entry of a session's history. */
        CommandRecord: {
            /** @description Its text. */
            command: string;
            /** @description Working directory after it. */
            cwd?: string | null;
            /**
             * Format: int64
             * @description Wall time.
             */
            duration_ms?: number | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /**
             * Format: int32
             * @description Exit status.
             */
            exit_code?: number | null;
            /** @description Its id. */
            id: components["schemas"]["CommandId"];
            /** @description Whether it was interrupted. */
            interrupted?: boolean;
            /**
             * Format: int64
             * @description Bytes written after the end by children left behind, both streams.
             */
            late_bytes: number;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /**
             * Format: date-time
             * @description When it was accepted.
             */
            queued_at: string;
            /** @description Name of the signal that killed the shell, when one did. */
            signal?: string | null;
            /**
             * Format: date-time
             * @description When it started to run.
             */
            started_at?: string | null;
            /** @description Where it is in its life. */
            state: components["schemas"]["CommandState"];
            /**
             * Format: int64
             * @description Bytes written to standard error.
             */
            stderr_bytes: number;
            /**
             * Format: int64
             * @description Bytes written to standard output.
             */
            stdout_bytes: number;
            /** @description Whether its timeout ended it. */
            timed_out?: boolean;
        };
        /**
         * @description Where a command is in its life.
         * @enum {string}
         */
        CommandState: "queued" | "running" | "done" | "cancelled";
        /** @description A code interpreter that keeps its state. */
        ContextId: string;
        /** @description Answer to an interrupt, given when the run is really over. */
        ContextInterruptReply: {
            /** @description The context after it. */
            context: components["schemas"]["ContextRecord"];
            /** @description What became of the state. */
            outcome: components["schemas"]["ContextOutcome"];
            /** @description The run that was interrupted; absent when none was. */
            run_id?: string | null;
        };
        /** @description A line beside a match. */
        ContextLine: {
            /**
             * Format: int64
             * @description Its number, from 1.
             */
            line: number;
            /** @description The line without its end. */
            text: string;
            /** @description How `text` is encoded. */
            text_encoding: components["schemas"]["TextEncoding"];
        };
        /**
         * @description What became of the state of a context.
         * @enum {string}
         */
        ContextOutcome: "kept" | "lost" | "ended";
        /** @description What is known of a context. */
        ContextRecord: {
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /** @description Working directory it was started in. */
            cwd: string;
            /** @description Why it has ended, when it has. */
            ended_reason?: string | null;
            /**
             * Format: int64
             * @description Runs begun since the interpreter started.
             */
            execution_count: number;
            /** @description Its id. */
            id: components["schemas"]["ContextId"];
            /**
             * @description The interpreter, as it calls itself.
             * @example Python 3.11.2
             */
            interpreter: string;
            /** @description What runs the code: `builtin` or `jupyter`. */
            kernel: components["schemas"]["KernelChoice"];
            /** @description Its language. */
            language: components["schemas"]["Language"];
            /**
             * Format: date-time
             * @description When its last run ended.
             */
            last_used_at?: string | null;
            /**
             * Format: int32
             * @description The interpreter's pid inside the sandbox.
             */
            pid: number;
            /**
             * Format: int32
             * @description Runs waiting for their turn.
             */
            queue_length: number;
            /**
             * Format: int32
             * @description How often the interpreter was started anew.
             */
            restarts: number;
            /** @description Where it is in its life. */
            state: components["schemas"]["ContextState"];
        };
        /**
         * @description `POST /v1/contexts`.
         * @example {
         *       "id": "calc",
         *       "language": "python"
         *     }
         */
        ContextRequest: {
            /** @description Working directory; the session's or the sandbox's by default. */
            cwd?: string | null;
            /** @description Changes to its environment. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["ContextId"] | null;
            /**
             * Format: int64
             * @description End the context after this long without a run. Never by default.
             */
            idle_timeout_ms?: number | null;
            /** @description What runs the code. */
            kernel?: components["schemas"]["KernelChoice"];
            /** @description The language. */
            language: components["schemas"]["Language"];
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description Timeout of each run that does not bring its own. None by default.
             */
            timeout_ms?: number | null;
            /** @description User name or uid to run as. */
            user?: string | null;
        };
        /**
         * @description Where a context is in its life.
         *
         *     ```text
         *       idle ◄──── run over ──── busy ◄── run ── idle
         *        │ ▲                      │ interpreter exited or was killed
         *        │ └──── restart ◄── ended┘
         *        └──► (deleted, or idle for too long: gone)
         *     ```
         * @enum {string}
         */
        ContextState: "idle" | "busy" | "ended";
        /** @description What was copied. */
        CopyReply: {
            /**
             * Format: int64
             * @description Bytes of files copied.
             */
            bytes: number;
            /**
             * Format: int64
             * @description Files, directories and links made.
             */
            copied: number;
            /** @description The copy. */
            entry: components["schemas"]["FileEntry"];
        };
        /**
         * @description `POST /v1/files/copy`.
         * @example {
         *       "from": "/workspace/a",
         *       "recursive": true,
         *       "to": "/workspace/b"
         *     }
         */
        CopyRequest: {
            /** @description What is copied. A symbolic link here is followed; those below a directory are copied. */
            from?: string | null;
            /** @description Instead of `from`, for names that are not UTF-8. */
            from_base64?: string | null;
            /** @description Replace a file or an empty directory that is there; false by default. */
            overwrite?: boolean;
            /** @description Make missing directories above `to`; true by default. */
            parents?: boolean | null;
            /** @description Needed for a directory. */
            recursive?: boolean;
            /** @description Relative paths start at this session's directory. */
            session?: string | null;
            /** @description The path of the copy; never a directory to put it in. */
            to?: string | null;
            /** @description Instead of `to`, for names that are not UTF-8. */
            to_base64?: string | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description Use of processors. */
        CpuStats: {
            /**
             * Format: int32
             * @description Processors there are.
             */
            cpus: number;
            /**
             * Format: double
             * @description Processors that may be used.
             */
            limit?: number | null;
            /** @description Where it comes from. */
            source: components["schemas"]["StatsSource"];
            /**
             * Format: int64
             * @description Time used since the start, on all processors together.
             */
            usage_ms?: number | null;
        };
        /** @description A file system. */
        DiskStats: {
            /**
             * Format: int64
             * @description What the sandbox's user can still write.
             */
            available_bytes: number;
            /**
             * Format: int64
             * @description Inodes left.
             */
            available_inodes: number;
            /** @description The directory asked about. */
            path: string;
            /**
             * Format: int64
             * @description Its size.
             */
            total_bytes: number;
            /**
             * Format: int64
             * @description Inodes there are; 0 where the file system does not count them.
             */
            total_inodes: number;
            /**
             * Format: int64
             * @description In use.
             */
            used_bytes: number;
        };
        /** @description Where to get an archive. */
        Download: {
            /** @description SHA-256 that the archive must have, as 64 hexadecimal digits. */
            sha256?: string | null;
            /** @description A presigned URL for GET. */
            url: string;
        };
        /**
         * @description Which encoding a client wants for bytes in JSON.
         * @enum {string}
         */
        Encoding: "auto" | "utf8" | "base64";
        /**
         * @description `PATCH /v1/env`. Seen by whatever is started from now on.
         * @example {
         *       "env": {
         *         "API_URL": "http://127.0.0.1:8000",
         *         "DEBUG": null
         *       }
         *     }
         */
        EnvPatch: {
            /** @description Variables to set; `null` unsets one. */
            env?: {
                [key: string]: string | null;
            };
        };
        /** @description `GET /v1/env` and the answer to its change. */
        EnvReply: {
            /** @description What every command of the sandbox's user has before them. */
            base: {
                [key: string]: string;
            };
            /** @description The sandbox's own variables; `null` where one of the base is unset. */
            env: {
                [key: string]: string | null;
            };
        };
        /**
         * @description A stable, machine-readable reason for a failed request.
         * @enum {string}
         */
        ErrorCode: "invalid_request" | "invalid_cwd" | "user_not_found" | "unauthorized" | "forbidden" | "permission_denied" | "not_found" | "process_not_found" | "session_not_found" | "command_not_found" | "terminal_not_found" | "file_not_found" | "backup_not_found" | "port_not_found" | "context_not_found" | "sandbox_not_found" | "image_not_found" | "token_not_found" | "method_not_allowed" | "id_conflict" | "idempotency_conflict" | "process_ended" | "stdin_closed" | "stdin_offset" | "file_exists" | "directory_not_empty" | "git_conflict" | "context_busy" | "sandbox_paused" | "image_in_use" | "session_ended" | "offset_gone" | "terminal_ended" | "context_ended" | "sandbox_gone" | "precondition_failed" | "body_too_large" | "unsupported_media_type" | "range_not_satisfiable" | "program_not_found" | "program_not_executable" | "not_a_directory" | "is_a_directory" | "not_a_regular_file" | "too_many_links" | "name_too_long" | "invalid_archive" | "invalid_image" | "git_failed" | "git_auth" | "git_not_found" | "interpreter_not_found" | "isolation_unavailable" | "limit_unavailable" | "limit_reached" | "internal" | "sandbox_unreachable" | "port_unreachable" | "git_network" | "storage_failed" | "unavailable" | "timed_out" | "no_space";
        /**
         * @description Event `truncated` of the sandbox's events: those between the one to resume from and the next are no
         *     longer kept, or the agent was started again.
         */
        EventsTruncated: {
            /**
             * Format: int64
             * @description The `id` of the first event that is kept.
             */
            first: number;
        };
        /**
         * @description `POST /v1/exec`. Exactly one of `command` and `argv` is given.
         * @example {
         *       "command": "echo hello; echo oops >&2"
         *     }
         */
        ExecRequest: {
            /** @description A program and its arguments; no shell is involved. */
            argv?: string[] | null;
            /** @description Text for the shell. */
            command?: string | null;
            /** @description Working directory; the sandbox's own by default. */
            cwd?: string | null;
            /** @description Encoding of `stdout` and `stderr` in the result. */
            encoding?: components["schemas"]["Encoding"];
            /** @description Changes to the environment for this command. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["ProcessId"] | null;
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int64
             * @description Most bytes of each stream in the result; 10 MiB by default.
             */
            max_output_bytes?: number | null;
            /** @description What to do when the client goes away. */
            on_disconnect?: components["schemas"]["OnDisconnect"];
            /** @description Shell for `command`: a name or path; bash by default, else sh. */
            shell?: string | null;
            /** @description Bytes for the standard input, which then ends. `/dev/null` by default. */
            stdin?: string | null;
            /** @description How `stdin` is encoded. */
            stdin_encoding?: components["schemas"]["TextEncoding"];
            /**
             * Format: int64
             * @description After this the whole tree is ended and what there is returned. None by default.
             */
            timeout_ms?: number | null;
            /** @description What to drop when there is more. */
            truncate?: components["schemas"]["Truncate"];
            /** @description User name or uid to run as. */
            user?: string | null;
        };
        /** @description The result of an exec. */
        ExecResult: {
            /**
             * Format: int64
             * @description Wall time from start to end.
             */
            duration_ms: number;
            /**
             * Format: int32
             * @description Exit status; 128 + n when killed by signal n.
             */
            exit_code: number;
            /** @description The id; output and record stay available under it for a while. */
            id: components["schemas"]["ProcessId"];
            /**
             * Format: int32
             * @description How many of its children are still running.
             */
            left_running: number;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /** @description Name of the signal that killed it, such as `SIGKILL`. */
            signal?: string | null;
            /** @description Standard error. */
            stderr: string;
            /** @description How `stderr` is encoded. */
            stderr_encoding: components["schemas"]["TextEncoding"];
            /** @description Standard output. */
            stdout: string;
            /** @description How `stdout` is encoded. */
            stdout_encoding: components["schemas"]["TextEncoding"];
            /** @description Whether `timeout_ms` ended it. */
            timed_out: boolean;
            truncated?: components["schemas"]["Truncated"] | null;
        };
        /** @description SSE `event: exit`: the process or command is over. Always the last event. */
        ExitEvent: {
            /** @description For a session's command: the working directory after it. */
            cwd?: string | null;
            /**
             * Format: int64
             * @description Wall time from start to end.
             */
            duration_ms: number;
            /**
             * Format: int32
             * @description Exit status; 128 + n when killed by signal n. Absent when it never ran.
             */
            exit_code?: number | null;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /** @description Name of the signal that killed it. */
            signal?: string | null;
            /** @description Whether its timeout ended it. */
            timed_out?: boolean;
        };
        /**
         * @description What happened to a path.
         * @enum {string}
         */
        FileChange: "created" | "modified" | "removed" | "moved" | "attributes";
        /**
         * @description One file, directory or other thing.
         * @example {
         *       "gid": 1000,
         *       "group": "user",
         *       "kind": "file",
         *       "mode": "0644",
         *       "modified_at": "2026-01-01T00:00:00Z",
         *       "name": "notes.txt",
         *       "owner": "user",
         *       "path": "/workspace/notes.txt",
         *       "size": 12,
         *       "uid": 1000
         *     }
         */
        FileEntry: {
            error?: components["schemas"]["ErrorCode"] | null;
            /**
             * Format: int32
             * @description Id of its group.
             */
            gid: number;
            /** @description Name of its group, when it has one. */
            group?: string | null;
            /** @description What it is. */
            kind: components["schemas"]["FileKind"];
            /** @description Where a symbolic link leads, as it is written in it. */
            link_target?: string | null;
            /** @description The link's bytes, when they are not UTF-8. */
            link_target_base64?: string | null;
            /** @description Its permission bits. */
            mode: components["schemas"]["FileMode"];
            /**
             * Format: date-time
             * @description When its content was last changed.
             */
            modified_at: string;
            /** @description The last name of the path. */
            name: string;
            /** @description The name's bytes, when they are not UTF-8. */
            name_base64?: string | null;
            /** @description Name of its owner, when it has one. */
            owner?: string | null;
            /** @description The absolute path. */
            path: string;
            /** @description The path's bytes, when they are not UTF-8. */
            path_base64?: string | null;
            /**
             * Format: int64
             * @description Bytes in it.
             */
            size: number;
            /**
             * Format: int32
             * @description Id of its owner.
             */
            uid: number;
        };
        /**
         * @description Events `created`, `modified`, `removed`, `moved` and `attributes`. Their `id` is the version of the
         *     watch after them.
         */
        FileEvent: {
            /**
             * Format: date-time
             * @description When the agent learnt of it.
             */
            at: string;
            /** @description What happened. */
            change: components["schemas"]["FileChange"];
            /** @description Whether it is a directory. */
            directory: boolean;
            /** @description With `moved`: the former path. */
            from?: string | null;
            /** @description The exact former path, when it is not UTF-8. */
            from_base64?: string | null;
            /** @description Absolute path; U+FFFD stands for bytes that are not UTF-8. */
            path: string;
            /** @description The exact path, when it is not UTF-8. */
            path_base64?: string | null;
        };
        /**
         * @description What is at a path.
         * @enum {string}
         */
        FileKind: "file" | "directory" | "symlink" | "fifo" | "socket" | "block_device" | "char_device" | "unknown";
        /**
         * @description Permission bits. On the wire octal text such as `"0644"`; a number is taken as the bits themselves.
         * @example 0644
         */
        FileMode: string;
        /** @description What was found, in the order of a walk: sorted within each directory. */
        FindReply: {
            /** @description The entries. */
            items: components["schemas"]["FileEntry"][];
            /** @description The time ran out. */
            timed_out: boolean;
            /** @description There are more than `limit`, or than an answer holds, or the time ran out. */
            truncated: boolean;
            /**
             * Format: int64
             * @description Directories that the user may not read.
             */
            unreadable: number;
        };
        /**
         * @description `POST /v1/files/find`.
         * @example {
         *       "kind": "file",
         *       "path": "/src",
         *       "patterns": [
         *         "*.rs"
         *       ]
         *     }
         */
        FindRequest: {
            /** @description Entries to leave out, and directories not to enter, as globs of the same kind. */
            exclude?: string[];
            /** @description Whether what .gitignore files exclude is left out, and `.git` with it; false by default. */
            gitignore?: boolean | null;
            /** @description Whether names that begin with a dot are looked at; true by default. */
            hidden?: boolean | null;
            kind?: components["schemas"]["FileKind"] | null;
            /**
             * Format: int32
             * @description Most entries in the answer: 1,000 by default, 100,000 at most.
             */
            limit?: number | null;
            /**
             * Format: int32
             * @description How many levels down; 1 is the directory itself. No limit by default.
             */
            max_depth?: number | null;
            /** @description The directory to look in. Relative paths start at the session's directory, or the sandbox's. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /**
             * @description Globs, of which one must match; all entries when left out. One without `/` is matched
             *     against the name, one with it against the path below `path`; `**` stands for any number of
             *     directories.
             */
            patterns?: string[];
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description After this the answer has what was found so far; 60 s by default.
             */
            timeout_ms?: number | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description The command a session is busy with. */
        ForegroundInfo: {
            /** @description Its text. */
            command: string;
            /** @description Its id. */
            command_id: components["schemas"]["CommandId"];
            /** @description Processes it waits for; only when one session is asked for. */
            processes?: components["schemas"]["ProcessInfo"][];
            /**
             * Format: date-time
             * @description When it started.
             */
            started_at: string;
        };
        /**
         * @description `POST /v1/sessions/{id}/fork`.
         * @example {
         *       "id": "copy"
         *     }
         */
        ForkRequest: {
            id?: components["schemas"]["SessionId"] | null;
        };
        /**
         * @description `POST /v1/git/add`. Answers with the status after it.
         * @example {
         *       "path": "repo",
         *       "paths": [
         *         "src/main.rs"
         *       ]
         *     }
         */
        GitAddRequest: {
            /** @description Everything, deletions included. */
            all?: boolean;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            /** @description What to add, taken literally. */
            paths?: string[];
            session?: components["schemas"]["SessionId"] | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /**
         * @description Credentials for one call, over HTTP(S) only. Given to git through a pipe that can be read once;
         *     never in its arguments, its environment, a file or a log.
         */
        GitAuth: {
            /** @description The password. Exactly one of this and `token` is given. */
            password?: string | null;
            /** @description An access token. */
            token?: string | null;
            /** @description User name; that of the URL, else `x-access-token`, when left out. */
            username?: string | null;
        };
        /** @description A branch. */
        GitBranch: {
            /**
             * Format: int64
             * @description Commits that the upstream does not have.
             */
            ahead?: number | null;
            /**
             * Format: int64
             * @description Commits that only the upstream has.
             */
            behind?: number | null;
            /** @description The commit it is at. */
            commit: string;
            /** @description Whether it is checked out. */
            current: boolean;
            /** @description Its name; `origin/main` for one of a remote. */
            name: string;
            /** @description Whether it is a remote's, as last fetched. */
            remote: boolean;
            /** @description The branch it follows. */
            upstream?: string | null;
        };
        /** @description Answer to `branches`. */
        GitBranchesReply: {
            /** @description The branch that is checked out; absent when detached. */
            current?: string | null;
            /** @description All branches. */
            items: components["schemas"]["GitBranch"][];
        };
        /**
         * @description `POST /v1/git/branches`. Lists, after making or deleting one if asked to.
         * @example {
         *       "path": "repo"
         *     }
         */
        GitBranchesRequest: {
            create?: components["schemas"]["GitNewBranch"] | null;
            delete?: components["schemas"]["GitOldBranch"] | null;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /**
         * @description `POST /v1/git/checkout`.
         * @example {
         *       "create": true,
         *       "path": "repo",
         *       "target": "fix"
         *     }
         */
        GitCheckoutRequest: {
            /** @description Make it a new branch. */
            create?: boolean;
            /** @description Throw away changes that are in the way. */
            force?: boolean;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Where a new branch starts; the current commit by default. */
            start?: string | null;
            /** @description Branch, tag or commit. */
            target: string;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /** @description A clone: `done` or `error` is the last. */
        GitCloneEvents: components["schemas"]["GitCloneEventsProgress"] | components["schemas"]["GitCloneEventsDone"] | components["schemas"]["GitCloneEventsError"];
        /** @description `event: done`; its data is JSON in one line. */
        GitCloneEventsDone: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "done";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: error`; its data is JSON in one line. */
        GitCloneEventsError: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "error";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: progress`; its data is JSON in one line. */
        GitCloneEventsProgress: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "progress";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description Answer to a clone. */
        GitCloneReply: {
            /** @description The branch that is checked out; absent when detached. */
            branch?: string | null;
            /** @description The commit that is checked out; absent in an empty repository. */
            commit?: string | null;
            /** @description Where it is, absolute. */
            path: string;
        };
        /**
         * @description `POST /v1/git/clone`.
         * @example {
         *       "depth": 1,
         *       "path": "repo",
         *       "url": "https://example.com/repo.git"
         *     }
         */
        GitCloneRequest: {
            auth?: components["schemas"]["GitAuth"] | null;
            /** @description Branch or tag to check out; the remote's own by default. */
            branch?: string | null;
            /**
             * Format: int32
             * @description Only this many commits.
             */
            depth?: number | null;
            /** @description Where to; nothing or an empty directory must be there. Named after the URL by default. */
            path?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description After this git is ended with all it started; `timed_out`. None by default.
             */
            timeout_ms?: number | null;
            /** @description Where from: `http`, `https`, `ssh`, `git` or `file` URLs, `host:path`, or a path in the sandbox. */
            url: string;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /** @description A commit. */
        GitCommit: {
            /** @description Who wrote it. */
            author: components["schemas"]["GitSignature"];
            /** @description Who committed it. */
            committer: components["schemas"]["GitSignature"];
            /** @description Its hash. */
            hash: string;
            /** @description The whole message. */
            message: string;
            /** @description Hashes of its parents. */
            parents: string[];
            /** @description The first line of its message. */
            subject: string;
        };
        /** @description Answer to a commit. */
        GitCommitReply: {
            /** @description The branch; absent when detached. */
            branch?: string | null;
            /** @description The commit the branch is at now. */
            commit?: string | null;
            /** @description Whether there was something to commit. */
            committed: boolean;
        };
        /**
         * @description `POST /v1/git/commit`.
         * @example {
         *       "all": true,
         *       "message": "Fix it",
         *       "path": "repo"
         *     }
         */
        GitCommitRequest: {
            /** @description Add changes of tracked files first. */
            all?: boolean;
            /** @description Also when nothing has changed. */
            allow_empty?: boolean;
            /** @description Replace the last commit. */
            amend?: boolean;
            author?: components["schemas"]["GitIdentity"] | null;
            committer?: components["schemas"]["GitIdentity"] | null;
            /** @description The message. */
            message: string;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /**
         * @description What the two sides of a merge did to a file in conflict.
         * @enum {string}
         */
        GitConflictKind: "both_deleted" | "added_by_us" | "deleted_by_them" | "added_by_them" | "deleted_by_us" | "both_added" | "both_modified";
        /** @description A file in a diff. */
        GitDiffFile: {
            /**
             * Format: int64
             * @description Lines added; absent for a binary file.
             */
            additions?: number | null;
            /** @description Whether it is binary. */
            binary: boolean;
            /**
             * Format: int64
             * @description Lines deleted; absent for a binary file.
             */
            deletions?: number | null;
            /** @description The name before a rename or copy. */
            original_path?: string | null;
            /** @description Its exact bytes when it is not UTF-8. */
            original_path_base64?: string | null;
            /** @description Path in the repository; with U+FFFD for what is not UTF-8. */
            path: string;
            /** @description The exact bytes of a path that is not UTF-8. */
            path_base64?: string | null;
        };
        /** @description Answer to a diff. */
        GitDiffReply: {
            /** @description The patch. */
            diff: string;
            /** @description How `diff` is encoded. */
            diff_encoding: components["schemas"]["TextEncoding"];
            /** @description Each file with its figures; at most 10,000. */
            files: components["schemas"]["GitDiffFile"][];
            /**
             * Format: int64
             * @description Bytes of the patch that were left out at its end.
             */
            omitted_bytes: number;
        };
        /**
         * @description `POST /v1/git/diff`.
         * @example {
         *       "path": "repo",
         *       "staged": true
         *     }
         */
        GitDiffRequest: {
            /** @description Compare with this commit. */
            from?: string | null;
            /**
             * Format: int64
             * @description Most bytes of `diff`: 1 MiB by default, at most 16 MiB.
             */
            max_bytes?: number | null;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            /** @description Only these paths, taken literally. */
            paths?: string[];
            session?: components["schemas"]["SessionId"] | null;
            /** @description What the next commit would change, instead of what `add` would. */
            staged?: boolean;
            /** @description Compare `from` with this commit, instead of with the working tree. */
            to?: string | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /**
         * @description What has become of a file.
         * @enum {string}
         */
        GitFileState: "unmodified" | "modified" | "type_changed" | "added" | "deleted" | "renamed" | "copied" | "unmerged" | "untracked" | "ignored";
        /** @description Where the working tree is now. */
        GitHeadReply: {
            /** @description The branch; absent when detached. */
            branch?: string | null;
            /** @description The commit; absent before the first one. */
            commit?: string | null;
        };
        /** @description Who writes or commits. */
        GitIdentity: {
            /** @description Mail address. */
            email: string;
            /** @description Name. */
            name: string;
        };
        /**
         * @description `POST /v1/git/log`.
         * @example {
         *       "limit": 20,
         *       "path": "repo"
         *     }
         */
        GitLogRequest: {
            /** @description `next_cursor` of the page before. */
            cursor?: string | null;
            /**
             * Format: int32
             * @description Most commits in the page: 1 to 1000, 100 by default.
             */
            limit?: number | null;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            /** @description Only commits that touch these paths, taken literally. */
            paths?: string[];
            /** @description From which commit or branch back, or a range; the current one by default. */
            revision?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /** @description A branch to be made. */
        GitNewBranch: {
            /** @description Its name. */
            name: string;
            /** @description The commit or branch it starts at; the current one by default. */
            start?: string | null;
        };
        /** @description A branch to be deleted. */
        GitOldBranch: {
            /** @description Also when its commits are on no other branch. */
            force?: boolean;
            /** @description Its name. */
            name: string;
        };
        /** @description `event: progress` of a clone. */
        GitProgress: {
            /**
             * Format: int64
             * @description How many are done.
             */
            current?: number | null;
            /**
             * Format: int32
             * @description How much of it is done.
             */
            percent?: number | null;
            /** @description What is being done, in git's words. */
            phase: string;
            /**
             * Format: int64
             * @description Of how many.
             */
            total?: number | null;
        };
        /**
         * @description How a pull brings both sides together.
         * @enum {string}
         */
        GitPullMode: "merge" | "rebase" | "fast_forward";
        /** @description Answer to a pull. */
        GitPullReply: {
            /** @description The commit before. */
            before?: string | null;
            /** @description The branch; absent when detached. */
            branch?: string | null;
            /** @description The commit now. */
            commit?: string | null;
            /** @description Whether anything came. */
            updated: boolean;
        };
        /**
         * @description `POST /v1/git/pull`.
         * @example {
         *       "mode": "rebase",
         *       "path": "repo"
         *     }
         */
        GitPullRequest: {
            auth?: components["schemas"]["GitAuth"] | null;
            /** @description Branch there; the upstream by default. */
            branch?: string | null;
            /** @description How. */
            mode?: components["schemas"]["GitPullMode"];
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            /** @description Name of the remote; that of the upstream, else `origin`, by default. */
            remote?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description After this git is ended with all it started; `timed_out`. None by default.
             */
            timeout_ms?: number | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /** @description Answer to a push. */
        GitPushReply: {
            /** @description The references. */
            refs: components["schemas"]["GitPushedRef"][];
            /** @description Name of the remote. */
            remote: string;
        };
        /**
         * @description `POST /v1/git/push`.
         * @example {
         *       "path": "repo",
         *       "set_upstream": true
         *     }
         */
        GitPushRequest: {
            auth?: components["schemas"]["GitAuth"] | null;
            /** @description Branch to push; the current one by default. */
            branch?: string | null;
            /** @description Replace what is there, if it is what was last fetched. */
            force?: boolean;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            /** @description Name of the remote; that of the upstream, else `origin`, by default. */
            remote?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Follow the pushed branch from now on. */
            set_upstream?: boolean;
            /** @description Push tags too. */
            tags?: boolean;
            /**
             * Format: int64
             * @description After this git is ended with all it started; `timed_out`. None by default.
             */
            timeout_ms?: number | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /**
         * @description What became of a pushed reference.
         * @enum {string}
         */
        GitPushState: "updated" | "forced" | "created" | "deleted" | "up_to_date";
        /** @description A pushed reference. */
        GitPushedRef: {
            /** @description Ours. */
            from: string;
            /** @description What became of it. */
            state: components["schemas"]["GitPushState"];
            /** @description Theirs. */
            to: string;
        };
        /** @description A person and a time. */
        GitSignature: {
            /**
             * Format: date-time
             * @description When.
             */
            at: string;
            /** @description Mail address. */
            email: string;
            /** @description Name. */
            name: string;
        };
        /** @description A file that is not as in the last commit. */
        GitStatusEntry: {
            conflict?: components["schemas"]["GitConflictKind"] | null;
            /** @description What the index has of it. */
            index: components["schemas"]["GitFileState"];
            /** @description The name before a rename or copy. */
            original_path?: string | null;
            /** @description Its exact bytes when it is not UTF-8. */
            original_path_base64?: string | null;
            /** @description Path in the repository; with U+FFFD for what is not UTF-8. */
            path: string;
            /** @description The exact bytes of a path that is not UTF-8. */
            path_base64?: string | null;
            /** @description What the working tree has of it. */
            worktree: components["schemas"]["GitFileState"];
        };
        /** @description Answer to a status. */
        GitStatusReply: {
            /**
             * Format: int64
             * @description Commits that the upstream does not have.
             */
            ahead?: number | null;
            /**
             * Format: int64
             * @description Commits that only the upstream has.
             */
            behind?: number | null;
            /** @description The branch; absent when detached. */
            branch?: string | null;
            /** @description Whether nothing is changed or untracked. */
            clean: boolean;
            /** @description The commit it is at; absent before the first one. */
            commit?: string | null;
            /** @description What is changed; at most 10,000, or as many as an answer holds. */
            entries: components["schemas"]["GitStatusEntry"][];
            /**
             * Format: int64
             * @description How many more there are.
             */
            omitted_entries: number;
            /** @description The branch it follows. */
            upstream?: string | null;
        };
        /**
         * @description `POST /v1/git/status`.
         * @example {
         *       "path": "repo"
         *     }
         */
        GitStatusRequest: {
            /** @description Also list ignored files. */
            ignored?: boolean;
            /**
             * @description Directory of the repository, or one in it; relative ones start at the session's directory, or
             *     at the sandbox's. That directory by default.
             */
            path?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description User name or uid to run git as. */
            user?: string | null;
        };
        /** @description What can happen, by `type`, which is also the name of the event. */
        Happening: {
            /** @description Layers of isolation that are off. */
            protections_off?: components["schemas"]["Layer"][];
            /** @enum {string} */
            type: "ready";
        } | {
            /** @enum {string} */
            type: "ending";
        } | {
            /**
             * Format: int32
             * @description Its pid.
             */
            pid: number;
            /** @description Which. */
            process: components["schemas"]["ProcessId"];
            /** @enum {string} */
            type: "process_started";
        } | {
            /**
             * Format: int32
             * @description Its status, as a shell shows it.
             */
            exit_code: number;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /** @description Which. */
            process: components["schemas"]["ProcessId"];
            /** @description The signal that ended it. */
            signal?: string | null;
            /** @description Whether its timeout ended it. */
            timed_out: boolean;
            /** @enum {string} */
            type: "process_exited";
        } | {
            /**
             * Format: int32
             * @description Its pid now.
             */
            pid: number;
            /** @description Which. */
            process: components["schemas"]["ProcessId"];
            /**
             * Format: int32
             * @description How often it has been.
             */
            restarts: number;
            /** @enum {string} */
            type: "process_restarted";
        } | {
            /** @description How, as in the answer to the kill. */
            method: string;
            /** @description Which. */
            process: components["schemas"]["ProcessId"];
            /** @enum {string} */
            type: "process_killed";
        } | {
            /** @description Which. */
            session: components["schemas"]["SessionId"];
            /** @enum {string} */
            type: "session_created";
        } | {
            /**
             * Format: int32
             * @description How often it has been.
             */
            restores: number;
            /** @description Which. */
            session: components["schemas"]["SessionId"];
            /** @enum {string} */
            type: "session_restored";
        } | {
            /** @description Why. */
            reason: string;
            /** @description Which. */
            session: components["schemas"]["SessionId"];
            /** @enum {string} */
            type: "session_ended";
        } | {
            /** @description Which. */
            terminal: components["schemas"]["TerminalId"];
            /** @enum {string} */
            type: "terminal_created";
        } | {
            /**
             * Format: int32
             * @description The status of its program, when it ended by itself.
             */
            exit_code?: number | null;
            /** @description Which. */
            terminal: components["schemas"]["TerminalId"];
            /** @enum {string} */
            type: "terminal_ended";
        } | {
            /**
             * Format: int32
             * @description Who, where it can be told.
             */
            pid?: number | null;
            /**
             * Format: int32
             * @description Which.
             */
            port: number;
            /** @enum {string} */
            type: "port_opened";
        } | {
            /**
             * Format: int32
             * @description Which.
             */
            port: number;
            /** @enum {string} */
            type: "port_closed";
        } | {
            /** @description Which. */
            backup: components["schemas"]["BackupId"];
            /** @enum {string} */
            type: "backup_created";
        } | {
            /** @description Which. */
            backup: components["schemas"]["BackupId"];
            /** @description Where to. */
            path: string;
            /** @enum {string} */
            type: "backup_restored";
        } | {
            /** @description Which. */
            backup: components["schemas"]["BackupId"];
            /** @enum {string} */
            type: "backup_deleted";
        } | {
            /**
             * Format: int64
             * @description How many since the last such event.
             */
            killed: number;
            process?: components["schemas"]["ProcessId"] | null;
            /** @description Whose limit on memory it was. */
            scope: components["schemas"]["LimitScope"];
            session?: components["schemas"]["SessionId"] | null;
            /** @enum {string} */
            type: "oom";
        } | {
            /** @description The limit, as it is called in a request: `pids`. */
            limit: string;
            process?: components["schemas"]["ProcessId"] | null;
            /** @description Whose it was. */
            scope: components["schemas"]["LimitScope"];
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description How often since the last such event.
             */
            times: number;
            /** @enum {string} */
            type: "limit_reached";
        } | {
            /** @description The address it stood for, where that was the reason. */
            address?: string | null;
            /** @description The name or address asked for. */
            host: string;
            /**
             * Format: int32
             * @description The port; none where only a name was looked up.
             */
            port?: number | null;
            /** @description Why. */
            reason: components["schemas"]["RefusalReason"];
            /**
             * Format: int64
             * @description Refusals since the last such event that were not told one by one.
             */
            suppressed?: number;
            /** @enum {string} */
            type: "network_refused";
        };
        /** @description `GET /healthz`. */
        Health: {
            /** @description `ok`. */
            status: string;
        };
        /** @description Ask for an HTTP answer as well as a listening port. */
        HttpCheck: {
            /** @description Path to request; `/` by default. */
            path?: string | null;
            /**
             * Format: int32
             * @description Status to wait for; any below 500 by default.
             */
            status?: number | null;
        };
        /** @description What an image says about the commands that run in it. */
        ImageConfig: {
            /** @description What is run when nothing else is asked for, after the entry point. */
            cmd?: string[];
            /** @description What is run when nothing else is asked for. */
            entrypoint?: string[];
            /** @description Environment of every command, below the sandbox's own. */
            env?: {
                [key: string]: string;
            };
            /** @description Who commands run as, unless the sandbox says otherwise: a name or number, and `:GROUP` perhaps. */
            user?: string | null;
            /** @description Where commands start, unless the sandbox says otherwise. */
            workdir?: string | null;
        };
        /** @description The name of an image. It is one name of a path, never hidden and never above. */
        ImageName: string;
        /**
         * @description An image as the hub knows it.
         * @example {
         *       "config": {
         *         "cmd": [
         *           "/bin/sh"
         *         ],
         *         "env": {
         *           "PATH": "/usr/bin:/bin"
         *         }
         *       },
         *       "created_at": "2026-01-01T00:00:00Z",
         *       "files": 520,
         *       "name": "alpine",
         *       "size_bytes": 8300000,
         *       "skipped": 0
         *     }
         */
        ImageRecord: {
            /** @description What it says about commands. */
            config: components["schemas"]["ImageConfig"];
            /**
             * Format: date-time
             * @description When it was imported.
             */
            created_at: string;
            /**
             * @description The digest of its manifest, or of its configuration where there is no manifest; left out for a
             *     plain root.
             */
            digest?: string | null;
            /**
             * Format: int64
             * @description Files and links in it, without directories.
             */
            files: number;
            /** @description Its name. */
            name: components["schemas"]["ImageName"];
            /**
             * Format: int64
             * @description Bytes of its files.
             */
            size_bytes: number;
            /**
             * Format: int64
             * @description Device nodes, sockets and FIFOs that were left out.
             */
            skipped: number;
        };
        /**
         * @description `POST /v1/images`: a directory of the hub's machine becomes an image.
         * @example {
         *       "directory": "/srv/roots/debian",
         *       "name": "debian"
         *     }
         */
        ImageRequest: {
            /** @description The directory, which is copied. */
            directory: string;
            /** @description Its name from then on. */
            name: components["schemas"]["ImageName"];
        };
        /** @description Answer to an interrupt, given when the command is really over. */
        InterruptReply: {
            command_id?: components["schemas"]["CommandId"] | null;
            /**
             * @description What it took: `none`, `int`, `term`, `kill` or `shell_killed`.
             * @example int
             */
            method: string;
            /** @description The session after it. */
            session: components["schemas"]["SessionRecord"];
        };
        /**
         * @description What is done about a protection that is off.
         * @enum {string}
         */
        IsolationPolicy: "strict" | "best_effort";
        /** @description How well a sandbox must be isolated. */
        IsolationSpec: {
            /** @description What is done about a protection that is off. */
            policy?: components["schemas"]["IsolationPolicy"];
            /** @description Protections that must be enforced, whatever the policy. */
            require?: components["schemas"]["Layer"][];
        };
        /**
         * @description What runs the code of a context.
         * @enum {string}
         */
        KernelChoice: "auto" | "builtin" | "jupyter";
        /** @description How a kill was done. */
        KillReply: {
            /**
             * Format: int32
             * @description How many processes were alive when the kill began.
             */
            killed: number;
            /**
             * @description `already_ended`, `term`, `cgroup_kill` or `namespace_kill` (exact), or `subreaper_walk` (best effort).
             * @example cgroup_kill
             */
            method: string;
            /** @description What is still alive. Empty means: gone. */
            survivors: components["schemas"]["Survivor"][];
        };
        /**
         * @description `POST /v1/processes/{id}/kill`.
         * @example {
         *       "grace_ms": 500
         *     }
         */
        KillRequest: {
            /**
             * Format: int64
             * @description Time between TERM and KILL; 5000 by default, 0 goes straight to KILL.
             */
            grace_ms?: number | null;
        };
        /**
         * @description The language of a context.
         * @enum {string}
         */
        Language: "python" | "javascript" | "typescript" | "bash";
        /**
         * @description The layers, in the order of the report.
         * @enum {string}
         */
        Layer: "uid-separation" | "capability-drop" | "no-new-privs" | "pid-ns" | "mount-ns" | "net-ns" | "ipc-ns" | "uts-ns" | "cgroup-ns" | "pivot-root" | "landlock-fs" | "landlock-scope" | "seccomp" | "cpu-limit" | "memory-limit" | "pids-limit" | "disk-limit" | "inode-limit" | "egress-policy" | "kill-tree" | "oom-attribution";
        /**
         * @description Whose limit it was.
         * @enum {string}
         */
        LimitScope: "sandbox" | "session" | "process";
        /**
         * @description Limits for one process or session, within those of the sandbox.
         * @example {
         *       "cpus": 0.5,
         *       "memory_bytes": 268435456,
         *       "pids": 64
         *     }
         */
        Limits: {
            /**
             * Format: int64
             * @description CPU seconds a process may use before the kernel ends it.
             */
            cpu_seconds?: number | null;
            /**
             * Format: double
             * @description Most processor time: 1 is one processor used all the time.
             */
            cpus?: number | null;
            /**
             * Format: int64
             * @description Largest file a process may write, in bytes.
             */
            file_bytes?: number | null;
            /**
             * Format: int64
             * @description Most memory all of it may use together, in bytes, swap included.
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description Most files a process may have open.
             */
            open_files?: number | null;
            /**
             * Format: int64
             * @description Most processes and threads that may live in it at a time.
             */
            pids?: number | null;
        };
        /** @description A page of a list. */
        List_AuditEntry: {
            /** @description The items of this page. */
            items: {
                /**
                 * @description What was done, such as `sandbox.create`.
                 * @example sandbox.create
                 */
                action: string;
                /**
                 * Format: date-time
                 * @description When.
                 */
                at: string;
                /** @description What else there is to know. */
                detail?: string | null;
                /**
                 * Format: int64
                 * @description Its number; later ones are higher.
                 */
                id: number;
                /** @description `ok`, or the code of the problem. */
                outcome: string;
                /** @description The id of the request. */
                request_id?: string | null;
                /** @description The sandbox or token it was done to. */
                target?: string | null;
                /** @description The token that asked; left out when the hub did it by itself. */
                token?: string | null;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_BackupRecord: {
            /** @description The items of this page. */
            items: {
                /** @description What is in it; while it is being made, what is in it so far. */
                contents: components["schemas"]["ArchiveCounts"];
                /**
                 * Format: date-time
                 * @description When it was made.
                 */
                created_at: string;
                /**
                 * Format: date-time
                 * @description When it will be deleted.
                 */
                expires_at?: string | null;
                /** @description Its id. */
                id: components["schemas"]["BackupId"];
                /** @description The directory it was made from. */
                path: string;
                /** @description The exact path, when it is not UTF-8. */
                path_base64?: string | null;
                /** @description SHA-256 of the archive, as hexadecimal digits; absent while it is being made. */
                sha256?: string | null;
                /**
                 * Format: int64
                 * @description Bytes of the archive.
                 */
                size: number;
                /** @description Where it is in its life. */
                state: components["schemas"]["BackupState"];
                /** @description Whether the archive is kept here. If not, a restore needs `download`. */
                stored: boolean;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_CommandRecord: {
            /** @description The items of this page. */
            items: {
                /** @description Its text. */
                command: string;
                /** @description Working directory after it. */
                cwd?: string | null;
                /**
                 * Format: int64
                 * @description Wall time.
                 */
                duration_ms?: number | null;
                /**
                 * Format: date-time
                 * @description When it ended.
                 */
                ended_at?: string | null;
                /**
                 * Format: int32
                 * @description Exit status.
                 */
                exit_code?: number | null;
                /** @description Its id. */
                id: components["schemas"]["CommandId"];
                /** @description Whether it was interrupted. */
                interrupted?: boolean;
                /**
                 * Format: int64
                 * @description Bytes written after the end by children left behind, both streams.
                 */
                late_bytes: number;
                /** @description Whether the kernel killed one of its processes because memory was used up. */
                oom?: boolean;
                /**
                 * Format: date-time
                 * @description When it was accepted.
                 */
                queued_at: string;
                /** @description Name of the signal that killed the shell, when one did. */
                signal?: string | null;
                /**
                 * Format: date-time
                 * @description When it started to run.
                 */
                started_at?: string | null;
                /** @description Where it is in its life. */
                state: components["schemas"]["CommandState"];
                /**
                 * Format: int64
                 * @description Bytes written to standard error.
                 */
                stderr_bytes: number;
                /**
                 * Format: int64
                 * @description Bytes written to standard output.
                 */
                stdout_bytes: number;
                /** @description Whether its timeout ended it. */
                timed_out?: boolean;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_ContextRecord: {
            /** @description The items of this page. */
            items: {
                /**
                 * Format: date-time
                 * @description When it was made.
                 */
                created_at: string;
                /** @description Working directory it was started in. */
                cwd: string;
                /** @description Why it has ended, when it has. */
                ended_reason?: string | null;
                /**
                 * Format: int64
                 * @description Runs begun since the interpreter started.
                 */
                execution_count: number;
                /** @description Its id. */
                id: components["schemas"]["ContextId"];
                /**
                 * @description The interpreter, as it calls itself.
                 * @example Python 3.11.2
                 */
                interpreter: string;
                /** @description What runs the code: `builtin` or `jupyter`. */
                kernel: components["schemas"]["KernelChoice"];
                /** @description Its language. */
                language: components["schemas"]["Language"];
                /**
                 * Format: date-time
                 * @description When its last run ended.
                 */
                last_used_at?: string | null;
                /**
                 * Format: int32
                 * @description The interpreter's pid inside the sandbox.
                 */
                pid: number;
                /**
                 * Format: int32
                 * @description Runs waiting for their turn.
                 */
                queue_length: number;
                /**
                 * Format: int32
                 * @description How often the interpreter was started anew.
                 */
                restarts: number;
                /** @description Where it is in its life. */
                state: components["schemas"]["ContextState"];
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_FileEntry: {
            /** @description The items of this page. */
            items: {
                error?: components["schemas"]["ErrorCode"] | null;
                /**
                 * Format: int32
                 * @description Id of its group.
                 */
                gid: number;
                /** @description Name of its group, when it has one. */
                group?: string | null;
                /** @description What it is. */
                kind: components["schemas"]["FileKind"];
                /** @description Where a symbolic link leads, as it is written in it. */
                link_target?: string | null;
                /** @description The link's bytes, when they are not UTF-8. */
                link_target_base64?: string | null;
                /** @description Its permission bits. */
                mode: components["schemas"]["FileMode"];
                /**
                 * Format: date-time
                 * @description When its content was last changed.
                 */
                modified_at: string;
                /** @description The last name of the path. */
                name: string;
                /** @description The name's bytes, when they are not UTF-8. */
                name_base64?: string | null;
                /** @description Name of its owner, when it has one. */
                owner?: string | null;
                /** @description The absolute path. */
                path: string;
                /** @description The path's bytes, when they are not UTF-8. */
                path_base64?: string | null;
                /**
                 * Format: int64
                 * @description Bytes in it.
                 */
                size: number;
                /**
                 * Format: int32
                 * @description Id of its owner.
                 */
                uid: number;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_GitCommit: {
            /** @description The items of this page. */
            items: {
                /** @description Who wrote it. */
                author: components["schemas"]["GitSignature"];
                /** @description Who committed it. */
                committer: components["schemas"]["GitSignature"];
                /** @description Its hash. */
                hash: string;
                /** @description The whole message. */
                message: string;
                /** @description Hashes of its parents. */
                parents: string[];
                /** @description The first line of its message. */
                subject: string;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_ImageRecord: {
            /** @description The items of this page. */
            items: {
                /** @description What it says about commands. */
                config: components["schemas"]["ImageConfig"];
                /**
                 * Format: date-time
                 * @description When it was imported.
                 */
                created_at: string;
                /**
                 * @description The digest of its manifest, or of its configuration where there is no manifest; left out for a
                 *     plain root.
                 */
                digest?: string | null;
                /**
                 * Format: int64
                 * @description Files and links in it, without directories.
                 */
                files: number;
                /** @description Its name. */
                name: components["schemas"]["ImageName"];
                /**
                 * Format: int64
                 * @description Bytes of its files.
                 */
                size_bytes: number;
                /**
                 * Format: int64
                 * @description Device nodes, sockets and FIFOs that were left out.
                 */
                skipped: number;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_PortRecord: {
            /** @description The items of this page. */
            items: {
                /** @description The addresses it is bound to; `0.0.0.0` and `::` mean all. */
                addresses: string[];
                /** @description Its command line; of a longer one the first KiB. */
                command: string;
                /** @description Whether a port token opens it. */
                exposed?: boolean;
                /**
                 * Format: int32
                 * @description The process that listens, as the sandbox counts. The first of several that share the socket.
                 */
                pid: number;
                /**
                 * Format: int32
                 * @description The TCP port.
                 */
                port: number;
                process?: components["schemas"]["ProcessId"] | null;
                session?: components["schemas"]["SessionId"] | null;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_ProcessRecord: {
            /** @description The items of this page. */
            items: {
                /** @description The argument vector, when it was started by one. */
                argv?: string[] | null;
                /** @description The shell text, when it was started by one. */
                command?: string | null;
                /**
                 * Format: date-time
                 * @description When it ended.
                 */
                ended_at?: string | null;
                /**
                 * Format: int32
                 * @description Exit status; 128 + n when killed by signal n.
                 */
                exit_code?: number | null;
                /** @description Its id. */
                id: components["schemas"]["ProcessId"];
                /** @description What made it. */
                kind: components["schemas"]["ProcessKind"];
                /** @description Whether the kernel killed one of its processes because memory was used up. */
                oom?: boolean;
                /**
                 * Format: int32
                 * @description Its pid inside the sandbox; of the latest start when it was restarted.
                 */
                pid: number;
                /**
                 * Format: int32
                 * @description How often it was started again.
                 */
                restarts?: number;
                session?: components["schemas"]["SessionId"] | null;
                /** @description Name of the signal that killed it. */
                signal?: string | null;
                /**
                 * Format: date-time
                 * @description When it was first started.
                 */
                started_at: string;
                /** @description Where it is in its life. */
                state: components["schemas"]["ProcessState"];
                /**
                 * Format: int64
                 * @description Bytes written to standard error so far.
                 */
                stderr_bytes: number;
                /**
                 * Format: int64
                 * @description Bytes written to standard output so far.
                 */
                stdout_bytes: number;
                /** @description The label. */
                tag?: string | null;
                /** @description Whether its timeout ended it. */
                timed_out?: boolean;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_SandboxRecord: {
            /** @description The items of this page. */
            items: (components["schemas"]["SandboxSpec"] & {
                /**
                 * Format: date-time
                 * @description When it was made.
                 */
                created_at: string;
                /**
                 * Format: date-time
                 * @description When it ended.
                 */
                ended_at?: string | null;
                /**
                 * Format: date-time
                 * @description When its lifetime ends.
                 */
                expires_at?: string | null;
                /** @description Its id. */
                id: components["schemas"]["SandboxId"];
                /**
                 * Format: date-time
                 * @description When it last had a request, as far as this hub has seen.
                 */
                last_used_at: string;
                /** @description The id of the token that made it. */
                owner: string;
                /** @description What became of each layer of isolation. */
                protections: components["schemas"]["Protection"][];
                /** @description Why it is no more. */
                reason?: string | null;
                /** @description Where it is in its life. */
                state: components["schemas"]["SandboxState"];
            })[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_SessionRecord: {
            /** @description The items of this page. */
            items: {
                /**
                 * Format: date-time
                 * @description When it was made.
                 */
                created_at: string;
                /** @description Working directory after the last command. */
                cwd: string;
                /** @description What this shell cannot do that bash could. Empty for bash. */
                degraded?: string[];
                foreground?: components["schemas"]["ForegroundInfo"] | null;
                /** @description Its id. */
                id: components["schemas"]["SessionId"];
                /**
                 * Format: date-time
                 * @description When its last command ended.
                 */
                last_used_at?: string | null;
                limits?: components["schemas"]["Limits"] | null;
                /**
                 * Format: int32
                 * @description The shell's pid inside the sandbox, or in its own process tree.
                 */
                pid: number;
                /** @description Whether its process tree is its own. */
                private_processes?: boolean;
                /**
                 * Format: int32
                 * @description Commands waiting for their turn.
                 */
                queue_length: number;
                /**
                 * Format: int32
                 * @description How often the shell was replaced and its state restored.
                 */
                restores: number;
                /** @description Path of its shell. */
                shell: string;
                /** @description Where it is in its life. */
                state: components["schemas"]["SessionState"];
                stats?: components["schemas"]["SessionStats"] | null;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_TerminalRecord: {
            /** @description The items of this page. */
            items: {
                /** @description The program it was started with. */
                argv?: string[] | null;
                /**
                 * Format: int32
                 * @description Columns now.
                 */
                cols: number;
                /** @description The text it was started with. */
                command?: string | null;
                /**
                 * Format: date-time
                 * @description When its program ended.
                 */
                ended_at?: string | null;
                /**
                 * Format: int32
                 * @description Exit status; 128 + n when killed by signal n.
                 */
                exit_code?: number | null;
                /** @description Its id. */
                id: components["schemas"]["TerminalId"];
                /**
                 * Format: int64
                 * @description Bytes written to it so far.
                 */
                output_bytes: number;
                /**
                 * Format: int32
                 * @description The pid of its program inside the sandbox.
                 */
                pid: number;
                /**
                 * Format: int32
                 * @description Rows now.
                 */
                rows: number;
                /** @description Name of the signal that killed it. */
                signal?: string | null;
                /**
                 * Format: date-time
                 * @description When it was started.
                 */
                started_at: string;
                /** @description Where it is in its life. */
                state: components["schemas"]["TerminalState"];
                /** @description The title its programs gave it. */
                title?: string | null;
                /**
                 * Format: int32
                 * @description Clients connected now.
                 */
                viewers: number;
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description A page of a list. */
        List_TokenRecord: {
            /** @description The items of this page. */
            items: {
                /**
                 * Format: date-time
                 * @description When it was made.
                 */
                created_at: string;
                /**
                 * Format: date-time
                 * @description From then on it opens nothing.
                 */
                expires_at?: string | null;
                /**
                 * @description Its id, which is no secret.
                 * @example tok_0192f0c1d2e3
                 */
                id: string;
                /**
                 * Format: int32
                 * @description Most sandboxes it may have at a time.
                 */
                max_sandboxes?: number | null;
                /** @description What people call it. */
                name?: string | null;
                /**
                 * Format: date-time
                 * @description When it was revoked.
                 */
                revoked_at?: string | null;
                /** @description What it opens: `admin`, `create` or `sandbox:ID`. */
                scopes: string[];
            }[];
            /** @description Where the next page starts; absent on the last one. */
            next_cursor?: string | null;
        };
        /** @description Wait for a pattern in the output. */
        LogCondition: {
            /** @description The text, or regular expression, to look for. Output from before the call counts. */
            pattern: string;
            /** @description Whether `pattern` is a regular expression. */
            regex?: boolean;
            stream?: components["schemas"]["StreamName"] | null;
        };
        /** @description Use of memory. */
        MemoryStats: {
            /**
             * Format: int64
             * @description Most that may be.
             */
            limit_bytes?: number | null;
            /** @description Where it comes from. */
            source: components["schemas"]["StatsSource"];
            /**
             * Format: int64
             * @description In use. From `proc`: each process's share of its pages, or all it has resident where the share cannot be read.
             */
            used_bytes?: number | null;
        };
        /**
         * @description `POST /v1/files/mkdir`.
         * @example {
         *       "exist_ok": true,
         *       "path": "/workspace/a/b"
         *     }
         */
        MkdirRequest: {
            /** @description Be content with a directory that is there already; false by default. */
            exist_ok?: boolean;
            mode?: components["schemas"]["FileMode"] | null;
            /** @description Make what is missing above it; true by default. */
            parents?: boolean | null;
            /** @description The directory. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /** @description Relative paths start at this session's directory. */
            session?: string | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /**
         * @description `POST /v1/files/move`.
         * @example {
         *       "from": "/workspace/a",
         *       "to": "/workspace/b"
         *     }
         */
        MoveRequest: {
            /** @description What is moved. A symbolic link is moved itself. */
            from?: string | null;
            /** @description Instead of `from`, for names that are not UTF-8. */
            from_base64?: string | null;
            /** @description Replace a file or an empty directory that is there; false by default. */
            overwrite?: boolean;
            /** @description Make missing directories above `to`; true by default. */
            parents?: boolean | null;
            /** @description Relative paths start at this session's directory. */
            session?: string | null;
            /** @description Its new path; never a directory to put it in. */
            to?: string | null;
            /** @description Instead of `to`, for names that are not UTF-8. */
            to_base64?: string | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description The presigned URLs of a multipart upload. */
        Multipart: {
            /** @description URL of the DELETE that abandons it when something fails. */
            abort_url?: string | null;
            /** @description URL of the POST that completes the upload. */
            complete_url: string;
            /**
             * Format: int64
             * @description Bytes in each part but the last; S3 wants 5 MiB at least.
             */
            part_bytes: number;
            /** @description URLs of the parts, from number 1 on; there may be more than are needed. */
            part_urls: string[];
        };
        /**
         * @description How much of the network there is.
         * @enum {string}
         */
        NetworkMode: "none" | "allow" | "full";
        /** @description What a sandbox may reach. */
        NetworkSpec: {
            /**
             * @description With `allow`: the hosts, such as `pypi.org` or `*.example.org` (the names below it, not itself),
             *     each with an optional `:port`; without one 80 and 443. A public address stands for itself.
             */
            allow?: string[];
            /** @description Nothing, a list, or everything. */
            mode: components["schemas"]["NetworkMode"];
        };
        /** @description Bytes over all interfaces but the loopback. */
        NetworkStats: {
            /**
             * Format: int64
             * @description Received.
             */
            received_bytes: number;
            /**
             * Format: int64
             * @description Sent.
             */
            sent_bytes: number;
            /** @description Whether the sandbox shares the agent's network, so that others are counted too. */
            shared: boolean;
        };
        /**
         * @description What happens to the command when the client goes away before the result.
         * @enum {string}
         */
        OnDisconnect: "continue" | "kill";
        /**
         * @description What happens to an idle sandbox.
         * @enum {string}
         */
        OnIdle: "sleep" | "destroy";
        /**
         * @description SSE `event: output`: a piece of one stream. The event's `id` is the position after it in the
         *     joint log, to be sent back as `Last-Event-ID`.
         */
        OutputEvent: {
            /**
             * Format: date-time
             * @description When the bytes arrived.
             */
            at: string;
            /** @description The bytes. */
            data: string;
            /** @description How `data` is encoded. */
            encoding: components["schemas"]["TextEncoding"];
            /**
             * Format: int64
             * @description Byte offset of the piece in its stream.
             */
            offset: number;
            /** @description Which stream. */
            stream: components["schemas"]["StreamName"];
        };
        /** @description Output of a process or of a session's command, in order of arrival. `exit` is always the last. */
        OutputEvents: components["schemas"]["OutputEventsOutput"] | components["schemas"]["OutputEventsTruncated"] | components["schemas"]["OutputEventsExit"];
        /** @description `event: exit`; its data is JSON in one line. */
        OutputEventsExit: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "exit";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: output`; its data is JSON in one line. */
        OutputEventsOutput: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "output";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: truncated`; its data is JSON in one line. */
        OutputEventsTruncated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "truncated";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description Processes of the system. */
        PidStats: {
            /**
             * Format: int64
             * @description Alive.
             */
            count?: number | null;
            /**
             * Format: int64
             * @description Most that may be.
             */
            limit?: number | null;
        };
        /** @description Wait until a port answers. */
        PortCondition: {
            http?: components["schemas"]["HttpCheck"] | null;
            /**
             * Format: int32
             * @description The TCP port on the loopback address.
             */
            port: number;
        };
        /** @description Ports as they come and go: `ports` first, with all there are; what is more than a page follows as `opened`. */
        PortEvents: components["schemas"]["PortEventsPorts"] | components["schemas"]["PortEventsOpened"] | components["schemas"]["PortEventsClosed"];
        /** @description `event: closed`; its data is JSON in one line. */
        PortEventsClosed: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "closed";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: opened`; its data is JSON in one line. */
        PortEventsOpened: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "opened";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: ports`; its data is JSON in one line. */
        PortEventsPorts: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "ports";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description Answer to `PUT /v1/ports/{port}`: how it is reached without the agent's token. */
        PortExposure: {
            /** @description Path of the proxy, without the token. */
            path: string;
            /**
             * Format: int32
             * @description The TCP port.
             */
            port: number;
            /**
             * @description Opens this port and nothing else, until it is unexposed or the agent ends: as `?port_token=`,
             *     as the header `x-port-token`, or as the cookie that the first answer sets.
             */
            token: string;
            /** @description For a browser: the address by which the agent was asked, with the token. */
            url: string;
        };
        /** @description A port that something in the sandbox listens on. */
        PortRecord: {
            /** @description The addresses it is bound to; `0.0.0.0` and `::` mean all. */
            addresses: string[];
            /** @description Its command line; of a longer one the first KiB. */
            command: string;
            /** @description Whether a port token opens it. */
            exposed?: boolean;
            /**
             * Format: int32
             * @description The process that listens, as the sandbox counts. The first of several that share the socket.
             */
            pid: number;
            /**
             * Format: int32
             * @description The TCP port.
             */
            port: number;
            process?: components["schemas"]["ProcessId"] | null;
            session?: components["schemas"]["SessionId"] | null;
        };
        /** @description Answer to `DELETE /v1/ports/{port}`. */
        PortUnexposed: {
            /**
             * Format: int32
             * @description The TCP port.
             */
            port: number;
            /** @description Whether it was exposed until now. */
            was_exposed: boolean;
        };
        /** @description Answer to a wait for a port. */
        PortWaitReply: {
            port?: components["schemas"]["PortRecord"] | null;
            /** @description Whether it answers. */
            ready: boolean;
            /** @description Whether the time was over first. */
            timed_out: boolean;
        };
        /**
         * @description `POST /v1/ports/{port}/wait`.
         * @example {
         *       "http": {
         *         "path": "/health",
         *         "status": 200
         *       },
         *       "timeout_ms": 10000
         *     }
         */
        PortWaitRequest: {
            http?: components["schemas"]["HttpCheck"] | null;
            /**
             * Format: int64
             * @description Give up after this.
             */
            timeout_ms?: number | null;
        };
        /** @description First of the events of `GET /v1/ports`: all ports there are. What is more than 8 MiB of them follows as `opened`. */
        PortsEvent: {
            /** @description The ports. */
            items: components["schemas"]["PortRecord"][];
        };
        /** @description A name under which a port can be reached without a token. */
        Preview: {
            /**
             * Format: date-time
             * @description From then on it opens nothing.
             */
            expires_at: string;
            /**
             * Format: int32
             * @description The TCP port.
             */
            port: number;
            /** @description Whoever has it reaches the port, and nothing else. */
            url: string;
        };
        /**
         * @description `POST /v1/sandboxes/{sandbox}/ports/{port}/preview`.
         * @example {
         *       "ttl_ms": 3600000
         *     }
         */
        PreviewRequest: {
            /**
             * Format: int64
             * @description How long the name opens the port; an hour by default, a year at most.
             */
            ttl_ms?: number | null;
        };
        /** @description An RFC 9457 problem document: what went wrong, why, and what to do next. */
        Problem: {
            /** @description The stable code to branch on. */
            code: components["schemas"]["ErrorCode"];
            /** @description What happened this time. */
            detail: string;
            /**
             * Format: int64
             * @description With `stdin_offset`: the offset the next write must have.
             */
            expected_offset?: number | null;
            /**
             * Format: int64
             * @description With `offset_gone`: the first offset that is still kept.
             */
            first_offset?: number | null;
            /** @description What to do about it. */
            hint?: string | null;
            /** @description JSON pointer to the offending field of the request. */
            pointer?: string | null;
            /** @description With `isolation_unavailable`: what became of each layer. */
            protections?: components["schemas"]["Protection"][];
            /** @description The id of the request, also in the `x-request-id` header. */
            request_id?: string;
            /**
             * Format: int32
             * @description The HTTP status.
             */
            status: number;
            /** @description A short title, the same for every problem of this kind. */
            title: string;
            /**
             * @description A URI reference that names the kind of problem.
             * @example /problems/process_not_found
             */
            type: string;
        };
        /** @description A process, or an `exec`, which is a process too. */
        ProcessId: string;
        /** @description One running process. */
        ProcessInfo: {
            /** @description Its command line; of a longer one the first KiB. */
            command: string;
            /**
             * Format: int32
             * @description Its pid as the agent sees it.
             */
            pid: number;
            /** @description Kernel state letter: `R`, `S`, `D`, `T`, `Z`… */
            state: string;
        };
        /**
         * @description What a process was made by.
         * @enum {string}
         */
        ProcessKind: "exec" | "process";
        /** @description What is known of a process. */
        ProcessRecord: {
            /** @description The argument vector, when it was started by one. */
            argv?: string[] | null;
            /** @description The shell text, when it was started by one. */
            command?: string | null;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /**
             * Format: int32
             * @description Exit status; 128 + n when killed by signal n.
             */
            exit_code?: number | null;
            /** @description Its id. */
            id: components["schemas"]["ProcessId"];
            /** @description What made it. */
            kind: components["schemas"]["ProcessKind"];
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /**
             * Format: int32
             * @description Its pid inside the sandbox; of the latest start when it was restarted.
             */
            pid: number;
            /**
             * Format: int32
             * @description How often it was started again.
             */
            restarts?: number;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Name of the signal that killed it. */
            signal?: string | null;
            /**
             * Format: date-time
             * @description When it was first started.
             */
            started_at: string;
            /** @description Where it is in its life. */
            state: components["schemas"]["ProcessState"];
            /**
             * Format: int64
             * @description Bytes written to standard error so far.
             */
            stderr_bytes: number;
            /**
             * Format: int64
             * @description Bytes written to standard output so far.
             */
            stdout_bytes: number;
            /** @description The label. */
            tag?: string | null;
            /** @description Whether its timeout ended it. */
            timed_out?: boolean;
        };
        /**
         * @description `POST /v1/processes`. Exactly one of `command` and `argv` is given.
         * @example {
         *       "command": "python3 -m http.server 8000",
         *       "id": "web"
         *     }
         */
        ProcessRequest: {
            /** @description A program and its arguments; no shell is involved. */
            argv?: string[] | null;
            /** @description Text for the shell. */
            command?: string | null;
            /** @description Working directory. */
            cwd?: string | null;
            /** @description Changes to the environment. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["ProcessId"] | null;
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int64
             * @description Most bytes of output kept; 256 MiB by default, the oldest go first.
             */
            max_output_bytes?: number | null;
            restart?: components["schemas"]["RestartPolicy"] | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Shell for `command`. */
            shell?: string | null;
            /** @description First bytes for the standard input. */
            stdin?: string | null;
            /** @description How `stdin` is encoded. */
            stdin_encoding?: components["schemas"]["TextEncoding"];
            /** @description Keep the standard input open for later writes. */
            stdin_open?: boolean;
            /** @description A label of your choice. */
            tag?: string | null;
            /**
             * Format: int64
             * @description After this the whole tree is ended.
             */
            timeout_ms?: number | null;
            /** @description User name or uid to run as. */
            user?: string | null;
        };
        /**
         * @description Where a process is in its life.
         *
         *     ```text
         *     running ──────────────► exited
         *        ▲  └──► backoff ──┐
         *        └─────────────────┘   (restart policy)
         *     ```
         * @enum {string}
         */
        ProcessState: "running" | "backoff" | "exited";
        /** @description One layer of isolation, as proved from inside the sandbox. */
        Protection: {
            /** @description Which layer. */
            name: components["schemas"]["Layer"];
            /** @description Why it does not hold, or not wholly. */
            reason?: string | null;
            /** @description Whether it holds. */
            status: components["schemas"]["ProtectionStatus"];
        };
        /**
         * @description What became of a layer.
         * @enum {string}
         */
        ProtectionStatus: "enforced" | "partial" | "off";
        /** @description `GET /v1/protections`. */
        ProtectionsReply: {
            /** @description Every layer, in the order of the report. */
            protections: components["schemas"]["Protection"][];
        };
        /**
         * Format: binary
         * @description Bytes as they are, in the document.
         */
        RawBytes: string;
        /**
         * @description Why a connection was refused.
         * @enum {string}
         */
        RefusalReason: "host_not_allowed" | "port_not_allowed" | "address_not_allowed" | "address_denied" | "bad_name" | "sni_missing" | "sni_mismatch" | "host_mismatch" | "protocol" | "bad_request" | "too_many_connections";
        /** @description What was removed. */
        RemoveReply: {
            /**
             * Format: int64
             * @description Files, directories and links removed.
             */
            removed: number;
        };
        /**
         * @description `POST /v1/files/remove`.
         * @example {
         *       "missing_ok": true,
         *       "path": "/workspace/build",
         *       "recursive": true
         *     }
         */
        RemoveRequest: {
            /** @description Be content when there is nothing; false by default. */
            missing_ok?: boolean;
            /** @description What is removed. A symbolic link is removed itself. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /** @description Needed for a directory that is not empty. */
            recursive?: boolean;
            /** @description Relative paths start at this session's directory. */
            session?: string | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /**
         * @description Event `rescan`: some changes are missing here. List the directory again; the events after this one
         *     hold from then on.
         */
        RescanEvent: {
            /** @description Why. */
            reason: components["schemas"]["RescanReason"];
        };
        /**
         * @description Why the events do not tell everything.
         * @enum {string}
         */
        RescanReason: "overflow" | "dropped" | "unknown_version";
        /**
         * @description `POST /v1/terminals/{id}/resize`.
         * @example {
         *       "cols": 120,
         *       "rows": 40
         *     }
         */
        ResizeRequest: {
            /**
             * Format: int32
             * @description Columns.
             */
            cols: number;
            /**
             * Format: int32
             * @description Rows.
             */
            rows: number;
        };
        /**
         * @description When a process is started again.
         * @enum {string}
         */
        RestartMode: "never" | "on_failure" | "always";
        /** @description A restart policy with its backoff. */
        RestartPolicy: {
            /**
             * Format: int64
             * @description First pause; it doubles up to a minute and starts anew after a minute of running. 500 ms by default.
             */
            backoff_ms?: number | null;
            /**
             * Format: int32
             * @description Give up after this many restarts. No limit by default.
             */
            max_restarts?: number | null;
            /** @description When to start again. */
            mode: components["schemas"]["RestartMode"];
        };
        /** @description A restore: `restored` or `error` is the last. */
        RestoreEvents: components["schemas"]["RestoreEventsProgress"] | components["schemas"]["RestoreEventsRestored"] | components["schemas"]["RestoreEventsError"];
        /** @description `event: error`; its data is JSON in one line. */
        RestoreEventsError: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "error";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: progress`; its data is JSON in one line. */
        RestoreEventsProgress: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "progress";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: restored`; its data is JSON in one line. */
        RestoreEventsRestored: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "restored";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description What a restore did. */
        RestoreReply: {
            /** @description What is in it now. */
            contents: components["schemas"]["ArchiveCounts"];
            /** @description The directory that was replaced. */
            path: string;
            /** @description The exact path, when it is not UTF-8. */
            path_base64?: string | null;
        };
        /**
         * @description `POST /v1/backups/{id}/restore`.
         * @example {
         *       "path": "/workspace"
         *     }
         */
        RestoreRequest: {
            download?: components["schemas"]["Download"] | null;
            /** @description The directory that is replaced; the one the backup was made from by default. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            session?: components["schemas"]["SessionId"] | null;
            /** @description Whose rights are used, and who owns what is restored: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description SSE `event: end`: the run is over. Always the last event. */
        RunEnd: {
            /** @description What became of the state. */
            context: components["schemas"]["ContextOutcome"];
            /**
             * Format: int64
             * @description Results left out because there were too many bytes of them.
             */
            dropped_results?: number;
            /**
             * Format: int64
             * @description Wall time from start to end.
             */
            duration_ms: number;
            /**
             * Format: int64
             * @description Its number since the interpreter started; 0 when its turn never came.
             */
            execution_count: number;
            /**
             * Format: int32
             * @description For bash: the exit status.
             */
            exit_code?: number | null;
            /** @description How it ended. */
            status: components["schemas"]["RunStatus"];
        };
        /**
         * @description SSE `event: error`: what the code raised.
         * @example {
         *       "name": "NameError",
         *       "traceback": [],
         *       "value": "name 'y' is not defined"
         *     }
         */
        RunError: {
            /** @description Its name, such as `ValueError`. */
            name: string;
            /** @description Its traceback, line by line. */
            traceback: string[];
            /** @description Its message. */
            value: string;
        };
        /** @description A run: `started` when its turn has come, `end` always last. */
        RunEvents: components["schemas"]["RunEventsStarted"] | components["schemas"]["RunEventsStdout"] | components["schemas"]["RunEventsStderr"] | components["schemas"]["RunEventsTruncated"] | components["schemas"]["RunEventsResult"] | components["schemas"]["RunEventsError"] | components["schemas"]["RunEventsEnd"];
        /** @description `event: end`; its data is JSON in one line. */
        RunEventsEnd: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "end";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: error`; its data is JSON in one line. */
        RunEventsError: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "error";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: result`; its data is JSON in one line. */
        RunEventsResult: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "result";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: started`; its data is JSON in one line. */
        RunEventsStarted: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "started";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: stderr`; its data is JSON in one line. */
        RunEventsStderr: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "stderr";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: stdout`; its data is JSON in one line. */
        RunEventsStdout: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "stdout";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: truncated`; its data is JSON in one line. */
        RunEventsTruncated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "truncated";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description SSE `event: stdout` and `event: stderr`: a piece of output. */
        RunOutput: {
            /** @description The bytes. */
            data: string;
            /** @description How `data` is encoded. */
            encoding: components["schemas"]["TextEncoding"];
        };
        /** @description A run as one JSON answer. */
        RunReply: components["schemas"]["RunEnd"] & {
            error?: components["schemas"]["RunError"] | null;
            /** @description Values, in order. */
            results: components["schemas"]["RunResult"][];
            /** @description Its id. */
            run_id: string;
            /** @description Standard error. */
            stderr: string;
            /** @description How `stderr` is encoded. */
            stderr_encoding: components["schemas"]["TextEncoding"];
            /** @description Standard output. */
            stdout: string;
            /** @description How `stdout` is encoded. */
            stdout_encoding: components["schemas"]["TextEncoding"];
            truncated?: components["schemas"]["Truncated"] | null;
        };
        /**
         * @description `POST /v1/contexts/{id}/run`.
         * @example {
         *       "code": "x = 20\nx + 1"
         *     }
         */
        RunRequest: {
            /** @description The code. */
            code: string;
            /** @description Encoding of output. */
            encoding?: components["schemas"]["Encoding"];
            /** @description Changes to the environment for this run only. */
            env?: {
                [key: string]: string | null;
            };
            /**
             * Format: int64
             * @description Most bytes of each stream in a JSON result; 10 MiB by default. The middle is left out.
             */
            max_output_bytes?: number | null;
            /**
             * Format: int64
             * @description After this the run is interrupted; the state is kept where the interpreter allows it.
             */
            timeout_ms?: number | null;
        };
        /**
         * @description SSE `event: result`: a value in all the forms it has.
         * @example {
         *       "data": {
         *         "text/plain": "21"
         *       },
         *       "is_main": true
         *     }
         */
        RunResult: {
            /** @description By MIME type: text as it is, pictures as base64, JSON as JSON. */
            data: {
                [key: string]: unknown;
            };
            /** @description Whether it is the value of the last expression; else the code displayed it. */
            is_main: boolean;
        };
        /** @description SSE `event: started`: the run's turn has come. */
        RunStarted: {
            /**
             * Format: int64
             * @description Its number since the interpreter started.
             */
            execution_count: number;
            /** @description Its id. */
            run_id: string;
        };
        /**
         * @description How a run ended.
         * @enum {string}
         */
        RunStatus: "ok" | "error" | "interrupted" | "timed_out";
        /** @description Something that happened in the sandbox. The `id` of the event resumes after it. */
        SandboxEvent: components["schemas"]["Happening"] & {
            /**
             * Format: date-time
             * @description When.
             */
            at: string;
        };
        /** @description What happens in the sandbox, each event named by its `type`. */
        SandboxEvents: components["schemas"]["SandboxEventsReady"] | components["schemas"]["SandboxEventsEnding"] | components["schemas"]["SandboxEventsProcessStarted"] | components["schemas"]["SandboxEventsProcessExited"] | components["schemas"]["SandboxEventsProcessRestarted"] | components["schemas"]["SandboxEventsProcessKilled"] | components["schemas"]["SandboxEventsSessionCreated"] | components["schemas"]["SandboxEventsSessionRestored"] | components["schemas"]["SandboxEventsSessionEnded"] | components["schemas"]["SandboxEventsTerminalCreated"] | components["schemas"]["SandboxEventsTerminalEnded"] | components["schemas"]["SandboxEventsPortOpened"] | components["schemas"]["SandboxEventsPortClosed"] | components["schemas"]["SandboxEventsBackupCreated"] | components["schemas"]["SandboxEventsBackupRestored"] | components["schemas"]["SandboxEventsBackupDeleted"] | components["schemas"]["SandboxEventsOom"] | components["schemas"]["SandboxEventsLimitReached"] | components["schemas"]["SandboxEventsNetworkRefused"] | components["schemas"]["SandboxEventsTruncated"];
        /** @description `event: backup_created`; its data is JSON in one line. */
        SandboxEventsBackupCreated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "backup_created";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: backup_deleted`; its data is JSON in one line. */
        SandboxEventsBackupDeleted: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "backup_deleted";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: backup_restored`; its data is JSON in one line. */
        SandboxEventsBackupRestored: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "backup_restored";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: ending`; its data is JSON in one line. */
        SandboxEventsEnding: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "ending";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: limit_reached`; its data is JSON in one line. */
        SandboxEventsLimitReached: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "limit_reached";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: network_refused`; its data is JSON in one line. */
        SandboxEventsNetworkRefused: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "network_refused";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: oom`; its data is JSON in one line. */
        SandboxEventsOom: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "oom";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: port_closed`; its data is JSON in one line. */
        SandboxEventsPortClosed: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "port_closed";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: port_opened`; its data is JSON in one line. */
        SandboxEventsPortOpened: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "port_opened";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: process_exited`; its data is JSON in one line. */
        SandboxEventsProcessExited: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "process_exited";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: process_killed`; its data is JSON in one line. */
        SandboxEventsProcessKilled: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "process_killed";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: process_restarted`; its data is JSON in one line. */
        SandboxEventsProcessRestarted: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "process_restarted";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: process_started`; its data is JSON in one line. */
        SandboxEventsProcessStarted: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "process_started";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: ready`; its data is JSON in one line. */
        SandboxEventsReady: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "ready";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: session_created`; its data is JSON in one line. */
        SandboxEventsSessionCreated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "session_created";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: session_ended`; its data is JSON in one line. */
        SandboxEventsSessionEnded: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "session_ended";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: session_restored`; its data is JSON in one line. */
        SandboxEventsSessionRestored: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "session_restored";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: terminal_created`; its data is JSON in one line. */
        SandboxEventsTerminalCreated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "terminal_created";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: terminal_ended`; its data is JSON in one line. */
        SandboxEventsTerminalEnded: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "terminal_ended";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: truncated`; its data is JSON in one line. */
        SandboxEventsTruncated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "truncated";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description The id of a sandbox. It is a DNS label, so that it can stand in the name of a preview. */
        SandboxId: string;
        /** @description Limits of a whole sandbox. */
        SandboxLimits: {
            /**
             * Format: double
             * @description Processors, such as 0.5 or 2.
             */
            cpus?: number | null;
            /**
             * Format: int64
             * @description Bytes it may write.
             */
            disk_bytes?: number | null;
            /**
             * Format: int64
             * @description Files it may make.
             */
            inodes?: number | null;
            /**
             * Format: int64
             * @description Memory of all its commands together.
             */
            memory_bytes?: number | null;
            /**
             * Format: int64
             * @description Files each of its processes may have open.
             */
            open_files?: number | null;
            /**
             * Format: int64
             * @description Processes and threads.
             */
            pids?: number | null;
        };
        /**
         * @description `PATCH /v1/sandboxes/{sandbox}`: what is left out stays; null means nothing but in `labels`, and is refused.
         * @example {
         *       "idle_timeout_ms": 60000,
         *       "labels": {
         *         "old": null,
         *         "team": "web"
         *       }
         *     }
         */
        SandboxPatch: {
            /**
             * Format: int64
             * @description The time without a request after which `on_idle` happens; 0 for never.
             */
            idle_timeout_ms?: number;
            /** @description Labels to set; `null` removes one. */
            labels?: {
                [key: string]: string | null;
            };
            /**
             * @description Limits to change while it runs: `memory_bytes`, `cpus` and `pids`. The others hold from its making
             *     to its end.
             */
            limits?: components["schemas"]["SandboxLimits"];
            /**
             * Format: int64
             * @description The time since its making after which it is destroyed; 0 for never.
             */
            max_lifetime_ms?: number;
            /** @description What happens to it when idle. */
            on_idle?: components["schemas"]["OnIdle"];
        };
        /** @description A sandbox as the hub knows it. */
        SandboxRecord: components["schemas"]["SandboxSpec"] & {
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When it ended.
             */
            ended_at?: string | null;
            /**
             * Format: date-time
             * @description When its lifetime ends.
             */
            expires_at?: string | null;
            /** @description Its id. */
            id: components["schemas"]["SandboxId"];
            /**
             * Format: date-time
             * @description When it last had a request, as far as this hub has seen.
             */
            last_used_at: string;
            /** @description The id of the token that made it. */
            owner: string;
            /** @description What became of each layer of isolation. */
            protections: components["schemas"]["Protection"][];
            /** @description Why it is no more. */
            reason?: string | null;
            /** @description Where it is in its life. */
            state: components["schemas"]["SandboxState"];
        };
        /**
         * @description `POST /v1/sandboxes`: what a sandbox is to be. Everything may be left out.
         * @example {
         *       "id": "build-1",
         *       "idle_timeout_ms": 600000,
         *       "labels": {
         *         "team": "web"
         *       }
         *     }
         */
        SandboxSpec: {
            /** @description Where commands start. */
            cwd?: string | null;
            /** @description Environment of every command. */
            env?: {
                [key: string]: string;
            };
            id?: components["schemas"]["SandboxId"] | null;
            /**
             * Format: int64
             * @description After this long without a request `on_idle` happens. Never by default.
             */
            idle_timeout_ms?: number | null;
            /** @description The root file system; the host's programs by default. */
            image?: string | null;
            isolation?: components["schemas"]["IsolationSpec"] | null;
            /** @description Words to find it by. */
            labels?: {
                [key: string]: string;
            };
            limits?: components["schemas"]["SandboxLimits"] | null;
            /**
             * Format: int64
             * @description After this long it is destroyed, idle or not. Never by default.
             */
            max_lifetime_ms?: number | null;
            network?: components["schemas"]["NetworkSpec"] | null;
            on_idle?: components["schemas"]["OnIdle"] | null;
            /** @description Headers that are added on the way out, so that secrets never enter the sandbox. */
            secrets?: components["schemas"]["SecretSpec"][];
            /** @description Who commands run as. */
            user?: string | null;
        };
        /**
         * @description Where a sandbox is in its life.
         * @enum {string}
         */
        SandboxState: "creating" | "ready" | "paused" | "asleep" | "destroying" | "gone" | "failed";
        /** @description `GET /v1/stats`. What cannot be told here is `null`. */
        SandboxStats: {
            /**
             * Format: date-time
             * @description When the figures were taken.
             */
            at: string;
            /** @description Use of processors. */
            cpu: components["schemas"]["CpuStats"];
            disk?: components["schemas"]["DiskStats"] | null;
            /**
             * Format: int32
             * @description Execs that have not ended.
             */
            execs: number;
            /** @description Use of memory. */
            memory: components["schemas"]["MemoryStats"];
            network?: components["schemas"]["NetworkStats"] | null;
            /** @description Processes of the system that are alive, init and the shells held ready among them. */
            pids: components["schemas"]["PidStats"];
            /**
             * Format: int32
             * @description Processes (not execs) that have not ended.
             */
            processes: number;
            /**
             * Format: int32
             * @description Sessions that have not ended.
             */
            sessions: number;
            /**
             * Format: int32
             * @description Terminals that have not ended.
             */
            terminals: number;
            /**
             * Format: int64
             * @description How long the agent has served the sandbox.
             */
            uptime_ms: number;
        };
        /** @description A search: its matches as they are found, then `done` or `error`. */
        SearchEvents: components["schemas"]["SearchEventsMatch"] | components["schemas"]["SearchEventsDone"] | components["schemas"]["SearchEventsError"];
        /** @description `event: done`; its data is JSON in one line. */
        SearchEventsDone: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "done";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: error`; its data is JSON in one line. */
        SearchEventsError: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "error";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: match`; its data is JSON in one line. */
        SearchEventsMatch: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "match";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description SSE `event: match`: one line that matches. */
        SearchMatch: {
            /** @description Lines after it, the same. */
            after?: components["schemas"]["ContextLine"][];
            /** @description Lines before it, as far as they were asked for and belong to no other match. */
            before?: components["schemas"]["ContextLine"][];
            /**
             * Format: int64
             * @description Number of the line, from 1.
             */
            line: number;
            /**
             * Format: int64
             * @description Where the line begins in the file, in bytes.
             */
            offset: number;
            /** @description The file's absolute path; what is not UTF-8 in it is replaced. */
            path: string;
            /** @description The exact bytes of the path, when it is not UTF-8. */
            path_base64?: string | null;
            /** @description What matched in the line, 1,000 at most. */
            spans: components["schemas"]["Span"][];
            /** @description The line without its end. */
            text: string;
            /** @description How `text` is encoded. */
            text_encoding: components["schemas"]["TextEncoding"];
            /** @description The line is longer than 16 KiB, and `text` is only its beginning. */
            text_truncated?: boolean;
        };
        /** @description What a search found. */
        SearchReply: {
            /** @description The lines, sorted by path within each directory. */
            matches: components["schemas"]["SearchMatch"][];
            /** @description What was searched. */
            summary: components["schemas"]["SearchSummary"];
        };
        /**
         * @description `POST /v1/files/search`.
         * @example {
         *       "include": [
         *         "*.rs"
         *       ],
         *       "path": "/src",
         *       "pattern": "fn main"
         *     }
         */
        SearchRequest: {
            /** @description Upper and lower case. */
            case?: components["schemas"]["CaseMode"];
            /**
             * Format: int32
             * @description Lines to give before and after each match: 0 by default, 100 at most.
             */
            context?: number;
            /** @description Globs of files and directories to leave out. */
            exclude?: string[];
            /** @description Whether what .gitignore files exclude is left out; true by default. */
            gitignore?: boolean | null;
            /** @description Whether names that begin with a dot are looked at; false by default. */
            hidden?: boolean | null;
            /** @description Globs of the files to search, as in find; all when left out. */
            include?: string[];
            /**
             * Format: int32
             * @description Most matching lines in the answer: 1,000 by default, 100,000 at most.
             */
            limit?: number | null;
            /** @description The pattern is plain text. */
            literal?: boolean;
            /**
             * Format: int64
             * @description Larger files are passed over and counted; 64 MiB by default.
             */
            max_file_bytes?: number | null;
            /** @description The directory, or the one file, to search. */
            path?: string | null;
            /** @description Instead of `path`, for names that are not UTF-8. */
            path_base64?: string | null;
            /**
             * @description A regular expression (Rust's syntax: linear time, no look-around or back-references),
             *     matched within one line.
             */
            pattern: string;
            session?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description After this the answer has what was found so far; 60 s by default.
             */
            timeout_ms?: number | null;
            /** @description Whose rights are used: a user name or uid; the sandbox's user by default. */
            user?: string | null;
        };
        /** @description SSE `event: done`: what was searched. */
        SearchSummary: {
            /**
             * Format: int64
             * @description Files passed over because a NUL byte was found in them; matches before it are given.
             */
            binary_files: number;
            /**
             * Format: int64
             * @description Files passed over because they, or a line of theirs, are too large.
             */
            large_files: number;
            /**
             * Format: int64
             * @description Files with a match.
             */
            matched_files: number;
            /**
             * Format: int64
             * @description Lines that matched and are in the answer.
             */
            matched_lines: number;
            /**
             * Format: int64
             * @description Files that were searched.
             */
            searched_files: number;
            /** @description The time ran out. */
            timed_out: boolean;
            /** @description There are more matches than `limit`, or than an answer holds, or the time ran out. */
            truncated: boolean;
            /**
             * Format: int64
             * @description Files and directories that the user may not read.
             */
            unreadable: number;
        };
        /**
         * @description A header that the egress proxy puts into requests for a host, in place of what the sandbox sends
         *     under its name, so that its value never enters the sandbox.
         */
        SecretSpec: {
            /** @description The name of the header. */
            header: string;
            /** @description The host. */
            host: string;
            /** @description Its value; needed in a request, and never in a reply. */
            value?: string | null;
        };
        /** @description A streamed exec in a session: `command` first, `exit` last. */
        SessionExecEvents: components["schemas"]["SessionExecEventsCommand"] | components["schemas"]["SessionExecEventsOutput"] | components["schemas"]["SessionExecEventsTruncated"] | components["schemas"]["SessionExecEventsExit"];
        /** @description `event: command`; its data is JSON in one line. */
        SessionExecEventsCommand: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "command";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: exit`; its data is JSON in one line. */
        SessionExecEventsExit: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "exit";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: output`; its data is JSON in one line. */
        SessionExecEventsOutput: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "output";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: truncated`; its data is JSON in one line. */
        SessionExecEventsTruncated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "truncated";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /**
         * @description `POST /v1/sessions/{id}/exec`.
         * @example {
         *       "command": "cd /tmp && export A=1"
         *     }
         */
        SessionExecRequest: {
            /** @description Text for the shell. */
            command: string;
            /** @description Working directory for this command only. */
            cwd?: string | null;
            /** @description Encoding of `stdout` and `stderr`. */
            encoding?: components["schemas"]["Encoding"];
            /** @description Environment for this command only. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["CommandId"] | null;
            /**
             * Format: int64
             * @description Most bytes of each stream in the result.
             */
            max_output_bytes?: number | null;
            /** @description What to do when the client goes away. */
            on_disconnect?: components["schemas"]["OnDisconnect"];
            /** @description Bytes for the standard input. `/dev/null` by default. */
            stdin?: string | null;
            /** @description How `stdin` is encoded. */
            stdin_encoding?: components["schemas"]["TextEncoding"];
            /**
             * Format: int64
             * @description After this the command is interrupted; the session keeps its state.
             */
            timeout_ms?: number | null;
            /** @description What to drop when there is more. */
            truncate?: components["schemas"]["Truncate"];
        };
        /** @description The result of a session's command. */
        SessionExecResult: {
            /** @description The command's id. */
            command_id: components["schemas"]["CommandId"];
            /** @description Working directory after the command. */
            cwd: string;
            /**
             * Format: int64
             * @description Wall time from start to end.
             */
            duration_ms: number;
            /**
             * Format: int32
             * @description Exit status; 130 when interrupted, 128 + n when the shell was killed by signal n.
             */
            exit_code: number;
            /** @description Whether it was interrupted. */
            interrupted: boolean;
            /**
             * Format: int32
             * @description How many streams children left behind still hold; what they write is on the late streams.
             */
            left_running: number;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /**
             * @description `kept`: the same shell goes on. `restored`: it exited, another took over everything.
             *     `restored_before`: another took over the state from before this command. `ended`: the session is over.
             * @example kept
             */
            session_state: string;
            /** @description Name of the signal that killed the shell, when one did. */
            signal?: string | null;
            /** @description Standard error. */
            stderr: string;
            /** @description How `stderr` is encoded. */
            stderr_encoding: components["schemas"]["TextEncoding"];
            /** @description Standard output. */
            stdout: string;
            /** @description How `stdout` is encoded. */
            stdout_encoding: components["schemas"]["TextEncoding"];
            /** @description Whether its timeout ended it. */
            timed_out: boolean;
            truncated?: components["schemas"]["Truncated"] | null;
        };
        /**
         * @description SSE `event: exit` of a streamed session exec: a [`SessionExecResult`] without the output, which
         *     has been sent before. A reader of plain exit events understands it too.
         */
        SessionExitEvent: {
            /** @description The command's id. */
            command_id: components["schemas"]["CommandId"];
            /** @description Working directory after the command. */
            cwd?: string | null;
            /**
             * Format: int64
             * @description Wall time from start to end.
             */
            duration_ms: number;
            /**
             * Format: int32
             * @description Exit status; absent when it never ran.
             */
            exit_code?: number | null;
            /** @description Whether it was interrupted. */
            interrupted: boolean;
            /**
             * Format: int32
             * @description How many streams children left behind still hold.
             */
            left_running: number;
            /** @description Whether the kernel killed one of its processes because memory was used up. */
            oom?: boolean;
            /**
             * @description As in [`SessionExecResult`].
             * @example kept
             */
            session_state?: string | null;
            /** @description Name of the signal that killed the shell, when one did. */
            signal?: string | null;
            /** @description Whether its timeout ended it. */
            timed_out: boolean;
        };
        /** @description A persistent shell. */
        SessionId: string;
        /**
         * @description `PATCH /v1/sessions/{id}`: what is given changes, the rest stays.
         * @example {
         *       "env": {
         *         "DEBUG": "1",
         *         "OLD": null
         *       }
         *     }
         */
        SessionPatch: {
            /** @description Variables to export or unset, before the next command. */
            env?: {
                [key: string]: string | null;
            };
            /**
             * Format: int64
             * @description New idle timeout.
             */
            idle_timeout_ms?: number | null;
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int64
             * @description New cap of each stream in a result.
             */
            max_output_bytes?: number | null;
            /**
             * Format: int64
             * @description New default timeout.
             */
            timeout_ms?: number | null;
        };
        /** @description What is known of a session. */
        SessionRecord: {
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /** @description Working directory after the last command. */
            cwd: string;
            /** @description What this shell cannot do that bash could. Empty for bash. */
            degraded?: string[];
            foreground?: components["schemas"]["ForegroundInfo"] | null;
            /** @description Its id. */
            id: components["schemas"]["SessionId"];
            /**
             * Format: date-time
             * @description When its last command ended.
             */
            last_used_at?: string | null;
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int32
             * @description The shell's pid inside the sandbox, or in its own process tree.
             */
            pid: number;
            /** @description Whether its process tree is its own. */
            private_processes?: boolean;
            /**
             * Format: int32
             * @description Commands waiting for their turn.
             */
            queue_length: number;
            /**
             * Format: int32
             * @description How often the shell was replaced and its state restored.
             */
            restores: number;
            /** @description Path of its shell. */
            shell: string;
            /** @description Where it is in its life. */
            state: components["schemas"]["SessionState"];
            stats?: components["schemas"]["SessionStats"] | null;
        };
        /**
         * @description `POST /v1/sessions`.
         * @example {
         *       "cwd": "/tmp",
         *       "id": "work"
         *     }
         */
        SessionRequest: {
            /** @description Working directory to start in. */
            cwd?: string | null;
            /** @description Changes to the environment it starts with. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["SessionId"] | null;
            /**
             * Format: int64
             * @description End the session after this long without a command.
             */
            idle_timeout_ms?: number | null;
            limits?: components["schemas"]["Limits"] | null;
            /**
             * Format: int64
             * @description End the session this long after its creation.
             */
            max_lifetime_ms?: number | null;
            /**
             * Format: int64
             * @description Most bytes of each stream in a result; 10 MiB by default.
             */
            max_output_bytes?: number | null;
            /**
             * @description Give it a process tree of its own: nobody else in the sandbox sees or signals its processes, nor
             *     they those of others.
             */
            private_processes?: boolean;
            /** @description `bash` or `sh`, or the path of one; bash by default, else sh. */
            shell?: string | null;
            /**
             * Format: int64
             * @description Timeout of each command that does not bring its own.
             */
            timeout_ms?: number | null;
            /** @description User name or uid to run as. */
            user?: string | null;
        };
        /**
         * @description Where a session is in its life.
         *
         *     ```text
         *                ┌────────── exec ─────────┐
         *                idle ◄─── completion ─── busy
         *                │  ▲                      │ shell exited or was lost
         *                │  └───── restoring ◄─────┘
         *                └──► ended (deleted, idle timeout, lifetime, cannot be restored)
         *     ```
         * @enum {string}
         */
        SessionState: "idle" | "busy" | "restoring" | "ended";
        /** @description What a session uses. */
        SessionStats: {
            /**
             * Format: int64
             * @description Commands run.
             */
            commands: number;
            /**
             * Format: int64
             * @description CPU time used since the shell started.
             */
            cpu_ms: number;
            /**
             * Format: int64
             * @description Resident memory of all of them.
             */
            memory_bytes: number;
            /**
             * Format: int32
             * @description Processes alive, the shell included.
             */
            processes: number;
        };
        /** @description Answer to a signal. */
        SignalReply: {
            /**
             * Format: int32
             * @description How many processes it was sent to.
             */
            signalled: number;
        };
        /**
         * @description `POST /v1/processes/{id}/signal`.
         * @example {
         *       "scope": "tree",
         *       "signal": "SIGHUP"
         *     }
         */
        SignalRequest: {
            /** @description Whom it goes to. */
            scope?: components["schemas"]["SignalScope"];
            /** @description A name such as `SIGTERM` or `TERM`, or a number. */
            signal: string;
        };
        /**
         * @description Whom a signal goes to.
         * @enum {string}
         */
        SignalScope: "process" | "group" | "tree";
        /** @description A part of a line, in bytes from its beginning. */
        Span: {
            /**
             * Format: int64
             * @description The byte after the last.
             */
            end: number;
            /**
             * Format: int64
             * @description The first byte.
             */
            start: number;
        };
        /**
         * @description Where a figure comes from.
         * @enum {string}
         */
        StatsSource: "cgroup" | "proc";
        /** @description Answer to a stdin write. */
        StdinReply: {
            /**
             * Format: int64
             * @description Bytes accepted since the process started: the offset of the next write.
             */
            offset: number;
        };
        /**
         * @description One of the byte streams of a process or command.
         * @enum {string}
         */
        StreamName: "stdout" | "stderr" | "late_stdout" | "late_stderr";
        /** @description A process that a kill could not end. */
        Survivor: {
            /** @description Its command line; of a longer one the first KiB. */
            command: string;
            /**
             * Format: int32
             * @description Its pid as the agent sees it.
             */
            pid: number;
        };
        /**
         * Format: binary
         * @description Bytes that are no text.
         */
        TarBytes: string;
        /** @description A text frame from a client. Binary frames are input. */
        TerminalClientFrame: {
            /**
             * Format: int32
             * @description Columns.
             */
            cols: number;
            /**
             * Format: int32
             * @description Rows.
             */
            rows: number;
            /** @enum {string} */
            type: "resize";
        };
        /** @description Where the cursor is. */
        TerminalCursor: {
            /**
             * Format: int32
             * @description Column, from 0.
             */
            col: number;
            /**
             * Format: int32
             * @description Row, from 0.
             */
            row: number;
            /** @description Whether it is shown. */
            visible: boolean;
        };
        /** @description A text frame from the server on a connection to a terminal. Binary frames are output. */
        TerminalFrame: {
            /**
             * Format: int32
             * @description Columns now.
             */
            cols: number;
            /**
             * Format: int64
             * @description Offset of the first byte of output that will come.
             */
            offset: number;
            /**
             * Format: int64
             * @description When not 0, the next binary frame has so many bytes and draws the screen as it is at
             *     `offset`. They are not output and have no offset.
             */
            redraw_bytes: number;
            /**
             * Format: int32
             * @description Rows now.
             */
            rows: number;
            /** @enum {string} */
            type: "ready";
        } | {
            /**
             * Format: int32
             * @description Columns from here on.
             */
            cols: number;
            /**
             * Format: int32
             * @description Rows from here on.
             */
            rows: number;
            /** @enum {string} */
            type: "resize";
        } | {
            /**
             * Format: int64
             * @description How many bytes are left out.
             */
            bytes: number;
            /**
             * Format: int32
             * @description Columns at the place where output goes on.
             */
            cols: number;
            /**
             * Format: int64
             * @description Offset of the first byte left out.
             */
            offset: number;
            /**
             * Format: int64
             * @description As in `ready`: the next binary frame draws the screen at that place.
             */
            redraw_bytes: number;
            /**
             * Format: int32
             * @description Rows there.
             */
            rows: number;
            /** @enum {string} */
            type: "truncated";
        } | {
            /**
             * Format: int32
             * @description Exit status; 128 + n when killed by signal n.
             */
            exit_code: number;
            /** @description Name of the signal that killed it. */
            signal?: string | null;
            /** @enum {string} */
            type: "exit";
        };
        /** @description A terminal. */
        TerminalId: string;
        /** @description What is known of a terminal. */
        TerminalRecord: {
            /** @description The program it was started with. */
            argv?: string[] | null;
            /**
             * Format: int32
             * @description Columns now.
             */
            cols: number;
            /** @description The text it was started with. */
            command?: string | null;
            /**
             * Format: date-time
             * @description When its program ended.
             */
            ended_at?: string | null;
            /**
             * Format: int32
             * @description Exit status; 128 + n when killed by signal n.
             */
            exit_code?: number | null;
            /** @description Its id. */
            id: components["schemas"]["TerminalId"];
            /**
             * Format: int64
             * @description Bytes written to it so far.
             */
            output_bytes: number;
            /**
             * Format: int32
             * @description The pid of its program inside the sandbox.
             */
            pid: number;
            /**
             * Format: int32
             * @description Rows now.
             */
            rows: number;
            /** @description Name of the signal that killed it. */
            signal?: string | null;
            /**
             * Format: date-time
             * @description When it was started.
             */
            started_at: string;
            /** @description Where it is in its life. */
            state: components["schemas"]["TerminalState"];
            /** @description The title its programs gave it. */
            title?: string | null;
            /**
             * Format: int32
             * @description Clients connected now.
             */
            viewers: number;
        };
        /**
         * @description `POST /v1/terminals`.
         * @example {
         *       "argv": [
         *         "vim",
         *         "notes.txt"
         *       ],
         *       "cols": 100,
         *       "id": "edit",
         *       "rows": 30
         *     }
         */
        TerminalRequest: {
            /** @description A program and its arguments, run without a shell. */
            argv?: string[] | null;
            /**
             * Format: int32
             * @description Columns to start with.
             */
            cols?: number;
            /** @description Text for a shell to run. Without `command` and `argv`: an interactive login shell. */
            command?: string | null;
            /** @description Working directory to start in. */
            cwd?: string | null;
            /** @description Changes to the environment; `TERM` is `xterm-256color` unless it is set here. */
            env?: {
                [key: string]: string | null;
            };
            id?: components["schemas"]["TerminalId"] | null;
            /**
             * Format: int32
             * @description Rows to start with.
             */
            rows?: number;
            /** @description User name or uid to run as. */
            user?: string | null;
        };
        /** @description `GET /v1/terminals/{id}/screen`: what a person in front of the terminal sees. */
        TerminalScreen: {
            /** @description Whether a full-screen program has the alternate screen. */
            alternate: boolean;
            /**
             * Format: int32
             * @description Columns.
             */
            cols: number;
            /** @description Where the cursor is. */
            cursor: components["schemas"]["TerminalCursor"];
            /**
             * Format: int64
             * @description Bytes of output that this screen is made of.
             */
            offset: number;
            /**
             * Format: int32
             * @description Rows.
             */
            rows: number;
            /** @description The last lines that scrolled away at the top, when asked for. */
            scrollback?: string | null;
            /** @description Whether its program still runs. */
            state: components["schemas"]["TerminalState"];
            /** @description All rows, without blanks at their ends, joined by newlines. */
            text: string;
            /** @description The title its programs gave it. */
            title?: string | null;
        };
        /**
         * @description Where a terminal is in its life.
         * @enum {string}
         */
        TerminalState: "running" | "exited";
        /**
         * @description How the bytes next to it are encoded.
         * @enum {string}
         */
        TextEncoding: "utf8" | "base64";
        /** @description Answer to `POST /v1/tickets`. */
        TicketReply: {
            /**
             * Format: date-time
             * @description When it is forgotten if it has not been used.
             */
            expires_at: string;
            /** @description The ticket: the value of `?ticket=`. */
            ticket: string;
            /** @description The path with the ticket in its query. */
            url: string;
        };
        /** @description `POST /v1/tickets`. */
        TicketRequest: {
            /** @description The path of the stream, percent-encoded as it will be asked for, without a query. */
            path: string;
        };
        /** @description Answer to `POST /v1/tokens`. */
        TokenCreated: components["schemas"]["TokenRecord"] & {
            /** @description The token, shown this once. */
            token: string;
        };
        /** @description A token as the hub knows it; the secret itself is kept nowhere. */
        TokenRecord: {
            /**
             * Format: date-time
             * @description When it was made.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description From then on it opens nothing.
             */
            expires_at?: string | null;
            /**
             * @description Its id, which is no secret.
             * @example tok_0192f0c1d2e3
             */
            id: string;
            /**
             * Format: int32
             * @description Most sandboxes it may have at a time.
             */
            max_sandboxes?: number | null;
            /** @description What people call it. */
            name?: string | null;
            /**
             * Format: date-time
             * @description When it was revoked.
             */
            revoked_at?: string | null;
            /** @description What it opens: `admin`, `create` or `sandbox:ID`. */
            scopes: string[];
        };
        /**
         * @description `POST /v1/tokens`.
         * @example {
         *       "max_sandboxes": 10,
         *       "name": "ci",
         *       "scopes": [
         *         "create"
         *       ]
         *     }
         */
        TokenRequest: {
            /**
             * Format: date-time
             * @description From then on it opens nothing.
             */
            expires_at?: string | null;
            /**
             * Format: int32
             * @description Most sandboxes it may have at a time; the hub's own limit by default.
             */
            max_sandboxes?: number | null;
            /** @description What people call it. */
            name?: string | null;
            /** @description What it opens: `admin`, `create` or `sandbox:ID`; at least one. */
            scopes: string[];
        };
        /**
         * @description Which end of an over-long output is kept in a result.
         * @enum {string}
         */
        Truncate: "head" | "tail" | "both";
        /** @description How many bytes of each stream are missing from a result. */
        Truncated: {
            /**
             * Format: int64
             * @description Bytes of standard error left out.
             */
            stderr_bytes: number;
            /**
             * Format: int64
             * @description Bytes of standard output left out.
             */
            stdout_bytes: number;
        };
        /** @description SSE `event: truncated`: bytes that are no longer kept, or that a cap dropped. */
        TruncatedEvent: {
            /**
             * Format: int64
             * @description How many bytes are missing.
             */
            bytes: number;
            /**
             * Format: int64
             * @description First byte that is missing.
             */
            offset: number;
            /** @description Which stream. */
            stream: components["schemas"]["StreamName"];
        };
        /**
         * @description Where to send an archive: one presigned URL, or those of a multipart upload. URLs are used and
         *     forgotten: they are neither stored nor logged.
         */
        Upload: {
            /** @description Keep the archive here, too. */
            keep?: boolean;
            multipart?: components["schemas"]["Multipart"] | null;
            /** @description One PUT with everything. */
            url?: string | null;
        };
        /** @description `GET /version`. */
        VersionInfo: {
            /** @description Version of the wire contract. */
            api: string;
            /** @description Version of the program. */
            version: string;
        };
        /**
         * @description Which condition came first.
         * @enum {string}
         */
        WaitOutcome: "exit" | "log" | "port" | "timeout";
        /** @description Answer to a wait. */
        WaitReply: {
            /** @description For a pattern: the line it was found in. */
            line?: string | null;
            /** @description What came first. */
            outcome: components["schemas"]["WaitOutcome"];
            /** @description The process at that moment. */
            process: components["schemas"]["ProcessRecord"];
            /** @description The same as `outcome == "timeout"`. */
            timed_out: boolean;
        };
        /**
         * @description `POST /v1/processes/{id}/wait`. The end of the process always ends the wait.
         * @example {
         *       "log": {
         *         "pattern": "listening on"
         *       },
         *       "timeout_ms": 10000
         *     }
         */
        WaitRequest: {
            /** @description Wait for the end. The default when nothing else is asked for. */
            exit?: boolean | null;
            log?: components["schemas"]["LogCondition"] | null;
            port?: components["schemas"]["PortCondition"] | null;
            /**
             * Format: int64
             * @description Give up after this.
             */
            timeout_ms?: number | null;
        };
        /** @description Event `end`: the last one. A new watch may be begun. */
        WatchEndEvent: {
            /** @description More about it. */
            detail?: string | null;
            /** @description Why. */
            reason: components["schemas"]["WatchEndReason"];
        };
        /**
         * @description Why a watch is over.
         * @enum {string}
         */
        WatchEndReason: "removed" | "moved" | "unmounted" | "limit_reached" | "failed";
        /** @description A watch: `ready` first, then the changes; after `end` there is nothing more. */
        WatchEvents: components["schemas"]["WatchEventsReady"] | components["schemas"]["WatchEventsCreated"] | components["schemas"]["WatchEventsModified"] | components["schemas"]["WatchEventsRemoved"] | components["schemas"]["WatchEventsMoved"] | components["schemas"]["WatchEventsAttributes"] | components["schemas"]["WatchEventsRescan"] | components["schemas"]["WatchEventsEnd"];
        /** @description `event: attributes`; its data is JSON in one line. */
        WatchEventsAttributes: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "attributes";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: created`; its data is JSON in one line. */
        WatchEventsCreated: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "created";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: end`; its data is JSON in one line. */
        WatchEventsEnd: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "end";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: modified`; its data is JSON in one line. */
        WatchEventsModified: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "modified";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: moved`; its data is JSON in one line. */
        WatchEventsMoved: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "moved";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: ready`; its data is JSON in one line. */
        WatchEventsReady: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "ready";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: removed`; its data is JSON in one line. */
        WatchEventsRemoved: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "removed";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description `event: rescan`; its data is JSON in one line. */
        WatchEventsRescan: {
            /** @description The `data:` line. */
            data: string;
            /**
             * @description The `event:` line. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            event: "rescan";
            /** @description The `id:` line, where there is one: what `Last-Event-ID` takes. */
            id?: string;
        };
        /** @description First event of a watch: from now on every change is told. Its `id` is `version`. */
        WatchReadyEvent: {
            /**
             * Format: int64
             * @description Directories that are watched.
             */
            directories: number;
            /**
             * Format: int64
             * @description What lies in them.
             */
            entries: number;
            /** @description The absolute path that is watched. */
            path: string;
            /** @description The exact path, when it is not UTF-8. */
            path_base64?: string | null;
            /**
             * Format: int64
             * @description The version the events go on from.
             */
            version: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
