//! `sandshell git`: repositories in a sandbox. Credentials come from stdin, and only there.

use std::io::Read as _;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use sandshell_client::types::{
    Encoded, ErrorCode, GitAddRequest, GitAuth, GitBranchesRequest, GitCheckoutRequest,
    GitCloneReply, GitCloneRequest, GitCommitRequest, GitDiffRequest, GitFileState, GitIdentity,
    GitLogRequest, GitNewBranch, GitOldBranch, GitProgress, GitPullMode, GitPullRequest,
    GitPushRequest, GitStatusReply, GitStatusRequest, NetworkMode, Problem, SessionId,
};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox};
use crate::failure::Failure;
use crate::names::Place;
use crate::output::ago;
use crate::progress::Progress;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct GitArguments {
    #[command(subcommand)]
    command: GitCommand,
}

/// Which repository, and who works in it.
#[derive(Debug, Clone, Args)]
struct Repository {
    /// The repository: SANDBOX:PATH, or PATH.
    #[arg(long = "repo", short = 'C', value_name = "PLACE", default_value = ".")]
    place: Place,

    /// User that git runs as [default: the sandbox's].
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,

    /// Session whose directory and environment are used.
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
}

/// How a remote is authenticated to.
#[derive(Debug, Clone, Args)]
struct Credentials {
    /// Read an access token from stdin.
    #[arg(long)]
    auth_stdin: bool,

    /// User name to go with it.
    #[arg(long, value_name = "NAME", requires = "auth_stdin")]
    auth_user: Option<String>,

    /// Give up after this time, such as 5m.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<u64>,
}

impl Credentials {
    fn read(&self) -> Result<Option<GitAuth>, Failure> {
        if !self.auth_stdin {
            return Ok(None);
        }
        let mut text = String::new();
        std::io::stdin()
            .take(64 * 1024)
            .read_to_string(&mut text)
            .map_err(|error| Failure::local("our standard input cannot be read", &error))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(Failure::usage("there is no token on stdin")
                .hint("`sandshell git clone --auth-stdin URL < FILE`"));
        }
        Ok(Some(GitAuth {
            username: self.auth_user.clone(),
            password: None,
            token: Some(token.to_owned()),
        }))
    }
}

/// How what was fetched is joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Joining {
    // By a merge.
    #[default]
    Merge,
    // By a rebase.
    Rebase,
    // Only if nothing has to be joined.
    FastForward,
}

