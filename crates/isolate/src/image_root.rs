//! The root of an image: its files, and what every sandbox has besides.
//!
//! The image's own directory is shown, and never changes. What is added lies in the sandbox's writable
//! layer: the names and the resolver of /etc, the user `sandbox`, /workspace. Whoever made the image
//! chose its names and links, so nothing of it is opened but beneath its root.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, statat};
use rustix::io::Errno;

use crate::host_root::RESOLVER;
use crate::plan::{Ids, LAST_UID, RootPlan, SANDBOX_UID, SANDBOX_USER, Shown, WORKSPACE};

/// Largest table of users or groups that is read.
const TABLE_LIMIT: u64 = 1 << 20;

/// Why there is no root of an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageRootError {
    /// The image's directory, or a table in it, cannot be read.
    #[error("cannot read {what} of the image: {errno}")]
    Unreadable {
        /// What.
        what: &'static str,
        /// Why not.
        errno: Errno,
    },
    /// The image's tables do not have the user.
    #[error("the image has no user {user:?}; by number a user is 0 to {LAST_UID}")]
    NoUser {
        /// Its name.
        user: String,
    },
    /// What must be a directory is something else.
    #[error("/{place} of the image {what}")]
    Odd {
        /// Which, without the leading slash.
        place: String,
        /// What it is.
        what: &'static str,
    },
}

