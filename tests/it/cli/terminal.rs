//! Terminals: the shell that feels like ssh. The program runs on a pseudo-terminal of the test's own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::User;

/// Far above any honest answer, also on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(150);

/// `sandshell` on a terminal of its own.
struct Seat {
    master: File,
    slave: File,
    child: Child,
    seen: String,
    /// Everything, from the beginning.
    all: Vec<u8>,
    /// The terminal's mode before it was started.
    before: String,
}

/// All of a terminal's mode that a program may change.
fn mode(terminal: &File) -> String {
    let mode = tcgetattr(terminal).unwrap();
    format!(
        "{:?} {:?} {:?} {:?}",
        mode.input_modes, mode.output_modes, mode.control_modes, mode.local_modes
    )
}

impl Seat {
    fn take(user: &User, words: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let slave = File::options().read(true).write(true).open(path).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let before = mode(&slave);
        let plain = user.command(words);
        // It makes the terminal the controlling one, then becomes the program itself.
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear()
            .env("TERM", "xterm-256color")
            .current_dir(user.home())
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave.try_clone().unwrap());
        for (key, value) in plain.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        let child = command.spawn().unwrap();
        Self {
            master: master.into(),
            slave,
            child,
            seen: String::new(),
            all: Vec::new(),
            before,
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until this has been seen since the last time.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            self.read(text);
        }
        let at = self.seen.find(text).unwrap() + text.len();
        self.seen = self.seen.split_off(at);
    }

    /// Reads what there is, for the sake of this.
    fn read(&mut self, wanted: &str) {
        let wait = Timespec {
            tv_sec: DEADLINE.as_secs().try_into().unwrap(),
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&wait)).unwrap();
        assert!(ready > 0, "no {wanted:?} in {:?}", self.seen);
        let mut buffer = [0; 4096];
        let n = self.master.read(&mut buffer).unwrap();
        self.all.extend_from_slice(&buffer[..n]);
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Its code, after which the terminal is as it was.
    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {:?}",
                self.seen
            );
            std::thread::yield_now();
        };
        assert_eq!(mode(&self.slave), self.before, "the mode is not given back");
        status.code()
    }
}

/// What would take the user's screen, or all that had scrolled away.
fn clears(bytes: &[u8]) -> bool {
    ["\x1bc", "\x1b[2J", "\x1b[3J", "\x1b[H\x1b[J"]
        .iter()
        .any(|clear| {
            bytes
                .windows(clear.len())
                .any(|part| part == clear.as_bytes())
        })
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_shell_feels_like_ssh() {
    let user = User::with_box();
    let mut seat = Seat::take(&user, &["shell", "box", "-e", "GREETING=hello"]);
    seat.type_in("echo up-$((1 + 1)) $GREETING $TERM\n");
    seat.until("up-2 hello xterm-256color");
    assert!(seat.is_raw());
    seat.type_in("stty size\n");
    seat.until("24 80");
    // While it makes the terminal ready to read, bash gives it back the size that it had. Then it says this.
    seat.until("\x1b[?2004h");
    let wider = Winsize {
        ws_row: 43,
        ws_col: 132,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&seat.master, wider).unwrap();
    seat.type_in("until [ \"$(stty size)\" = '43 132' ]; do :; done; echo wi''der\n");
    seat.until("wider");
    // Ctrl-C is a key: it ends the command, not the shell. Said by the command itself, which has the
    // terminal then: bash can miss a signal that comes while it hands it over.
    seat.type_in("sh -c 'echo be\"\"gun; exec sleep 600'\n");
    seat.until("begun");
    seat.type_in("\x03echo st''ill\n");
    seat.until("still");
    seat.type_in("exit 5\n");
    assert_eq!(seat.code(), Some(5));
    assert_eq!(
        user.ok(&["terminal", "ls", "-q"]),
        "",
        "its terminal is forgotten"
    );
}

#[test]
fn the_detach_keys_leave_it_running() {
    let user = User::with_box();
    let mut seat = Seat::take(&user, &["shell"]);
    seat.type_in("X=kept; echo re''ady\n");
    seat.until("ready");
    seat.type_in("\x10\x11");
    seat.until("detached: `sandshell terminal attach box/term_");
    assert_eq!(seat.code(), Some(0));
    let id = user.ok(&["terminal", "ls", "-q"]);
    let mut again = Seat::take(&user, &["terminal", "attach", id.trim_end()]);
    // The screen is drawn again.
    again.until("ready");
    again.type_in("echo $X; exit\n");
    again.until("kept");
    assert_eq!(again.code(), Some(0));
}

#[test]
fn the_mode_is_given_back_on_every_way_out() {
    let mut user = User::with_box();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut seat = Seat::take(&user, &["shell"]);
        seat.type_in("echo re''ady\n");
        seat.until("ready");
        assert!(seat.is_raw());
        seat.signal(signal);
        assert_eq!(seat.code(), Some(code), "{signal:?}");
    }
    let mut seat = Seat::take(&user, &["shell"]);
    seat.type_in("echo re''ady\n");
    seat.until("ready");
    user.hub.kill_hard();
    assert_eq!(seat.code(), Some(125), "{:?}", seat.seen);
    user.hub.restart();
    let mut seat = Seat::take(&user, &["shell", "--", "no-such-program"]);
    assert_eq!(seat.code(), Some(127));
}

