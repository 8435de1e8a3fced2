//! Sights: what there is to see of the host, its processes and its devices, and what could be opened
//! for writing. Opening is enough to know; nothing is written.
//!
//! The test lays bait on the host and names it: `marker=` a word in the arguments and environment of a
//! process and in a file, `file=` that file, `socket=` a Unix socket, `abstract=` an abstract one,
//! `port=` a TCP port on the loopback, `shm=` the key of a System V segment, `pid=` the process.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandshell_sys::calls;
use sandshell_sys::knock::{Answer, Argument, knock};

use super::{describe, named, say};

/// Pseudo files that steer the kernel, or the host's own programs.
const STEERING: &[&str] = &[
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/shmmax",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/mqueue/msg_max",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/proc/acpi/wakeup",
    "/proc/scsi/scsi",
    "/proc/mtrr",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/power/state",
    "/sys/module/kernel/parameters/panic",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/notify_on_release",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/memory/cgroup.procs",
    "/sys/fs/cgroup/devices/devices.allow",
    "/sys/fs/cgroup/pids/release_agent",
];

/// Files that tell about the kernel or the host what is nobody's business.
const SECRETS: &[&str] = &[
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
    "/proc/vmallocinfo",
    "/proc/slabinfo",
    "/dev/kmsg",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/root/.bashrc",
    "/root/.profile",
    "/var/log/dpkg.log",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security/lsm",
    "/sys/firmware/efi/efivars",
    "/sys/firmware/dmi/tables/DMI",
];

/// Devices that lead to the machine.
const DEVICES: &[&str] = &[
    "/dev/sda",
    "/dev/vda",
    "/dev/nvme0n1",
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/dev/kvm",
    "/dev/net/tun",
    "/dev/fuse",
    "/dev/loop-control",
    "/dev/loop0",
    "/dev/vhost-net",
    "/dev/vhost-vsock",
    "/dev/vsock",
    "/dev/dri/card0",
    "/dev/mapper/control",
    "/dev/uinput",
    "/dev/hwrng",
    "/dev/rtc0",
    "/dev/tty0",
    "/dev/tty1",
    "/dev/ttyS0",
    "/dev/console",
    "/dev/userfaultfd",
    "/dev/cuse",
    "/dev/snapshot",
    "/dev/ptp0",
];

/// All that a private /dev may show.
const USUAL_DEVICES: &[&str] = &[
    "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
    "stdin", "stdout", "tty", "urandom", "zero",
];

