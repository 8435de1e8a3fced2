//! What is in the packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::roots::{Kind, Place};
use super::{ARCH, packages};
use crate::calls::skipped;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A file of an archive: its mode and its bytes.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// Files of an archive, by their paths below `prefix`. They belong to root, whoever packed them.
fn files_in(archive: impl Read, prefix: &str) -> Files {
    let mut files = Files::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        let ids = (header.uid().unwrap(), header.gid().unwrap());
        assert_eq!(ids, (0, 0), "{:?}", entry.path());
        if header.entry_type().is_dir() {
            continue;
        }
        assert!(header.entry_type().is_file(), "{:?}", entry.path());
        let mode = header.mode().unwrap();
        let path = entry.path().unwrap().into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
        let Ok(path) = path.strip_prefix(prefix) else {
            continue;
        };
        let path = path.to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        files.insert(path, (mode, bytes));
    }
    assert!(!files.is_empty());
    files
}

fn deb(packages: &Path) -> PathBuf {
    packages.join(format!("sandshell_{VERSION}_{ARCH}.deb"))
}

/// The standard output of a program that must succeed.
fn said(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}

fn below_usr(packages: &Path) -> Files {
    let tar = said(
        Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(deb(packages)),
    );
    files_in(&*tar, "usr")
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn packages_have_all_a_user_expects() {
    let Some(packages) = packages() else { return };
    let files = below_usr(&packages);
    let (mode, program) = &files["bin/sandshell"];
    assert_eq!(*mode & 0o7777, 0o755);
    assert!(*program == fs::read(super::binary(&packages)).unwrap());
    for (path, (mode, _)) in &files {
        assert!(
            path == "bin/sandshell" || mode & 0o7777 == 0o644,
            "{path}: {mode:o}"
        );
    }
    let page = unpacked(&files["share/man/man1/sandshell.1.gz"].1);
    assert!(page.contains(".SH NAME"), "{page}");
    let documentation = String::from_utf8_lossy(&files["lib/systemd/system/sandshell.service"].1);
    for page in documentation.split("man:").skip(1) {
        let name = page.split('(').next().unwrap();
        let path = format!("share/man/man1/{name}.1.gz");
        assert!(files.contains_key(&path), "there is no {path}");
    }
    for (path, text) in [
        (
            "share/bash-completion/completions/sandshell",
            "-F _clap_complete_sandshell sandshell",
        ),
        (
            "share/zsh/vendor-completions/_sandshell",
            "#compdef sandshell",
        ),
        (
            "share/fish/vendor_completions.d/sandshell.fish",
            "--command sandshell",
        ),
    ] {
        let completions = String::from_utf8_lossy(&files[path].1);
        assert!(completions.contains(text), "{path}");
    }
    // What others wrote comes with their names and licences.
    let notices = unpacked(&files["share/doc/sandshell/THIRD-PARTY.gz"].1);
    for name in ["tokio 1.", "serde 1.", "rusqlite 0.", "ring 0."] {
        assert!(notices.contains(name), "{name}");
    }

    // The tarball has the same, at the places it has below /usr/local.
    let name = format!("sandshell-{VERSION}-linux-{ARCH}");
    let tarball = File::open(packages.join(format!("{name}.tar.gz"))).unwrap();
    let same = files_in(GzDecoder::new(tarball), &name);
    let only = |these: &Files, those: &Files| -> BTreeSet<String> {
        let differs = |path: &&String| those.get(*path) != these.get(*path);
        these.keys().filter(differs).cloned().collect()
    };
    let set =
        |paths: &[&str]| -> BTreeSet<String> { paths.iter().map(|p| (*p).to_owned()).collect() };
    let of_debian = [
        "share/doc/sandshell/changelog.gz",
        "share/doc/sandshell/copyright",
        "share/zsh/vendor-completions/_sandshell",
    ];
    let of_others = [
        "share/doc/sandshell/LICENSE",
        "share/zsh/site-functions/_sandshell",
    ];
    assert_eq!(only(&files, &same), set(&of_debian));
    assert_eq!(only(&same, &files), set(&of_others));
}

fn in_hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.concat()
}

#[test]
fn checksums_are_those_of_the_files() {
    let Some(packages) = packages() else { return };
    let list = fs::read_to_string(packages.join("SHA256SUMS")).unwrap();
    let mut listed = BTreeSet::from(["SHA256SUMS".to_owned()]);
    for line in list.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let bytes = fs::read(packages.join(name)).unwrap();
        let found = in_hex(&Sha256::digest(bytes));
        assert_eq!(found, sum, "{name}");
        listed.insert(name.to_owned());
    }
    let all = fs::read_dir(&packages).unwrap();
    let all = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(all.collect::<BTreeSet<_>>(), listed);
}