#[test]
fn exec_takes_a_terminal_where_there_is_one() {
    let user = User::with_box();
    let mut seat = Seat::take(&user, &["exec", "box", "--", "tty"]);
    seat.until("/dev/pts/");
    assert_eq!(seat.code(), Some(0));
    let mut seat = Seat::take(&user, &["exec", "-T", "box", "--", "tty"]);
    seat.until("not a tty");
    assert_eq!(seat.code(), Some(1));
    let mut seat = Seat::take(
        &user,
        &["exec", "-it", "box", "-c", "echo be''gun; exec sleep 600"],
    );
    seat.until("begun");
    seat.type_in("\x03");
    assert_eq!(seat.code(), Some(130));
    // Without a terminal of its own Ctrl-C is a signal, and is passed on.
    let mut seat = Seat::take(
        &user,
        &["exec", "-T", "box", "-c", "echo be''gun; exec sleep 600"],
    );
    seat.until("begun");
    seat.type_in("\x03");
    assert_eq!(seat.code(), Some(130));
    assert_eq!(
        user.run(&["exec", "box", "--", "tty"]).code,
        Some(1),
        "a pipe is none"
    );
}

#[test]
fn a_fresh_terminal_leaves_our_screen_alone() {
    let user = User::with_box();
    for words in [
        &["exec", "box", "--", "echo", "here"][..],
        &["shell", "box", "--", "echo", "here"],
        &["run", "--", "echo", "here"],
    ] {
        let mut seat = Seat::take(&user, words);
        seat.until("here\r\n");
        assert_eq!(seat.code(), Some(0), "{words:?}");
        // Nothing before it, and nothing but what the program wrote.
        assert_eq!(String::from_utf8_lossy(&seat.all), "here\r\n", "{words:?}");
    }
    // Into a pipe, too; and no byte is lost however much there is.
    let said = user.run(&["exec", "-it", "box", "--", "seq", "300000"]);
    assert_eq!(said.code, Some(0));
    let last = said.out.lines().last().map(str::to_owned);
    assert!(
        said.out.starts_with("1\r\n2\r\n"),
        "{:?}",
        said.out.get(..40)
    );
    assert_eq!(said.out.lines().count(), 300_000, "the last is {last:?}");
}

#[test]
fn coming_back_keeps_what_was_on_our_screen() {
    let user = User::with_box();
    user.ok(&[
        "terminal",
        "create",
        "--name",
        "t",
        "--",
        "sh",
        "-c",
        "echo dr''awn; cat",
    ]);
    let mut seat = Seat::take(&user, &["terminal", "attach", "t"]);
    seat.until("drawn");
    seat.type_in("typed\n");
    seat.until("typed");
    assert!(
        !clears(&seat.all),
        "{:?}",
        String::from_utf8_lossy(&seat.all)
    );
    // What was there has scrolled up: a line feed for each row, from the last one.
    let scrolled = format!("\x1b[24;1H{}", "\n".repeat(24));
    let all = String::from_utf8_lossy(&seat.all).replace("\r\n", "\n");
    assert!(all.contains(&scrolled), "{all:?}");
    seat.type_in("\x10\x11");
    assert_eq!(seat.code(), Some(0));
    // Into a pipe goes what comes, and no picture; keys that are piped in are all passed on.
    let piped = user.fed(&["terminal", "attach", "t"], b"\x10\x11more\n\x04");
    let text = String::from_utf8_lossy(&piped.stdout).into_owned();
    assert!(
        text.contains("more\r\n") && !text.contains("drawn"),
        "{text:?}"
    );
    assert_eq!(piped.status.code(), Some(0));
}

