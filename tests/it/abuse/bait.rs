//! Things of the test's own on the host, for the intruder to look for.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use crate::calls::marker;

/// Ends and removes everything when dropped.
#[derive(Debug)]
pub(super) struct Bait {
    marker: String,
    dir: tempfile::TempDir,
    process: Child,
    port: u16,
    segment: Option<Segment>,
    _listeners: (UnixListener, UnixListener, TcpListener),
}

/// A System V segment.
#[derive(Debug)]
struct Segment {
    id: String,
    key: String,
}

impl Bait {
    pub(super) fn lay() -> Self {
        let marker = marker();
        let dir = tempfile::Builder::new().prefix("bait-").tempdir().unwrap();
        std::fs::write(dir.path().join("file"), &marker).unwrap();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), readable).unwrap();
        let path = UnixListener::bind(dir.path().join("socket")).unwrap();
        let name = SocketAddr::from_abstract_name(&marker).unwrap();
        let name = UnixListener::bind_addr(&name).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        // It reads from a pipe that nobody writes to, until it is closed.
        let process = Command::new("bash")
            .args(["-c", "read -r line", &marker])
            .env("BAIT", &marker)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            port: tcp.local_addr().unwrap().port(),
            _listeners: (path, name, tcp),
            segment: Segment::new(),
            marker,
            dir,
            process,
        }
    }

    /// The word that marks it.
    pub(super) fn marker(&self) -> &str {
        &self.marker
    }

    /// What the intruder is told to look for.
    pub(super) fn words(&self) -> String {
        let dir = self.dir.path().display();
        let shm = self.segment.as_ref().map_or("", |segment| &segment.key);
        format!(
            "marker={0} pid={1} file={dir}/file socket={dir}/socket abstract={0} port={2} shm={shm}",
            self.marker,
            self.process.id(),
            self.port,
        )
    }

    /// The process is alive and was not stopped.
    pub(super) fn assert_untouched(&self) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let state = stat.rsplit_once(") ").unwrap().1.chars().next();
        assert_eq!(state, Some('S'), "{stat}");
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Segment {
    /// `None` where the tools for it are missing.
    fn new() -> Option<Self> {
        let made = Command::new("ipcmk").args(["-M", "4096"]).output().ok()?;
        let said = String::from_utf8(made.stdout).ok()?;
        let id = said.rsplit(' ').next()?.trim().to_owned();
        let table = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
        let key = table.lines().find_map(|line| {
            let mut fields = line.split_whitespace();
            let key = fields.next()?;
            (fields.next()? == id).then(|| key.to_owned())
        })?;
        Some(Self { id, key })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args(["-m", &self.id]).output();
    }
}
