//! Values on the command line: times, sizes, variables and labels.

use std::path::Path;

use sandshell_types::{Env, Timestamp};

use crate::failure::Failure;

/// A time such as `500ms`, `30s`, `5m`, `2h` or `1d`; a bare number is seconds. In milliseconds.
pub fn duration(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 1.0,
        "" | "s" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return Err("expected a time such as 500ms, 30s, 5m, 2h or 1d".to_owned()),
    };
    scaled(number, scale)
        .ok_or_else(|| "expected a time such as 500ms, 30s, 5m, 2h or 1d".to_owned())
}

/// Fewer bytes than this hold nothing of ours: a bare number below it lacks its unit.
const LEAST_BYTES: f64 = 4096.0;

/// A size such as `512m` or `2g`, in powers of 1024; a bare number is bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let split = lower
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let scale = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" if number.parse().is_ok_and(|bytes: f64| bytes < LEAST_BYTES) => {
            return Err(format!(
                "without a unit {number} is a number of bytes; add one, as in {number}m"
            ));
        }
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err("expected a size such as 512m or 2g".to_owned()),
    };
    scaled(number, scale).ok_or_else(|| "expected a size such as 512m or 2g".to_owned())
}

#[expect(
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked to be within a u64"
)]
fn scaled(number: &str, scale: f64) -> Option<u64> {
    let value: f64 = number.parse::<f64>().ok()? * scale;
    (value >= 0.0 && value < u64::MAX as f64).then_some(value.round() as u64)
}

/// `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// `KEY=VALUE`, or `KEY` for the value it has here.
pub(crate) fn variable(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("expected KEY=VALUE or KEY".to_owned()),
        Some((key, value)) => Ok((key.to_owned(), Some(value.to_owned()))),
        None if text.is_empty() => Err("expected KEY=VALUE or KEY".to_owned()),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.to_owned(), Some(value))),
            Err(_) => Err(format!("{text} is not set here; give it as {text}=VALUE")),
        },
    }
}

/// Variables of files, then those given one by one.
pub(crate) fn environment(
    files: &[impl AsRef<Path>],
    given: &[(String, Option<String>)],
) -> Result<Env, Failure> {
    let mut env = Env::new();
    for file in files {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::local(
                format!("the file {} cannot be read", file.display()),
                &error,
            )
            .code(2)
            .hint("--env-file takes a file with a line KEY=VALUE for each variable")
        })?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (key, value) = pair(line).map_err(|_| {
                Failure::usage(format!(
                    "line {} of {} is not KEY=VALUE",
                    number + 1,
                    file.display()
                ))
                .hint("lines that are empty or start with # are passed over")
            })?;
            env.insert(key, Some(value));
        }
    }
    env.extend(given.iter().cloned());
    Ok(env)
}

/// Words as text that a shell splits into the same words.
pub fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A moment: how long ago, or RFC 3339.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let millis = duration(text).map_err(|_| {
        "expected a time ago such as 10m, or one such as 2026-01-01T00:00:00Z".to_owned()
    })?;
    let now = Timestamp::now().as_millisecond();
    Timestamp::from_millisecond(now.saturating_sub_unsigned(millis))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        for (text, millis) in [
            ("500ms", 500),
            ("30", 30_000),
            ("30s", 30_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(duration(text), Ok(millis), "{text}");
        }
        for (text, count) in [
            ("4096", 4096),
            ("1k", 1024),
            ("1.5MiB", 1_572_864),
            ("2g", 2 << 30),
        ] {
            assert_eq!(bytes(text), Ok(count), "{text}");
        }
        assert_eq!(
            bytes("512"),
            Err("without a unit 512 is a number of bytes; add one, as in 512m".to_owned())
        );
        for text in ["", "s", "-1", "1x", "1.2.3", "ms", "1e3s"] {
            assert!(duration(text).is_err(), "{text}");
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_stay_words() {
        let words = ["echo", "a b", "it's", "", "$HOME", "x=1"].map(str::to_owned);
        assert_eq!(quoted(&words), "echo 'a b' 'it'\\''s' '' '$HOME' x=1");
    }

    #[test]
    fn moments_are_ago_or_exact() {
        assert!(moment("2026-01-01T00:00:00Z").is_ok());
        assert!(moment("10m").is_ok());
        assert!(moment("yesterday").is_err());
    }
}
