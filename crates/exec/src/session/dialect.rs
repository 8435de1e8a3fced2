//! The shell text that drives a session, for bash and for a plain POSIX shell.
//!
//! The shell reads its script from a pipe, as from a file that grows line by line, and answers on a
//! second pipe, fd 30. All other traffic goes through a directory of FIFOs and files that it holds
//! as fd 31. bash keeps all three away from its children.
//!
//! ```text
//! . …/command >|…/o 2>|…/e                 the user's text, sourced: `declare` stays global,
//!                                          a syntax error ends with the text
//! printf 'd SEQ STATUS PWD' >&30           completion, after the shell has closed o and e
//! . …/dump >|…/sN && printf 's SEQ' >&30   the state, for restore and fork
//! ```
//!
//! The script is not bash's standard input: bash 5.2 corrupts its memory when a text with an
//! unterminated `$(` is sourced while the descriptor of its script is redirected.
//!
//! Every builtin is called through `builtin`, so that a user's function of the same name is not in
//! the way; every file is opened with `>|`, so that `noclobber` is not either.

/// Number of the session directory's descriptor in the shell.
const DIR_FD: i32 = 31;
/// Where bash gets its descriptors first: directory, answers, script. The first two are moved with
/// close-on-exec set, the last it opens anew by itself.
const INHERITED_FDS: [i32; 3] = [40, 41, 42];

/// Path of a file of the session directory as the shell sees it.
macro_rules! at {
    ($name:literal) => {
        concat!("/proc/self/fd/31/", $name)
    };
}

/// Which language the shell speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Bash,
    Posix,
}

/// The trap that ends a command from outside: it leaves the innermost function or sourced text, and
/// a DEBUG trap makes every frame above return before its next command. What it overwrites is
/// written down first, once, and put back afterwards.
const BASH_INTERRUPT: &str = concat!(
    "[[ -s ",
    at!("t"),
    " ]]||{ builtin echo \"$- $SHELLOPTS\";builtin trap -p DEBUG; } >|",
    at!("t"),
    ";builtin set +e -T;builtin trap \"return 130\" DEBUG;return 130"
);

/// Gives the shell its signal mask back. A trap that returns out of a wait for a pipeline or a
/// substitution leaves SIGCHLD or SIGINT blocked for good; children then stay as zombies and a
/// user's traps do not run. bash resets the mask only where an expansion error ends a command of
/// its main loop, which prints nothing here and ends nothing but itself.
const BASH_UNBLOCK: &str = "{ : $((1/0)); } 2>/dev/null\n";

/// The trap that saves the state when the shell exits. The user's DEBUG and RETURN traps would run for it.
const BASH_EXIT: &str = concat!(
    "{ builtin trap - DEBUG RETURN; } >/dev/null 2>&1;builtin . ",
    at!("exit")
);

/// What that trap runs: an `exit` inside functions leaves their frames standing, so it says which
/// they are and what is local to the innermost, then saves the state as ever.
const BASH_EXIT_SCRIPT: &str = concat!(
    "{ builtin printf '%s\\n' \"${FUNCNAME[@]}\";builtin printf '\\0';builtin local -p||:; } >|",
    at!("y"),
    " 2>/dev/null\nbuiltin . ",
    at!("dump"),
    " >|",
    at!("x"),
    "\n"
);

/// Puts the user's DEBUG trap away in a file and drops his RETURN trap: they would run for our own lines.
const BASH_TUCK: &str = concat!(
    "builtin trap -p DEBUG >|",
    at!("d"),
    ";builtin trap - DEBUG RETURN\n"
);

