//! The proxy to a port: what it adds to a request, to an echo over a WebSocket, and to a download.
//!
//! The same requests go to the same server in the sandbox, directly and through the agent, by the
//! same bare sockets, in turn. The server is that of the tests.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sandshell_client::Client;
use sandshell_testkit::Agent;
use sandshell_types::{LogCondition, ProcessRequest, WaitRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::measure::{RUNS, Run, median, milliseconds};
use crate::report::Report;

const SECTION: &str = "proxy";
const SERVER: &str = include_str!("../../tests/it/ports/server.py");
const BLOCKS: u64 = 96;
/// Bytes of the download.
const DOWNLOAD: u64 = BLOCKS * ((1 << 20) + 8);
/// What the proxy may add, in milliseconds.
const BAR: f64 = 0.3;

const GET: [&str; 2] = ["GET, direct", "GET, through the proxy"];
const ECHO: [&str; 2] = [
    "WebSocket echo, direct",
    "WebSocket echo, through the proxy",
];
const LARGE: [&str; 2] = ["100 MB, direct", "100 MB, through the proxy"];

/// One of the two ways to the server.
struct Way {
    address: String,
    prefix: String,
    fields: String,
}

pub(crate) async fn run(report: &mut Report, agent: &Agent, count: usize) -> Result<()> {
    let port = serve(&agent.client()).await?;
    let token = agent.token().context("the agent has a token")?;
    let direct = Way {
        address: format!("127.0.0.1:{port}"),
        prefix: String::new(),
        fields: String::new(),
    };
    let proxied = Way {
        address: agent.url().trim_start_matches("http://").to_owned(),
        prefix: format!("/v1/ports/{port}/proxy"),
        fields: format!("Authorization: Bearer {token}\r\n"),
    };
    let ways = [&direct, &proxied];
    let mut added = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        let (mut get, mut echo) = ([0.0; 2], [0.0; 2]);
        for (at, way) in ways.into_iter().enumerate() {
            let run = gets(way, count).await?;
            get[at] = run.p50;
            report.add_run(SECTION, GET[at], run);
            let run = echoes(way, count).await?;
            echo[at] = run.p50;
            report.add_run(SECTION, ECHO[at], run);
        }
        added[0].push(get[1] - get[0]);
        added[1].push(echo[1] - echo[0]);
    }
    for (at, way) in ways.into_iter().enumerate() {
        for _ in 0..3 {
            let took = download(way).await?;
            let pace = DOWNLOAD as f64 / took.as_secs_f64() / 1e6;
            report.add(SECTION, LARGE[at], "MB/s", pace);
        }
    }
    let [get, echo] = added.map(|runs| median(&runs));
    report.at_most("proxy: added to a request, p50 in ms", get, BAR);
    report.at_most("proxy: added to a WebSocket echo, p50 in ms", echo, BAR);
    Ok(())
}

/// Starts the server in the sandbox; gives its port.
async fn serve(client: &Client) -> Result<u16> {
    let argv = ["python3", "-c", SERVER].map(str::to_owned);
    let request = ProcessRequest {
        argv: Some(argv.to_vec()),
        ..ProcessRequest::default()
    };
    let id = client.create_process(&request).await?.id;
    let wait = WaitRequest {
        log: Some(LogCondition {
            pattern: "now".to_owned(),
            ..LogCondition::default()
        }),
        ..WaitRequest::default()
    };
    let line = client.wait_process(&id, &wait).await?.line;
    let line = line.context("the server did not start; is python3 there?")?;
    Ok(line.split(' ').nth(2).context("no port")?.parse()?)
}

impl Way {
    async fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn request(&self, path: &str, more: &str) -> String {
        let Self { prefix, fields, .. } = self;
        format!("GET {prefix}{path} HTTP/1.1\r\nHost: localhost\r\n{fields}{more}\r\n")
    }
}

async fn gets(way: &Way, count: usize) -> Result<Run> {
    let mut stream = way.connect().await?;
    let request = way.request("/hello", "");
    let mut samples = Vec::with_capacity(count);
    for turn in 0..count + 50 {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let mut got = Vec::with_capacity(512);
        while !got.ends_with(b"\r\n\r\nhello") {
            ensure!(stream.read_buf(&mut got).await? > 0, "it closed");
        }
        if turn >= 50 {
            samples.push(start.elapsed());
        }
    }
    Ok(Run::of(&samples))
}

async fn echoes(way: &Way, count: usize) -> Result<Run> {
    let mut stream = way.connect().await?;
    let ask = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
               Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";
    let request = way.request("/ws", ask);
    stream.write_all(request.as_bytes()).await?;
    let head = head(&mut stream).await?;
    ensure!(head.0.starts_with("HTTP/1.1 101"), "{}", head.0);
    // A text of five bytes, masked with zeros; it comes back without a mask.
    let frame = [&[0x81, 0x85, 0, 0, 0, 0][..], b"hello"].concat();
    let mut samples = Vec::with_capacity(count);
    let mut got = [0; 7];
    for turn in 0..count + 50 {
        let start = Instant::now();
        stream.write_all(&frame).await?;
        stream.read_exact(&mut got).await?;
        if turn >= 50 {
            samples.push(start.elapsed());
        }
        ensure!(&got == b"\x81\x05hello", "{got:?}");
    }
    Ok(Run::of(&samples))
}

async fn download(way: &Way) -> Result<Duration> {
    let mut stream = way.connect().await?;
    let request = way.request(&format!("/big?blocks={BLOCKS}"), "");
    let start = Instant::now();
    stream.write_all(request.as_bytes()).await?;
    let (_, early) = head(&mut stream).await?;
    let mut left = DOWNLOAD - early as u64;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            bail!("it ended {left} bytes early");
        }
        left = left.checked_sub(n as u64).context("too many bytes")?;
    }
    let took = start.elapsed();
    ensure!(milliseconds(took) > 0.0);
    Ok(took)
}

/// The head of an answer, and how many bytes of its body came with it.
async fn head(stream: &mut TcpStream) -> Result<(String, usize)> {
    let mut got = Vec::new();
    loop {
        ensure!(stream.read_buf(&mut got).await? > 0, "it closed");
        if let Some(at) = got.windows(4).position(|part| part == b"\r\n\r\n") {
            let body = got.len() - at - 4;
            got.truncate(at);
            return Ok((String::from_utf8_lossy(&got).into_owned(), body));
        }
    }
}
