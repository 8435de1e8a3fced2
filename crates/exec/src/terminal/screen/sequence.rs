//! What whole escape sequences mean beyond the cells: titles, modes of the keyboard and the mouse,
//! and questions that a terminal answers.
//!
//! A program may wait for an answer, so a terminal that nobody looks at must give it. Which ones are
//! sent is decided by the owner: when a client answers, we do not.

use std::collections::BTreeMap;

use sandshell_types::TerminalCursor;

/// Longest title kept.
const TITLE_MAX: usize = 256;

/// Modes that change nothing on the screen, and so are not in the cells' own redraw: mouse, focus,
/// pasting, blinking.
const KEPT_MODES: &[u16] = &[
    9, 12, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004,
];

/// What came of a sequence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// To be sent to the program.
    Answer(String),
    /// What scrolled away is to be forgotten.
    ForgetScrollback,
    /// To be done by the model in its place.
    Instead(&'static str),
}

/// State that the cells do not have.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) title: Option<String>,
    modes: BTreeMap<u16, bool>,
    application_keypad: bool,
    cursor_shape: Option<u16>,
}

impl Extras {
    /// Takes a sequence without its last character, which comes apart.
    pub(super) fn notice(
        &mut self,
        sequence: &str,
        last: char,
        cursor: TerminalCursor,
        (cols, rows): (u16, u16),
    ) -> Effect {
        if let Some(text) = after(sequence, "\u{1b}]", '\u{9d}') {
            // BEL, ESC \ or its one-character form end a string; anything else broke it off.
            return if matches!(last, '\u{7}' | '\u{1b}' | '\u{9c}') {
                self.string(text)
            } else {
                Effect::Nothing
            };
        }
        if let Some(parameters) = after(sequence, "\u{1b}[", '\u{9b}') {
            return self.control(parameters, last, cursor, (cols, rows));
        }
        match (sequence, last) {
            ("\u{1b}", '=') => self.application_keypad = true,
            ("\u{1b}", '>') => self.application_keypad = false,
            ("\u{1b}", 'c') => *self = Self::default(),
            _ => {}
        }
        Effect::Nothing
    }

    fn string(&mut self, text: &str) -> Effect {
        match text.split_once(';') {
            Some(("0" | "2", title)) => {
                let title: String = title.chars().filter(|c| !c.is_control()).collect();
                let kept: String = title.chars().take(TITLE_MAX).collect();
                self.title = Some(kept).filter(|title| !title.is_empty());
                Effect::Nothing
            }
            // White on black, as most terminals that tell.
            Some(("10", "?")) => Effect::Answer("\u{1b}]10;rgb:ffff/ffff/ffff\u{1b}\\".to_owned()),
            Some(("11", "?")) => Effect::Answer("\u{1b}]11;rgb:0000/0000/0000\u{1b}\\".to_owned()),
            _ => Effect::Nothing,
        }
    }

    fn control(
        &mut self,
        parameters: &str,
        last: char,
        cursor: TerminalCursor,
        (cols, rows): (u16, u16),
    ) -> Effect {
        let (row, col) = (cursor.row + 1, cursor.col + 1);
        let answer = match (parameters, last) {
            ("" | "0", 'c') => "\u{1b}[?62;22c".to_owned(),
            (">" | ">0", 'c') => "\u{1b}[>0;10;0c".to_owned(),
            ("5", 'n') => "\u{1b}[0n".to_owned(),
            ("6", 'n') => format!("\u{1b}[{row};{col}R"),
            ("?6", 'n') => format!("\u{1b}[?{row};{col}R"),
            ("18", 't') => format!("\u{1b}[8;{rows};{cols}t"),
            ("3", 'J') => return Effect::ForgetScrollback,
            ("!", 'p') => {
                self.application_keypad = false;
                self.cursor_shape = None;
                return Effect::Nothing;
            }
            ("?47", 'h') => return Effect::Instead("\u{1b}[?1047h"),
            ("?47", 'l') => return Effect::Instead("\u{1b}[?1047l"),
            (set, 'h' | 'l') => {
                self.set_modes(set, last == 'h');
                return Effect::Nothing;
            }
            (shape, 'q') => {
                if let Some(shape) = shape.strip_suffix(' ') {
                    self.cursor_shape = shape.parse().ok().filter(|shape| *shape <= 6);
                }
                return Effect::Nothing;
            }
            (asked, 'p') => {
                let mode = asked.strip_prefix('?').and_then(|m| m.strip_suffix('$'));
                let Some(mode) = mode.and_then(|mode| mode.parse::<u16>().ok()) else {
                    return Effect::Nothing;
                };
                let state = match self.modes.get(&mode) {
                    Some(true) => 1,
                    Some(false) => 2,
                    None if KEPT_MODES.contains(&mode) => 2,
                    None => 0,
                };
                format!("\u{1b}[?{mode};{state}$y")
            }
            _ => return Effect::Nothing,
        };
        Effect::Answer(answer)
    }

    fn set_modes(&mut self, parameters: &str, on: bool) {
        let Some(list) = parameters.strip_prefix('?') else {
            return;
        };
        for mode in list.split(';').filter_map(|mode| mode.parse().ok()) {
            if KEPT_MODES.contains(&mode) {
                self.modes.insert(mode, on);
            }
        }
    }

    /// What sets the title.
    pub(super) fn title_sequence(&self) -> String {
        self.title
            .as_ref()
            .map_or_else(String::new, |title| format!("\u{1b}]2;{title}\u{7}"))
    }

    /// What sets the modes.
    pub(super) fn mode_sequences(&self) -> String {
        let mut text = String::new();
        for (mode, _) in self.modes.iter().filter(|(_, on)| **on) {
            text.push_str(&format!("\u{1b}[?{mode}h"));
        }
        if self.application_keypad {
            text.push_str("\u{1b}=");
        }
        if let Some(shape) = self.cursor_shape {
            text.push_str(&format!("\u{1b}[{shape} q"));
        }
        text
    }
}

/// What follows an introducer in either of its forms.
fn after<'a>(sequence: &'a str, long: &str, short: char) -> Option<&'a str> {
    sequence
        .strip_prefix(long)
        .or_else(|| sequence.strip_prefix(short))
}
