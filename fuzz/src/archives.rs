//! Archives: their reader, and everything that unpacks one. Whatever is in it, nothing lands outside.

use std::collections::HashSet;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sandshell_cli::fuzzing::unpack;
use sandshell_files::archive::{Kind, Reader, decompress};
use sandshell_files::{Stop, merge_into, replace};
use sandshell_hub::images::import;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::input::{Input, sections};
use crate::place::Place;

const BLOCK: usize = 512;

/// Sets the checksums right, and ends the archive as one ends, so that what is fuzzed is what comes after
/// them. An input that begins with a bang is left as it is.
fn set_right(data: &[u8]) -> Vec<u8> {
    if let [b'!', raw @ ..] = data {
        return raw.to_vec();
    }
    let mut archive = data.to_vec();
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = header[124..136]
            .iter()
            .skip_while(|byte| **byte == b' ')
            .take_while(|byte| (b'0'..=b'7').contains(byte))
            .fold(0_usize, |size, byte| size * 8 + usize::from(byte - b'0'));
        at += BLOCK + size.next_multiple_of(BLOCK);
    }
    archive.truncate(at.min(archive.len()));
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// Every path of an archive that a strict reader takes; `None` when it refuses the archive.
fn entries(archive: &[u8]) -> Option<Vec<PathBuf>> {
    let plain = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    let mut reader = Reader::new(decompress(archive).ok()?);
    let mut paths = Vec::new();
    while let Some(head) = reader.next().ok()? {
        assert!(plain(&head.path), "{:?}", head.path);
        if let Kind::HardLink(first) = &head.kind {
            assert!(plain(first), "{first:?}");
        }
        let mut content = 0;
        let mut buffer = [0; 700];
        loop {
            match reader.content(&mut buffer).ok()? {
                0 => break,
                read => content += read as u64,
            }
        }
        assert_eq!(content, head.size);
        paths.push(head.path);
    }
    Some(paths)
}

/// The reader gives plain paths only, and contents as long as it says.
pub(crate) fn tar_reader(data: &[u8]) {
    entries(&set_right(data));
}

/// A directory to unpack into, with something beside it that must stay as it is.
struct Yard {
    place: Place,
}

const SECRET: &[u8] = b"not for archives";

impl Yard {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir_all(place.path().join("root/target")).unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/secret"), SECRET).unwrap();
        fs::write(place.path().join("root/beside"), SECRET).unwrap();
        Self { place }
    }

    fn target(&self) -> PathBuf {
        self.place.path().join("root/target")
    }

    fn names(&self, of: &str) -> HashSet<String> {
        let entries = fs::read_dir(self.place.path().join(of)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// Nothing outside the target has changed, and nothing in it is more than a file, directory or link.
    fn check(&self) {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected: HashSet<String> = set(&["root", "outside"]);
        assert_eq!(self.names(""), expected);
        assert_eq!(self.names("outside"), set(&["secret"]));
        let root: HashSet<String> = set(&["target", "beside"]);
        assert_eq!(self.names("root"), root);
        for file in ["outside/secret", "root/beside"] {
            let path = self.place.path().join(file);
            let now = fs::symlink_metadata(&path).unwrap();
            assert!(now.is_file() && now.permissions().mode() & 0o7000 == 0);
            assert_eq!(fs::read(&path).unwrap(), SECRET, "{file}");
            assert_eq!(
                std::os::unix::fs::MetadataExt::nlink(&now),
                1,
                "{file} is linked"
            );
        }
    }
}

/// All below a directory, links not followed.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            assert!(!kind.is_fifo() && !kind.is_socket() && !kind.is_block_device());
            assert!(!kind.is_char_device());
            if !kind.is_symlink() {
                let mode = entry.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o6000, 0, "{} is set-id", path.display());
            }
            if kind.is_dir() {
                dirs.push(path.clone());
            }
            found.push(path.strip_prefix(dir).unwrap().to_owned());
        }
    }
    found
}

/// Unpacks into a sandbox's directory: what is there afterwards is what the archive named, or nothing.
pub(crate) fn tar_unpack(data: &[u8]) {
    let mut input = Input(data);
    let anew = input.byte() & 1 == 1;
    let archive = set_right(input.0);
    let yard = Yard::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(yard.place.path().join("root"), flags, Mode::empty()).unwrap();
    let root = sandshell_exec::fuzzing::root(dir).unwrap();
    let stop = Stop::new(CancellationToken::new(), None);
    let target = Path::new("/target");
    let unpacked = if anew {
        replace(
            &root,
            target,
            archive.as_slice(),
            &stop,
            &|_| {},
            |_| Ok(()),
        )
    } else {
        merge_into(&root, target, archive.as_slice(), &stop)
    };
    yard.check();
    let there = below(&yard.target());
    let named = entries(&archive);
    match unpacked {
        Ok(counts) => {
            let named = named.expect("the reader takes what is unpacked");
            let allowed: HashSet<&Path> = named.iter().flat_map(|path| path.ancestors()).collect();
            for path in &there {
                assert!(allowed.contains(path.as_path()), "{path:?} was not named");
            }
            assert!(counts.files + counts.symlinks + counts.skipped <= named.len() as u64);
        }
        Err(_) => assert_eq!(
            there,
            Vec::<PathBuf>::new(),
            "a refused archive left something"
        ),
    }
}

/// `sandshell cp` out of a sandbox: the same on the user's machine.
pub(crate) fn cp_unpack(data: &[u8]) {
    let archive = set_right(data);
    let yard = Yard::new();
    let _ = unpack(archive, &yard.target());
    yard.check();
    below(&yard.target());
}

/// An import of an image: its documents, then its layers.
pub(crate) fn image_import(data: &[u8]) {
    let [manifest, configuration, layout, index, layer, more] = sections::<6>(data);
    let layer = set_right(layer);
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content).unwrap();
    };
    let digest = |content: &[u8]| -> String {
        let bytes = Sha256::digest(content);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    // Documents name each other by digests, which no mutation finds: the words stand for them.
    let mut known: Vec<(&str, String, usize)> = vec![("LAYER", digest(&layer), layer.len())];
    let mut filled = |word: &'static str, content: &[u8]| -> Vec<u8> {
        let mut text = content.to_vec();
        for (word, digest, size) in &known {
            text = replaced(&text, format!("@{word}@").as_bytes(), digest.as_bytes());
            text = replaced(
                &text,
                format!("@{word}SIZE@").as_bytes(),
                size.to_string().as_bytes(),
            );
        }
        known.push((word, digest(&text), text.len()));
        text
    };
    let configuration = filled("CONFIG", configuration);
    let more = filled("MORE", more);
    let index = filled("INDEX", index);
    let manifest = filled("MANIFEST", manifest);
    for (name, content) in [
        ("manifest.json", manifest.as_slice()),
        ("config.json", &configuration),
        ("oci-layout", layout),
        ("index.json", &index),
        ("layer.tar", &layer),
    ] {
        if !content.is_empty() {
            add(name, content);
            add(&format!("blobs/sha256/{}", digest(content)), content);
        }
    }
    add(&format!("blobs/sha256/{}", digest(&more)), &more);
    let archive = builder.into_inner().unwrap();

    let yard = Yard::new();
    let stop = CancellationToken::new();
    let imported = import(Cursor::new(archive), &yard.target(), &stop);
    yard.check();
    if let Ok(imported) = imported {
        let names = yard.names("root/target");
        assert_eq!(names, HashSet::from(["root".to_owned()]));
        assert!(imported.config.env.len() <= configuration.len());
    }
}

fn replaced(text: &[u8], word: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(word.len()).position(|window| window == word) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by);
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}
