//! Archives of layers: what `docker save` writes, and the OCI image layout.
//!
//! Owns their documents: which layers make up the image, in which order, and what they must be. Whatever
//! the documents say is checked: digests of blobs, of layers before compression, and the number of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use sandshell_types::ImageConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::extract::open_in;
use super::{ImageError, MAX_LAYERS};

/// Largest document of an image.
const MAX_DOCUMENT: u64 = 4 << 20;

/// Most documents between the index and the manifest.
const MAX_INDEXES: usize = 4;

/// Media types of layers, without what tells the compression, which is known by the content.
const LAYER_TYPES: &[&str] = &[
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];
const COMPRESSIONS: &[&str] = &["", "+gzip", "+zstd", ".gzip", ".zstd"];

const INDEX_TYPES: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFEST_TYPES: &[&str] = &[
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// An image that is made of layers.
#[derive(Debug)]
pub(super) struct Layered {
    /// The lowest first.
    pub(super) layers: Vec<Layer>,
    pub(super) config: ImageConfig,
    pub(super) digest: Option<String>,
}

/// One layer, in a file of the archive.
#[derive(Debug)]
pub(super) struct Layer {
    /// Its name in the archive.
    pub(super) path: PathBuf,
    /// The digest of the file.
    blob: Option<Descriptor>,
    /// The digest of what it is before compression.
    pub(super) content: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
struct Layout {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// An item of `manifest.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(default)]
    config: Option<Commands>,
    rootfs: Rootfs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Commands {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    cmd: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Rootfs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// Looks at what came out of an archive; `None` when that is no archive of layers but a root. A root may
/// have files with the names of our documents, and anything in them.
pub(super) fn find(archive: &OwnedFd) -> Result<Option<Layered>, ImageError> {
    match find_documents(archive) {
        Err(ImageError::Invalid { .. }) if looks_like_root(archive) => Ok(None),
        found => found,
    }
}

/// Whether it has a directory that every root has one of, and no archive of layers.
fn looks_like_root(archive: &OwnedFd) -> bool {
    let is_there = |name: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        open_in(archive, Path::new(name), flags).is_ok()
    };
    ["bin", "etc", "lib", "usr"].into_iter().any(is_there)
}

fn find_documents(archive: &OwnedFd) -> Result<Option<Layered>, ImageError> {
    let saved = Archive(archive).text("manifest.json")?;
    let layout = Archive(archive).text("oci-layout")?;
    if let Some(text) = saved {
        // A root may have a file of this name too; ours is a list.
        match serde_json::from_slice::<serde_json::Value>(&text) {
            Ok(serde_json::Value::Array(_)) => {
                return Archive(archive).saved(&text).map(Some);
            }
            Err(error) if layout.is_none() => {
                return Err(unreadable("manifest.json", &error));
            }
            _ => {}
        }
    }
    let Some(layout) = layout else {
        return Ok(None);
    };
    let layout: Layout = parse("oci-layout", &layout)?;
    if layout.version.split('.').next() != Some("1") {
        let version = layout.version;
        return Err(ImageError::invalid(format!(
            "its layout has the unknown version {version:?}"
        )));
    }
    Archive(archive).oci().map(Some)
}

struct Archive<'a>(&'a OwnedFd);

impl Archive<'_> {
    fn saved(&self, text: &[u8]) -> Result<Layered, ImageError> {
        let mut saved: Vec<Saved> = parse("manifest.json", text)?;
        let (Some(image), true) = (saved.pop(), saved.is_empty()) else {
            return Err(ImageError::invalid(
                "an import takes one image, and manifest.json has none or several",
            ));
        };
        let text = self.document(&image.config)?;
        let digest = hex_of(&text);
        let name = Path::new(&image.config).file_stem().unwrap_or_default();
        // The name is the digest, as a rule.
        if name.len() == digest.len() && name != digest.as_str() {
            return Err(wrong(&image.config));
        }
        let configuration: Configuration = parse(&image.config, &text)?;
        let layers = image.layers.into_iter().map(|path| Layer {
            path: path.into(),
            blob: None,
            content: None,
        });
        let digest = Some(format!("sha256:{digest}"));
        layered(layers.collect(), configuration, digest)
    }

    fn oci(&self) -> Result<Layered, ImageError> {
        let mut index: Index = parse("index.json", &self.document("index.json")?)?;
        for _ in 0..MAX_INDEXES {
            let chosen = choose(index)?;
            let text = self.blob(&chosen)?;
            if INDEX_TYPES.contains(&chosen.media_type.as_str()) {
                index = parse(&chosen.digest, &text)?;
                continue;
            }
            if !MANIFEST_TYPES.contains(&chosen.media_type.as_str()) {
                return Err(unknown_type(&chosen));
            }
            let manifest: Manifest = parse(&chosen.digest, &text)?;
            let configuration = parse(&manifest.config.digest, &self.blob(&manifest.config)?)?;
            let layers = manifest
                .layers
                .into_iter()
                .map(layer)
                .collect::<Result<_, _>>()?;
            return layered(layers, configuration, Some(chosen.digest));
        }
        Err(ImageError::invalid("its indexes go on without an end"))
    }

    /// A document by its digest.
    fn blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
        let path = blob_path(&descriptor.digest)?;
        let text = self.document(&path)?;
        let right = text.len() as u64 == descriptor.size
            && format!("sha256:{}", hex_of(&text)) == descriptor.digest;
        if right { Ok(text) } else { Err(wrong(&path)) }
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    fn text(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        let Some(mut file) = self.file(Path::new(name))? else {
            return Ok(None);
        };
        let length = file.metadata().map(|metadata| metadata.len());
        if length.is_ok_and(|length| length > MAX_DOCUMENT) {
            return Err(ImageError::invalid(format!(
                "{name} is larger than {MAX_DOCUMENT} bytes"
            )));
        }
        let mut text = Vec::new();
        let read = file.read_to_end(&mut text);
        read.map_err(|error| ImageError::from_io(name, &error))?;
        Ok(Some(text))
    }

    /// A regular file of the archive. Of old, layers that came twice were links.
    fn file(&self, path: &Path) -> Result<Option<File>, ImageError> {
        match open_in(self.0, path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => {
                let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
                Ok((kind == Ok(FileType::RegularFile)).then(|| file.into()))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(ImageError::at(path)(errno)),
        }
    }
}

impl Layer {
    /// The file, once it has been found to be what it should be.
    pub(super) fn open(
        &self,
        archive: &OwnedFd,
        stop: &CancellationToken,
    ) -> Result<File, ImageError> {
        let name = self.path.to_string_lossy();
        let mut file = Archive(archive)
            .file(&self.path)?
            .ok_or_else(|| missing(&name))?;
        if let Some(blob) = &self.blob {
            let io = |error: std::io::Error| ImageError::from_io(&self.path, &error);
            let mut hash = Hashing::new(&mut file, stop);
            let length = std::io::copy(&mut hash, &mut std::io::sink()).map_err(io)?;
            if length != blob.size || hash.digest() != blob.digest {
                return Err(wrong(&name));
            }
            file.rewind().map_err(io)?;
        }
        Ok(file)
    }

    /// Whether the content had this digest.
    pub(super) fn check(&self, digest: &str) -> Result<(), ImageError> {
        match &self.content {
            Some(expected) if expected != digest => Err(wrong(&self.path.to_string_lossy())),
            _ => Ok(()),
        }
    }
}

/// Passes bytes on and remembers their digest, until it is to stop.
pub(super) struct Hashing<'a, R> {
    input: R,
    hash: Sha256,
    stop: &'a CancellationToken,
}

impl<'a, R: Read> Hashing<'a, R> {
    pub(super) fn new(input: R, stop: &'a CancellationToken) -> Self {
        let hash = Sha256::new();
        Self { input, hash, stop }
    }

    pub(super) fn digest(self) -> String {
        format!("sha256:{}", crate::hex(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(std::io::Error::other("the import was broken off"));
        }
        let read = self.input.read(buffer)?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// The one image of an index that can run here.
fn choose(index: Index) -> Result<Descriptor, ImageError> {
    let fits = |descriptor: &Descriptor| {
        descriptor.platform.as_ref().is_none_or(|platform| {
            platform.os == "linux" && platform.architecture == architecture()
        })
    };
    let all = index.manifests.len();
    let mut fitting = index.manifests.into_iter().filter(fits);
    match (fitting.next(), fitting.count()) {
        (Some(chosen), 0) => Ok(chosen),
        (None, _) => Err(ImageError::invalid(format!(
            "none of its {all} images is for linux on {}",
            architecture()
        ))),
        (Some(_), more) => Err(ImageError::invalid(format!(
            "an import takes one image, and there are {}",
            more + 1
        ))),
    }
}

/// What images call this machine's processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn layer(descriptor: Descriptor) -> Result<Layer, ImageError> {
    let known = LAYER_TYPES.iter().any(|kind| {
        let rest = descriptor.media_type.strip_prefix(kind);
        rest.is_some_and(|rest| COMPRESSIONS.contains(&rest))
    });
    if !known {
        return Err(unknown_type(&descriptor));
    }
    Ok(Layer {
        path: blob_path(&descriptor.digest)?.into(),
        blob: Some(descriptor),
        content: None,
    })
}

fn layered(
    mut layers: Vec<Layer>,
    configuration: Configuration,
    digest: Option<String>,
) -> Result<Layered, ImageError> {
    let (count, said) = (layers.len(), configuration.rootfs.diff_ids.len());
    if count != said {
        return Err(ImageError::invalid(format!(
            "it has {count} layers, and its configuration says {said}"
        )));
    }
    if count == 0 || count > MAX_LAYERS {
        return Err(ImageError::invalid(format!(
            "an image has 1 to {MAX_LAYERS} layers, not {count}"
        )));
    }
    for (layer, content) in layers.iter_mut().zip(configuration.rootfs.diff_ids) {
        layer.content = Some(content);
    }
    Ok(Layered {
        layers,
        config: commands(configuration.config.unwrap_or_default())?,
        digest,
    })
}

fn commands(commands: Commands) -> Result<ImageConfig, ImageError> {
    let mut env = BTreeMap::new();
    for variable in commands.env.unwrap_or_default() {
        // Without a value it would be the variable of whoever runs it, which is nobody here.
        if let Some((name, value)) = variable.split_once('=')
            && !name.is_empty()
        {
            env.insert(name.to_owned(), value.to_owned());
        }
    }
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let config = ImageConfig {
        env,
        user: given(commands.user),
        workdir: given(commands.working_dir).map(|path| {
            let path = path.trim_start_matches('/');
            format!("/{path}")
        }),
        cmd: commands.cmd.unwrap_or_default(),
        entrypoint: commands.entrypoint.unwrap_or_default(),
    };
    let has_nul = {
        let variables = config.env.iter().flat_map(|(name, value)| [name, value]);
        let words = config.cmd.iter().chain(&config.entrypoint);
        let mut all = variables
            .chain(words)
            .chain(&config.user)
            .chain(&config.workdir);
        all.any(|text| text.contains('\0'))
    };
    if has_nul {
        return Err(ImageError::invalid("its configuration has a NUL in it"));
    }
    Ok(config)
}

fn blob_path(digest: &str) -> Result<String, ImageError> {
    let hex = digest.strip_prefix("sha256:");
    let digits = |hex: &&str| {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        hex.len() == 64 && hex.bytes().all(digit)
    };
    match hex.filter(digits) {
        Some(hex) => Ok(format!("blobs/sha256/{hex}")),
        None => Err(ImageError::invalid(format!(
            "{digest:?} is no sha256 digest"
        ))),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    crate::hex(&Sha256::digest(bytes))
}

fn parse<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(text).map_err(|error| unreadable(name, &error))
}

fn unreadable(name: &str, error: &serde_json::Error) -> ImageError {
    ImageError::invalid(format!("{name} is not what it should be: {error}"))
}

fn missing(name: &str) -> ImageError {
    ImageError::invalid(format!("{name} is missing"))
}

fn wrong(name: &str) -> ImageError {
    ImageError::invalid(format!("{name} does not have the digest it should have"))
}

fn unknown_type(descriptor: &Descriptor) -> ImageError {
    let (kind, digest) = (&descriptor.media_type, &descriptor.digest);
    ImageError::invalid(format!("{digest} has the unknown media type {kind:?}"))
}
