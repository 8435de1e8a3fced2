//! Each system call of a request fails once, in turn.
//!
//! The calls that a request makes are looked up first, by tracing one. Then each of a kind that can run
//! out of something is failed: the first of them, the second and so on, until none is left to fail.

use std::time::Instant;

use sandshell_client::types::ErrorCode;

use super::bench::{Bench, REQUESTS, Request};
use super::tracer::{Tracer, able, failing, injected, names};
use super::{in_sample, say, seed};

/// How each call can fail that makes or needs something.
pub(super) const FAILURES: &[(&str, &[&str])] = &[
    ("clone", &["EAGAIN"]),
    ("clone3", &["EAGAIN", "ENOMEM"]),
    ("dup", &["EMFILE"]),
    ("epoll_ctl", &["ENOSPC", "ENOMEM"]),
    ("fcntl", &["EMFILE"]),
    ("fsmount", &["EMFILE", "ENOMEM"]),
    ("fsopen", &["EMFILE"]),
    ("fallocate", &["ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("ftruncate", &["ENOSPC"]),
    ("getdents64", &["ENOMEM"]),
    ("linkat", &["ENOSPC"]),
    ("memfd_create", &["EMFILE", "ENOMEM"]),
    ("mkdir", &["ENOSPC"]),
    ("mkdirat", &["ENOSPC", "ENOMEM"]),
    ("mknodat", &["ENOSPC"]),
    ("open_tree", &["EMFILE", "ENOMEM"]),
    ("openat", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("openat2", &["EMFILE", "ENOMEM"]),
    ("pidfd_open", &["EMFILE"]),
    ("pipe2", &["EMFILE", "ENFILE"]),
    ("pread64", &["EIO", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO", "EINTR"]),
    ("recvmsg", &["EINTR"]),
    ("renameat", &["ENOSPC"]),
    ("renameat2", &["ENOSPC"]),
    ("sendmsg", &["ENOBUFS"]),
    ("socket", &["EMFILE"]),
    ("socketpair", &["EMFILE"]),
];

/// Whose system calls are failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Agent,
    Init,
}

fn trace(bench: &Bench, whose: Whose, args: &[&str]) -> Tracer {
    match whose {
        Whose::Agent => Tracer::attach(bench.agent.pid(), args),
        Whose::Init => Tracer::attach_alone(bench.init, args),
    }
}

/// A call to be failed.
struct Fault {
    whose: Whose,
    call: &'static str,
    errno: &'static str,
    nth: u32,
}

impl Fault {
    /// Makes a request with it. Says whether it came to that, and what did not hold then.
    async fn try_with(&self, bench: &Bench, request: Request) -> (bool, Vec<String>) {
        let Self {
            call, errno, nth, ..
        } = *self;
        let client = bench.agent.client();
        let args = failing(call, errno, nth);
        let tracer = trace(bench, self.whose, &args.each_ref().map(String::as_str));
        let answer = bench.patiently(request, &client).await;
        let hit = !injected(&tracer.detach()).is_empty();
        drop(client);
        let excused = |code| match code {
            Some(ErrorCode::Internal) => errno == "EIO",
            // The connection itself could not be watched.
            None => call == "epoll_ctl" && nth == 1,
            _ => false,
        };
        let wrong = bench.verdict(request, answer, excused).await;
        let what = format!("{:?}: {request:?}, {call} {nth} is {errno}", self.whose);
        (
            hit,
            wrong
                .into_iter()
                .map(|wrong| format!("{what}: {wrong}"))
                .collect(),
        )
    }
}

/// The calls that a request has someone make.
async fn calls_of(bench: &Bench, whose: Whose, request: Request) -> Vec<String> {
    let tracer = trace(bench, whose, &[]);
    bench.ask(request, &bench.agent.client()).await.unwrap();
    bench.clear().await;
    bench.settled().await.unwrap();
    names(&tracer.detach())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_call_that_fails_is_told_and_leaves_nothing() {
    if !able() {
        return;
    }
    let (seed, began) = (seed(), Instant::now());
    let mut bench = Bench::new().await;
    let (mut tried, mut made, mut wrong) = (0, 0, Vec::new());
    for (whose, request) in [Whose::Agent, Whose::Init]
        .into_iter()
        .flat_map(|whose| REQUESTS.map(|request| (whose, request)))
    {
        let seen = calls_of(&bench, whose, request).await;
        for (call, errnos) in FAILURES {
            if !seen.iter().any(|name| name == call) {
                continue;
            }
            for errno in *errnos {
                for nth in 1..40 {
                    let fault = format!("{whose:?} {request:?} {call} {errno} {nth}");
                    if !in_sample(seed, &fault) {
                        continue;
                    }
                    tried += 1;
                    let fault = Fault {
                        whose,
                        call,
                        errno,
                        nth,
                    };
                    let (hit, found) = fault.try_with(&bench, request).await;
                    if !found.is_empty() {
                        for one in &found {
                            say(&format!("WRONG: {one}"));
                        }
                        bench.settle_first().await;
                    }
                    wrong.extend(found);
                    if !hit {
                        break;
                    }
                    made += 1;
                }
            }
        }
    }
    say(&format!(
        "{made} system calls failed of {tried} that were to, in {} s",
        began.elapsed().as_secs()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made > 0, "nothing was failed");
}
