//! A session's state as data, and the script that puts it into a fresh shell.
//!
//! A dump has sections separated by NUL, which no shell value can contain:
//!
//! ```text
//! variables │ functions │ traps │ aliases │ umask │ positional parameters │ dir… │ "end of state"
//! ```
//!
//! What is not captured: open descriptors beyond 0–2, the job table, resource limits.

use std::collections::{BTreeMap, HashSet};

use super::dialect::{Dialect, quote};

const END: &str = "end of state";

/// Variables that belong to the shell process itself.
const OF_THE_SHELL: &[&str] = &[
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "BASH_ALIASES",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_LINENO",
    "BASH_SOURCE",
    "BASH_SUBSHELL",
    "BASH_VERSINFO",
    "BASH_VERSION",
    "COMP_WORDBREAKS",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "LINENO",
    "PIPESTATUS",
    "PPID",
    "PWD",
    "RANDOM",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "UID",
    "_",
];

/// `set -o` options that can be carried over.
const OPTIONS: &[&str] = &[
    "allexport",
    "braceexpand",
    "errtrace",
    "functrace",
    "hashall",
    "ignoreeof",
    "keyword",
    "noclobber",
    "noglob",
    "notify",
    "nounset",
    "physical",
    "pipefail",
    "posix",
    "verbose",
    "xtrace",
    "errexit",
];

/// `shopt` options that a fresh bash has on.
const ON_BY_DEFAULT: &[&str] = &[
    "checkwinsize",
    "cmdhist",
    "complete_fullquote",
    "extquote",
    "force_fignore",
    "globasciiranges",
    "globskipdots",
    "hostcomplete",
    "interactive_comments",
    "patsub_replacement",
    "progcomp",
    "promptvars",
    "sourcepath",
];

/// The state of a shell at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    sections: Vec<String>,
    dirs: Vec<String>,
    dialect_is_bash: bool,
    /// The user's DEBUG trap, which only a session can have: it would run for every line of ours.
    debug_trap: Vec<u8>,
}

impl Snapshot {
    /// Reads a dump; `None` when it is not whole.
    pub(crate) fn parse(dump: &[u8], dialect: Dialect) -> Option<Self> {
        // Values are bytes to bash and may not be UTF-8; such a value cannot pass through the
        // restore script as text, so it is kept byte for byte by escaping (see `lossless`).
        let text = lossless(dump);
        let mut parts: Vec<&str> = text.strip_suffix('\0')?.split('\0').collect();
        if parts.pop()? != END || parts.len() < 6 {
            return None;
        }
        let dirs = parts.split_off(6).into_iter().map(str::to_owned).collect();
        Some(Self {
            sections: parts.into_iter().map(str::to_owned).collect(),
            dirs,
            dialect_is_bash: dialect == Dialect::Bash,
            debug_trap: Vec::new(),
        })
    }

    /// With a DEBUG trap that was tucked away.
    pub(crate) fn with_debug_trap(mut self, trap: Vec<u8>) -> Self {
        self.debug_trap = trap;
        self
    }

    pub(crate) fn debug_trap(&self) -> &[u8] {
        &self.debug_trap
    }

    fn section(&self, n: usize) -> &str {
        self.sections.get(n).map_or("", String::as_str)
    }

    /// The state at an `exit` inside one function: what is local there is no part of it. `frames` is
    /// what the exit trap wrote down. `None` when functions were nested, because the locals of the
    /// outer ones cannot be told from the rest.
    pub(crate) fn without_locals(mut self, frames: &[u8], before: Option<&Self>) -> Option<Self> {
        let text = lossless(frames);
        let (names, locals) = text.split_once('\0')?;
        let mut names: Vec<&str> = names.lines().collect();
        if names.last() == Some(&"main") {
            names.pop();
        }
        match names.iter().filter(|name| **name != "source").count() {
            0 => return Some(self),
            1 => {}
            _ => return None,
        }
        let before = before?;
        let local: HashSet<&str> = locals.lines().filter_map(declared_name).collect();
        let is_local = |line: &&str| declared_name(line).is_some_and(|n| local.contains(n));
        let kept = self.section(0).lines().filter(|line| !is_local(line));
        let shadowed = before.section(0).lines().filter(is_local);
        let variables: String = kept.chain(shadowed).flat_map(|line| [line, "\n"]).collect();
        if let Some(section) = self.sections.get_mut(0) {
            *section = variables;
        }
        if let (Some(section), Some(outer)) = (self.sections.get_mut(5), before.sections.get(5)) {
            section.clone_from(outer);
        }
        Some(self)
    }