#[test]
fn a_shell_without_a_terminal_reads_its_input_and_ends() {
    let user = User::with_box();
    let ended = user.run(&["shell", "box"]);
    assert_eq!((ended.code, &*ended.out), (Some(0), ""), "{ended:?}");
    let piped = user.fed(&["shell"], b"cd /tmp\npwd\necho err >&2\nexit 3\n");
    assert_eq!(piped.status.code(), Some(3));
    assert_eq!(
        (&*piped.stdout, &*piped.stderr),
        (&b"/tmp\n"[..], &b"err\n"[..])
    );
    // One that was asked for is told of the end, though the shell is still starting.
    let told = user.fed(&["shell", "-t", "box"], b"");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let told = user.fed(&["exec", "-it", "box", "--", "cat"], b"a line\n");
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert_eq!(user.ok(&["terminal", "ls", "-q"]), "", "nothing is left");
}

#[test]
fn the_end_of_our_input_is_not_that_of_a_terminal_of_others() {
    let user = User::with_box();
    let script = "read x; echo got-$x-";
    user.ok(&[
        "terminal", "create", "--name", "t", "--", "sh", "-c", script,
    ]);
    let looking = user
        .command(&["terminal", "attach", "t"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + DEADLINE;
    while !user
        .ok(&["terminal", "ls", "--json"])
        .contains("\"viewers\":1")
    {
        assert!(Instant::now() < deadline, "nobody came");
    }
    let typing = user.fed(&["terminal", "attach", "t"], b"hello\n");
    for output in [typing, looking.wait_with_output().unwrap()] {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("got-hello-"), "{text:?}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn run_gives_its_command_a_terminal() {
    let user = User::new();
    let mut seat = Seat::take(
        &user,
        &[
            "run",
            "-it",
            "--rm",
            "-c",
            "tty; stty size; read x; exit $x",
        ],
    );
    seat.until("/dev/pts/");
    seat.until("24 80");
    assert!(seat.is_raw());
    // There is nothing to come back to: the keys that detach are keys as others.
    seat.type_in("\x11\x157\n");
    assert_eq!(seat.code(), Some(7));
    let mut seat = Seat::take(&user, &["run", "-T", "--", "tty"]);
    seat.until("not a tty");
    assert_eq!(seat.code(), Some(1));
}

#[test]
fn a_person_who_types_mcp_is_told_whom_it_is_for() {
    let user = User::new();
    let mut seat = Seat::take(&user, &["mcp"]);
    seat.until("`sandshell mcp config` prints");
    seat.type_in("\x04");
    assert_eq!(seat.code(), Some(0));
}

#[test]
fn a_person_is_asked_before_all_sandboxes_go() {
    let user = User::with_box();
    let mut seat = Seat::take(&user, &["rm", "--all"]);
    seat.until("destroy all sandboxes (1)? [y/N]");
    seat.type_in("n\n");
    seat.until("nothing was destroyed");
    assert_eq!(seat.code(), Some(1));
    assert_eq!(user.ok(&["ls", "-q"]), "box\n");
    let mut seat = Seat::take(&user, &["rm", "--all", "-y"]);
    seat.until("box");
    assert_eq!(seat.code(), Some(0));
    assert_eq!(user.ok(&["ls", "-q"]), "");
}

#[test]
fn a_question_of_a_program_is_answered_once() {
    let user = User::with_box();
    // It asks where the cursor is as soon as it can: before we are there, or after.
    let script = "stty raw -echo; printf '\\033[6n'; IFS= read -r -d R first; \
                  if IFS= read -r -t 0.5 -d R; then echo tw''ice; else echo on''ce; fi";
    for _ in 0..6 {
        let mut seat = Seat::take(&user, &["exec", "box", "--", "bash", "-c", script]);
        let mut answered = false;
        while !seat.seen.contains("once") {
            assert!(!seat.seen.contains("twice"), "{:?}", seat.seen);
            seat.read("once");
            if seat.seen.contains("\x1b[6n") && !answered {
                seat.type_in("\x1b[1;1R");
                answered = true;
            }
        }
        assert_eq!(seat.code(), Some(0));
    }
}
