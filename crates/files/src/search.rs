//! Finding lines in files, with ripgrep's matcher.
//!
//! Owns the bounds: size of the compiled pattern, of a file, of a line, of the answer, and the time.
//! Matching takes time linear in the text whatever the pattern is. Matches go out through a bounded
//! channel as they are found; when nobody takes them any more, the search ends.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::{
    CaseMode, ContextLine, Encoded, Encoding, Room, SearchMatch, SearchRequest, SearchSummary, Span,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::entry::shown_path;
use crate::find::checked_limit;
use crate::pipe::STALL;
use crate::walk::{Entry, Globs, Next, Visitor, WalkOptions, below, walk};
use crate::{FileError, Stop};

/// Largest compiled form of a pattern, and cache of its lazy automaton.
const PATTERN_BYTES: usize = 10 << 20;
/// Longest pattern.
const MAX_PATTERN: usize = 64 << 10;
/// Longest line; a file with a longer one counts as too large.
const LINE_BYTES: usize = 8 << 20;
/// How much of a line is given.
const TEXT_BYTES: usize = 16 << 10;
/// Most spans of a line that are given.
const MAX_SPANS: usize = 1000;
/// Most lines of context.
const MAX_CONTEXT: u32 = 100;
/// Larger files are passed over unless the request says otherwise.
const FILE_BYTES: u64 = 64 << 20;

/// A checked request to search.
#[derive(Debug)]
pub struct Search {
    start: PathBuf,
    matcher: RegexMatcher,
    include: Globs,
    context: usize,
    limit: usize,
    max_file_bytes: u64,
    options: WalkOptions,
    runtime: Handle,
}

impl Search {
    /// Checks a request; `start` is its path, absolute. To be called on the runtime.
    pub fn new(start: PathBuf, request: &SearchRequest) -> Result<Self, FileError> {
        if request.pattern.is_empty() {
            return Err(FileError::invalid(
                "/pattern",
                "an empty pattern matches everything",
            ));
        }
        if request.pattern.len() > MAX_PATTERN {
            let detail = format!("a pattern has at most {MAX_PATTERN} bytes");
            return Err(FileError::invalid("/pattern", detail));
        }
        if request.context > MAX_CONTEXT {
            let detail = format!("at most {MAX_CONTEXT} lines of context are given");
            return Err(FileError::invalid("/context", detail));
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(request.literal)
            .case_insensitive(request.case == CaseMode::Insensitive)
            .case_smart(request.case == CaseMode::Smart)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES)
            .nest_limit(200)
            .build(&request.pattern)
            .map_err(|error| FileError::Pattern {
                reason: error.to_string(),
            })?;
        let gitignore = request.gitignore.unwrap_or(true);
        Ok(Self {
            start,
            matcher,
            include: Globs::new(&request.include, "/include")?,
            context: request.context as usize,
            limit: checked_limit(request.limit)?,
            max_file_bytes: request.max_file_bytes.unwrap_or(FILE_BYTES),
            options: WalkOptions {
                exclude: Globs::new(&request.exclude, "/exclude")?,
                gitignore,
                skip_git: gitignore,
                hidden: request.hidden.unwrap_or(false),
                max_depth: None,
            },
            runtime: Handle::current(),
        })
    }

    /// The room for its matches, in one answer or in a stream.
    pub fn room(&self, streamed: bool) -> Room {
        if streamed {
            Room::of_stream(self.limit)
        } else {
            Room::of_answer(self.limit)
        }
    }

    /// Searches; on an inside thread.
    pub fn run(
        &self,
        root: &Root,
        stop: &Stop,
        found: mpsc::Sender<SearchMatch>,
        room: Room,
    ) -> Result<SearchSummary, FileError> {
        let mut searching = Searching {
            root,
            search: self,
            stop,
            searcher: SearcherBuilder::new()
                .line_number(true)
                .binary_detection(BinaryDetection::quit(0))
                .before_context(self.context)
                .after_context(self.context)
                .heap_limit(Some(LINE_BYTES))
                .bom_sniffing(false)
                .build(),
            found,
            room,
            summary: SearchSummary::default(),
        };
        let at = FileError::at(&self.start);
        let start = root.find(&self.start, Follow::Yes).map_err(at)?;
        let stat = fstat(&start).map_err(FileError::at(&self.start))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            walk(root, &self.start, &self.options, &mut searching)?;
        } else {
            let file = root.open(start, OFlags::RDONLY);
            let file = file.map_err(FileError::at(&self.start))?;
            searching.file(file.into(), &self.start)?;
        }
        Ok(searching.summary)
    }
}

struct Searching<'a> {
    root: &'a Root,
    search: &'a Search,
    stop: &'a Stop,
    searcher: Searcher,
    found: mpsc::Sender<SearchMatch>,
    room: Room,
    summary: SearchSummary,
}

