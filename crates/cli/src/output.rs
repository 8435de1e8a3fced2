//! What goes to stdout: tables for people, ids for scripts, the API's own JSON for programs.
//!
//! Tables have an uppercase header and gaps of two spaces, and are never cut. Whoever stops reading ends
//! us quietly.

use std::io::Write as _;

use sandshell_types::Timestamp;
use serde::Serialize;

use crate::failure::Failure;
use crate::paint::Paint;

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) paint: Paint,
}

impl Output {
    /// Text as it is.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::output(&error))
    }

    pub(crate) fn line(self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// One object on one line.
    pub(crate) fn object(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(&serde_json::to_string(value).map_err(|error| Failure::ours(&error))?)
    }

    /// Something for people beside the data: on stderr, and not when quiet.
    pub(crate) fn remark(self, text: &str) {
        if !self.quiet && !self.json {
            // There is nowhere to tell that stderr is closed.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// What a call made: the object as JSON, else its id and no more.
    pub(crate) fn made(self, value: &impl Serialize, id: &str) -> Result<(), Failure> {
        if self.json {
            self.object(value)
        } else {
            self.line(id)
        }
    }

    /// What a call did: the object as JSON, else a line unless quiet.
    pub(crate) fn did(self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.json {
            self.object(value)
        } else if self.quiet {
            Ok(())
        } else {
            self.line(text)
        }
    }

    /// A list: whole as JSON, ids only when quiet, else a table.
    pub(crate) fn list<T: Serialize>(
        self,
        whole: &impl Serialize,
        items: &[T],
        id: impl Fn(&T) -> String,
        header: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Failure> {
        if self.json {
            return self.object(whole);
        }
        if self.quiet {
            let ids: String = items.iter().map(|item| id(item) + "\n").collect();
            return self.bytes(ids.as_bytes());
        }
        let rows: Vec<Vec<String>> = items.iter().map(row).collect();
        self.bytes(table(header, &rows).as_bytes())
    }

    /// One thing: whole as JSON, else a line for each of its sides.
    pub(crate) fn sides(
        self,
        whole: &impl Serialize,
        sides: &[(&str, String)],
    ) -> Result<(), Failure> {
        if self.json {
            return self.object(whole);
        }
        let wide = sides.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in sides.iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("{name:wide$}  {value}\n"));
        }
        self.bytes(text.as_bytes())
    }
}

/// Rows under a header. The last column is not padded.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(shown_width(cell));
        }
    }
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let last = row.len().saturating_sub(1);
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = one_line(cell);
            text.push_str(&cell);
            if at < last {
                let pad = width.saturating_sub(shown_width(&cell)) + 2;
                text.extend(std::iter::repeat_n(' ', pad));
            }
        }
        text.push('\n');
    }
    text
}

/// Control characters would break the table, or the reader's terminal. Our own colours stay.
fn one_line(cell: &str) -> String {
    let mut rest = cell;
    let mut text = String::with_capacity(cell.len());
    while let Some(c) = rest.chars().next() {
        if let Some(length) = colour_length(rest) {
            text.push_str(rest.get(..length).unwrap_or_default());
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    text
}

/// The length of the colour sequence at the start of a text.
fn colour_length(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\x1b[")?;
    let end = codes.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    codes[end..].starts_with('m').then_some(end + 3)
}

fn shown_width(cell: &str) -> usize {
    let mut width = 0;
    let mut rest = cell;
    while let Some(c) = rest.chars().next() {
        let length = colour_length(rest).unwrap_or_else(|| {
            width += if c.is_control() {
                c.escape_default().count()
            } else {
                1
            };
            c.len_utf8()
        });
        rest = rest.get(length..).unwrap_or_default();
    }
    width
}

/// How long ago, for people.
pub(crate) fn ago(at: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(at).as_secs();
    format!("{} ago", span(seconds.max(0).unsigned_abs()))
}

/// A time in its largest unit.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Bytes for people.
#[expect(clippy::cast_precision_loss, reason = "shown to one place")]
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).unwrap_or(&"PiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_gaps_of_two_and_no_blanks_at_the_end() {
        let rows = [
            vec!["a".to_owned(), "x\ny".to_owned(), "é".to_owned()],
            vec![
                "long".to_owned(),
                "\x1b[32mz\x1b[0m".to_owned(),
                String::new(),
            ],
        ];
        assert_eq!(
            table(&["ID", "B", "C"], &rows),
            "ID    B     C\na     x\\ny  é\nlong  \x1b[32mz\x1b[0m     \n"
        );
    }

    #[test]
    fn escapes_of_others_do_not_reach_the_terminal() {
        assert_eq!(one_line("\x1b[2J\x07"), "\\u{1b}[2J\\u{7}");
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(span(59), "59s");
        assert_eq!(span(7200), "2h");
    }
}
