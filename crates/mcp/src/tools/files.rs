//! Files of a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::{FileQuery, ListOptions, Page, ReadOptions, WriteOptions};
use sandshell_types::{Encoded, Encoding, FileEntry, FileKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::output::{MOST_BYTES, Written, bounded, push_line, without_broken_end};
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// Bytes of a file in an answer, unless the caller says otherwise.
const USUAL_BYTES: u64 = 50_000;

/// Entries of a directory in an answer.
const USUAL_ENTRIES: u64 = 200;
const MOST_ENTRIES: u64 = 1000;

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The sandbox's id.
    sandbox: String,
    /// Path of the file; relative ones start at /workspace.
    path: String,
    /// First byte to read; 0 by default.
    #[serde(default)]
    offset: u64,
    /// Most bytes in the answer; 50000 by default, 500000 at most.
    max_bytes: Option<u64>,
}

/// A part of a file, or all of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FilePart {
    path: String,
    /// The content from `offset` on; text, or base64 where it is not UTF-8.
    content: String,
    encoding: Written,
    /// Where `content` begins.
    offset: u64,
    /// Where to go on reading. Absent at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Bytes of the whole file.
    size: u64,
}

impl Answer for FilePart {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.encoding == Written::Base64 {
            text.push_str("[base64]\n");
        }
        match self.next_offset {
            None if self.size == 0 => text.push_str("[the file is empty]"),
            // The whole of it, exactly.
            None if self.offset == 0 => text.push_str(&self.content),
            None => push_line(&mut text, &self.content),
            Some(next) => {
                push_line(&mut text, &self.content);
                text.push_str(&format!(
                    "[{} of {} bytes left out: read_file with offset={next} reads on]",
                    self.size.saturating_sub(next),
                    self.size
                ));
            }
        }
        text
    }
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const TITLE: &'static str = "Read a file";
    const ABOUT: &'static str = "Read a file of the sandbox, or a part of a long one.";
    const EFFECT: Effect = Effect::Reads;
    type Output = FilePart;

    async fn run(self, call: &Call) -> Result<FilePart, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let most = bounded("max_bytes", self.max_bytes, USUAL_BYTES, 1..=MOST_BYTES)?;
        let file = FileQuery::new(self.path);
        let entry = sandbox.stat_file(&file, true).await?;
        let end = entry.size.min(self.offset.saturating_add(most));
        let bytes = if end > self.offset {
            let options = ReadOptions {
                range: Some(self.offset..end),
                ..ReadOptions::default()
            };
            let content = sandbox.read_file(&file, &options).await?;
            content.bytes.read_to_end().await?.to_vec()
        } else {
            // An empty file has no byte to ask for, and a directory is refused as such.
            if entry.kind != FileKind::File {
                sandbox.read_file(&file, &ReadOptions::default()).await?;
            }
            Vec::new()
        };
        let bytes = if end < entry.size {
            without_broken_end(bytes)
        } else {
            bytes
        };
        let next = self.offset + bytes.len() as u64;
        let content = Encoded::new(bytes, Encoding::Auto);
        Ok(FilePart {
            path: entry.path,
            content: content.data,
            encoding: content.encoding.into(),
            offset: self.offset,
            next_offset: (next < entry.size).then_some(next),
            size: entry.size,
        })
    }
}

/// How given content is written.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Given {
    #[default]
    Utf8,
    Base64,
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The sandbox's id.
    sandbox: String,
    /// Path of the file; relative ones start at /workspace. Missing directories are made.
    path: String,
    /// The content: text, or base64 if `encoding` says so.
    content: String,
    /// `utf8` by default, `base64` for bytes that are not text.
    #[serde(default)]
    encoding: Given,
    /// Add to the end of the file instead of replacing it.
    #[serde(default)]
    append: bool,
    /// Make it executable.
    #[serde(default)]
    executable: bool,
}

/// A file or directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FileInfo {
    path: String,
    /// `file`, `directory`, `symlink` or what else it is.
    kind: String,
    /// Bytes of a file.
    size: u64,
    /// Permission bits, such as `0644`.
    mode: String,
    modified_at: String,
}

impl From<FileEntry> for FileInfo {
    fn from(entry: FileEntry) -> Self {
        let kind = serde_json::to_value(entry.kind).unwrap_or_default();
        Self {
            kind: kind.as_str().unwrap_or("unknown").to_owned(),
            size: entry.size,
            mode: entry.mode.to_string(),
            modified_at: entry.modified_at.to_string(),
            path: entry.path,
        }
    }
}

impl Answer for FileInfo {
    fn text(&self) -> String {
        format!("{} has {} bytes", self.path, self.size)
    }
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const TITLE: &'static str = "Write a file";
    const ABOUT: &'static str = "Write a file of the sandbox: make it, replace its content, or append to \
        it. Readers see the old content or the new, never a part of it.";
    const EFFECT: Effect = Effect::Runs;
    type Output = FileInfo;

    async fn run(self, call: &Call) -> Result<FileInfo, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let content = match self.encoding {
            Given::Utf8 => self.content.into_bytes(),
            Given::Base64 => BASE64
                .decode(self.content.trim())
                .map_err(|error| Refusal::argument("content", error))?,
        };
        let options = WriteOptions {
            append: self.append,
            mode: self
                .executable
                .then(|| sandshell_types::FileMode::new(0o755))
                .flatten(),
            ..WriteOptions::default()
        };
        let file = FileQuery::new(self.path);
        Ok(sandbox.write_file(&file, &options, content).await?.into())
    }
}

/// Arguments of `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// The sandbox's id.
    sandbox: String,
    /// Path of the directory; relative ones start at /workspace, which is the default.
    path: Option<String>,
    /// Also what is in its directories.
    #[serde(default)]
    recursive: bool,
    /// Most entries in the answer; 200 by default, 1000 at most.
    limit: Option<u64>,
    /// `next_cursor` of the answer before, to go on.
    cursor: Option<String>,
}

/// What is in a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listing {
    entries: Vec<FileInfo>,
    /// There is more: give this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Answer for Listing {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .entries
            .iter()
            .map(|entry| match entry.kind.as_str() {
                "directory" => format!("{}/", entry.path),
                "file" => format!("{} ({} bytes)", entry.path, entry.size),
                kind => format!("{} ({kind})", entry.path),
            })
            .collect();
        match &self.next_cursor {
            Some(cursor) => lines.push(format!("[there is more: list_files with cursor={cursor}]")),
            None if lines.is_empty() => lines.push("[nothing is there]".to_owned()),
            None => {}
        }
        lines.join("\n")
    }
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const TITLE: &'static str = "List files";
    const ABOUT: &'static str = "What is in a directory of the sandbox, with sizes. To find files by name \
        or content, run_command with find or grep is better.";
    const EFFECT: Effect = Effect::Reads;
    type Output = Listing;

    async fn run(self, call: &Call) -> Result<Listing, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let limit = bounded("limit", self.limit, USUAL_ENTRIES, 1..=MOST_ENTRIES)?;
        let options = ListOptions {
            recursive: self.recursive,
            hidden: None,
        };
        let page = Page {
            limit: u32::try_from(limit).ok(),
            cursor: self.cursor,
        };
        let dir = FileQuery::new(self.path.unwrap_or_else(|| ".".to_owned()));
        let list = sandbox.list_files(&dir, options, &page).await?;
        Ok(Listing {
            entries: list.items.into_iter().map(FileInfo::from).collect(),
            next_cursor: list.next_cursor,
        })
    }
}