/// The root over an image's directory. `user` is whoever commands run as, by a name of the image's own
/// or by number, and `:GROUP` perhaps; `sandbox` by default. `workdir` is where they start.
pub fn plan(
    image: &Path,
    user: Option<&str>,
    workdir: Option<&str>,
    ids: Ids,
    size_bytes: u64,
    inodes: u64,
) -> Result<RootPlan, ImageRootError> {
    let failed = |what| move |errno| ImageRootError::Unreadable { what, errno };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(image, flags, Mode::empty()).map_err(failed("the directory"))?;
    check_etc(&root)?;
    let table = |name| read_table(&root, name).map_err(failed("a table of users"));
    let (passwd, group) = (table("etc/passwd")?, table("etc/group")?);
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let itself = OFlags::PATH | OFlags::CLOEXEC;
    let shell = if openat2(&root, "bin/bash", itself, Mode::empty(), inside).is_ok() {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    let passwd = with_entries(
        &passwd,
        &format!("root:x:0:0:root:/root:{shell}"),
        &format!("{SANDBOX_USER}:x:{SANDBOX_UID}:{SANDBOX_UID}::/home/{SANDBOX_USER}:{shell}"),
    );
    let group = with_entries(
        &group,
        "root:x:0:",
        &format!("{SANDBOX_USER}:x:{SANDBOX_UID}:"),
    );
    let owner = match user {
        // There is one user only.
        Some(user) if ids != Ids::Own => {
            numbers(user, &passwd, &group).ok_or_else(|| ImageRootError::NoUser {
                user: user.to_owned(),
            })?
        }
        _ => (SANDBOX_UID, SANDBOX_UID),
    };
    let mut own = vec![WORKSPACE.to_owned()];
    own.extend(
        workdir
            .map(|path| path.trim_matches('/').to_owned())
            .filter(|path| !path.is_empty()),
    );
    let file = |name: &str, content: &str| (format!("etc/{name}"), content.to_owned());
    Ok(RootPlan {
        shown: vec![Shown {
            source: image.to_owned(),
            place: String::new(),
            writable: true,
        }],
        links: Vec::new(),
        files: vec![
            file("passwd", &passwd),
            file("group", &group),
            file("resolv.conf", RESOLVER),
        ],
        own,
        owner,
        size_bytes,
        inodes,
    })
}

/// Files of ours are written there.
fn check_etc(root: &OwnedFd) -> Result<(), ImageRootError> {
    let odd = |place: String, what| Err(ImageRootError::Odd { place, what });
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let etc = match openat2(root, "etc", flags, Mode::empty(), inside) {
        Ok(etc) => etc,
        Err(Errno::NOENT) if statat(root, "etc", AtFlags::SYMLINK_NOFOLLOW).is_err() => {
            return Ok(());
        }
        Err(Errno::NOENT) => return odd("etc".to_owned(), "is a link to nowhere"),
        Err(Errno::LOOP) => return odd("etc".to_owned(), "is a link to itself"),
        Err(_) => return odd("etc".to_owned(), "is not a directory"),
    };
    for name in ["passwd", "group", "hostname", "hosts", "resolv.conf"] {
        let found = statat(&etc, name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
            return odd(format!("etc/{name}"), "is a directory");
        }
    }
    Ok(())
}

/// A small text of the image; empty when it has none.
fn read_table(root: &OwnedFd, name: &str) -> Result<String, Errno> {
    // A FIFO in its place must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let table = match openat2(root, name, flags, Mode::empty(), inside) {
        Ok(table) => table,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(String::new()),
        Err(errno) => return Err(errno),
    };
    if FileType::from_raw_mode(fstat(&table)?.st_mode) != FileType::RegularFile {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = File::from(table).take(TABLE_LIMIT).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A table with root's entry, unless it has one, and with ours in place of any of that name.
fn with_entries(table: &str, root: &str, ours: &str) -> String {
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let kept: Vec<&str> = table
        .lines()
        .filter(|line| !line.is_empty() && name(line) != SANDBOX_USER)
        .collect();
    let missing = !kept.iter().any(|line| name(line) == "root");
    let lines = missing
        .then_some(root)
        .into_iter()
        .chain(kept)
        .chain([ours]);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The numbers of `USER[:GROUP]`, each by name or number.
pub(crate) fn numbers(wanted: &str, passwd: &str, group: &str) -> Option<(u32, u32)> {
    let (user, wanted_group) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted, None),
    };
    let find = |table: &str, name: &str| {
        table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let named = fields.first() == Some(&name) || fields.get(2) == Some(&name);
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
            named.then(|| Some((number(2)?, number(3))))?
        })
    };
    let (uid, own_group) = match find(passwd, user) {
        Some((uid, gid)) => (uid, gid),
        None => (user.parse().ok()?, None),
    };
    let gid = match wanted_group {
        Some(name) => match find(group, name) {
            Some((gid, _)) => gid,
            None => name.parse().ok()?,
        },
        None => own_group.unwrap_or(uid),
    };
    // Others are not those of a sandbox.
    (uid <= LAST_UID && gid <= LAST_UID).then_some((uid, gid))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\napp:x:700:701::/app:/bin/sh\n";
        let group = "root:x:0:\napp:x:701:\nweb:x:33:app\n";
        for (wanted, found) in [
            ("app", Some((700, 701))),
            ("700", Some((700, 701))),
            ("app:web", Some((700, 33))),
            ("app:5", Some((700, 5))),
            ("9:0", Some((9, 0))),
            ("9", Some((9, 9))),
            ("nobody-here", None),
            ("app:nobody-here", None),
        ] {
            assert_eq!(numbers(wanted, passwd, group), found, "{wanted}");
        }
    }

    #[test]
    fn an_image_gets_its_users_and_keeps_its_own() {
        let image = tempfile::tempdir().unwrap();
        let of = |user| plan(image.path(), user, None, Ids::Range(1), 1, 1);
        let passwd = |plan: &RootPlan| plan.files.first().unwrap().1.clone();
        let empty = passwd(&of(None).unwrap());
        assert_eq!(
            empty,
            "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000::/home/sandbox:/bin/sh\n"
        );
        std::fs::create_dir(image.path().join("etc")).unwrap();
        let text = "root:x:0:0::/:/bin/ash\nnode:x:1000:1000::/n:/bin/sh\nsandbox:x:7:7::/:/x";
        std::fs::write(image.path().join("etc/passwd"), text).unwrap();
        let planned = of(Some("node")).unwrap();
        assert_eq!(
            passwd(&planned),
            "root:x:0:0::/:/bin/ash\nnode:x:1000:1000::/n:/bin/sh\n\
             sandbox:x:1000:1000::/home/sandbox:/bin/sh\n"
        );
        assert_eq!(planned.owner, (1000, 1000));
        assert!(matches!(of(Some("x")), Err(ImageRootError::NoUser { .. })));
    }

    #[test]
    fn a_table_that_is_a_link_out_is_not_read() {
        let image = tempfile::tempdir().unwrap();
        std::fs::create_dir(image.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", image.path().join("etc/group")).unwrap();
        std::os::unix::fs::symlink("../../../../etc/group", image.path().join("etc/passwd"))
            .unwrap();
        let planned = plan(image.path(), None, None, Ids::Own, 1, 1).unwrap();
        assert!(
            planned
                .files
                .iter()
                .all(|(_, text)| text.lines().count() <= 3)
        );
    }
}
