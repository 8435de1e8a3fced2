//! The screen model: what a person in front of the terminal would see.
//!
//! Owns the cells of both screens, the cursor, the modes, the title and a bounded scrollback, and
//! tells what a program asks its terminal. The cells are avt's; nothing else knows that. Does not
//! own the bytes (the output log does) nor who sees them.
//!
//! ```text
//! bytes ─► UTF-8 decoder ─► parser ─► cells
//!                             └─ whole sequences ─► title, modes avt has no use for, questions
//! ```
//!
//! Invariants: bytes of any kind, cut anywhere, are taken; the size is bounded; a panic in the model
//! costs the picture, never the agent.

mod sequence;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use avt::parser::{Function, State};
use avt::{InvalidSize, Parser, ScreenKind, Terminal};
use sandshell_types::TerminalCursor;

use sequence::{Effect, Extras};

/// Most columns of a terminal.
pub const MAX_COLS: u16 = 500;
/// Most rows of a terminal.
pub const MAX_ROWS: u16 = 300;
/// Lines kept that scrolled away at the top.
pub const SCROLLBACK: usize = 1000;

/// Longest unfinished sequence kept to be drawn again; of longer ones only the beginning, which is
/// enough for the rest to be recognised as a part of it.
const SEQUENCE_MAX: usize = 4096;

/// Most bytes of answers that wait for the program to read them.
const ANSWERS_MAX: usize = 4096;

/// A screen. See the module.
pub struct Screen {
    terminal: Terminal,
    parser: Parser,
    cols: u16,
    rows: u16,
    extras: Extras,
    /// The beginning of a character.
    partial: Vec<u8>,
    /// The beginning of a sequence, as text.
    sequence: String,
    /// What the program asked and nobody has told it yet.
    answers: Vec<u8>,
}

impl Screen {
    /// An empty screen.
    pub fn new(cols: u16, rows: u16) -> Result<Self, InvalidSize> {
        if cols > MAX_COLS || rows > MAX_ROWS {
            return Err(InvalidSize {
                cols: cols.into(),
                rows: rows.into(),
            });
        }
        Ok(Self {
            terminal: Terminal::with_scrollback(cols.into(), rows.into(), Some(SCROLLBACK))?,
            parser: Parser::new(),
            cols,
            rows,
            extras: Extras::default(),
            partial: Vec::new(),
            sequence: String::new(),
            answers: Vec::new(),
        })
    }

