//! A plain tmux of our own, with the same program at the same size.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::drive::Driver;
use crate::calls::{DEADLINE, marker};

/// What a program gets here and in the sandbox.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("TERM", "xterm-256color"),
    ("LANG", "C.UTF-8"),
    ("HOME", "/"),
    ("PS1", "ready> "),
];

/// Ends its server when dropped.
pub(super) struct Oracle {
    socket: String,
}

impl Oracle {
    /// Starts a program in a tmux without configuration, decoration or history.
    pub(super) fn start(argv: &[&str], dir: &Path, cols: u16, rows: u16) -> Self {
        let oracle = Self { socket: marker() };
        let (cols, rows) = (cols.to_string(), rows.to_string());
        // The first session only carries the options, which hold for windows made after them.
        oracle.tmux(&["new-session", "-d", "-s", "options", "cat"]);
        oracle.tmux(&["set", "-g", "status", "off"]);
        oracle.tmux(&["set", "-g", "remain-on-exit", "on"]);
        oracle.tmux(&["set", "-g", "default-terminal", "xterm-256color"]);
        oracle.tmux(&["set", "-g", "escape-time", "0"]);
        let mut line = vec!["new-session", "-d", "-s", "it", "-x", &cols, "-y", &rows];
        let dir = dir.display().to_string();
        line.extend(["-c", &dir, "env", "-u", "TMUX", "-u", "TMUX_PANE"]);
        let variables: Vec<String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        line.extend(variables.iter().map(String::as_str));
        line.extend(argv);
        oracle.tmux(&line);
        oracle
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-L", &self.socket])
            .args(arguments)
            .env_clear()
            .envs(ENVIRONMENT)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "tmux {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types bytes as they are.
    pub(super) fn type_in(&self, keys: &[u8]) {
        let hex: Vec<String> = keys.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut line = vec!["send-keys", "-t", "it", "-H"];
        line.extend(hex.iter().map(String::as_str));
        self.tmux(&line);
    }

    pub(super) fn resize(&self, cols: u16, rows: u16) {
        let (cols, rows) = (cols.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-t", "it", "-x", &cols, "-y", &rows]);
    }

    /// All rows, without blanks at their ends.
    pub(super) fn screen(&self) -> String {
        let shown = self.tmux(&["capture-pane", "-p", "-t", "it"]);
        let rows: Vec<&str> = shown.lines().map(str::trim_end).collect();
        rows.join("\n")
    }

    /// Where the cursor is: column and row.
    pub(super) fn cursor(&self) -> (u16, u16) {
        let shown = self.tmux(&["display", "-p", "-t", "it", "#{cursor_x} #{cursor_y}"]);
        let (col, row) = shown.trim().split_once(' ').unwrap();
        (col.parse().unwrap(), row.parse().unwrap())
    }

    /// Waits until both show the same with the cursor in the same place. The oracle tells nothing by
    /// itself, so it is asked again until the deadline.
    pub(super) async fn agrees(&self, ours: &mut Driver, step: &str) {
        let began = Instant::now();
        loop {
            let screen = ours.screen().await;
            let cursor = (screen.cursor.col, screen.cursor.row);
            let theirs = (self.screen(), self.cursor());
            if (&screen.text, cursor) == (&theirs.0, theirs.1) {
                return;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "after {step}\n--- ours, cursor {cursor:?}:\n{}\n--- tmux, cursor {:?}:\n{}\n---",
                screen.text,
                theirs.1,
                theirs.0
            );
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        end_server(&self.socket);
    }
}

/// A tmux that was started in the oracle and outlives it; ended when dropped.
pub(super) struct Inner(pub(super) String);

impl Drop for Inner {
    fn drop(&mut self) {
        end_server(&self.0);
    }
}

fn end_server(socket: &str) {
    let _ = Command::new("tmux")
        .args(["-L", socket, "kill-server"])
        .output();
}