#[derive(Debug, Subcommand)]
enum GitCommand {
    /// Clone a repository, and print its path.
    #[command(before_help = examples!("git clone https://example.org/repo.git build-1:repo --depth 1", "git clone --auth-stdin https://example.org/private.git < token"))]
    Clone {
        /// Where from.
        #[arg(value_name = "URL")]
        from: String,
        /// Where to: SANDBOX:PATH, or PATH [default: the last name of the URL].
        #[arg(value_name = "PLACE")]
        place: Option<Place>,
        /// Branch or tag to check out.
        #[arg(long, short, value_name = "BRANCH")]
        branch: Option<String>,
        /// Only so many commits.
        #[arg(long, value_name = "COUNT")]
        depth: Option<u32>,
        /// User that git runs as [default: the sandbox's].
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
        #[command(flatten)]
        credentials: Credentials,
    },
    /// Show what has changed.
    #[command(before_help = examples!("git status -C build-1:repo", "git status --json"))]
    Status {
        #[command(flatten)]
        repository: Repository,
    },
    /// Show differences.
    #[command(before_help = examples!("git diff -C build-1:repo --staged", "git diff main feature"))]
    Diff {
        #[command(flatten)]
        repository: Repository,
        /// Those that were added.
        #[arg(long)]
        staged: bool,
        /// From this revision.
        #[arg(value_name = "FROM")]
        from: Option<String>,
        /// To this revision.
        #[arg(value_name = "TO")]
        to: Option<String>,
    },
    /// List commits, newest first.
    #[command(before_help = examples!("git log -C build-1:repo -n 5", "git log main --json"))]
    Log {
        #[command(flatten)]
        repository: Repository,
        /// Most commits.
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: u32,
        /// The revision to start at.
        #[arg(value_name = "REVISION")]
        revision: Option<String>,
    },
    /// List branches, or make or delete one.
    #[command(before_help = examples!("git branches -C build-1:repo", "git branches --create fix"))]
    Branches {
        #[command(flatten)]
        repository: Repository,
        /// Make this one first.
        #[arg(long, value_name = "NAME", conflicts_with = "delete")]
        create: Option<String>,
        /// Delete this one first.
        #[arg(long, value_name = "NAME")]
        delete: Option<String>,
        /// Delete it even if its commits are nowhere else.
        #[arg(long, requires = "delete")]
        force: bool,
    },
    /// Switch to a branch, tag or commit.
    #[command(before_help = examples!("git checkout main -C build-1:repo", "git checkout -b fix"))]
    Checkout {
        #[command(flatten)]
        repository: Repository,
        /// Make the branch.
        #[arg(short = 'b', long)]
        create: bool,
        /// Throw local changes away.
        #[arg(long, short)]
        force: bool,
        /// What to switch to.
        #[arg(value_name = "TARGET")]
        target: String,
    },
    /// Add changes to the next commit.
    #[command(before_help = examples!("git add -C build-1:repo src/main.rs", "git add --all"))]
    Add {
        #[command(flatten)]
        repository: Repository,
        /// All changes.
        #[arg(long, short = 'A')]
        all: bool,
        /// Paths in the repository.
        #[arg(value_name = "PATH", required_unless_present = "all")]
        paths: Vec<String>,
    },
    /// Commit what was added, and print the commit.
    #[command(before_help = examples!("git commit -C build-1:repo -m 'Fix it' --author 'Ada <ada@example.org>'", "git commit -m 'Fix it' --author 'Ada <ada@example.org>' --all"))]
    Commit {
        #[command(flatten)]
        repository: Repository,
        /// The message.
        #[arg(long, short, value_name = "TEXT")]
        message: String,
        /// Also what was changed and not added.
        #[arg(long, short)]
        all: bool,
        /// In the place of the last commit.
        #[arg(long)]
        amend: bool,
        /// Who wrote it: NAME <EMAIL>.
        #[arg(long, value_name = "AUTHOR", value_parser = identity)]
        author: Option<GitIdentity>,
    },
    /// Fetch, and merge or rebase.
    #[command(before_help = examples!("git pull -C build-1:repo --mode rebase", "git pull origin main"))]
    Pull {
        #[command(flatten)]
        repository: Repository,
        /// How what was fetched is joined.
        #[arg(long, value_name = "MODE", default_value = "merge")]
        mode: Joining,
        #[command(flatten)]
        credentials: Credentials,
        /// The remote.
        #[arg(value_name = "REMOTE")]
        remote_name: Option<String>,
        /// The branch.
        #[arg(value_name = "BRANCH")]
        branch: Option<String>,
    },
    /// Push a branch.
    #[command(before_help = examples!("git push -C build-1:repo --set-upstream origin fix", "git push --auth-stdin < token"))]
    Push {
        #[command(flatten)]
        repository: Repository,
        /// Remember where it was pushed to.
        #[arg(long)]
        set_upstream: bool,
        /// Even if commits are lost there.
        #[arg(long, short)]
        force: bool,
        #[command(flatten)]
        credentials: Credentials,
        /// The remote.
        #[arg(value_name = "REMOTE")]
        remote_name: Option<String>,
        /// The branch.
        #[arg(value_name = "BRANCH")]
        branch: Option<String>,
    },
}

fn identity(text: &str) -> Result<GitIdentity, String> {
    text.strip_suffix('>')
        .and_then(|text| text.split_once('<'))
        .map(|(name, email)| GitIdentity {
            name: name.trim().to_owned(),
            email: email.trim().to_owned(),
        })
        .ok_or_else(|| "expected NAME <EMAIL>".to_owned())
}

pub(crate) fn run(remote: Remote, own: GitArguments) -> Done {
    remote.drive(async |hub| {
        let cloned = match &own.command {
            GitCommand::Clone { from, place, .. } => Some((from.clone(), place.clone())),
            _ => None,
        };
        match (act(hub, own.command).await, cloned) {
            (Ok(()), _) => Ok(ExitCode::SUCCESS),
            (Err(failure), Some((url, place))) => {
                Err(of_clone(hub, failure, &url, place.as_ref()).await)
            }
            (Err(failure), None) => Err(failure),
        }
    })
}

/// What to do about a clone that failed.
async fn of_clone(hub: &Hub, failure: Failure, url: &str, place: Option<&Place>) -> Failure {
    match failure.kind() {
        Some(ErrorCode::GitNetwork) => {
            let named = place.and_then(|place| place.sandbox.as_deref());
            let Ok(sandbox) = hub.sandbox(named).await else {
                return failure;
            };
            let host = host_of(url);
            match hub.network_of(&sandbox).await {
                Some(NetworkMode::Full) | None => failure.hint("check the address"),
                Some(_) => failure.hint(format!(
                    "the sandbox {} may not reach it; `sandshell create --allow {host}` makes one that may",
                    sandbox.id
                )),
            }
        }
        Some(ErrorCode::GitNotFound) => {
            failure.hint("check the address; a private repository needs --auth-stdin")
        }
        Some(ErrorCode::FileExists) => {
            failure.hint("name another place, as in `sandshell git clone URL SANDBOX:PATH`")
        }
        _ => failure,
    }
}