/// Writes the whole state; see `super::snapshot` for the sections. What an interrupt left behind is no state.
///
/// bash compares each name it lists with those before it, which is what takes time in a large state, so
/// each is listed once. A history would be one of our lines: the user's text is sourced. There is no
/// `[[`, which would clear what a wrong one of the user's has left in bash's parser.
const BASH_DUMP: &str = concat!(
    "builtin test ! -s ",
    at!("t"),
    "||return
if builtin test -o history;then builtin set +o history;builtin history -c;fi
builtin declare -p
builtin printf '\\0'
builtin declare -pf
builtin printf '\\0'
builtin trap -p
builtin printf '\\0'
builtin alias -p
builtin printf '\\0'
builtin umask -p
builtin printf '\\0'
builtin printf '%s\\n' \"${@@Q}\"
builtin printf '\\0'
builtin printf '%s\\0' \"${DIRSTACK[@]}\" 'end of state'
"
);

/// A POSIX shell can list what it exports, and little else in a form that can be read back.
const POSIX_DUMP: &str = "export -p
printf '\\0\\0\\0'
alias
printf '\\0'
umask
printf '\\0\\0%s\\0%s\\0' \"$PWD\" 'end of state'
";

impl Dialect {
    /// What a shell with this name speaks.
    pub(super) fn of(shell: &std::path::Path) -> Self {
        let name = shell
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if name.starts_with("bash") {
            Self::Bash
        } else {
            Self::Posix
        }
    }

