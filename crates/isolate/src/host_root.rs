//! The default root: the host's programs, and an /etc of our own making.
//!
//! Shown are /usr with what older systems keep beside it, and the table of installed packages. Nothing
//! of /home, /root or /var else. /etc is what is on the list below, most of it a copy that is made once for many
//! sandboxes: no shadow, no keys, no host's name, and users that the host has for its people are left
//! out.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, readlinkat, statat,
    symlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::image_root::numbers;
use crate::plan::{Ids, RootPlan, SANDBOX_UID, SANDBOX_USER, Shown, WORKSPACE};

/// What the host's programs need to find in /etc, files and directories.
const KEPT: &[&str] = &[
    "adduser.conf",
    "alternatives",
    "apt/trusted.gpg.d",
    "bash.bashrc",
    "bash_completion",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debconf.conf",
    "debian_version",
    "default/useradd",
    "deluser.conf",
    "dpkg",
    "emacs",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "issue",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "mime.types",
    "nanorc",
    "networks",
    "nsswitch.conf",
    "os-release",
    "pam.conf",
    "pam.d",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "redhat-release",
    "rpc",
    "security",
    "services",
    "shells",
    "skel",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "vim",
    "xattr.conf",
    "xdg",
];

/// Those among them with the most names, hundreds of links: they are public as a whole, so they can be shown
/// like /usr instead of being copied.
const WHOLE: &[&str] = &["alternatives", "ssl/certs"];

/// For whom an /etc is made. What is copied once costs each sandbox nothing; what is shown takes a mount of
/// its own in each, and time that grows with the number of all mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeFor {
    /// For one sandbox, which waits for it: the largest directories are shown.
    One,
    /// For many: everything is copied.
    Many,
}

/// Directories that tools expect to be there, be they empty.
const EMPTY: &[&str] = &[
    "apt/apt.conf.d",
    "apt/preferences.d",
    "apt/sources.list.d",
    "default",
];

/// Names in the root that are links into /usr on most systems, directories on others.
const BESIDE_USR: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The table of installed packages, without which none can be added.
const PACKAGES: &str = "var/lib/dpkg";

/// Ids below this are the system's, not people's.
const FIRST_PERSON: u32 = 1000;
const NOBODY: u32 = 65534;

/// What every sandbox has in /etc, whatever its root.
pub(crate) const RESOLVER: &str = "nameserver 127.0.0.1\noptions edns0\n";

/// The mode of each directory.
const DIRECTORY: u32 = 0o755;
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Largest file that is copied.
const FILE_LIMIT: u64 = 4 * 1024 * 1024;

/// The default root, over an /etc that [`make_etc`] made.
pub fn plan(etc: &Path, made_for: MadeFor, ids: Ids, size_bytes: u64, inodes: u64) -> RootPlan {
    // Where there is no root inside, nobody could change these anyway.
    let writable = matches!(ids, Ids::Range(_));
    let show = |place: &str| Shown {
        source: Path::new("/").join(place),
        place: place.to_owned(),
        writable,
    };
    let mut shown = vec![show("usr")];
    let mut links = Vec::new();
    for name in BESIDE_USR {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => links.push(((*name).to_owned(), target.to_string_lossy().into_owned())),
            Err(_) if path.is_dir() => shown.push(show(name)),
            Err(_) => {}
        }
    }
    shown.push(Shown {
        source: etc.to_owned(),
        place: "etc".to_owned(),
        writable: true,
    });
    if made_for == MadeFor::One {
        let whole = WHOLE.iter().filter(|name| is_whole(name));
        shown.extend(whole.map(|name| show(&format!("etc/{name}"))));
    }
    if writable && Path::new("/").join(PACKAGES).is_dir() {
        shown.push(show(PACKAGES));
    }
    RootPlan {
        shown,
        links,
        files: Vec::new(),
        own: vec![WORKSPACE.to_owned()],
        owner: (SANDBOX_UID, SANDBOX_UID),
        size_bytes,
        inodes,
    }
}

/// The numbers of a user of this root, `USER[:GROUP]` by name or number; `None` if it has none.
pub fn user(etc: &Path, user: &str) -> Option<(u32, u32)> {
    let table = |name: &str| fs::read_to_string(etc.join(name)).unwrap_or_default();
    numbers(user, &table("passwd"), &table("group"))
}

