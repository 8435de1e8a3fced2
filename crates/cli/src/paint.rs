//! Colour, by the conventions: `--color`, then `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`, then whether
//! a person looks. No meaning is told by colour alone.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum When {
    // On a terminal.
    #[default]
    Auto,
    // Always.
    Always,
    // Never.
    Never,
}

/// What was chosen for this run, for what is told outside of a command.
static CHOSEN: OnceLock<When> = OnceLock::new();

/// Colours or leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For tests of what is told.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { on: false };

    /// Settles what `--color` or the configuration says. The first one counts.
    pub(crate) fn choose(when: When) {
        let _ = CHOSEN.set(when);
    }

    pub(crate) fn for_stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    pub(crate) fn for_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let on = match CHOSEN.get().copied().unwrap_or_default() {
            When::Always => true,
            When::Never => false,
            When::Auto if set("NO_COLOR") => false,
            When::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => true,
            When::Auto => {
                stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Self { on }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(crate) fn note(self, text: &str) -> String {
        self.with("36", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// The word of a state: alive, over badly, or neither.
    pub(crate) fn state(self, word: &str) -> String {
        match word {
            "ready" | "running" | "idle" | "enforced" => self.good(word),
            "failed" | "off" => self.bad(word),
            "exited" | "gone" | "ended" => self.faint(word),
            _ => self.note(word),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