    /// Takes output.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.guarded(|screen| screen.decode(bytes));
    }

    /// Changes the size; it is brought into bounds.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        let (cols, rows) = (cols.clamp(1, MAX_COLS), rows.clamp(1, MAX_ROWS));
        (self.cols, self.rows) = (cols, rows);
        self.guarded(|screen| screen.terminal.resize(usize::from(cols), usize::from(rows)));
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        (self.cols, self.rows)
    }

    /// The title.
    pub fn title(&self) -> Option<&str> {
        self.extras.title.as_deref()
    }

    /// Whether a program has the alternate screen.
    pub fn is_alternate(&self) -> bool {
        self.terminal.active_screen_kind() == ScreenKind::Alternate
    }

    /// Where the cursor is. One that waits behind the last column is shown in it.
    pub fn cursor(&self) -> TerminalCursor {
        let cursor = self.terminal.cursor();
        TerminalCursor {
            col: (cursor.col as u16).min(self.cols - 1),
            row: (cursor.row as u16).min(self.rows - 1),
            visible: cursor.visible,
        }
    }

    /// All rows, without blanks at their ends.
    pub fn text(&self) -> String {
        let lines: Vec<String> = self.terminal.screen().visible_lines().map(row).collect();
        lines.join("\n")
    }

    /// The last lines that scrolled away at the top of the normal screen.
    pub fn scrollback(&self, most: usize) -> String {
        let screen = self.terminal.primary_screen();
        let above = screen.all_lines().count() - screen.visible_lines().len();
        let lines: Vec<String> = screen
            .all_lines()
            .take(above)
            .skip(above.saturating_sub(most))
            .map(row)
            .collect();
        lines.join("\n")
    }

    /// What draws this screen on a terminal of the same size, whatever that shows now.
    pub fn redraw(&self) -> Vec<u8> {
        let mut drawn = b"\x1bc".to_vec();
        drawn.extend(self.extras.title_sequence().into_bytes());
        let cells = catch_unwind(AssertUnwindSafe(|| self.terminal.dump()));
        drawn.extend(cells.unwrap_or_default().into_bytes());
        drawn.extend(self.extras.mode_sequences().into_bytes());
        drawn
    }

    /// The same, and then what had come of a sequence or character that is not complete, so that
    /// the next bytes of output go on from here.
    pub fn redraw_to_go_on(&self) -> Vec<u8> {
        let mut drawn = self.redraw();
        drawn.extend_from_slice(self.sequence.as_bytes());
        drawn.extend_from_slice(&self.partial);
        drawn
    }

    /// Answers to what programs asked since the last call.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Runs the model. Should it panic, an empty screen takes its place.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            tracing::error!("the screen model failed; a terminal's screen starts empty again");
            if let Ok(empty) = Self::new(self.cols, self.rows) {
                *self = empty;
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            joined = whole;
            &joined
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (text, after) = match std::str::from_utf8(rest) {
                Ok(text) => (text, &[][..]),
                Err(error) => {
                    let (good, bad) = rest
                        .split_at_checked(error.valid_up_to())
                        .unwrap_or_default();
                    // What was valid is valid still.
                    let text = std::str::from_utf8(good).unwrap_or_default();
                    match error.error_len() {
                        None => {
                            self.partial = bad.to_vec();
                            (text, &[][..])
                        }
                        Some(n) => {
                            text.chars().for_each(|c| self.take(c));
                            ("\u{fffd}", bad.get(n..).unwrap_or_default())
                        }
                    }
                }
            };
            text.chars().for_each(|c| self.take(c));
            rest = after;
        }
    }

    fn take(&mut self, c: char) {
        let before = self.parser.state;
        let function = self.parser.feed(c);
        let after = self.parser.state;
        if let Some(function) = function {
            self.terminal.execute(self.tamed(function));
        }
        if before == State::Ground && after == State::Ground {
            return;
        }
        let string_ended = before == State::OscString && after != State::OscString;
        if after == State::Ground || string_ended {
            let sequence = std::mem::take(&mut self.sequence);
            self.notice(&sequence, c);
        }
        if after == State::Ground {
            return;
        }
        // These begin another one; other controls have been obeyed and are no part of it.
        if c == '\u{1b}' || ('\u{80}'..='\u{9f}').contains(&c) {
            self.sequence.clear();
        } else if c < ' ' {
            return;
        }
        if self.sequence.len() < SEQUENCE_MAX {
            self.sequence.push(c);
        }
    }

    /// Repeats of a character fill two lines at most: a few bytes must not cost a second of work.
    fn tamed(&self, function: Function) -> Function {
        match function {
            Function::Rep(n) if n > 2 * self.cols => Function::Rep(self.cols + n % self.cols),
            other => other,
        }
    }

    /// A redraw has everything but the scrollback.
    fn forget_scrollback(&mut self) {
        let (cols, rows) = (self.cols.into(), self.rows.into());
        if let Ok(mut without) = Terminal::with_scrollback(cols, rows, Some(SCROLLBACK)) {
            without.feed(self.terminal.dump());
            self.terminal = without;
        }
    }

    /// A whole sequence, without its last character.
    fn notice(&mut self, sequence: &str, last: char) {
        let asked_at = self.cursor();
        match self.extras.notice(sequence, last, asked_at, self.size()) {
            Effect::Nothing => {}
            Effect::Answer(answer) => {
                if self.answers.len() + answer.len() <= ANSWERS_MAX {
                    self.answers.extend(answer.into_bytes());
                }
            }
            Effect::ForgetScrollback => self.forget_scrollback(),
            Effect::Instead(other) => self.terminal.feed(other),
        }
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("cols", &self.cols)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

fn row(line: &avt::Line) -> String {
    let mut text = line.text();
    text.truncate(text.trim_end_matches(' ').len());
    text
}
