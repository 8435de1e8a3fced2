//! The default root: the host's programs, and an /etc of our own making.
//!
//! Shown are /usr with what older systems keep beside it, and the table of installed packages. Nothing
//! of /home, /root or /var else. /etc is a copy of what is on the list below, made once for many
//! sandboxes: no shadow, no keys, no host's name, and users that the host has for its people are left
//! out.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;

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

/// Largest file that is copied.
const FILE_LIMIT: u64 = 4 * 1024 * 1024;

/// The default root, over an /etc that [`make_etc`] made.
pub fn plan(etc: &Path, ids: Ids, size_bytes: u64, inodes: u64) -> RootPlan {
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

/// Makes the /etc of sandboxes at a path where nothing is.
pub fn make_etc(at: &Path) -> io::Result<()> {
    let host = Path::new("/etc");
    let directory = |path: &Path| {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    directory(at)?;
    for name in EMPTY {
        directory(&at.join(name))?;
    }
    for name in KEPT {
        if let Some(parent) = at.join(name).parent() {
            directory(parent)?;
        }
        copy(&host.join(name), &at.join(name))?;
    }
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

/// Copies a file, link or tree. What cannot be read, or is neither, is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(from) else {
        return Ok(());
    };
    let kind = found.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
        for entry in entries.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if kind.is_file()
        && found.len() <= FILE_LIMIT
        // What the host's own users may not read is no business of a sandbox.
        && found.permissions().mode() & 0o004 != 0
        && let Ok(content) = fs::read(from)
    {
        fs::write(to, content)?;
        let mode = (found.permissions().mode() & 0o755) | 0o644;
        fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
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
    fn the_copy_has_no_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc");
        make_etc(&etc).unwrap();
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
