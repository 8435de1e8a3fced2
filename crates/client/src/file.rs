//! Calls for files.

use std::fmt::Display;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sandshell_types::{
    ChmodReply, ChmodRequest, CopyReply, CopyRequest, FileEntry, FileMode, List, MkdirRequest,
    MoveRequest, RemoveReply, RemoveRequest, SessionId, Timestamp,
};

use crate::connection::OutBody;
use crate::query::{Page, Query};
use crate::{ByteStream, Client, ClientError};

/// Which file, and with whose rights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileQuery {
    /// Its path. Relative ones start at the session's directory, or the sandbox's.
    pub path: String,
    /// Instead of `path`: base64 of its bytes, for names that are not UTF-8.
    pub path_base64: Option<String>,
    /// A user name or uid; the sandbox's user when not said.
    pub user: Option<String>,
    /// Where relative paths start.
    pub session: Option<SessionId>,
}

impl FileQuery {
    /// A path, with the rights of the sandbox's user.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    pub(crate) fn query(&self) -> Query {
        let text = self.path_base64.is_none().then_some(&self.path);
        Query::default()
            .with("path", text)
            .with("path_base64", self.path_base64.as_ref())
            .with("user", self.user.as_ref())
            .with("session", self.session.as_ref())
    }
}

/// How a file is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Make missing directories; the server does when not said.
    pub parents: Option<bool>,
    /// Permission bits.
    pub mode: Option<FileMode>,
    /// Time of modification.
    pub modified_at: Option<Timestamp>,
    /// Answer only when it is on the disk.
    pub durable: bool,
    /// Add to the end of what is there.
    pub append: bool,
    /// Only if the file has this ETag; `*`: only if there is one.
    pub if_match: Option<String>,
    /// `*`: only if there is none.
    pub if_none_match: Option<String>,
}

/// Which bytes of a file are read, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// First byte and the one after the last.
    pub range: Option<std::ops::Range<u64>>,
    /// Not if the file has this ETag.
    pub if_none_match: Option<String>,
    /// Only if the file has this ETag.
    pub if_match: Option<String>,
}

/// The content of a file, as it arrives.
#[derive(Debug)]
pub struct FileContent {
    /// What tells this content from another.
    pub etag: Option<String>,
    /// Bytes that come, where the server knows.
    pub length: Option<u64>,
    /// Whether the file is what the caller has already; then nothing comes.
    pub not_modified: bool,
    /// The bytes.
    pub bytes: ByteStream,
}

/// What a list has in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Also what is in its directories.
    pub recursive: bool,
    /// Whether names that begin with a dot count; they do when not said.
    pub hidden: Option<bool>,
}

impl Client {
    /// The content of a file.
    pub async fn read_file(
        &self,
        file: &FileQuery,
        options: &ReadOptions,
    ) -> Result<FileContent, ClientError> {
        let path = format!("/v1/files/content{}", file.query());
        let mut headers = HeaderMap::new();
        if let Some(range) = &options.range {
            let text = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
            insert(&mut headers, header::RANGE, text)?;
        }
        for (name, value) in [
            (header::IF_NONE_MATCH, &options.if_none_match),
            (header::IF_MATCH, &options.if_match),
        ] {
            if let Some(value) = value {
                insert(&mut headers, name, value)?;
            }
        }
        let (head, bytes) = self.get_with(&path, headers).await?;
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        Ok(FileContent {
            etag: text(header::ETAG).map(str::to_owned),
            length: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            not_modified: head.status == StatusCode::NOT_MODIFIED,
            bytes,
        })
    }

    /// The content of a file with the head of the answer, for those who pass on the ranges and conditions
    /// of others.
    pub async fn file_response(
        &self,
        file: &FileQuery,
        headers: HeaderMap,
    ) -> Result<(http::response::Parts, ByteStream), ClientError> {
        let path = format!("/v1/files/content{}", file.query());
        self.get_with(&path, headers).await
    }