/// Makes the /etc of sandboxes at a path where nothing is. `sandshell run` waits for it: hence no path is
/// walked more than once, and nothing asked that is known.
pub fn make_etc(at: &Path, made_for: MadeFor) -> io::Result<()> {
    let host = open_directory(CWD, c"/etc")?;
    mkdirat(CWD, at, Mode::from_raw_mode(DIRECTORY))?;
    let etc = openat(CWD, at, DIRECTORY_FLAGS, Mode::empty())?;
    fchmod(&etc, Mode::from_raw_mode(DIRECTORY))?;
    for name in EMPTY {
        make_directories(&etc, name)?;
    }
    for name in KEPT {
        if made_for == MadeFor::One && is_whole(name) {
            make_directories(&etc, name)?;
            continue;
        }
        let (parent, name) = name.rsplit_once('/').unwrap_or((".", name));
        let Ok(from) = openat(&host, parent, DIRECTORY_FLAGS, Mode::empty()) else {
            continue;
        };
        let to = make_directories(&etc, parent)?;
        let name = CString::new(name)?;
        match copy(&from, &to, &name, FileType::Unknown) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    let host = Path::new("/etc");
    let text = |name: &str| fs::read_to_string(host.join(name)).unwrap_or_default();
    let passwd = format!(
        "{}{SANDBOX_USER}:x:{SANDBOX_UID}:{SANDBOX_UID}::/home/{SANDBOX_USER}:/bin/bash\n",
        system_lines(&text("passwd"), |fields| fields.join(":")),
    );
    // Who is in a group is the host's affair.
    let group = format!(
        "{}{SANDBOX_USER}:x:{SANDBOX_UID}:\n",
        system_lines(&text("group"), |fields| {
            let named = fields.get(..3).unwrap_or_default();
            format!("{}:", named.join(":"))
        }),
    );
    for (name, content) in [
        ("passwd", passwd.as_str()),
        ("group", group.as_str()),
        ("resolv.conf", RESOLVER),
    ] {
        fs::write(at.join(name), content)?;
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Whether a name in /etc is shown as it is: a link, as some systems have it there, is copied.
fn is_whole(name: &str) -> bool {
    let found = fs::symlink_metadata(Path::new("/etc").join(name));
    WHOLE.contains(&name) && found.is_ok_and(|found| found.is_dir())
}

/// The lines of a table of users or groups that are the system's own, as `form` gives them.
fn system_lines(table: &str, form: impl Fn(&[&str]) -> String) -> String {
    let mut kept = String::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let id = fields.get(2).and_then(|id| id.parse::<u32>().ok());
        if id.is_some_and(|id| id < FIRST_PERSON || id == NOBODY)
            && fields.first().is_some_and(|name| *name != SANDBOX_USER)
        {
            kept.push_str(&form(&fields));
            kept.push('\n');
        }
    }
    kept
}

/// The directory at a path below another, made with its parents where it is missing.
fn make_directories(below: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut at = openat(below, ".", DIRECTORY_FLAGS, Mode::empty())?;
    for name in path.split('/').filter(|name| *name != ".") {
        at = make_directory(&at, name)?;
    }
    Ok(at)
}

/// A directory that everyone may read, whatever the umask.
fn make_directory(below: &OwnedFd, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    match mkdirat(below, name, Mode::from_raw_mode(DIRECTORY)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let made = openat(below, name, DIRECTORY_FLAGS, Mode::empty())?;
    fchmod(&made, Mode::from_raw_mode(DIRECTORY))?;
    Ok(made)
}

/// Copies a file, link or tree from one directory to another. What cannot be read, or is neither, is left
/// out.
fn copy(from: &OwnedFd, to: &OwnedFd, name: &CStr, kind: FileType) -> io::Result<()> {
    match kind {
        FileType::Symlink => {
            let target = readlinkat(from, name, Vec::new())?;
            symlinkat(target, to, name)?;
        }
        FileType::Directory => {
            let Ok(from) = open_directory(from, name) else {
                return Ok(());
            };
            let to = make_directory(to, name)?;
            for entry in Dir::read_from(&from)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                match copy(&from, &to, name, entry.file_type()) {
                    // Removed meanwhile; the others are there.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    copied => copied?,
                }
            }
        }
        FileType::RegularFile => copy_file(from, to, name)?,
        // Not every file system says it in its directories.
        FileType::Unknown => {
            let found = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
            copy(from, to, name, FileType::from_raw_mode(found.st_mode))?;
        }
        _ => {}
    }
    Ok(())
}

fn copy_file(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(source) = openat(from, name, flags, Mode::empty()) else {
        return Ok(());
    };
    let found = fstat(&source)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    // What the host's own users may not read is no business of a sandbox.
    if size > FILE_LIMIT || !mode.contains(Mode::ROTH) {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = (mode & Mode::from_raw_mode(0o755)) | Mode::from_raw_mode(0o644);
    let copied = openat(to, name, flags, mode)?;
    fchmod(&copied, mode)?;
    io::copy(&mut fs::File::from(source), &mut fs::File::from(copied))?;
    Ok(())
}

fn open_directory(below: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(below, name, DIRECTORY_FLAGS, Mode::empty())?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn people_of_the_host_are_left_out() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n\
                      nobody:x:65534:65534::/:/bin/false\nbroken\n";
        assert_eq!(
            system_lines(passwd, |fields| fields.join(":")),
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
        );
    }

    #[test]
    fn what_is_kept_is_as_the_host_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc");
        make_etc(&etc, MadeFor::Many).unwrap();
        let mut compared = 0;
        for name in [
            "alternatives",
            "fonts",
            "pam.d",
            "profile.d",
            "security",
            "ssl/certs",
        ] {
            for entry in fs::read_dir(Path::new("/etc").join(name))
                .into_iter()
                .flatten()
                .flatten()
            {
                let copied = etc.join(name).join(entry.file_name());
                let kind = entry.file_type().unwrap();
                let public = entry.metadata().unwrap().permissions().mode() & 0o004 != 0;
                if kind.is_symlink() {
                    let target = fs::read_link(entry.path()).unwrap();
                    assert_eq!(fs::read_link(&copied).unwrap(), target, "{copied:?}");
                } else if kind.is_file() && public {
                    assert!(fs::read(&copied).unwrap() == fs::read(entry.path()).unwrap());
                    let mode = fs::metadata(&copied).unwrap().permissions().mode();
                    assert_eq!(mode & 0o644, 0o644, "{copied:?}");
                }
                compared += 1;
            }
        }
        assert!(compared > 0);
    }

    #[test]
    fn the_copy_has_no_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc");
        make_etc(&etc, MadeFor::Many).unwrap();
        for secret in [
            "shadow",
            "gshadow",
            "ssh",
            "ssl/private",
            "sudoers",
            "machine-id",
        ] {
            assert!(!etc.join(secret).exists(), "{secret}");
        }
        let passwd = fs::read_to_string(etc.join("passwd")).unwrap();
        assert!(passwd.contains("sandbox:x:1000:1000"));
    }
}