    /// What a user loses with it.
    pub(super) fn losses(self) -> &'static [&'static str] {
        match self {
            Self::Bash => &[],
            Self::Posix => &[
                "after exit only exported variables, aliases, umask and the working directory are restored, and a fork or a process from this session starts with only those",
                "an interrupt that meets a loop of builtins has to replace the shell, and one that meets `wait` ends what is waited for",
                "programs inherit descriptor 31, a directory they can neither list nor write, descriptor 9, on which the shell answers, and descriptor 42, from which it reads",
            ],
        }
    }

    /// Arguments of the shell.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Bash => &["bash", "--norc", "--noprofile", "/proc/self/fd/42"],
            Self::Posix => &["sh", "/proc/self/fd/42"],
        }
    }

    /// The numbers under which directory, answers and script are passed.
    pub(super) fn passed_fds(self) -> [i32; 3] {
        match self {
            Self::Bash => INHERITED_FDS,
            Self::Posix => [DIR_FD, 9, 42],
        }
    }

    /// Where answers go. A POSIX shell knows descriptors of one digit only.
    fn answers(self) -> &'static str {
        match self {
            Self::Bash => "30",
            Self::Posix => "9",
        }
    }

    fn builtin(self) -> &'static str {
        match self {
            Self::Bash => "builtin ",
            Self::Posix => "",
        }
    }

    /// First lines: hide the directory from children, set the traps, report readiness.
    ///
    /// bash never sets close-on-exec on what it inherits, but it does on the copy it keeps of a
    /// descriptor that a group redirects: the first free number from 10 up. A duplicate of that
    /// copy keeps the flag.
    pub(super) fn boot(self) -> String {
        match self {
            Self::Bash => format!(
                "{{ exec 31<&10; }} 40<&-;{{ exec 30>&10; }} 41>&-;exec 40<&- 41>&- 42<&-;\
                 BASH_ARGV0=bash;\
                 trap '{BASH_INTERRUPT}' RTMAX INT;trap '{BASH_EXIT}' EXIT\n{}",
                self.completion(0)
            ),
            Self::Posix => self.completion(0),
        }
    }

    /// The dump script, a file of the session directory.
    pub(super) fn dump_script(self) -> &'static str {
        match self {
            Self::Bash => BASH_DUMP,
            Self::Posix => POSIX_DUMP,
        }
    }

    /// The script of the exit trap, a file of the session directory.
    pub(super) fn exit_script(self) -> &'static str {
        match self {
            Self::Bash => BASH_EXIT_SCRIPT,
            Self::Posix => "",
        }
    }

    /// Traps of ours, as `trap -p` shows them, which are no part of the state.
    pub(super) fn is_own_trap(listed: &str) -> bool {
        let quoted = |text: &str| format!("trap -- '{}' ", text.replace('\'', "'\\''"));
        listed.starts_with(&quoted(BASH_INTERRUPT)) || listed.starts_with(&quoted(BASH_EXIT))
    }

    /// Reports status and directory. Short, because bash reads a pipe byte by byte.
    pub(super) fn completion(self, seq: u64) -> String {
        format!(
            "{}printf '%s\\0' d{seq} \"$?\" \"{}\">&{}\n",
            self.builtin(),
            self.directory(),
            self.answers()
        )
    }

    /// Where the shell is. `PWD` is a variable like any other; bash itself keeps the first of the stack.
    fn directory(self) -> &'static str {
        match self {
            Self::Bash => "${DIRSTACK:-${PWD-}}",
            Self::Posix => "${PWD-}",
        }
    }

    /// Clears the way for our own lines after a command.
    pub(super) fn tuck(self) -> &'static str {
        match self {
            Self::Bash => BASH_TUCK,
            Self::Posix => "",
        }
    }

    /// A script that brings a DEBUG trap, as `trap -p` lists it, into the next text. A sourced text has it
    /// only with `functrace`, so that is on until the first command of the text, or the line after it, runs
    /// the trap. That would be seen in a trace; then the trap stays away.
    pub(super) fn untuck(trap: &str) -> Option<String> {
        let text = trap.trim_end().strip_prefix("trap -- ")?;
        // In posix mode one that is not set is listed as `-`.
        let text = text.strip_suffix(" DEBUG")?;
        let text = text.starts_with('\'').then_some(text)?;
        let set = format!("builtin trap -- {text} DEBUG");
        let first = format!(
            "case ${{BASH_SOURCE[1]+x}}$BASH_COMMAND in x*)builtin set +T;{set};builtin eval -- {text};;\
             builtin\\ printf*)builtin set +T;{set};;esac"
        );
        Some(format!(
            "case $- in *T*){set};;*x*);;*)builtin set -T;builtin trap -- {} DEBUG;esac\n",
            quote(&first)
        ))
    }

    /// Saves the state in file `s0` or `s1`, by turns, and reports whether it is there.
    pub(super) fn snapshot(self, seq: u64) -> String {
        let b = self.builtin();
        let answers = self.answers();
        // It is not when the disk is full, or an interrupt came between.
        format!(
            "{b}. {} >|{}{}&&{b}printf 's{seq}\\0'>&{answers}||{b}printf 'n{seq}\\0'>&{answers}\n",
            at!("dump"),
            at!("s"),
            seq % 2,
        )
    }

    /// Runs the user's text and reports its completion.
    pub(super) fn command(self, seq: u64, last_status: i32, has_stdin: bool) -> String {
        let stdin = if has_stdin {
            concat!(" <", at!("i"))
        } else {
            ""
        };
        let b = self.builtin();
        // `$?` of the command before, which our own lines have overwritten. A shell with `errexit`
        // would take it for a failure.
        let status = match last_status {
            0 => String::new(),
            _ => format!("case $- in *e*);;*){b}. {};esac\n", at!("q")),
        };
        let (command, out, err) = (at!("command"), at!("o"), at!("e"));
        match self {
            Self::Bash => format!(
                "{status}builtin . {command}{stdin} >|{out} 2>|{err}\n{}",
                self.completion(seq)
            ),
            // Not redirected for the text alone: a POSIX shell undoes that before it runs a trap on EXIT,
            // whose output would be lost. `eval` puts the status in before `exec` makes it its own.
            Self::Posix => format!(
                "exec{stdin} >|{out} 2>|{err}\n{status}. {command}\n\
                 eval \"exec </dev/null >/dev/null 2>&1;printf '%s\\\\0' d{seq} $? \\\"\\${{PWD-}}\\\">&9\"\n"
            ),
        }
    }

    /// Sources a file of the session directory, with nothing of ours on its streams.
    pub(super) fn source(self, name: &str) -> String {
        format!("{}. /proc/self/fd/31/{name} 2>/dev/null\n", self.builtin())
    }

    /// Enters a directory and reports success as the status.
    pub(super) fn enter(self, dir: &str, seq: u64) -> String {
        let b = self.builtin();
        format!(
            "if {b}cd -- {};then :;else ! :;fi\n{}",
            quote(dir),
            self.completion(seq)
        )
    }

    /// Lines that set and unset exported variables, as a script to be sourced.
    pub(super) fn environment<'a>(
        self,
        changes: impl Iterator<Item = (&'a String, &'a Option<String>)>,
    ) -> String {
        let b = self.builtin();
        changes
            .map(|(name, value)| match value {
                Some(value) => format!("{b}export {name}={}||:\n", quote(value)),
                None => format!("{b}unset {name}||:\n"),
            })
            .collect()
    }

    /// Notes the variables named, so that `restore_variables` can put them back.
    pub(super) fn note_variables(self, names: &[&str]) -> String {
        match self {
            Self::Bash => format!(
                "builtin declare -p {} >|{} 2>/dev/null||:\n",
                names.join(" "),
                at!("r")
            ),
            Self::Posix => format!("export -p >|{}\n", at!("r")),
        }
    }

    /// Puts noted variables back.
    pub(super) fn restore_variables(self, names: &[&str]) -> String {
        let b = self.builtin();
        format!(
            "{b}unset {} 2>/dev/null||:\n{b}. {}\n",
            names.join(" "),
            at!("r")
        )
    }

    /// Goes back to a directory.
    pub(super) fn back_to(self, dir: &str) -> String {
        format!("{}cd -- {}\n", self.builtin(), quote(dir))
    }

    /// Whether this is the DEBUG trap by which an interrupt unwinds the shell.
    pub(super) fn is_unwinding(trap: &str) -> bool {
        trap.contains("return 130")
    }

    /// Whether the user had a DEBUG trap when the interrupt trap wrote this down.
    pub(super) fn has_debug_trap(noted: &str) -> bool {
        let (_, trap) = noted.split_once('\n').unwrap_or((noted, ""));
        !trap.is_empty() && !Self::is_unwinding(trap)
    }

    /// After an interrupt: ends the trap that makes every sourced text return at once, frees the
    /// signals that the unwinding left blocked, and sources `u`, which puts the rest back.
    pub(super) fn end_interrupt(self, noted: &str) -> String {
        let Self::Bash = self else {
            return self.source("u");
        };
        let end = "builtin trap - DEBUG 2>/dev/null\n";
        let (flags, _) = noted.split_once('\n').unwrap_or((noted, ""));
        // In posix mode an expansion error ends the shell; its mask stays as it is.
        let unblock = if flags.contains("posix") {
            String::new()
        } else {
            // A SIGINT that was held back arrives now, and its trap sets the DEBUG trap again.
            format!("{BASH_UNBLOCK}{end}")
        };
        let forget = concat!(">|", at!("t"), "\n");
        format!("{end}{unblock}{forget}{}", self.source("u"))
    }

    /// What puts back what the interrupt trap overwrote, from what it wrote down.
    pub(super) fn after_interrupt(self, noted: &str) -> String {
        let (flags, trap) = noted.split_once('\n').unwrap_or((noted, ""));
        let flags = flags.split(' ').next().unwrap_or_default();
        let mut script = "builtin set +T\n".to_owned();
        if flags.contains('T') {
            script.push_str("builtin set -T\n");
        }
        if !Self::is_unwinding(trap) {
            script.push_str(trap);
        }
        if flags.contains('e') {
            script.push_str("builtin set -e\n");
        }
        script
    }
}

/// A word that stands for exactly this text.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_survives_quotes() {
        assert_eq!(quote("a'b\n$x"), "'a'\\''b\n$x'");
    }

    #[test]
    fn own_traps_are_recognised() {
        let listed = format!(
            "trap -- '{}' SIGRTMAX",
            BASH_INTERRUPT.replace('\'', "'\\''")
        );
        assert!(Dialect::is_own_trap(&listed));
        assert!(!Dialect::is_own_trap("trap -- 'echo hi' SIGINT"));
    }
}
