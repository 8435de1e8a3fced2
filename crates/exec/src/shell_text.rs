//! What can be said of a shell text without running it.
//!
//! Two questions: can it be given to a waiting shell, where a syntax error or a trace would show how
//! it is run; and does it leave a session's state alone, so that it need not be saved again. Both
//! answers are on the safe side: `true` is a promise, checked against bash itself by the tests,
//! `false` only means "not sure".
//!
//! Understood are simple commands, pipelines and lists of them with quotes, plain expansions and
//! redirections, which is most of what people send. Everything with a grammar of its own (compound
//! commands, substitutions, here-documents, functions) counts as not understood.

/// Longest text looked at; longer ones gain nothing.
const MAX_LEN: usize = 16 * 1024;

/// Words with a meaning of their own where a command may start.
const RESERVED: &[&[u8]] = &[
    b"if",
    b"then",
    b"else",
    b"elif",
    b"fi",
    b"case",
    b"esac",
    b"for",
    b"select",
    b"while",
    b"until",
    b"do",
    b"done",
    b"in",
    b"function",
    b"time",
    b"{",
    b"}",
    b"!",
    b"[[",
    b"]]",
    b"coproc",
];

/// Commands that can turn on tracing, which shows how deep the text is nested.
const SHOWING_DEPTH: &[&[u8]] = &[b"set", b"shopt", b"eval", b"builtin", b"command"];

/// Builtins that change the shell, can end it, or run a text of their own. The others (`:`, `true`,
/// `false`, `echo`, `test`, `[`, `pwd`) do none of it, and neither does a program.
const CHANGING: &[&[u8]] = &[
    b".",
    b"alias",
    b"bg",
    b"bind",
    b"break",
    b"builtin",
    b"caller",
    b"cd",
    b"command",
    b"compgen",
    b"complete",
    b"compopt",
    b"continue",
    b"declare",
    b"dirs",
    b"disown",
    b"enable",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"fc",
    b"fg",
    b"getopts",
    b"hash",
    b"help",
    b"history",
    b"jobs",
    b"kill",
    b"let",
    b"local",
    b"logout",
    b"mapfile",
    b"popd",
    b"printf",
    b"pushd",
    b"read",
    b"readarray",
    b"readonly",
    b"return",
    b"set",
    b"shift",
    b"shopt",
    b"source",
    b"suspend",
    b"times",
    b"trap",
    b"type",
    b"typeset",
    b"ulimit",
    b"umask",
    b"unalias",
    b"unset",
    b"wait",
];

/// What stands before the place we look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing of a command yet, and none is needed.
    Nothing,
    /// An operator that needs a command after it.
    Operator,
    /// Part of a command.
    Command,
}

/// Whether `text` can be given to a waiting shell.
pub fn suits_waiting_shell(text: &str) -> bool {
    command_words(text).is_some_and(|words| words.iter().all(|word| !SHOWING_DEPTH.contains(word)))
}

