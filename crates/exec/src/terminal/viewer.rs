//! One client's view of a terminal: bytes in order, with changes of size where they happened.
//!
//! ```text
//!  redraw at X ─► bytes from X ─► … ── too far behind ──► redraw at Y ─► bytes from Y ─► exit
//!  (with an offset: no redraw, and every byte that is still kept)
//! ```
//!
//! A viewer has no queue. It reads the output log, which the program never waits for; one that is
//! too far behind skips to the present with a picture of it.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::watch;

use super::{MAX_VIEWERS, SizeChange, TerminalHandle};
use crate::ExecError;
use crate::output::{OutputError, Stream, StreamReader};
use crate::process::{exit_code, signal_name};

/// How far behind a viewer may be before it is shown the present instead.
pub(crate) const MAX_LAG: u64 = 1 << 20;

/// A picture of the screen at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redraw {
    /// What draws it; empty for a viewer that begins at an offset of its own.
    pub bytes: Bytes,
    /// The offset of the next byte of output.
    pub offset: u64,
    /// Columns there.
    pub cols: u16,
    /// Rows there.
    pub rows: u16,
}

/// What a viewer sees next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// Output.
    Bytes(Bytes),
    /// The size changed here.
    Resized {
        /// Columns from here on.
        cols: u16,
        /// Rows from here on.
        rows: u16,
    },
    /// Output was left out; this is the screen where it goes on.
    Skipped {
        /// Offset of the first byte left out.
        from: u64,
        /// How many bytes.
        bytes: u64,
        /// The screen after them.
        redraw: Redraw,
    },
    /// The program has ended, and this viewer has seen all of its output.
    Exited {
        /// The status as a shell would show it.
        exit_code: i32,
        /// Name of the signal that ended it.
        signal: Option<String>,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Viewer {
    terminal: TerminalHandle,
    answers: bool,
    reader: StreamReader,
    /// Read, and not seen yet because of a size change in its middle.
    held: Bytes,
    resized: watch::Receiver<u64>,
    /// Number of the next size change to be seen.
    next_size: u64,
    /// Wants every byte, however late.
    all: bool,
    beginning: Redraw,
    /// To be seen first: what was missing at the offset it asked for.
    first: Option<View>,
    exited: bool,
}

impl Viewer {
    pub(super) fn new(
        terminal: TerminalHandle,
        offset: Option<u64>,
        answers: bool,
    ) -> Result<Self, ExecError> {
        let before = terminal.0.viewers.fetch_add(1, Ordering::Relaxed);
        let made = if before < MAX_VIEWERS {
            begin(&terminal, offset)
        } else {
            Err(ExecError::TooManyViewers { limit: MAX_VIEWERS })
        };
        let Beginning {
            reader,
            redraw,
            next_size,
            missing,
        } = match made {
            Ok(made) => made,
            Err(error) => {
                terminal.0.viewers.fetch_sub(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        if answers {
            terminal.0.answering.fetch_add(1, Ordering::Relaxed);
        }
        let resized = terminal.0.resized.subscribe();
        Ok(Self {
            terminal,
            answers,
            reader,
            held: Bytes::new(),
            resized,
            next_size,
            all: offset.is_some(),
            beginning: redraw,
            first: missing,
            exited: false,
        })
    }

    /// Where it begins.
    pub fn beginning(&self) -> &Redraw {
        &self.beginning
    }

    /// The terminal it looks at.
    pub fn terminal(&self) -> &TerminalHandle {
        &self.terminal
    }

    /// What comes next; `None` after the exit.
    ///
    /// CANCEL SAFETY: a dropped call loses nothing.
    pub async fn next(&mut self) -> Result<Option<View>, ExecError> {
        loop {
            if self.exited {
                return Ok(None);
            }
            if let Some(first) = self.first.take() {
                return Ok(Some(first));
            }
            if let Some(change) = self.due_size() {
                let SizeChange { cols, rows, .. } = change;
                return Ok(Some(View::Resized { cols, rows }));
            }
            if !self.held.is_empty() {
                return Ok(Some(View::Bytes(self.take_held())));
            }
            let log = &self.terminal.0.log;
            let lag = log.len(Stream::Stdout) - self.reader.offset();
            if !self.all && lag > MAX_LAG {
                return self.skip().map(Some);
            }
            let read = tokio::select! {
                read = self.reader.next() => read,
                // Also for a change since the look above. The sender lives as long as the terminal.
                _ = self.resized.changed() => continue,
            };
            match read {
                Ok(Some(bytes)) => self.held = bytes,
                Ok(None) => return Ok(self.exit()),
                Err(OutputError::Gone { .. }) => return self.skip().map(Some),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The offset of the next byte to be seen.
    fn offset(&self) -> u64 {
        self.reader.offset() - self.held.len() as u64
    }

    /// A size change at or before this place.
    fn due_size(&mut self) -> Option<SizeChange> {
        let change = self.coming_size()?;
        if change.offset > self.offset() {
            return None;
        }
        self.next_size += 1;
        Some(change)
    }

    fn coming_size(&mut self) -> Option<SizeChange> {
        let model = self.terminal.0.model();
        self.next_size = self.next_size.max(model.sizes_gone);
        let index = usize::try_from(self.next_size - model.sizes_gone).ok()?;
        model.sizes.get(index).copied()
    }

    /// The bytes up to the next change of size.
    fn take_held(&mut self) -> Bytes {
        let offset = self.offset();
        let until = self.coming_size().map_or(u64::MAX, |change| change.offset);
        let n = (until - offset).min(self.held.len() as u64) as usize;
        self.held.split_to(n)
    }

    /// Goes on at the present.
    fn skip(&mut self) -> Result<View, ExecError> {
        let from = self.offset();
        let present = begin(&self.terminal, None)?;
        let redraw = present.redraw;
        self.reader = present.reader;
        self.held = Bytes::new();
        self.next_size = present.next_size;
        Ok(View::Skipped {
            from,
            bytes: redraw.offset.saturating_sub(from),
            redraw,
        })
    }

    fn exit(&mut self) -> Option<View> {
        self.exited = true;
        let exit = self.terminal.0.facts().exit?;
        Some(View::Exited {
            exit_code: exit_code(exit),
            signal: signal_name(exit),
        })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.terminal.0.viewers.fetch_sub(1, Ordering::Relaxed);
        if self.answers {
            self.terminal.0.answering.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A reader and where it begins.
struct Beginning {
    reader: StreamReader,
    redraw: Redraw,
    next_size: u64,
    missing: Option<View>,
}

/// Begins at an offset, or with a picture of the present.
fn begin(terminal: &TerminalHandle, offset: Option<u64>) -> Result<Beginning, ExecError> {
    let log = &terminal.0.log;
    let model = terminal.0.model();
    let size_at = |offset: u64| {
        let before = model.sizes.iter().take_while(|size| size.offset <= offset);
        let spec = &terminal.0.spec;
        let number = model.sizes_gone + before.clone().count() as u64;
        let size = before.last().map(|size| (size.cols, size.rows));
        let (cols, rows) = size.unwrap_or((spec.cols, spec.rows));
        (number, cols, rows)
    };
    let nothing_at = |offset: u64, cols: u16, rows: u16| Redraw {
        bytes: Bytes::new(),
        offset,
        cols,
        rows,
    };
    let read_from = |offset| log.reader(Stream::Stdout, offset, true);
    let gone = match offset.map(|offset| (offset, read_from(offset))) {
        None => None,
        Some((offset, Ok(reader))) => {
            let (next_size, cols, rows) = size_at(offset);
            return Ok(Beginning {
                reader,
                redraw: nothing_at(offset, cols, rows),
                next_size,
                missing: None,
            });
        }
        Some((offset, Err(OutputError::Gone { .. }))) => Some(offset),
        Some((_, Err(error))) => return Err(error.into()),
    };
    let (cols, rows) = model.screen.size();
    let present = Redraw {
        bytes: model.screen.redraw_to_go_on().into(),
        offset: model.offset,
        cols,
        rows,
    };
    let reader = read_from(model.offset)?;
    let next_size = model.sizes_gone + model.sizes.len() as u64;
    let (redraw, missing) = match gone {
        None => (present, None),
        Some(from) => {
            let skipped = View::Skipped {
                from,
                bytes: present.offset - from,
                redraw: present,
            };
            (nothing_at(from, cols, rows), Some(skipped))
        }
    };
    Ok(Beginning {
        reader,
        redraw,
        next_size,
        missing,
    })
}
