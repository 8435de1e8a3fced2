//! Archives on their way to and from S3-compatible storage, by presigned URLs.
//!
//! Owns the checking of URLs, the retries and the parts. A try is repeated after a failed connection, a
//! stall, or an answer that says "later" (408, 429, 5xx), with growing pauses; any other refusal is
//! final. A download goes on where it broke off. URLs are neither kept nor logged, and errors name the
//! host only.

mod http;

use std::path::Path;
use std::time::Duration;

use sandshell_exec::space::Share;
use sandshell_types::{BackupProgress, BackupRequest, BackupStage, Download, Multipart, Upload};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::BackupError;
use super::tally::NO_ROOM;
pub(super) use http::Storage;
use http::{Failed, Reply};

/// Tries of one request, and the pause after the first; it doubles.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Most tries of a download that each got something.
const RESUMES: u32 = 100;

/// Most parts, as of S3.
const MAX_PARTS: usize = 10_000;

fn invalid(pointer: &str, detail: impl Into<String>) -> BackupError {
    BackupError::Invalid {
        pointer: pointer.to_owned(),
        detail: detail.into(),
    }
}

/// Refuses what cannot be right before anything is begun.
pub(super) fn check(request: &BackupRequest) -> Result<(), BackupError> {
    if let Some(download) = &request.download {
        if request.upload.is_some() {
            let detail = "a backup is either fetched or sent, not both";
            return Err(invalid("/upload", detail));
        }
        check_download(download)?;
    }
    let Some(upload) = &request.upload else {
        return Ok(());
    };
    match (&upload.url, &upload.multipart) {
        (Some(url), None) => check_url(url, "/upload/url"),
        (None, Some(multipart)) => check_multipart(multipart),
        _ => Err(invalid(
            "/upload",
            "exactly one of `url` and `multipart` is needed",
        )),
    }
}

fn check_multipart(multipart: &Multipart) -> Result<(), BackupError> {
    let base = "/upload/multipart";
    if multipart.part_bytes == 0 {
        return Err(invalid(
            &format!("{base}/part_bytes"),
            "a part has at least 1 byte",
        ));
    }
    if !(1..=MAX_PARTS).contains(&multipart.part_urls.len()) {
        let detail = format!("there are 1 to {MAX_PARTS} parts");
        return Err(invalid(&format!("{base}/part_urls"), detail));
    }
    for (number, url) in multipart.part_urls.iter().enumerate() {
        check_url(url, &format!("{base}/part_urls/{number}"))?;
    }
    check_url(&multipart.complete_url, &format!("{base}/complete_url"))?;
    match &multipart.abort_url {
        Some(url) => check_url(url, &format!("{base}/abort_url")),
        None => Ok(()),
    }
}

pub(super) fn check_download(download: &Download) -> Result<(), BackupError> {
    check_url(&download.url, "/download/url")?;
    match &download.sha256 {
        Some(hash) if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) => Err(
            invalid("/download/sha256", "a SHA-256 has 64 hexadecimal digits"),
        ),
        _ => Ok(()),
    }
}

fn check_url(url: &str, pointer: &str) -> Result<(), BackupError> {
    let uri: Result<::http::Uri, _> = url.parse();
    match uri {
        Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() => {
            Ok(())
        }
        _ => Err(invalid(pointer, "this is not an http or https URL")),
    }
}

