//! Clients that read slowly, vanish, half-close, or send half a request: they cost a place and no more,
//! nobody else waits for them, and their time ends.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use sandshell_testkit::{Agent, Hub, rss_bytes};

use super::{full, sandbox, say};
use crate::calls::{DEADLINE, exec, in_time, process_of, start, wait_for_exit};

/// Far above any honest answer, also on a machine that stands still for a while.
const PATIENCE: Duration = DEADLINE;

const MIB: u64 = 1 << 20;

/// A connection to an agent, and its token.
struct Line {
    stream: TcpStream,
    token: String,
}

impl Line {
    fn to(agent: &Agent) -> Self {
        Self::at(agent.url(), agent.token().unwrap())
    }

    fn at(url: &str, token: &str) -> Self {
        let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            token: token.to_owned(),
        }
    }

    fn head(&self, first: &str) -> String {
        format!(
            "{first} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n",
            self.token
        )
    }

    fn post(&self, body: &str) -> String {
        let length = body.len();
        let head = self.head("POST /v1/exec");
        format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    }

    fn send(&mut self, text: &str) {
        self.try_send(text).unwrap();
    }

    fn try_send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    /// One answer with a length, of a connection that stays.
    fn answer(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        let length = loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            bytes.push(byte[0]);
            if bytes.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes).to_lowercase();
                let (_, length) = head.split_once("content-length: ").expect(&head);
                break length.split_once("\r\n").unwrap().0.parse().unwrap();
            }
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        bytes.extend(body);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All that comes until the other side closes.
    fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        assert!(
            !matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock),
            "nothing happened: {}",
            String::from_utf8_lossy(&bytes)
        );
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the other side has said something or closed.
    fn is_over(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !matches!(seen, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Vanishes with a reset.
    fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }
}

/// Descriptors of an agent that are sockets: its connections, for the most part.
fn sockets(agent: &Agent) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap();
    let is_socket = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_socket)
        .count()
}

/// Waits until an agent has no more connections than before.
async fn back_to(agent: &Agent, before: usize) {
    let begun = Instant::now();
    while sockets(agent) > before {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} sockets after {before}",
            sockets(agent)
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The slowest of some execs.
async fn slowest(agent: &Agent) -> Duration {
    let client = agent.client();
    let mut slowest = Duration::ZERO;
    for n in 0..20 {
        let begun = Instant::now();
        assert_eq!(
            exec(&client, &format!("echo {n}")).await.stdout,
            format!("{n}\n")
        );
        slowest = slowest.max(begun.elapsed());
    }
    slowest
}

const LINE: &str = r#"{"command":"echo hello"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stop_reading_cost_little_and_hold_up_nobody() {
    const SIZE: usize = 24 << 20;
    const READERS: usize = 80;
    let agent = Agent::start();
    let client = agent.client();
    slowest(&agent).await;
    let id = start(
        &client,
        &process_of(&format!("head -c {SIZE} /dev/zero | tr '\\0' x")),
    )
    .await;
    wait_for_exit(&client, &id).await;
    let (memory, before) = (rss_bytes(agent.pid()), sockets(&agent));
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut line = Line::to(&agent);
        let path = format!("GET /v1/processes/{id}/output?stream=stdout");
        line.send(&(line.head(&path) + "\r\n"));
        let mut some = [0; 1024];
        let length = line.stream.read(&mut some).unwrap();
        let some = &some[..length];
        assert!(
            some.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(some)
        );
        let counted = String::from_utf8_lossy(some).matches('x').count();
        readers.push((line, counted));
    }
    let grown = rss_bytes(agent.pid()).saturating_sub(memory) / MIB;
    let worst = slowest(&agent).await;
    say(&format!(
        "{READERS} readers: {grown} MiB more, slowest exec {worst:?}"
    ));
    assert!(grown < 96, "{grown} MiB for {READERS} readers");
    // Whoever goes on has missed nothing.
    let (line, counted) = readers.swap_remove(0);
    let rest = tokio::task::spawn_blocking(move || line.rest())
        .await
        .unwrap();
    let body = counted + rest.matches('x').count();
    assert!((SIZE..SIZE + 8).contains(&body), "{body} of {SIZE}");
    for (n, (line, _)) in readers.into_iter().enumerate() {
        if n % 2 == 0 {
            line.reset();
        }
    }
    drop(client);
    back_to(&agent, before).await;
    slowest(&agent).await;
}