    /// Whether there is nothing that could make a plain command do something else.
    pub(crate) fn is_plain(&self) -> bool {
        let functions = self.section(1).is_empty();
        let aliases = self.section(3).is_empty();
        functions && aliases && self.traps().is_empty() && self.debug_trap.is_empty()
    }

    fn listed(&self, variable: &str) -> Vec<&str> {
        let prefix = format!(" {variable}=\"");
        self.section(0)
            .lines()
            .find_map(|line| line.split_once(&prefix)?.1.strip_suffix('"'))
            .map(|list| list.split(':').collect())
            .unwrap_or_default()
    }

    /// The script that puts this state into a fresh shell, to be sourced there.
    ///
    /// Functions come before aliases and options, which could change how they are read; options
    /// that make a shell stop come last.
    pub(crate) fn restore_script(&self) -> Vec<u8> {
        let mut script = String::new();
        if !self.dialect_is_bash {
            script.push_str(self.section(0));
            script.push_str(self.section(3));
            script.push_str(&format!("umask {}\n", self.section(4)));
            script.push_str(&self.directories("cd"));
            return restore_bytes(&script);
        }
        script.push_str("builtin shopt -s extglob\n");
        script.push_str(self.section(1));
        for line in self.section(0).lines() {
            if declared_name(line).is_some_and(|name| !OF_THE_SHELL.contains(&name)) {
                script.push_str(line);
                script.push('\n');
            }
        }
        script.push_str(&self.directories("builtin cd"));
        script.push_str(self.section(4));
        let positional: Vec<&str> = self.section(5).lines().filter(|l| !l.is_empty()).collect();
        if !positional.is_empty() {
            script.push_str(&format!("builtin set -- {}\n", positional.join(" ")));
        }
        script.push_str(self.section(3));
        script.push_str(&self.options());
        script.push_str(&self.traps());
        for name in ["posix", "xtrace", "nounset", "errexit"] {
            if self.listed("SHELLOPTS").contains(&name) {
                script.push_str(&format!("builtin set -o {name}\n"));
            }
        }
        restore_bytes(&script)
    }

    /// The same for a shell that was started with these variables: those that the state does not
    /// have go. They were unset in it, or came into the sandbox's environment later.
    pub(crate) fn restore_script_over(&self, started_with: &BTreeMap<String, String>) -> Vec<u8> {
        let mut script = Vec::new();
        if self.dialect_is_bash {
            let declared: HashSet<&str> =
                self.section(0).lines().filter_map(declared_name).collect();
            let identifier =
                |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            for name in started_with.keys() {
                if !declared.contains(name.as_str()) && identifier(name) {
                    script.extend_from_slice(format!("builtin unset {name}\n").as_bytes());
                }
            }
        }
        script.extend(self.restore_script());
        script
    }

    fn directories(&self, cd: &str) -> String {
        let Some((cwd, stack)) = self.dirs.split_first() else {
            return String::new();
        };
        let mut script = String::new();
        for dir in stack.iter().rev() {
            script.push_str(&format!("builtin pushd -n {} >/dev/null\n", quote(dir)));
        }
        // `cd` sets OLDPWD; what it was is put back behind it.
        script.push_str(&format!("{cd} -- {}\n", quote(cwd)));
        if let Some(line) = self
            .section(0)
            .lines()
            .find(|line| declared_name(line) == Some("OLDPWD"))
        {
            script.push_str("builtin unset OLDPWD\n");
            script.push_str(line);
            script.push('\n');
        }
        script
    }

    fn options(&self) -> String {
        let (set, shopt) = (self.listed("SHELLOPTS"), self.listed("BASHOPTS"));
        let mut script = String::new();
        for name in OPTIONS {
            let late = matches!(*name, "posix" | "xtrace" | "nounset" | "errexit");
            if !late {
                let sign = if set.contains(name) { '-' } else { '+' };
                script.push_str(&format!("builtin set {sign}o {name}\n"));
            }
        }
        let off = ON_BY_DEFAULT
            .iter()
            .copied()
            .filter(|name| !shopt.contains(name));
        for name in off.chain((!shopt.contains(&"extglob")).then_some("extglob")) {
            script.push_str(&format!("builtin shopt -u {name}\n"));
        }
        for name in shopt
            .iter()
            .filter(|name| !ON_BY_DEFAULT.contains(name) && !name.is_empty())
        {
            script.push_str(&format!("builtin shopt -s {name}\n"));
        }
        script
    }