    /// Writes a file that is in memory.
    pub async fn write_file(
        &self,
        file: &FileQuery,
        options: &WriteOptions,
        content: impl Into<Bytes>,
    ) -> Result<FileEntry, ClientError> {
        self.put_file(file, options, OutBody::Whole(content.into()))
            .await
    }

    /// Writes a file from a stream. When the stream fails, nothing is written.
    pub async fn upload_file(
        &self,
        file: &FileQuery,
        options: &WriteOptions,
        content: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<FileEntry, ClientError> {
        self.put_file(file, options, OutBody::stream(content)).await
    }

    async fn put_file(
        &self,
        file: &FileQuery,
        options: &WriteOptions,
        body: OutBody,
    ) -> Result<FileEntry, ClientError> {
        let query = file
            .query()
            .with("parents", options.parents)
            .with("mode", options.mode)
            .with("modified_at", options.modified_at)
            .with("durable", options.durable.then_some(true))
            .with("append", options.append.then_some(true));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::IF_NONE_MATCH, &options.if_none_match),
            (header::IF_MATCH, &options.if_match),
        ] {
            if let Some(value) = value {
                insert(&mut headers, name, value)?;
            }
        }
        self.send_body(
            Method::PUT,
            &format!("/v1/files/content{query}"),
            headers,
            body,
        )
        .await
    }

    /// What is at a path; `follow` says whether a link at its end counts or what it leads to.
    pub async fn stat_file(
        &self,
        file: &FileQuery,
        follow: bool,
    ) -> Result<FileEntry, ClientError> {
        let query = file.query().with("follow", Some(follow));
        self.get(&format!("/v1/files/stat{query}")).await
    }

    /// One page of a directory.
    pub async fn list_files(
        &self,
        dir: &FileQuery,
        options: ListOptions,
        page: &Page,
    ) -> Result<List<FileEntry>, ClientError> {
        let query = list_query(dir, options).page(page);
        self.get(&format!("/v1/files{query}")).await
    }

    /// A whole directory as it is read: one JSON [`FileEntry`] on each line.
    pub async fn list_files_lines(
        &self,
        dir: &FileQuery,
        options: ListOptions,
    ) -> Result<ByteStream, ClientError> {
        let query = list_query(dir, options);
        let mut headers = HeaderMap::new();
        insert(&mut headers, header::ACCEPT, "application/x-ndjson")?;
        let reply = self.get_with(&format!("/v1/files{query}"), headers).await?;
        Ok(reply.1)
    }

    /// Makes a directory.
    pub async fn make_directory(&self, request: &MkdirRequest) -> Result<FileEntry, ClientError> {
        self.post("/v1/files/mkdir", request).await
    }

    /// Moves or renames.
    pub async fn move_file(&self, request: &MoveRequest) -> Result<FileEntry, ClientError> {
        self.post("/v1/files/move", request).await
    }

    /// Copies a file or a tree.
    pub async fn copy_file(&self, request: &CopyRequest) -> Result<CopyReply, ClientError> {
        self.post("/v1/files/copy", request).await
    }

    /// Removes a file or a tree.
    pub async fn remove_file(&self, request: &RemoveRequest) -> Result<RemoveReply, ClientError> {
        self.post("/v1/files/remove", request).await
    }

    /// Changes permission bits.
    pub async fn change_mode(&self, request: &ChmodRequest) -> Result<ChmodReply, ClientError> {
        self.post("/v1/files/chmod", request).await
    }
}

fn list_query(dir: &FileQuery, options: ListOptions) -> Query {
    dir.query()
        .with("recursive", options.recursive.then_some(true))
        .with("hidden", options.hidden)
}

fn insert(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: impl Display,
) -> Result<(), ClientError> {
    let value = HeaderValue::from_str(&value.to_string())
        .map_err(|error| ClientError::config(format!("the header {name}"), &error))?;
    headers.insert(name, value);
    Ok(())
}
