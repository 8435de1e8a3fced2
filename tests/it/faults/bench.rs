//! An agent at rest, requests to it, and what it has and has left after them.

use std::time::{Duration, Instant};

use sandshell_client::types::{
    ErrorCode, ExecRequest, ProcessRequest, SessionId, SessionRequest, TerminalRequest,
};
use sandshell_client::{
    Client, ClientError, FileQuery, Page, ProcessFilter, ReadOptions, WriteOptions,
};
use sandshell_testkit::{Agent, AgentBuilder, children_deep, open_fds};

use tokio::time::error::Elapsed;

use crate::calls::{DEADLINE, exec, exec_of, in_time, text};

/// So many looks, one after the other, must show the same for an agent to be at rest. Looks, not time: a machine
/// that stood still would count as an agent that did.
const QUIET: u32 = 40;

/// What became of a request, if it was answered in time.
pub(super) type Answer = Result<Result<Done, ClientError>, Elapsed>;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    Well,
    Wrongly(String),
}

/// Requests that are made under faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Exec,
    ExecProgram,
    Process,
    Session,
    Command,
    Terminal,
    WriteFile,
    ReadFile,
}

pub(super) const REQUESTS: [Request; 8] = [
    Request::Exec,
    Request::ExecProgram,
    Request::Process,
    Request::Session,
    Request::Command,
    Request::Terminal,
    Request::WriteFile,
    Request::ReadFile,
];

/// Descriptors of a process without those of groups, of which it keeps empty ones for later.
pub(super) fn used_fds(pid: i32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    let is_group = |path: std::path::PathBuf| path.starts_with("/sys/fs/cgroup");
    entries
        .flatten()
        .filter(|entry| !std::fs::read_link(entry.path()).is_ok_and(is_group))
        .count()
}

pub(super) struct Bench {
    pub(super) agent: Agent,
    /// Descriptors and descendants of the agent at rest.
    rest: (usize, usize),
    pub(super) init: i32,
    init_fds: usize,
    session: SessionId,
}

impl Bench {
    pub(super) async fn new() -> Self {
        Self::of(Agent::builder()).await
    }

    pub(super) async fn of(agent: AgentBuilder) -> Self {
        let agent = agent.start();
        let client = agent.client();
        // Pools grow with use.
        for _ in 0..3 {
            let many = (0..12).map(|_| exec(&client, "sleep 0.05"));
            futures_util::future::join_all(many).await;
            let many = (0..8).map(|_| async {
                let made = in_time(client.create_session(&SessionRequest::default())).await;
                in_time(client.delete_session(&made.unwrap().id))
                    .await
                    .unwrap();
            });
            futures_util::future::join_all(many).await;
        }
        let session = in_time(client.create_session(&SessionRequest::default()))
            .await
            .unwrap();
        std::fs::write(agent.work_dir().join("file"), "content").unwrap();
        let init = children_deep(agent.pid())[0];
        let mut bench = Self {
            agent,
            rest: (0, 0),
            init,
            init_fds: 0,
            session: session.id,
        };
        for request in REQUESTS {
            assert_eq!(bench.ask(request, &client).await.unwrap(), Done::Well);
            bench.clear().await;
        }
        drop(client);
        bench.settle_first().await;
        bench
    }

    fn now(&self) -> (usize, usize) {
        (
            used_fds(self.agent.pid()),
            children_deep(self.agent.pid()).len(),
        )
    }