impl Visitor for Searching<'_> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Next, FileError> {
        if self.stop.is_over() {
            return Ok(self.out_of_time());
        }
        let search = self.search;
        let wanted = entry.kind == FileType::RegularFile
            && (search.include.is_empty() || search.include.matches(entry.path, entry.name));
        if !wanted {
            return Ok(Next::Go);
        }
        match entry.open(self.root) {
            Ok(file) => self.file(file.into(), &below(&search.start, entry.path)),
            Err(Errno::ACCESS | Errno::PERM) => {
                self.summary.unreadable += 1;
                Ok(Next::Go)
            }
            // It went away, or is no file any more.
            Err(Errno::NOENT | Errno::NXIO | Errno::LOOP) => Ok(Next::Go),
            Err(errno) => {
                let path = below(&search.start, entry.path);
                Err(FileError::At { path, errno })
            }
        }
    }

    fn unreadable(&mut self, _: &Path, _: Errno) -> Result<(), FileError> {
        self.summary.unreadable += 1;
        Ok(())
    }
}

impl Searching<'_> {
    fn out_of_time(&mut self) -> Next {
        self.summary.timed_out = true;
        self.summary.truncated = true;
        Next::Stop
    }

    fn file(&mut self, file: std::fs::File, path: &Path) -> Result<Next, FileError> {
        let stat = fstat(&file).map_err(FileError::at(path))?;
        if u64::try_from(stat.st_size).unwrap_or(0) > self.search.max_file_bytes {
            self.summary.large_files += 1;
            return Ok(Next::Go);
        }
        self.summary.searched_files += 1;
        let before = self.summary.matched_lines;
        let mut sink = Lines {
            search: self.search,
            found: &self.found,
            room: &mut self.room,
            path: shown_path(path),
            summary: &mut self.summary,
            before: VecDeque::new(),
            open: None,
            gone: false,
            full: false,
        };
        let reader = Watched {
            file,
            stop: self.stop,
            left: self.search.max_file_bytes,
        };
        let result = self
            .searcher
            .search_reader(&self.search.matcher, reader, &mut sink);
        let sent = sink.send_open();
        let (gone, full) = (sink.gone || !sent, sink.full);
        if self.summary.matched_lines > before {
            self.summary.matched_files += 1;
        }
        if let Err(error) = result {
            match error.kind() {
                io::ErrorKind::TimedOut => return Ok(self.out_of_time()),
                _ if error.raw_os_error().is_some() => self.summary.unreadable += 1,
                // What is left is the searcher's own limit: a line that is too long.
                _ => self.summary.large_files += 1,
            }
        }
        if full {
            self.summary.truncated = true;
        }
        Ok(if gone || full { Next::Stop } else { Next::Go })
    }
}

/// A file whose reading ends when the work is over.
struct Watched<'a> {
    file: std::fs::File,
    stop: &'a Stop,
    left: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A file that grows while it is read must not be read for ever.
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Makes matches of what the searcher finds in one file.
struct Lines<'a> {
    search: &'a Search,
    found: &'a mpsc::Sender<SearchMatch>,
    room: &'a mut Room,
    path: (String, Option<String>),
    summary: &'a mut SearchSummary,
    before: VecDeque<ContextLine>,
    /// The last match, while lines after it may still come.
    open: Option<SearchMatch>,
    gone: bool,
    full: bool,
}

impl Lines<'_> {
    /// Sends the last match; false when nobody takes it.
    fn send_open(&mut self) -> bool {
        match self.open.take() {
            Some(found) => {
                self.room.take(&found);
                // A reader that stands still must not hold the thread for ever.
                let sending = async { timeout(STALL, self.found.send(found)).await };
                matches!(self.search.runtime.block_on(sending), Ok(Ok(())))
            }
            None => true,
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if !self.send_open() {
            self.gone = true;
            return Ok(false);
        }
        if self.room.is_full() {
            self.full = true;
            return Ok(false);
        }
        self.summary.matched_lines += 1;
        let line = without_end(found.bytes());
        let mut spans = Vec::new();
        let _ = self.search.matcher.find_iter(line, |span| {
            spans.push(Span {
                start: span.start() as u64,
                end: span.end() as u64,
            });
            spans.len() < MAX_SPANS
        });
        let shown = beginning(line);
        let text = Encoded::new(shown.to_vec(), Encoding::Auto);
        self.open = Some(SearchMatch {
            path: self.path.0.clone(),
            path_base64: self.path.1.clone(),
            line: found.line_number().unwrap_or(0),
            offset: found.absolute_byte_offset(),
            spans,
            text: text.data,
            text_encoding: text.encoding,
            text_truncated: shown.len() < line.len(),
            before: self.before.drain(..).collect(),
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = Encoded::new(
            beginning(without_end(line.bytes())).to_vec(),
            Encoding::Auto,
        );
        let shown = ContextLine {
            line: line.line_number().unwrap_or(0),
            text: text.data,
            text_encoding: text.encoding,
        };
        match (line.kind(), &mut self.open) {
            (SinkContextKind::After, Some(open)) => open.after.push(shown),
            _ => self.before.push_back(shown),
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.before.clear();
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        if finish.binary_byte_offset().is_some() {
            self.summary.binary_files += 1;
        }
        Ok(())
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The part of a line that is given; a character is not cut in two.
fn beginning(line: &[u8]) -> &[u8] {
    if line.len() <= TEXT_BYTES {
        return line;
    }
    let mut end = TEXT_BYTES;
    while end > TEXT_BYTES - 4 && line.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
        end -= 1;
    }
    line.get(..end).unwrap_or(line)
}