/// The host of `https://user@host:port/path` or `user@host:path`.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.split(':').next().unwrap_or(host)
}

/// Fills the three fields that all requests have.
macro_rules! request {
    ($kind:ident { $($field:ident: $value:expr),* $(,)? } of $repository:expr) => {
        $kind {
            $($field: $value,)*
            path: Some($repository.place.path.clone()),
            user: $repository.user.clone(),
            session: $repository.session.clone(),
        }
    };
}

async fn act(hub: &Hub, command: GitCommand) -> Result<(), Failure> {
    let of = async |repository: &Repository| -> Result<Sandbox, Failure> {
        hub.sandbox(repository.place.sandbox.as_deref()).await
    };
    match command {
        GitCommand::Clone {
            from,
            place,
            branch,
            depth,
            user,
            credentials,
        } => {
            let auth = credentials.read()?;
            let named = place.as_ref().and_then(|place| place.sandbox.as_deref());
            let sandbox = hub.sandbox(named).await?;
            let request = GitCloneRequest {
                url: from,
                branch,
                depth,
                auth,
                timeout_ms: credentials.timeout,
                path: place.map(|place| place.path).filter(|path| path != "."),
                session: None,
                user,
            };
            let reply = clone(hub, &sandbox, &request).await?;
            hub.out.made(&reply, &reply.path)
        }
        GitCommand::Status { repository } => {
            let request = request!(GitStatusRequest { ignored: false } of repository);
            let reply = of(&repository).await?.client.git_status(&request).await?;
            status(hub, &reply)
        }
        GitCommand::Diff {
            repository,
            staged,
            from,
            to,
        } => {
            let request = request!(GitDiffRequest { staged: staged, from: from, to: to, paths: Vec::new(), max_bytes: None } of repository);
            let reply = of(&repository).await?.client.git_diff(&request).await?;
            if hub.out.json {
                return hub.out.object(&reply);
            }
            let diff = Encoded::decode(&reply.diff, reply.diff_encoding).unwrap_or_default();
            hub.out.bytes(&diff)?;
            if reply.omitted_bytes > 0 {
                hub.out
                    .remark(&format!("{} bytes are left out", reply.omitted_bytes));
            }
            Ok(())
        }
        GitCommand::Log {
            repository,
            limit,
            revision,
        } => {
            let request = request!(GitLogRequest { limit: Some(limit), revision: revision, paths: Vec::new(), cursor: None } of repository);
            let list = of(&repository).await?.client.git_log(&request).await?;
            hub.out.list(
                &list,
                &list.items,
                |commit| commit.hash.clone(),
                &["COMMIT", "AUTHOR", "WHEN", "SUBJECT"],
                |commit| {
                    vec![
                        commit.hash.chars().take(12).collect(),
                        commit.author.name.clone(),
                        ago(commit.author.at),
                        commit.subject.clone(),
                    ]
                },
            )
        }
        GitCommand::Branches {
            repository,
            create,
            delete,
            force,
        } => {
            let request = request!(GitBranchesRequest {
                create: create.map(|name| GitNewBranch { name, start: None }),
                delete: delete.map(|name| GitOldBranch { name, force }),
            } of repository);
            let reply = of(&repository).await?.client.git_branches(&request).await?;
            hub.out.list(
                &reply,
                &reply.items,
                |branch| branch.name.clone(),
                &["BRANCH", "CURRENT", "COMMIT", "UPSTREAM"],
                |branch| {
                    vec![
                        branch.name.clone(),
                        if branch.current { "*" } else { "" }.to_owned(),
                        branch.commit.chars().take(12).collect(),
                        branch.upstream.clone().unwrap_or_default(),
                    ]
                },
            )
        }
        GitCommand::Checkout {
            repository,
            create,
            force,
            target,
        } => {
            let request = request!(GitCheckoutRequest { target: target, create: create, force: force, start: None } of repository);
            let reply = of(&repository).await?.client.git_checkout(&request).await?;
            let at = reply.branch.clone().or_else(|| reply.commit.clone());
            hub.out.did(&reply, &at.unwrap_or_default())
        }
        GitCommand::Add {
            repository,
            all,
            paths,
        } => {
            let request = request!(GitAddRequest { all: all, paths: paths } of repository);
            let reply = of(&repository).await?.client.git_add(&request).await?;
            if hub.out.json {
                hub.out.object(&reply)
            } else {
                Ok(())
            }
        }
        GitCommand::Commit {
            repository,
            message,
            all,
            amend,
            author,
        } => {
            let request = request!(GitCommitRequest {
                message: message,
                all: all,
                amend: amend,
                committer: author.clone(),
                author: author,
                allow_empty: false,
            } of repository);
            let reply = of(&repository).await?.client.git_commit(&request).await?;
            let text = match &reply.commit {
                Some(commit) if reply.committed => commit.clone(),
                _ => "nothing to commit".to_owned(),
            };
            hub.out.did(&reply, &text)
        }
        GitCommand::Pull {
            repository,
            mode,
            credentials,
            remote_name,
            branch,
        } => {
            let request = request!(GitPullRequest {
                remote: remote_name,
                branch: branch,
                mode: match mode {
                    Joining::Merge => GitPullMode::Merge,
                    Joining::Rebase => GitPullMode::Rebase,
                    Joining::FastForward => GitPullMode::FastForward,
                },
                auth: credentials.read()?,
                timeout_ms: credentials.timeout,
            } of repository);
            let reply = of(&repository).await?.client.git_pull(&request).await?;
            let text = match &reply.commit {
                Some(commit) if reply.updated => commit.clone(),
                _ => "up to date".to_owned(),
            };
            hub.out.did(&reply, &text)
        }
        GitCommand::Push {
            repository,
            set_upstream,
            force,
            credentials,
            remote_name,
            branch,
        } => {
            let request = request!(GitPushRequest {
                remote: remote_name,
                branch: branch,
                set_upstream: set_upstream,
                force: force,
                tags: false,
                auth: credentials.read()?,
                timeout_ms: credentials.timeout,
            } of repository);
            let reply = of(&repository).await?.client.git_push(&request).await?;
            let lines: Vec<String> = reply
                .refs
                .iter()
                .map(|pushed| {
                    let state = serde_json::to_value(pushed.state).unwrap_or_default();
                    let state = state.as_str().unwrap_or_default().replace('_', " ");
                    format!("{} -> {} {state}", pushed.from, pushed.to)
                })
                .collect();
            hub.out.did(&reply, &lines.join("\n"))
        }
    }
}

