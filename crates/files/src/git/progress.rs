//! Git's progress lines: `Receiving objects:  42% (420/1000), 1.2 MiB | 3 MiB/s`.

use sandshell_types::GitProgress;

/// Longest line that is kept while its end has not come.
const MAX_LINE: usize = 4096;

/// Takes stderr apart as it comes.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Takes in bytes and gives the progress they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<GitProgress> {
        let mut found = Vec::new();
        for byte in bytes {
            if matches!(byte, b'\r' | b'\n') {
                found.extend(parse(&String::from_utf8_lossy(&self.0)));
                self.0.clear();
            } else if self.0.len() < MAX_LINE {
                self.0.push(*byte);
            }
        }
        found
    }
}

fn parse(line: &str) -> Option<GitProgress> {
    let line = line.strip_prefix("remote: ").unwrap_or(line);
    let (phase, rest) = line.split_once(": ")?;
    let rest = rest.trim_start();
    let (percent, rest) = match rest.split_once("% (") {
        Some((percent, rest)) => (Some(percent.parse().ok()?), rest),
        None => (None, rest),
    };
    let (current, total) = if percent.is_some() {
        let (current, rest) = rest.split_once('/')?;
        let total = rest.split(')').next()?;
        (current.parse().ok(), total.parse().ok())
    } else {
        // `Enumerating objects: 12, done.` counts without knowing the end.
        (Some(rest.split(',').next()?.parse().ok()?), None)
    };
    Some(GitProgress {
        phase: phase.to_owned(),
        percent,
        current,
        total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_git_says() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"Cloning into 'x'...\nRecei"), []);
        let found = lines.push(b"ving objects:  42% (420/1000), 1.2 MiB | 3 MiB/s\r");
        assert_eq!(
            found,
            [GitProgress {
                phase: "Receiving objects".to_owned(),
                percent: Some(42),
                current: Some(420),
                total: Some(1000),
            }]
        );
        let found = lines.push(b"remote: Enumerating objects: 12, done.        \n");
        assert_eq!(
            found.first().map(|p| (p.percent, p.current)),
            Some((None, Some(12)))
        );
        assert_eq!(lines.push(b"fatal: no\n\n: \n%\n"), []);
    }
}
