//! What each language needs in the sandbox.

use sandshell_types::Language;

use crate::ContextError;

/// A language that a built-in driver speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Interpreter {
    Python,
    Node,
}

impl Interpreter {
    /// Its driver; `None` for what runs in a session.
    pub(crate) fn of(language: Language) -> Option<Self> {
        match language {
            Language::Python => Some(Self::Python),
            Language::Javascript | Language::Typescript => Some(Self::Node),
            Language::Bash => None,
        }
    }

    /// The program and its arguments: a line that reads the driver from its descriptor and runs it.
    pub(crate) fn argv(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Python => &["python3", "-c", PYTHON],
            Self::Node => &["node", "--no-warnings", "-e", NODE],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// The driver's source.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Python => include_str!("drivers/python.py"),
            Self::Node => include_str!("drivers/node.js"),
        }
    }

    /// How many are held ready once the first has been used.
    pub(crate) fn spares(self) -> usize {
        match self {
            Self::Python => 2,
            // About 50 MB each.
            Self::Node => 1,
        }
    }

    pub(crate) fn missing(self) -> ContextError {
        let (what, hint) = match self {
            Self::Python => (
                "python3",
                "Install it in the sandbox: `apt-get install python3` (Debian, Ubuntu), `apk add python3` (Alpine) or `dnf install python3` (Fedora).",
            ),
            Self::Node => (
                "node",
                "Install Node 18 or newer in the sandbox: `apt-get install nodejs` (Debian, Ubuntu), `apk add nodejs` (Alpine) or `dnf install nodejs` (Fedora).",
            ),
        };
        ContextError::InterpreterNotFound {
            what: what.to_owned(),
            hint: hint.to_owned(),
        }
    }
}

/// Reads by position: the file's offset is shared by all that were given it. The driver has a copy of
/// the builtins, and in Node a realm, of its own: user code changes those it knows.
const PYTHON: &str = "import os\n\
_s = os.pread(12, 1 << 20, 0)\n\
os.close(12)\n\
exec(compile(_s, '<driver>', 'exec'), {'__name__': '<driver>', '__builtins__': dict(vars(__builtins__))})";

const NODE: &str = "{const fs=require('fs'),b=Buffer.alloc(1<<20);\
const n=fs.readSync(12,b,0,b.length,0);fs.closeSync(12);\
require('vm').runInNewContext(b.toString('utf8',0,n),{},{filename:'<driver>'})\
(require,(u,o)=>import(u,o),globalThis)}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_fit_into_one_read() {
        for interpreter in [Interpreter::Python, Interpreter::Node] {
            assert!(interpreter.source().len() < 1 << 20);
        }
    }
}
