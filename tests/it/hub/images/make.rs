//! Images as other tools would write them, made of this machine's bash.

use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// Programs of the root.
const PROGRAMS: &[&str] = &["bash", "cat", "dd", "id", "ls", "readlink", "stat"];

/// An entry of an archive.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Dir(u32),
    File(&'a str),
    Link(&'a str),
    Hard(&'a str),
    Device,
}

/// A root with a shell in it, and what it needs to run.
pub(super) fn root() -> TempDir {
    let dir = TempDir::with_prefix("sandshell-root-").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let put = |from: &Path| {
        let to = dir.path().join(from.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if !to.exists() {
            fs::copy(from, to).unwrap();
        }
    };
    for program in PROGRAMS {
        let found = output_of(Command::new("which").arg(program));
        let program = found.trim_end();
        let name = Path::new(program).file_name().unwrap();
        let to = dir.path().join("bin").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(program, to).unwrap();
        for word in output_of(Command::new("ldd").arg(program)).split_whitespace() {
            if word.starts_with('/') {
                put(Path::new(word));
            }
        }
    }
    symlink("bash", dir.path().join("bin/sh")).unwrap();
    dir
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The tar of a directory, and some entries more.
pub(super) fn export(root: &Path, more: &[(&str, Item<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", root).unwrap();
    append(&mut builder, more);
    builder.into_inner().unwrap()
}

/// The tar of these entries.
pub(super) fn tar_of(entries: &[(&str, Item<'_>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, entries);
    builder.into_inner().unwrap()
}

fn append(builder: &mut Builder<Vec<u8>>, entries: &[(&str, Item<'_>)]) {
    for (name, item) in entries {
        let mut header = Header::new_gnu();
        // As it is, be it as wrong as it may: the library's own way refuses some names.
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        header.set_size(0);
        let set_link = |header: &mut Header, target: &str| {
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        };
        let content = match item {
            Item::Dir(mode) => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(*mode);
                ""
            }
            Item::File(content) => *content,
            Item::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                set_link(&mut header, target);
                ""
            }
            Item::Hard(target) => {
                header.set_entry_type(EntryType::Link);
                set_link(&mut header, target);
                ""
            }
            Item::Device => {
                header.set_entry_type(EntryType::Char);
                ""
            }
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(Cursor::new(bytes), 1).unwrap()
}

pub(super) fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// The configuration of an image of these layers.
pub(super) fn configuration(layers: &[Vec<u8>], config: &Value) -> Value {
    let diff_ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    json!({
        "architecture": architecture(), "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    })
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Files of an archive, in order.
pub(super) type Files = Vec<(String, Vec<u8>)>;

pub(super) fn archive(files: &Files) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, name, content.as_slice())
            .unwrap();
    }
    builder.into_inner().unwrap()
}

/// As `docker save` writes it; the manifest comes last.
pub(super) fn saved(layers: &[Vec<u8>], config: &Value) -> Files {
    let config = configuration(layers, config).to_string().into_bytes();
    let name = format!("{}.json", &digest(&config)["sha256:".len()..]);
    let mut files: Files = Vec::new();
    let mut names = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        names.push(format!("{at}/layer.tar"));
        files.push((format!("{at}/layer.tar"), layer.clone()));
    }
    let manifest = json!([{"Config": name, "RepoTags": ["x:latest"], "Layers": names}]);
    files.push((name, config));
    files.push((
        "manifest.json".to_owned(),
        manifest.to_string().into_bytes(),
    ));
    files
}

/// As an OCI layout has it; the layers are packed as told, and called by this media type.
pub(super) fn layout(
    layers: &[Vec<u8>],
    config: &Value,
    pack: impl Fn(&[u8]) -> Vec<u8>,
    media_type: &str,
) -> Files {
    let mut files: Files = Vec::new();
    let mut blob = |media_type: &str, content: Vec<u8>| {
        let digest = digest(&content);
        let described = json!({"mediaType": media_type, "digest": digest, "size": content.len()});
        files.push((digest.replace("sha256:", "blobs/sha256/"), content));
        described
    };
    let config = configuration(layers, config).to_string().into_bytes();
    let layers: Vec<Value> = layers
        .iter()
        .map(|layer| blob(media_type, pack(layer)))
        .collect();
    let config = blob("application/vnd.oci.image.config.v1+json", config);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
    let mut manifest = blob(kind, manifest.to_string().into_bytes());
    manifest["platform"] = json!({"os": "linux", "architecture": architecture()});
    let foreign = json!({
        "mediaType": kind, "digest": digest(b"foreign"), "size": 7,
        "platform": {"os": "linux", "architecture": "none"},
    });
    let index = json!({"schemaVersion": 2, "manifests": [foreign, manifest]});
    let layout = json!({"imageLayoutVersion": "1.0.0"});
    files.push(("oci-layout".to_owned(), layout.to_string().into_bytes()));
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files
}

pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