    /// Waits until nothing changes any more and notes it.
    pub(super) async fn settle_first(&mut self) {
        let (mut last, mut same) = (self.now(), 0);
        while same < QUIET {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.now();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        self.rest = last;
        self.init_fds = open_fds(self.init);
    }

    /// Waits until it has no more than at rest; says what is left.
    pub(super) async fn settled(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let ((fds, children), init_fds) = (self.now(), open_fds(self.init));
            if fds <= self.rest.0 && children <= self.rest.1 && init_fds <= self.init_fds {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                return Err(format!(
                    "left: {fds} descriptors, {children} children and {init_fds} descriptors of init after {:?} and {}",
                    self.rest, self.init_fds
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Makes the request and checks what was answered. What was done wrongly is an answer too.
    pub(super) async fn ask(&self, request: Request, client: &Client) -> Result<Done, ClientError> {
        let words = "echo out; echo err >&2";
        match request {
            Request::Exec => {
                let done = client.exec(&exec_of(words)).await?;
                if (done.exit_code, &*done.stdout, &*done.stderr) != (0, "out\n", "err\n") {
                    return Ok(Done::Wrongly(format!("{done:?}")));
                }
            }
            Request::ExecProgram => {
                let program = ExecRequest {
                    argv: Some(vec!["sh".to_owned(), "-c".to_owned(), words.to_owned()]),
                    stdin: Some("in".to_owned()),
                    ..Default::default()
                };
                let done = client.exec(&program).await?;
                if (done.exit_code, &*done.stdout, &*done.stderr) != (0, "out\n", "err\n") {
                    return Ok(Done::Wrongly(format!("{done:?}")));
                }
            }
            Request::Process => {
                let spec = ProcessRequest {
                    command: Some("sleep 100".to_owned()),
                    ..Default::default()
                };
                client.create_process(&spec).await?;
            }
            Request::Session => {
                client.create_session(&SessionRequest::default()).await?;
            }
            Request::Command => {
                let done = client.session_exec(&self.session, &text(words)).await?;
                if (done.exit_code, &*done.stdout, &*done.stderr) != (0, "out\n", "err\n") {
                    return Ok(Done::Wrongly(format!("{done:?}")));
                }
            }
            Request::Terminal => {
                client.create_terminal(&TerminalRequest::default()).await?;
            }
            Request::WriteFile => {
                let file = FileQuery::new(self.file("written"));
                client
                    .write_file(&file, &WriteOptions::default(), vec![7; 100_000])
                    .await?;
                let content = std::fs::read(self.file("written")).unwrap();
                if content != vec![7; 100_000] {
                    return Ok(Done::Wrongly(format!("a file of {} bytes", content.len())));
                }
            }
            Request::ReadFile => {
                let file = FileQuery::new(self.file("file"));
                let body = client
                    .read_file(&file, &ReadOptions::default())
                    .await?
                    .bytes;
                let content = body.read_to_end().await?;
                if &*content != b"content" {
                    return Ok(Done::Wrongly(format!("{content:?}")));
                }
            }
        }
        Ok(Done::Well)
    }

    fn file(&self, name: &str) -> String {
        self.agent
            .work_dir()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Ends all that there is but the session that stays; says what there was.
    pub(super) async fn clear(&self) -> Vec<String> {
        let client = self.agent.client();
        let mut found = Vec::new();
        for one in in_time(client.list_processes(&ProcessFilter::default()))
            .await
            .unwrap()
            .items
        {
            found.push(format!("process {:?}", one.state));
            in_time(client.delete_process(&one.id)).await.unwrap();
        }
        for one in in_time(client.list_sessions(&Page::default()))
            .await
            .unwrap()
            .items
        {
            if one.id != self.session {
                found.push(format!("session {:?}", one.state));
                in_time(client.delete_session(&one.id)).await.unwrap();
            }
        }
        for one in in_time(client.list_terminals(&Page::default()))
            .await
            .unwrap()
            .items
        {
            found.push(format!("terminal {:?}", one.state));
            in_time(client.delete_terminal(&one.id)).await.unwrap();
        }
        let _ = std::fs::remove_file(self.file("written"));
        found
    }

    /// After a fault: whoever asked was answered, nothing is left, and the next one is served. Says what
    /// does not hold.
    pub(super) async fn verdict(
        &self,
        request: Request,
        answer: Answer,
        excused: impl Fn(Option<ErrorCode>) -> bool,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        match answer {
            Err(_) => wrong.push("no answer".to_owned()),
            Ok(Ok(Done::Well)) => {}
            Ok(Ok(Done::Wrongly(how))) => wrong.push(how),
            Ok(Err(error)) => {
                let left = self.clear().await;
                let told = matches!(
                    error.code(),
                    Some(ErrorCode::Unavailable | ErrorCode::NoSpace)
                );
                if !told && !excused(error.code()) {
                    wrong.push(format!("{error:?}"));
                }
                if !left.is_empty() {
                    wrong.push(format!("{error}, and yet there is {left:?}"));
                }
            }
        }
        self.clear().await;
        match self.patiently(request, &self.agent.client()).await {
            Err(_) => wrong.push("no answer afterwards".to_owned()),
            Ok(Err(error)) => wrong.push(format!("afterwards {error:?}")),
            Ok(Ok(Done::Well)) => {}
            Ok(Ok(Done::Wrongly(how))) => wrong.push(format!("afterwards {how}")),
        }
        self.clear().await;
        wrong.extend(self.settled().await.err());
        wrong
    }

    /// Makes the request and waits long enough for any honest answer.
    pub(super) async fn patiently(&self, request: Request, client: &Client) -> Answer {
        tokio::time::timeout(DEADLINE, self.ask(request, client)).await
    }
}