/// One that takes a byte a second gets each of them, however long that takes, and holds up neither what writes nor
/// anybody else; when it takes more it has missed nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_a_byte_a_second_misses_nothing() {
    const LINES: usize = 2_000_000;
    let seconds = if full() { 90 } else { 3 };
    let (agent, hub) = (Agent::start(), Hub::start());
    let in_hub = sandbox(&hub.client(), "one").await;
    let places = [
        (agent.client(), Line::to(&agent), "/v1"),
        (
            in_hub,
            Line::at(hub.url(), hub.token()),
            "/v1/sandboxes/one",
        ),
    ];
    for (client, mut line, prefix) in places {
        let id = start(&client, &process_of(&format!("seq {LINES}"))).await;
        let path = format!("GET {prefix}/processes/{id}/output?stream=stdout&follow=true");
        line.send(&(line.head(&path).replace("HTTP/1.1", "HTTP/1.0") + "\r\n"));
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut bytes = Vec::new();
        for _ in 0..seconds {
            ticks.tick().await;
            let mut byte = [0];
            line.stream.read_exact(&mut byte).unwrap();
            bytes.extend(byte);
        }
        wait_for_exit(&client, &id).await;
        slowest(&agent).await;
        let read = tokio::task::spawn_blocking(move || {
            line.stream.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let read = String::from_utf8(read.await.unwrap()).unwrap();
        let (head, body) = read.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{head}");
        let numbers = body.lines().map(|line| line.parse::<usize>().unwrap());
        assert!(numbers.eq(1..=LINES), "{} bytes", body.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_may_come_a_byte_at_a_time_and_be_half_closed() {
    let agent = Agent::start();
    let mut line = Line::to(&agent);
    for byte in line.post(LINE).bytes() {
        line.stream.write_all(&[byte]).unwrap();
    }
    let answer = tokio::task::spawn_blocking(move || line.rest())
        .await
        .unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("hello"),
        "{answer}"
    );
    // One that says that it sends no more: answered, or the connection is closed; never left hanging.
    let mut line = Line::to(&agent);
    line.send(&line.post(LINE));
    line.stream.shutdown(Shutdown::Write).unwrap();
    let answer = tokio::task::spawn_blocking(move || line.rest())
        .await
        .unwrap();
    say(&format!("half-closed: {:?}", answer.lines().next()));
    assert!(answer.is_empty() || answer.contains("hello"), "{answer}");
    slowest(&agent).await;
}

/// Connections with half a head or half a body each.
fn halves(agent: &Agent, many: usize) -> Vec<Line> {
    let half_of = |n| {
        let mut line = Line::to(agent);
        let whole = line.post(LINE);
        let half = if n % 2 == 0 { 30 } else { whole.len() - 5 };
        line.send(&whole[..half]);
        line
    };
    (0..many).map(half_of).collect()
}

/// Half heads and half bodies, many of them. By default that others are served meanwhile; in full that
/// their time ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halves_of_requests_hold_up_nobody_and_end() {
    let many = if full() { 900 } else { 300 };
    let agent = Agent::start();
    slowest(&agent).await;
    let (memory, before) = (rss_bytes(agent.pid()), sockets(&agent));
    let mut lines = Vec::new();
    // Where the machine stands still, their time may end before all of them are seen.
    for _ in 0..3 {
        lines = halves(&agent, many);
        let accepted = async {
            // Some of those before may have been closed meanwhile.
            while sockets(&agent) + 8 < before + many && !lines.iter().any(Line::is_over) {
                tokio::task::yield_now().await;
            }
        };
        in_time(accepted).await;
        if sockets(&agent) + 8 >= before + many {
            break;
        }
        lines.clear();
        back_to(&agent, before).await;
    }
    assert!(!lines.is_empty(), "they were never there at once");
    let grown = rss_bytes(agent.pid()).saturating_sub(memory) / MIB;
    let worst = slowest(&agent).await;
    say(&format!(
        "{many} halves: {grown} MiB more, slowest exec {worst:?}"
    ));
    assert!(grown < 64, "{grown} MiB");
    if full() {
        let ended = tokio::task::spawn_blocking(move || {
            for (n, line) in lines.into_iter().enumerate() {
                line.stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
                let answer = line.rest();
                if n % 2 == 1 {
                    assert!(answer.starts_with("HTTP/1.1 400"), "{n}: {answer}");
                    assert!(answer.contains("nothing more of the body"), "{n}: {answer}");
                }
            }
        });
        ended.await.unwrap();
    } else {
        lines.drain(..).enumerate().for_each(|(n, line)| {
            if n % 3 == 0 {
                line.reset();
            }
        });
    }
    back_to(&agent, before).await;
}

/// Who is refused in the middle of sending learns why, may finish, and can ask the next thing on the same
/// connection.
#[tokio::test]
async fn an_early_answer_leaves_the_connection_whole() {
    let (agent, hub) = (Agent::start(), Hub::start());
    let to_agent = || Line::to(&agent);
    let to_hub = || Line::at(hub.url(), hub.token());
    early(to_agent, "/v1/exec", "", "401");
    early(to_hub, "/v1/exec", "", "401");
    let said = |token: &str| format!("authorization: Bearer {token}\r\n");
    let token = said(agent.token().unwrap());
    early(to_agent, "/v1/processes/none/stdin", &token, "404");
    let token = said(hub.token());
    sandbox(&hub.client(), "one").await;
    let path = "/v1/sandboxes/one/v1/processes/none/stdin";
    early(to_hub, path, &token, "404");
}

/// How long the other side waits for the next piece of what it has no use for.
const UNREAD: Duration = Duration::from_secs(2);

/// Asks what is refused early; on a new line where one was given up because the machine stood still for so long that
/// it may have been.
fn early(line: impl Fn() -> Line, path: &str, headers: &str, status: &str) {
    for attempt in 1.. {
        let began = Instant::now();
        let next = match asked_on(line(), path, headers, status) {
            Ok(said) if said.starts_with("HTTP/1.1 200") => return,
            Ok(said) => said,
            Err(error) => error.to_string(),
        };
        let took = began.elapsed();
        assert!(
            took >= UNREAD && attempt < 5,
            "{path}: {next}, after {took:?}, attempt {attempt}"
        );
        say(&format!("{path}: again, as it took {took:?}: {next}"));
    }
}

/// Sends a part of a request, hears the answer, sends the rest and another request; what is said to that.
fn asked_on(mut line: Line, path: &str, headers: &str, status: &str) -> io::Result<String> {
    line.try_send(&format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n4\r\n{{\"co\r\n"
    ))?;
    let answer = line.answer()?;
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")),
        "{answer}"
    );
    for _ in 0..100 {
        line.try_send(&format!("10000\r\n{}\r\n", " ".repeat(0x10000)))?;
    }
    line.try_send(
        "0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )?;
    Ok(line.rest())
}