/// Whether `text` leaves variables, options, directory and all else of a shell as they are, in a
/// shell without functions, aliases and traps of the user's.
pub fn leaves_state_alone(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+-:[".contains(byte);
    command_words(text).is_some_and(|words| {
        words
            .iter()
            .all(|word| word.iter().all(plain) && !CHANGING.contains(word))
    })
}

/// The first word of each simple command, assignments included; `None` when not sure of the text.
fn command_words(text: &str) -> Option<Vec<&[u8]>> {
    if text.len() > MAX_LEN {
        return None;
    }
    Scanner {
        rest: text.as_bytes(),
        commands: Vec::new(),
    }
    .script()
}

struct Scanner<'a> {
    rest: &'a [u8],
    commands: Vec<&'a [u8]>,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
    }

    fn starts_with(&self, prefix: &[u8]) -> bool {
        self.rest.starts_with(prefix)
    }

    /// A whole script; `None` when unsure.
    fn script(mut self) -> Option<Vec<&'a [u8]>> {
        let mut before = Before::Nothing;
        // A redirection can stand before the first word, which is the command all the same.
        let mut named = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.skip(1),
                b'#' => {
                    let end = self.rest.iter().position(|b| *b == b'\n');
                    self.skip(end.unwrap_or(self.rest.len()));
                }
                b'\n' => {
                    self.skip(1);
                    if before == Before::Command {
                        before = Before::Nothing;
                        named = false;
                    }
                }
                b';' | b'|' | b'&' if !self.starts_with(b"&>") => {
                    if before != Before::Command
                        || self.starts_with(b";&")
                        || self.starts_with(b";;")
                    {
                        return None;
                    }
                    before = self.operator(byte);
                    named = false;
                }
                b'<' | b'>' | b'&' => {
                    self.redirection()?;
                    before = Before::Command;
                }
                _ => {
                    let start = self.rest;
                    self.word()?;
                    let word = start.get(..start.len() - self.rest.len())?;
                    if before != Before::Command && RESERVED.contains(&word) {
                        return None;
                    }
                    if !named {
                        self.commands.push(word);
                        // After an assignment comes the command proper.
                        named = !word.contains(&b'=');
                    }
                    before = Before::Command;
                }
            }
        }
        (before != Before::Operator).then_some(self.commands)
    }

    /// `;`, `&`, `&&`, `|`, `||` or `|&`.
    fn operator(&mut self, byte: u8) -> Before {
        for two in [&b"&&"[..], b"||", b"|&"] {
            if self.starts_with(two) {
                self.skip(2);
                return Before::Operator;
            }
        }
        self.skip(1);
        if byte == b'|' {
            Before::Operator
        } else {
            Before::Nothing
        }
    }

    /// A redirection operator and its target.
    fn redirection(&mut self) -> Option<()> {
        if self.starts_with(b"<<") || self.starts_with(b"<(") || self.starts_with(b">(") {
            return None;
        }
        let operators: [&[u8]; 9] = [b"&>>", b"&>", b">>", b">|", b">&", b"<>", b"<&", b">", b"<"];
        let operator = operators.into_iter().find(|op| self.starts_with(op))?;
        self.skip(operator.len());
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.skip(1);
        }
        // Here `#` starts a comment, and the target is missing.
        if self.peek() == Some(b'#') {
            return None;
        }
        self.word()?;
        // A number right before the next redirection belongs to that one.
        if matches!(self.peek(), Some(b'<' | b'>')) {
            None
        } else {
            Some(())
        }
    }

    /// One word, which must not be empty.
    fn word(&mut self) -> Option<()> {
        let length = self.rest.len();
        let mut is_name = true;
        while let Some(byte) = self.peek() {
            // `name[` begins a subscript, which must end.
            if byte == b'[' && is_name && self.rest.len() < length {
                return None;
            }
            is_name = is_name && (byte.is_ascii_alphanumeric() || byte == b'_');
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' => break,
                b'(' | b')' | b'`' => return None,
                b'\\' => self.escape()?,
                b'\'' => {
                    self.skip(1);
                    let end = self.rest.iter().position(|b| *b == b'\'')?;
                    self.skip(end + 1);
                }
                b'"' => self.double_quotes()?,
                b'$' => self.expansion()?,
                _ => self.skip(1),
            }
        }
        (self.rest.len() < length).then_some(())
    }

    /// A backslash and what it quotes. A line continuation joins what stands around it to
    /// something else, so it is left to a fresh shell.
    fn escape(&mut self) -> Option<()> {
        if *self.rest.get(1)? == b'\n' {
            return None;
        }
        self.skip(2);
        Some(())
    }

    fn double_quotes(&mut self) -> Option<()> {
        self.skip(1);
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip(1);
                    return Some(());
                }
                b'`' => return None,
                b'\\' => self.escape()?,
                b'$' => self.expansion()?,
                _ => self.skip(1),
            }
        }
    }

    /// `$name`, `$1`, `$?`, `${name}`; nothing with an inner grammar.
    fn expansion(&mut self) -> Option<()> {
        self.skip(1);
        match self.peek() {
            Some(b'(' | b'[' | b'\'') => None,
            Some(b'{') => {
                let end = self.rest.iter().position(|b| *b == b'}')?;
                let name = self.rest.get(1..end)?;
                let identifier = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
                if name.is_empty() || !identifier {
                    return None;
                }
                self.skip(end + 1);
                Some(())
            }
            // `$"…"` is a quoted string: the quote is left for the caller, which reads it as one.
            _ => Some(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_what_people_send() {
        for text in [
            "true",
            "ls -la /tmp | grep foo > out.txt 2>&1",
            "cd /x && make -j2 || echo \"failed: $?\"",
            "export A='1' B=\"${C} $D\"; echo $A &",
            "# only a comment",
            "",
            "a\nb\n\n",
            "echo hi &>log",
            "FOO=1 env | cat",
        ] {
            assert!(suits_waiting_shell(text), "{text:?}");
        }
    }

    #[test]
    fn leaves_the_rest() {
        for text in [
            "echo 'unclosed",
            "echo \"unclosed",
            "echo $(x)",
            "echo `x`",
            "if true",
            "fi",
            "}",
            "a ;; b",
            "; a",
            "a &&",
            "| a",
            "cat <<E\nE",
            "f() { :; }",
            "echo ${x",
            "echo ${x:-(}",
            "a > ",
            "> ;",
            "echo \\",
            "! true",
            "[[ a ]]",
            "a=(1 2)",
            "a && | b",
            "& a",
            "a & ; b",
        ] {
            assert!(!suits_waiting_shell(text), "{text:?}");
        }
    }

    #[test]
    fn knows_what_leaves_a_shell_alone() {
        for text in [
            "true",
            "echo $HOME | cat >/dev/null",
            "ls -l; /bin/true && [ -f x ]",
            "git status 2>&1",
        ] {
            assert!(leaves_state_alone(text), "{text:?}");
        }
        for text in [
            "cd /",
            "x=1",
            "x=1 ls",
            "export A",
            "ls; cd /",
            "ls | read x",
            ">f cd /",
            "$x",
            "e\\val x",
            "'cd' /",
            "\"cd\" /",
            "f() { :; }",
            "printf -v x y",
            "exec ls",
            "kill -9 1",
            ". ./x",
            "unset x",
        ] {
            assert!(!leaves_state_alone(text), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        /// What we are sure of, bash accepts.
        #[test]
        fn bash_agrees(tokens in prop::collection::vec(prop::sample::select(vec![
            "a", "echo", "if", "fi", "do", "{", "}", "!", "in", "[[", "case", "time", "x=1", "'q'",
            "\"d\"", "\"$v\"", "${v}", "$v", "$", "$\"s\"", "\\", "\\\n", ";", "&", "&&", "||", "|", "|&", "\n",
            " ", " ", " ", ">", ">>", "<", "2>&1", "&>", ">&", "<>", "#", "'", "\"", "(", ")", "`", "$(", "1", "-", "=", "~", "*", "?", "^", "%",
        ]), 0..14)) {
            let text = tokens.concat();
            if suits_waiting_shell(&text) {
                let status = std::process::Command::new("bash")
                    .args(["-n", "-c", "--", &text])
                    .env_clear()
                    .output()
                    .unwrap();
                prop_assert!(status.status.success(), "{text:?}: {status:?}");
            }
        }
    }
}