impl Storage {
    /// Sends an archive.
    pub(super) async fn upload(
        &self,
        archive: &Path,
        size: u64,
        upload: &Upload,
        cancel: &CancellationToken,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<(), BackupError> {
        progress.send_modify(|progress| {
            progress.stage = BackupStage::Uploading;
            progress.archive_bytes = 0;
        });
        if let Some(url) = &upload.url {
            self.put(url, archive, 0..size, cancel).await?;
            progress.send_modify(|progress| progress.archive_bytes = size);
        }
        let Some(multipart) = &upload.multipart else {
            return Ok(());
        };
        let parts = size.div_ceil(multipart.part_bytes).max(1);
        if parts > multipart.part_urls.len() as u64 {
            let detail = format!(
                "the archive has {size} bytes, which is {parts} parts, and there are {} URLs",
                multipart.part_urls.len()
            );
            self.abandon(multipart).await;
            return Err(invalid("/upload/multipart/part_urls", detail));
        }
        let sent = self.parts(multipart, archive, size, cancel, progress).await;
        if sent.is_err() {
            self.abandon(multipart).await;
        }
        sent
    }

    async fn parts(
        &self,
        multipart: &Multipart,
        archive: &Path,
        size: u64,
        cancel: &CancellationToken,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<(), BackupError> {
        let mut tags = Vec::new();
        let mut start = 0_u64;
        for url in &multipart.part_urls {
            let end = start.saturating_add(multipart.part_bytes).min(size);
            let reply = self.put(url, archive, start..end, cancel).await?;
            let tag = reply.etag.ok_or_else(|| BackupError::Storage {
                detail: format!("part {} was taken without an ETag", tags.len() + 1),
            })?;
            tags.push(tag);
            progress.send_modify(|progress| progress.archive_bytes = end);
            start = end;
            if start >= size {
                break;
            }
        }
        let body = complete_body(&tags);
        let mut retries = Retries::new(cancel);
        loop {
            let post = self.post(&multipart.complete_url, body.clone());
            let failed = match retries.attempt(post).await {
                // S3 may say 200 first and find out later that it failed.
                Ok(reply) if reply.body.contains("<Error>") => {
                    let code = http::code_in(&reply.body);
                    Failed::Later(format!("the upload was not completed{code}"))
                }
                Ok(_) => return Ok(()),
                Err(failed) => failed,
            };
            retries.after(failed).await?;
        }
    }

    async fn put(
        &self,
        url: &str,
        archive: &Path,
        range: std::ops::Range<u64>,
        cancel: &CancellationToken,
    ) -> Result<Reply, BackupError> {
        let mut retries = Retries::new(cancel);
        loop {
            let put = self.put_file(url, archive, range.clone());
            match retries.attempt(put).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => retries.after(failed).await?,
            }
        }
    }

    /// Nobody waits for this to succeed; the storage removes what is left in its own time.
    async fn abandon(&self, multipart: &Multipart) {
        if let Some(url) = &multipart.abort_url {
            let never = CancellationToken::new();
            let mut retries = Retries::new(&never);
            while let Err(failed) = retries.attempt(self.delete(url)).await {
                if retries.after(failed).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Fetches an archive into a file; goes on where a broken connection left off.
    pub(super) async fn download(
        &self,
        download: &Download,
        (to, share): (&Path, &Share),
        cancel: &CancellationToken,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<(), BackupError> {
        progress.send_modify(|progress| progress.stage = BackupStage::Downloading);
        let mut file = tokio::fs::File::create(to).await?;
        let mut fetch = Fetch::default();
        let mut retries = Retries::new(cancel);
        for _ in 0..RESUMES {
            let before = fetch.got;
            let going_on = self.go_on(&download.url, (&mut file, share), &mut fetch, progress);
            match retries.attempt(going_on).await {
                Ok(()) => {
                    file.flush().await?;
                    return Ok(());
                }
                Err(failed) => {
                    if fetch.got > before {
                        // It got further: that is not the same failure again.
                        retries = Retries::new(cancel);
                    }
                    retries.after(failed).await?;
                }
            }
        }
        let detail = "the connection broke off too often".to_owned();
        Err(BackupError::Storage { detail })
    }

    /// Fetches what is missing.
    async fn go_on(
        &self,
        url: &str,
        (file, share): (&mut tokio::fs::File, &Share),
        fetch: &mut Fetch,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<(), Failed> {
        let mut reply = self.get_from(url, fetch.got, fetch.tag.as_deref()).await?;
        if !reply.is_rest {
            file.set_len(0).await?;
            share.shrink(fetch.got);
            fetch.got = 0;
        }
        file.seek(std::io::SeekFrom::Start(fetch.got)).await?;
        if reply.etag.is_some() {
            fetch.tag = reply.etag.take();
        }
        while let Some(data) = reply.next().await? {
            if !share.grow(data.len() as u64) {
                return Err(Failed::Here(NO_ROOM));
            }
            file.write_all(&data).await?;
            fetch.got += data.len() as u64;
            progress.send_modify(|progress| progress.archive_bytes = fetch.got);
        }
        Ok(())
    }
}

/// How far a download is.
#[derive(Debug, Default)]
struct Fetch {
    got: u64,
    tag: Option<String>,
}

/// The tries of one thing.
struct Retries<'a> {
    cancel: &'a CancellationToken,
    tried: u32,
}

impl<'a> Retries<'a> {
    fn new(cancel: &'a CancellationToken) -> Self {
        Self { cancel, tried: 0 }
    }

    async fn attempt<T>(&self, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        tokio::select! {
            result = work => result,
            () = self.cancel.cancelled() => Err(Failed::Cancelled),
        }
    }

    /// Waits before the next try, or says that there is none.
    async fn after(&mut self, failed: Failed) -> Result<(), BackupError> {
        self.tried += 1;
        match failed {
            Failed::Here(errno) => return Err(BackupError::Store { errno }),
            Failed::Cancelled => return Err(BackupError::Cancelled),
            Failed::Final(detail) => return Err(BackupError::Storage { detail }),
            Failed::Later(detail) if self.tried >= TRIES => {
                let detail = format!("{detail} ({} tries)", self.tried);
                return Err(BackupError::Storage { detail });
            }
            Failed::Later(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE * 2_u32.pow(self.tried - 1)) => Ok(()),
            () = self.cancel.cancelled() => Err(BackupError::Cancelled),
        }
    }
}

/// The body that completes a multipart upload.
fn complete_body(tags: &[String]) -> String {
    let mut body = "<CompleteMultipartUpload>".to_owned();
    for (number, tag) in tags.iter().enumerate() {
        let tag = tag
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;");
        body.push_str(&format!(
            "<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>",
            number + 1
        ));
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}