    /// The user's own traps. A listed trap can span lines; each begins with `trap -- `.
    fn traps(&self) -> String {
        let mut traps: Vec<String> = Vec::new();
        for line in self.section(2).lines() {
            match traps.last_mut() {
                Some(last) if !line.starts_with("trap -- ") => {
                    last.push('\n');
                    last.push_str(line);
                }
                _ => traps.push(line.to_owned()),
            }
        }
        traps.retain(|trap| !Dialect::is_own_trap(trap));
        let mut script = String::new();
        for trap in traps {
            script.push_str("builtin ");
            script.push_str(&trap);
            script.push('\n');
        }
        script
    }
}

/// The name a line of `declare -p` is about.
fn declared_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("declare -")?;
    let (_, rest) = rest.split_once(' ')?;
    rest.split('=').next()
}

/// The first of the 256 private-use characters, the last there are, that stand for bytes.
const STAND_INS: u32 = 0x0010_FF00;

/// Text in which each byte that is not UTF-8 stands as a private-use character, so that
/// [`restore_bytes`] can put it back. A character that is one of those itself stands as its bytes.
pub(crate) fn lossless(bytes: &[u8]) -> String {
    let stand_in = |byte: u8| char::from_u32(STAND_INS + u32::from(byte));
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if u32::from(c) < STAND_INS {
                text.push(c);
            } else {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().filter_map(stand_in));
            }
        }
        text.extend(chunk.invalid().iter().copied().filter_map(stand_in));
    }
    text
}

pub(crate) fn restore_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c).checked_sub(STAND_INS) {
            Some(byte) => bytes.push(byte as u8),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn dump(variables: &str, traps: &str) -> Vec<u8> {
        format!("{variables}\0f () \n{{ \n    :\n}}\n\0{traps}\0\0umask 0022\n\0'a' 'b'\n\0/tmp\0/usr\0{END}\0").into_bytes()
    }

    #[test]
    fn a_part_of_a_dump_is_not_a_state() {
        let whole = dump("declare -- x=\"1\"\n", "");
        assert!(Snapshot::parse(&whole, Dialect::Bash).is_some());
        for n in 0..whole.len() {
            assert!(Snapshot::parse(&whole[..n], Dialect::Bash).is_none(), "{n}");
        }
    }

    #[test]
    fn keeps_what_is_the_users_and_drops_what_is_the_shells() {
        let variables = "declare -r BASHOPTS=\"sourcepath:nullglob\"\ndeclare -ir PPID=\"1\"\ndeclare -x A=\"1\"\ndeclare -r SHELLOPTS=\"braceexpand:errexit\"\n";
        let snapshot = Snapshot::parse(
            &dump(variables, "trap -- 'echo\nhi' SIGUSR1\n"),
            Dialect::Bash,
        )
        .unwrap();
        let script = String::from_utf8(snapshot.restore_script()).unwrap();
        assert!(script.contains("declare -x A=\"1\"\n"));
        assert!(!script.contains("PPID"));
        assert!(script.contains("builtin trap -- 'echo\nhi' SIGUSR1\n"));
        assert!(script.contains("shopt -s nullglob") && script.contains("shopt -u checkwinsize"));
        assert!(script.ends_with("builtin set -o errexit\n"));
        assert!(script.contains("cd -- '/tmp'"));
    }

    #[test]
    fn bytes_that_are_not_text_survive() {
        let bytes = b"a\xff\xfeb\xc3\xa9".to_vec();
        assert_eq!(restore_bytes(&lossless(&bytes)), bytes);
    }

    #[test]
    fn characters_that_stand_for_bytes_survive() {
        let text = "a\u{10ff00}b\u{10ffc3}\u{10ffff}";
        assert_eq!(restore_bytes(&lossless(text.as_bytes())), text.as_bytes());
    }
}
