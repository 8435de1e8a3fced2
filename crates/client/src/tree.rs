//! Calls that find files, search in them, and move trees in and out.

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method};
use sandshell_types::{
    ArchiveCounts, ArchiveFormat, BackupId, BackupRecord, BackupRequest, FindReply, FindRequest,
    List, RestoreReply, RestoreRequest, SearchReply, SearchRequest,
};

use crate::connection::OutBody;
use crate::query::Query;
use crate::{ByteStream, Client, ClientError, FileQuery, Page, SseStream};

/// What goes into an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveQuery {
    /// The directory, and whose rights are used.
    pub directory: FileQuery,
    /// Its form.
    pub format: ArchiveFormat,
    /// Globs of what to leave out.
    pub exclude: Vec<String>,
    /// Leave out what .gitignore files exclude.
    pub gitignore: bool,
    /// Leave out what cannot be read.
    pub skip_unreadable: bool,
    /// Store each name of a hard-linked file as a file of its own.
    pub copy_links: bool,
}

impl Client {
    /// Finds files by name.
    pub async fn find_files(&self, request: &FindRequest) -> Result<FindReply, ClientError> {
        self.post("/v1/files/find", request).await
    }

    /// Searches in files.
    pub async fn search_files(&self, request: &SearchRequest) -> Result<SearchReply, ClientError> {
        self.post("/v1/files/search", request).await
    }

    /// Searches in files; each match is an event.
    pub async fn search_events(&self, request: &SearchRequest) -> Result<SseStream, ClientError> {
        self.post_sse("/v1/files/search", request).await
    }

    /// A directory as an archive.
    pub async fn get_archive(&self, query: &ArchiveQuery) -> Result<ByteStream, ClientError> {
        let mut text = query
            .directory
            .query()
            .with("format", Some(query.format.as_str()))
            .with("gitignore", query.gitignore.then_some(true))
            .with("skip_unreadable", query.skip_unreadable.then_some(true))
            .with("copy_links", query.copy_links.then_some(true));
        for glob in &query.exclude {
            text = text.with("exclude", Some(glob));
        }
        self.get_bytes(&format!("/v1/files/archive{text}")).await
    }

    /// Unpacks an archive into a directory.
    pub async fn put_archive(
        &self,
        directory: &FileQuery,
        archive: impl Into<Bytes>,
    ) -> Result<ArchiveCounts, ClientError> {
        let path = format!("/v1/files/archive{}", directory.query());
        self.put_bytes(&path, archive.into()).await
    }

    /// Unpacks an archive that comes as a stream. When the stream fails, so does the call.
    pub async fn upload_archive(
        &self,
        directory: &FileQuery,
        archive: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<ArchiveCounts, ClientError> {
        let path = format!("/v1/files/archive{}", directory.query());
        let body = OutBody::stream(archive);
        self.send_body(Method::PUT, &path, HeaderMap::new(), body)
            .await
    }

    /// Makes a backup and waits for it.
    pub async fn create_backup(
        &self,
        request: &BackupRequest,
    ) -> Result<BackupRecord, ClientError> {
        self.post("/v1/backups", request).await
    }

    /// Makes a backup; its progress comes as events.
    pub async fn create_backup_events(
        &self,
        request: &BackupRequest,
    ) -> Result<SseStream, ClientError> {
        self.post_sse("/v1/backups", request).await
    }

    /// Lists backups.
    pub async fn list_backups(&self, page: &Page) -> Result<List<BackupRecord>, ClientError> {
        self.get(&format!("/v1/backups{}", Query::default().page(page)))
            .await
    }

    /// The record of a backup.
    pub async fn backup(&self, id: &BackupId) -> Result<BackupRecord, ClientError> {
        self.get(&format!("/v1/backups/{id}")).await
    }

    /// The archive of a backup.
    pub async fn backup_content(&self, id: &BackupId) -> Result<ByteStream, ClientError> {
        self.get_bytes(&format!("/v1/backups/{id}/content")).await
    }

    /// Puts a backup in the place of a directory and waits for it.
    pub async fn restore_backup(
        &self,
        id: &BackupId,
        request: &RestoreRequest,
    ) -> Result<RestoreReply, ClientError> {
        self.post(&format!("/v1/backups/{id}/restore"), request)
            .await
    }

    /// The same; its progress comes as events.
    pub async fn restore_backup_events(
        &self,
        id: &BackupId,
        request: &RestoreRequest,
    ) -> Result<SseStream, ClientError> {
        self.post_sse(&format!("/v1/backups/{id}/restore"), request)
            .await
    }

    /// Deletes a backup.
    pub async fn delete_backup(&self, id: &BackupId) -> Result<BackupRecord, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/backups/{id}"))
            .await
    }
}