async fn clone(
    hub: &Hub,
    sandbox: &Sandbox,
    request: &GitCloneRequest,
) -> Result<GitCloneReply, Failure> {
    let mut events = sandbox.client.git_clone_events(request).await?;
    let mut progress = Progress::new(hub.out, "clone", None);
    let wrong = |error: serde_json::Error| Failure::local("the answer is not understood", &error);
    while let Some(event) = events.next().await {
        let event = event?;
        match event.event.as_str() {
            "progress" => {
                let now: GitProgress = serde_json::from_str(&event.data).map_err(wrong)?;
                let percent = now.percent.map(|percent| format!(" {percent}%"));
                progress.say(&format!("{}{}", now.phase, percent.unwrap_or_default()));
            }
            "done" => return serde_json::from_str(&event.data).map_err(wrong),
            "error" => {
                let problem: Problem = serde_json::from_str(&event.data).map_err(wrong)?;
                return Err(problem.into());
            }
            _ => {}
        }
    }
    Err(Failure::failed("the answer broke off").hint("send the command again"))
}

fn status(hub: &Hub, reply: &GitStatusReply) -> Result<(), Failure> {
    if hub.out.json {
        return hub.out.object(reply);
    }
    let branch = reply.branch.as_deref().unwrap_or("no branch");
    let upstream = match (&reply.upstream, reply.ahead, reply.behind) {
        (Some(upstream), Some(ahead), Some(behind)) => {
            format!(", {ahead} ahead of and {behind} behind {upstream}")
        }
        _ => String::new(),
    };
    let clean = if reply.clean { ", clean" } else { "" };
    let mut text = format!("## {branch}{upstream}{clean}\n");
    for entry in &reply.entries {
        let (index, worktree) = (letter(entry.index), letter(entry.worktree));
        let from = entry
            .original_path
            .as_ref()
            .map(|from| format!("{from} -> "));
        text.push_str(&format!(
            "{index}{worktree} {}{}\n",
            from.unwrap_or_default(),
            entry.path.escape_debug()
        ));
    }
    hub.out.bytes(text.as_bytes())
}

/// As `git status --short` has them.
fn letter(state: GitFileState) -> char {
    match state {
        GitFileState::Unmodified => ' ',
        GitFileState::Modified => 'M',
        GitFileState::TypeChanged => 'T',
        GitFileState::Added => 'A',
        GitFileState::Deleted => 'D',
        GitFileState::Renamed => 'R',
        GitFileState::Copied => 'C',
        GitFileState::Unmerged => 'U',
        GitFileState::Untracked => '?',
        GitFileState::Ignored => '!',
    }
}