pub(super) fn try_all(bait: &[String]) {
    let bait = |word: &str| {
        bait.iter()
            .find_map(|pair| pair.strip_prefix(word)?.strip_prefix('='))
    };
    if let Some(marker) = bait("marker") {
        host_process(marker);
        let own = std::env::vars_os().any(|(_, value)| value.to_string_lossy().contains(marker));
        say("own-environment", own, "the host's environment");
    }
    if let Some(pid) = bait("pid") {
        let sent = number(pid).map(|pid| answer_of("kill", &[pid, 0]));
        let (open, detail) = sent.unwrap_or((true, "no such number".to_owned()));
        say("signal-host-process", open, &detail);
    }
    if let Some(file) = bait("file") {
        readable("host-file", Path::new(file));
    }
    if let Some(socket) = bait("socket") {
        connected("host-socket", UnixStream::connect(socket));
    }
    if let Some(name) = bait("abstract") {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
        connected(
            "abstract-socket",
            address.and_then(|address| UnixStream::connect_addr(&address)),
        );
    }
    if let Some(port) = bait("port").and_then(|port| port.parse().ok()) {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        connected(
            "host-port",
            TcpStream::connect_timeout(&address, Duration::from_secs(2)),
        );
        let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let listed = table.contains(&format!("0100007F:{port:04X} "));
        say("host-port-listed", listed, "/proc/net/tcp");
    }
    if let Some(key) = bait("shm").and_then(number) {
        let (open, detail) = answer_of("shmget", &[key, 0, 0]);
        say("host-shared-memory", open, &detail);
    }
    init();
    runtime();
    descriptors();
    network();
    for path in STEERING {
        steering(path);
    }
    for path in SECRETS {
        readable(&format!("read {path}"), Path::new(path));
    }
    addresses("kernel-addresses", "/proc/kallsyms", "0000000000000000");
    addresses("machine-addresses", "/proc/iomem", "00000000-00000000");
    for path in DEVICES {
        readable(&format!("device {path}"), Path::new(path));
    }
    let strange: Vec<_> = names("/dev")
        .into_iter()
        .filter(|name| !USUAL_DEVICES.contains(&name.as_str()))
        .collect();
    say("strange-devices", !strange.is_empty(), &strange.join(" "));
    release_agents();
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Whether a call that concerns something outside got past the question of its being there.
fn answer_of(call: &str, arguments: &[u64]) -> (bool, String) {
    let arguments = arguments.iter().copied().map(Argument::Number).collect();
    let answer = calls::number(call).map(|number| knock(number, arguments));
    match answer {
        Some(Ok(answer)) => (answer == Answer::Done, describe(answer)),
        Some(Err(errno)) => (true, format!("could not be tried: {errno}")),
        None => (false, "does not exist here".to_owned()),
    }
}

fn names(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn processes() -> Vec<u32> {
    names("/proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// Looks for a word in whatever can be read of any process.
fn host_process(marker: &str) {
    let me = std::process::id();
    // Our own arguments name the marker, and so do those of whoever started us for it.
    let parents: Vec<u32> = ancestors(me);
    for file in ["cmdline", "environ", "maps"] {
        let seen = processes()
            .into_iter()
            .filter(|pid| !parents.contains(pid))
            .find(|pid| {
                let content = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                content
                    .windows(marker.len())
                    .any(|window| window == marker.as_bytes())
            });
        let detail = seen.map_or(String::new(), |pid| format!("of {pid}"));
        say(&format!("host-process-{file}"), seen.is_some(), &detail);
    }
}

/// This process and those above it.
fn ancestors(mut pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    while pid != 0 && !found.contains(&pid) {
        found.push(pid);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        pid = after_name
            .split_whitespace()
            .nth(1)
            .and_then(|ppid| ppid.parse().ok())
            .unwrap_or(0);
    }
    found
}

/// What PID 1 shows of itself: it is the nearest process of the runtime's own.
fn init() {
    for file in ["environ", "maps", "mem", "auxv", "stack", "syscall", "io"] {
        let path = format!("/proc/1/{file}");
        let mut content = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(1).read_to_end(&mut content));
        match read {
            Ok(n) => say(&format!("init-{file}"), n > 0, &format!("{n} bytes")),
            // The memory at address 0 is nobody's; having been let in is what counts.
            Err(error) if error.raw_os_error() == Some(5) => {
                say(&format!("init-{file}"), true, "EIO");
            }
            Err(error) => say(&format!("init-{file}"), false, &reason(&error)),
        }
    }
    for link in ["cwd", "root", "exe", "fd/0", "ns/user"] {
        match fs::read_link(format!("/proc/1/{link}")) {
            Ok(to) => say(&format!("init-{link}"), true, &to.display().to_string()),
            Err(error) => say(&format!("init-{link}"), false, &reason(&error)),
        }
    }
    writable("init-oom", "/proc/1/oom_score_adj");
    writable("init-exe", "/proc/1/exe");
}

/// Whatever else of the runtime there is to see: none of it lets anybody look in.
fn runtime() {
    let ours = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != 1 && words.starts_with(b"sandshell\0")
    };
    let open: Vec<String> = processes()
        .into_iter()
        .filter(ours)
        .flat_map(|pid| ["environ", "maps", "mem", "fd/0"].map(|file| (pid, file)))
        .map(|(pid, file)| (pid, format!("/proc/{pid}/{file}")))
        // A shell that is being started is ours until it is bash: what opens then says nothing of us.
        .filter(|(pid, path)| File::open(path).is_ok() && ours(pid))
        .map(|(_, path)| path)
        .collect();
    say("runtime-processes", !open.is_empty(), &open.join(" "));
}

/// Only the standard ones are a program's own.
fn descriptors() {
    let strange: Vec<String> = names("/proc/self/fd")
        .into_iter()
        .filter_map(|name| {
            Some((
                name.clone(),
                fs::read_link(format!("/proc/self/fd/{name}")).ok()?,
            ))
        })
        // The handle on the listed directory itself is gone by now.
        .filter(|(name, _)| !["0", "1", "2"].contains(&name.as_str()))
        .map(|(name, to)| format!("{name}={}", to.display()))
        .collect();
    say(
        "inherited-descriptors",
        !strange.is_empty(),
        &strange.join(" "),
    );
}

fn network() {
    let table = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let links: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .filter(|name| *name != "lo")
        .collect();
    say("network-links", !links.is_empty(), &links.join(" "));
    for address in [
        "1.1.1.1:53",
        "169.254.169.254:80",
        "[2606:4700:4700::1111]:53",
    ] {
        let Ok(to) = address.parse::<SocketAddr>() else {
            continue;
        };
        connected(
            &format!("connect {address}"),
            TcpStream::connect_timeout(&to, Duration::from_secs(1)),
        );
    }
}

/// Addresses are shown as zeroes to whoever may not know them.
fn addresses(name: &str, path: &str, zero: &str) {
    let mut start = String::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(4096).read_to_string(&mut start));
    match read {
        Ok(_) => {
            let known = start
                .lines()
                .find(|line| !line.trim_start().starts_with(zero));
            say(name, known.is_some(), known.unwrap_or(""));
        }
        Err(error) => say(name, false, &reason(&error)),
    }
}

/// Every release agent, wherever control groups are mounted: a program that the host would run.
fn release_agents() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().filter(|line| line.contains(" - cgroup"));
    let open: Vec<String> = mounted
        .filter_map(|line| line.split(' ').nth(4))
        .flat_map(|dir| ["release_agent", "cgroup.procs"].map(|file| Path::new(dir).join(file)))
        .filter(|path| opens_for_writing(path).is_ok())
        .map(|path: PathBuf| path.display().to_string())
        .collect();
    say("control-groups", !open.is_empty(), &open.join(" "));
}

