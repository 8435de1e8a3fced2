#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::*;

fn inside(dir: &Path) -> Inside {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Inside::new(openat(CWD, dir, flags, Mode::empty()).unwrap()).unwrap()
}

fn read(root: &Root, path: &str) -> Result<String, Errno> {
    let found = root.find(Path::new(path), Follow::Yes)?;
    let file = root.open(&found, OFlags::RDONLY)?;
    Ok(std::io::read_to_string(std::fs::File::from(file)).unwrap())
}

#[tokio::test]
async fn no_link_leads_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("own"), "own").unwrap();
    symlink("/own", dir.path().join("absolute")).unwrap();
    symlink("../../../../own", dir.path().join("up")).unwrap();
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    let inside = inside(dir.path());
    let read = |path: &'static str| inside.run(&Who(None), move |root| read(root, path));
    for path in ["/own", "/absolute", "/up", "/../own", "own"] {
        assert_eq!(read(path).await.unwrap(), Ok("own".to_owned()), "{path}");
    }
    assert_eq!(read("/out").await.unwrap(), Err(Errno::NOENT));
}

#[tokio::test]
async fn only_files_and_directories_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        CWD,
        dir.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    symlink("loop", dir.path().join("loop")).unwrap();
    let inside = inside(dir.path());
    let read = |path: &'static str| inside.run(&Who(None), move |root| read(root, path));
    assert_eq!(read("/fifo").await.unwrap(), Err(Errno::NXIO));
    assert_eq!(read("/loop").await.unwrap(), Err(Errno::LOOP));
    assert_eq!(read("/missing").await.unwrap(), Err(Errno::NOENT));
}

#[tokio::test]
async fn jobs_have_the_rights_of_their_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(dir.path(), mode(0o777)).unwrap();
    std::fs::write(dir.path().join("secret"), "root's").unwrap();
    std::fs::set_permissions(dir.path().join("secret"), mode(0o600)).unwrap();
    let inside = inside(dir.path());
    let nobody = Who(Some(Identity {
        uid: 65534,
        gid: 65534,
        groups: Vec::new(),
    }));
    for _ in 0..3 {
        let denied = inside.run(&nobody, |root| read(root, "/secret"));
        assert_eq!(denied.await.unwrap(), Err(Errno::ACCESS));
        let allowed = inside.run(&Who(None), |root| read(root, "/secret"));
        assert_eq!(allowed.await.unwrap(), Ok("root's".to_owned()));
    }
    let made = inside
        .run(&nobody, |root| {
            let (dir, name) = root.find_parent(Path::new("/new")).unwrap();
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(dir, name, flags, Mode::from_raw_mode(0o666)).unwrap();
            rustix::fs::fstat(file).unwrap()
        })
        .await
        .unwrap();
    assert_eq!((made.st_uid, made.st_mode & 0o777), (65534, 0o644));
}

#[tokio::test]
async fn a_panic_takes_nothing_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let inside = inside(dir.path());
    for _ in 0..THREADS + 8 {
        let broken = inside.run(&Who(None), |_| {
            std::panic::resume_unwind(Box::new("defect"))
        });
        assert_eq!(broken.await, Err::<(), _>(InsideError::Broken));
    }
    assert_eq!(inside.run(&Who(None), |_| 7).await, Ok(7));
}
