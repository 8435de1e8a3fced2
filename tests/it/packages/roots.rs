//! Root file systems to run the binary in, and bubblewrap around them, as a container engine would be:
//! all of the root is there and can be written, /proc and /dev are the container's own, and so are
//! processes, network and the rest.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandshell_client::Client;
use sandshell_testkit::Agent;
use tempfile::TempDir;

use super::image::Image;

/// Whose root file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nobody's.
    Scratch,
    /// Such as Alpine's: busybox, and musl as the C library.
    Musl,
    /// Debian's own packages.
    Debian,
}

/// One root, and where things of the test's lie beside it.
pub(super) struct Place {
    dir: TempDir,
    kind: Kind,
    bash: bool,
}

impl Place {
    /// Builds one, or says why it cannot be.
    pub(super) fn build(kind: Kind, bash: bool) -> Result<Self, String> {
        let dir = TempDir::with_prefix("sandshell-test-").unwrap();
        let place = Self { dir, kind, bash };
        let root = place.root();
        match kind {
            Kind::Scratch => fs::create_dir(&root).unwrap(),
            Kind::Musl => busybox(&root)?,
            Kind::Debian => debian(&root)?,
        }
        if kind == Kind::Debian {
            if !bash {
                fs::remove_file(root.join("bin/bash")).unwrap();
            }
        } else if bash {
            fs::create_dir_all(root.join("bin")).unwrap();
            put("bash-static", &root.join("bin/bash"))?;
        }
        fs::create_dir_all(root.join("etc")).unwrap();
        Ok(place)
    }

    /// With an image's files in it.
    pub(super) fn with(self, image: &Image, context: &Path) -> Self {
        image.copy_to(&self.root(), context);
        self
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// That it is what its name says.
    pub(super) fn proves_itself(&self) {
        let has_bash = self.root().join("bin/bash").exists();
        assert_eq!(has_bash, self.bash);
        match self.kind {
            Kind::Scratch => assert!(!self.root().join("bin/sh").exists()),
            // A program that needs the C library of this root and no other.
            Kind::Musl => assert_eq!(self.said(&["/bin/linked"]), "musl\n"),
            Kind::Debian => {
                let said = self.said(&["/bin/cat", "/etc/os-release"]);
                assert!(said.contains("ID=debian\n"), "{said}");
            }
        }
    }

    /// Bubblewrap around the root, without a program yet. What is beside the root is at its own path.
    pub(super) fn around(&self) -> Command {
        let mut command = Command::new("bwrap");
        command
            .args(["--unshare-all", "--die-with-parent", "--new-session"])
            .args(["--uid", "0", "--gid", "0", "--clearenv", "--bind"])
            .args([self.root(), "/".into()])
            .args(["--proc", "/proc", "--dev", "/dev"])
            .stdin(Stdio::null());
        command
    }

    pub(super) fn said(&self, words: &[&str]) -> String {
        let output = self.around().args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The image's program with these words instead of its usual ones.
    pub(super) fn command(&self, image: &Image, words: &[&str]) -> Command {
        let mut command = self.around();
        for (name, value) in image.env() {
            command.args(["--setenv", name, value]);
        }
        command.arg(&image.entrypoint()[0]).args(words);
        command
    }

    pub(super) fn output(&self, image: &Image, words: &[&str]) -> String {
        let output = self.command(image, words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The image as an engine would start it, but on a socket that the test can reach.
    pub(super) fn agent(&self, image: &Image) -> Contained {
        let mut words = Vec::new();
        for (name, value) in image.env() {
            words.extend(["--setenv".to_owned(), name.to_owned(), value.to_owned()]);
        }
        words.extend_from_slice(image.entrypoint());
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        // Of the fixture's own arguments those stay that say where the agent is to be found.
        let script = format!(
            "#!/bin/sh\nhere=$(dirname \"$PWD\")\nset -- --listen \"unix:$here/agent.sock\" --ready-file \
             \"$here/ready.json\"\nexec bwrap --unshare-all --die-with-parent --new-session --as-pid-1 --uid 0 \
             --gid 0 --clearenv --bind '{}' / --proc /proc --dev /dev --bind \"$here\" \"$here\" {} \"$@\"\n",
            self.root().display(),
            words.join(" "),
        );
        let file = self.dir.path().join("start");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Contained(Agent::builder().unix_socket().binary(file).start())
    }
}

/// An agent as PID 1 of a container.
pub(super) struct Contained(Agent);

impl Contained {
    /// A client with the token that the agent made where the image says.
    pub(super) fn client(&self, place: &Place, image: &Image) -> Client {
        let file = image.variable("SANDSHELL_TOKEN_FILE");
        let file = place.root().join(file.trim_start_matches('/'));
        let token = fs::read_to_string(&file).unwrap();
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        Client::new(self.0.url(), Some(token.trim_end())).unwrap()
    }
}

/// Copies a program of this machine.
fn put(name: &str, to: &Path) -> Result<(), String> {
    let found = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(name));
    let from = found.iter().find(|path| path.exists());
    let from = from.ok_or_else(|| format!("{name} is not installed; scripts/test installs it"))?;
    fs::copy(from, to).unwrap();
    Ok(())
}

fn busybox(root: &Path) -> Result<(), String> {
    for dir in ["bin", "lib", "etc"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    let program = root.join("bin/busybox");
    put("busybox", &program)?;
    let applets = Command::new(&program).arg("--list").output().unwrap();
    for applet in String::from_utf8(applets.stdout).unwrap().lines() {
        if applet != "busybox" {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
    }
    let loader = format!("ld-musl-{}.so.1", std::env::consts::ARCH);
    let library = Path::new("/lib").join(&loader);
    if !library.exists() {
        return Err(format!(
            "{} is not installed; scripts/test installs it",
            library.display()
        ));
    }
    fs::copy(library, root.join("lib").join(loader)).unwrap();
    let source = root.join("linked.c");
    fs::write(
        &source,
        "#include <stdio.h>\nint main(void) { return puts(\"musl\") < 0; }\n",
    )
    .unwrap();
    let made = Command::new("musl-gcc")
        .arg(&source)
        .arg("-o")
        .arg(root.join("bin/linked"))
        .status();
    assert!(made.unwrap().success());
    Ok(())
}

/// A copy of the one that `scripts/test` has made, sharing its files.
fn debian(root: &Path) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let kept = crate::house::root().join(target).join("roots/debian");
    if !kept.join("etc/os-release").exists() {
        return Err(format!(
            "{} is not there; scripts/test makes it",
            kept.display()
        ));
    }
    let copied = Command::new("cp").arg("-al").args([&kept, root]).status();
    assert!(copied.unwrap().success());
    Ok(())
}