#[test]
fn the_bill_of_materials_is_valid_and_whole() {
    let Some(packages) = packages() else { return };
    let file = packages.join(format!("sandshell-{VERSION}-linux-{ARCH}.cdx.json"));
    let bill: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(bill["metadata"]["component"]["name"], "sandshell");
    let components = bill["components"].as_array().unwrap();
    let name = |component: &Value| component["name"].as_str().unwrap().to_owned();
    let names: BTreeSet<String> = components.iter().map(name).collect();
    for inside in ["sqlite", "zstd", "tokio", "ring", "sandshell-hub"] {
        assert!(names.contains(inside), "{inside} is missing");
    }
    // Macros and tools of the tests are not in the binary.
    for outside in ["serde_derive", "proptest", "sandshell-testkit"] {
        assert!(!names.contains(outside), "{outside} is not in the binary");
    }
    // Whatever is referred to is there, and everything is reached.
    let mut known: BTreeSet<&str> = components
        .iter()
        .filter_map(|c| c["bom-ref"].as_str())
        .collect();
    let root = bill["metadata"]["component"]["bom-ref"].as_str().unwrap();
    let mut reached = BTreeSet::from([root]);
    for edge in bill["dependencies"].as_array().unwrap() {
        reached.extend(
            edge["dependsOn"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str),
        );
    }
    known.insert(root);
    assert_eq!(known, reached);
    valid(&file);
}

/// Against the published schema, by the format's own library.
fn valid(file: &Path) {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let root = crate::house::root();
    let venv = root.join(target).join("venv/packages");
    if !venv.join("installed").exists() {
        let why = format!(
            "{} has no Python packages; scripts/test installs them",
            venv.display()
        );
        return skipped(&why);
    }
    let check = root.join("tests/packages/valid.py");
    said(Command::new(venv.join("bin/python")).arg(check).arg(file));
}

/// By Debian's own tool for packages, in a Debian: what an administrator does in the life of one.
#[test]
fn debian_installs_upgrades_and_removes_it() {
    let Some(packages) = packages() else { return };
    let place = match Place::build(Kind::Debian, true) {
        Ok(place) => place,
        Err(why) => return skipped(&why),
    };
    let root = place.root();
    fs::copy(deb(&packages), root.join("package.deb")).unwrap();
    let before = listed(&root);
    let dpkg = |words: &[&str]| {
        let mut command = place.around();
        command.args([
            "--setenv",
            "PATH",
            "/usr/sbin:/usr/bin:/sbin:/bin",
            "--",
            "dpkg",
        ]);
        // Root of a sandbox has no right to change owners there.
        said(
            command
                .args(["--force-not-root", "--force-depends"])
                .args(words),
        );
    };
    dpkg(&["--install", "/package.deb"]);
    let version = place.said(&["/usr/bin/sandshell", "version"]);
    assert!(
        version.starts_with(&format!("sandshell {VERSION}")),
        "{version}"
    );
    let settings = root.join("etc/default/sandshell");
    fs::write(&settings, "# mine\n").unwrap();
    dpkg(&["--force-confold", "--install", "/package.deb"]);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "# mine\n");
    let state = root.join("var/lib/sandshell");
    fs::create_dir_all(&state).unwrap();
    dpkg(&["--remove", "sandshell"]);
    assert!(!root.join("usr/bin/sandshell").exists());
    assert!(
        state.exists() && settings.exists(),
        "a removal keeps what is the administrator's"
    );
    dpkg(&["--purge", "sandshell"]);
    let after = listed(&root);
    let left: Vec<_> = after.difference(&before).collect();
    // What dpkg keeps for itself: its log and its own lists.
    let left = left.into_iter().filter(|path| {
        let of_dpkg = path.starts_with("var/log") || path.starts_with("var/lib/dpkg");
        !of_dpkg
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    assert!(!state.exists());
}

/// Everything below a directory, by paths from there.
fn listed(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
            found.insert(entry.path().strip_prefix(root).unwrap().to_owned());
        }
    }
    found
}

/// By the tools that others would judge it with, where they are installed.
#[test]
fn the_unit_and_the_package_are_clean() {
    let Some(packages) = packages() else { return };
    let dir = tempfile::tempdir().unwrap();
    said(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(deb(&packages))
            .arg(dir.path()),
    );
    let tried = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().ok();
        if output.is_none() {
            let program = command.get_program().display().to_string();
            skipped(&format!("{program} is not installed"));
        }
        output
    };
    // Found by its name where it is installed; here it is not.
    let unit = dir.path().join("usr/lib/systemd/system/sandshell.service");
    let program = dir.path().join("usr/bin/sandshell");
    let text = fs::read_to_string(&unit).unwrap();
    let here = format!("\nExecStart={} ", program.display());
    fs::write(&unit, text.replacen("\nExecStart=sandshell ", &here, 1)).unwrap();
    if let Some(output) = tried(
        Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&unit),
    ) {
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        // One setting came with systemd 254; those before ignore it.
        let complaints = complaints
            .lines()
            .filter(|line| !line.contains("'DelegateSubgroup'"));
        let complaints: Vec<&str> = complaints.collect();
        assert!(
            output.status.success() && complaints.is_empty(),
            "{complaints:#?}"
        );
    }
    if let Some(output) = tried(
        Command::new("lintian")
            .args(["--fail-on=error"])
            .arg(deb(&packages)),
    ) {
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}
