//! The `terminal` surface: programs on a terminal of their own, its screen, and the text frames of
//! a connection to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Env, TerminalId};

/// Columns of a terminal when none are given.
pub const DEFAULT_COLS: u16 = 80;
/// Rows of a terminal when none are given.
pub const DEFAULT_ROWS: u16 = 24;

const fn default_cols() -> u16 {
    DEFAULT_COLS
}

const fn default_rows() -> u16 {
    DEFAULT_ROWS
}

/// `POST /v1/terminals`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "edit", "argv": ["vim", "notes.txt"], "cols": 100, "rows": 30}))]
pub struct TerminalRequest {
    /// An id of your choice: creating it again with the same spec gives the same terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TerminalId>,
    /// Text for a shell to run. Without `command` and `argv`: an interactive login shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Working directory to start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Changes to the environment; `TERM` is `xterm-256color` unless it is set here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub env: Env,
    /// User name or uid to run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Columns to start with.
    #[serde(default = "default_cols")]
    #[schema(minimum = 1, maximum = 500)]
    pub cols: u16,
    /// Rows to start with.
    #[serde(default = "default_rows")]
    #[schema(minimum = 1, maximum = 300)]
    pub rows: u16,
}

impl Default for TerminalRequest {
    fn default() -> Self {
        Self {
            id: None,
            command: None,
            argv: None,
            cwd: None,
            env: Env::default(),
            user: None,
            cols: DEFAULT_COLS,
            rows: DEFAULT_ROWS,
        }
    }
}

/// Where a terminal is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalState {
    /// Its program runs.
    Running,
    /// Its program has ended; screen, bytes and recording are still there.
    Exited,
}

/// What is known of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TerminalRecord {
    /// Its id.
    pub id: TerminalId,
    /// The pid of its program inside the sandbox.
    pub pid: i32,
    /// Where it is in its life.
    pub state: TerminalState,
    /// The text it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Columns now.
    pub cols: u16,
    /// Rows now.
    pub rows: u16,
    /// The title its programs gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Bytes written to it so far.
    pub output_bytes: u64,
    /// Clients connected now.
    pub viewers: u32,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: jiff::Timestamp,
    /// When its program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<jiff::Timestamp>,
    /// Exit status; 128 + n when killed by signal n.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Name of the signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// `POST /v1/terminals/{id}/resize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"cols": 120, "rows": 40}))]
pub struct ResizeRequest {
    /// Columns.
    #[schema(minimum = 1, maximum = 500)]
    pub cols: u16,
    /// Rows.
    #[schema(minimum = 1, maximum = 300)]
    pub rows: u16,
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TerminalCursor {
    /// Column, from 0.
    pub col: u16,
    /// Row, from 0.
    pub row: u16,
    /// Whether it is shown.
    pub visible: bool,
}

/// `GET /v1/terminals/{id}/screen`: what a person in front of the terminal sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TerminalScreen {
    /// All rows, without blanks at their ends, joined by newlines.
    pub text: String,
    /// Where the cursor is.
    pub cursor: TerminalCursor,
    /// The title its programs gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Whether a full-screen program has the alternate screen.
    pub alternate: bool,
    /// Bytes of output that this screen is made of.
    pub offset: u64,
    /// Whether its program still runs.
    pub state: TerminalState,
    /// The last lines that scrolled away at the top, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrollback: Option<String>,
}

/// A text frame from the server on a connection to a terminal. Binary frames are output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TerminalFrame {
    /// The first frame.
    Ready {
        /// Offset of the first byte of output that will come.
        offset: u64,
        /// Columns now.
        cols: u16,
        /// Rows now.
        rows: u16,
        /// When not 0, the next binary frame has so many bytes and draws the screen as it is at
        /// `offset`. They are not output and have no offset.
        redraw_bytes: u64,
    },
    /// The size changed between the bytes before and after this frame.
    Resize {
        /// Columns from here on.
        cols: u16,
        /// Rows from here on.
        rows: u16,
    },
    /// Output was left out, because this client was too slow or it is no longer kept.
    Truncated {
        /// Offset of the first byte left out.
        offset: u64,
        /// How many bytes are left out.
        bytes: u64,
        /// Columns at the place where output goes on.
        cols: u16,
        /// Rows there.
        rows: u16,
        /// As in `ready`: the next binary frame draws the screen at that place.
        redraw_bytes: u64,
    },
    /// The program ended and all its output has been sent. The connection is closed next.
    Exit {
        /// Exit status; 128 + n when killed by signal n.
        exit_code: i32,
        /// Name of the signal that killed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
}

/// A text frame from a client. Binary frames are input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum TerminalClientFrame {
    /// Change the size.
    Resize {
        /// Columns.
        #[schema(minimum = 1, maximum = 500)]
        cols: u16,
        /// Rows.
        #[schema(minimum = 1, maximum = 300)]
        rows: u16,
    },
}

/// What a connection to a terminal may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalRole {
    /// See, type and resize.
    #[default]
    Writer,
    /// See only; input and resizes are ignored.
    Viewer,
}