fn steering(path: &str) {
    writable(&format!("write {path}"), path);
}

fn writable(name: &str, path: &str) {
    match opens_for_writing(Path::new(path)) {
        Ok(_) => say(name, true, "opened"),
        Err(error) => say(name, false, &reason(&error)),
    }
}

fn opens_for_writing(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// A file that can be read and has something to read, or a directory with entries.
fn readable(name: &str, path: &Path) {
    let read = || -> std::io::Result<usize> {
        if path.is_dir() {
            return Ok(fs::read_dir(path)?.count());
        }
        let mut content = Vec::new();
        let options = OpenOptions::new().read(true).to_owned();
        nonblocking(options)
            .open(path)?
            .take(16)
            .read_to_end(&mut content)
    };
    match read() {
        Ok(n) => say(name, n > 0, &format!("{n} there")),
        Err(error) => say(name, false, &reason(&error)),
    }
}

/// Some devices would wait for somebody at the other end.
fn nonblocking(mut options: OpenOptions) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    const O_NONBLOCK: i32 = 0o4000;
    const O_NOCTTY: i32 = 0o400;
    options.custom_flags(O_NONBLOCK | O_NOCTTY);
    options
}

fn connected<S>(name: &str, tried: std::io::Result<S>) {
    match tried {
        Ok(_) => say(name, true, "connected"),
        Err(error) => say(name, false, &reason(&error)),
    }
}

fn reason(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), named)
}
