//! Paths of the workspace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::FileQuery;

/// The directory that is the client's.
pub(super) const ROOT: &str = "/workspace";

/// An absolute path in the workspace, by its bytes; `None` for one that leads out. Relative ones start at it.
pub(crate) fn resolve(path: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    if !path.starts_with(b"/") {
        parts.push(b"workspace");
    }
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.first() == Some(&&b"workspace"[..])).then(|| {
        let mut path = Vec::new();
        for part in parts {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        path
    })
}

/// The file at a path, which need not be text.
pub(super) fn file(path: Vec<u8>) -> FileQuery {
    match String::from_utf8(path) {
        Ok(path) => FileQuery::new(path),
        Err(error) => FileQuery {
            path_base64: Some(BASE64.encode(error.as_bytes())),
            ..FileQuery::default()
        },
    }
}

/// The bytes that stand in a path of an address; `None` when an escape is none.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(digits[0])? * 16 + digit(digits[1])?;
        bytes.push(u8::try_from(value).ok()?);
        rest = tail;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_the_workspace_is_found() {
        let found =
            |path: &str| resolve(path.as_bytes()).map(|path| String::from_utf8(path).unwrap());
        for (path, expected) in [
            ("/workspace", Some("/workspace")),
            ("/workspace/a//./b", Some("/workspace/a/b")),
            ("/workspace/a/../b", Some("/workspace/b")),
            ("a/b", Some("/workspace/a/b")),
            ("", Some("/workspace")),
            ("/../workspace/a", Some("/workspace/a")),
            ("/workspace/../etc", None),
            ("../etc", None),
            ("/", None),
            ("/workspaces", None),
            ("//etc/passwd", None),
        ] {
            assert_eq!(found(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(
            unescape("a%20b/%c3%A9%ff"),
            Some(b"a b/\xc3\xa9\xff".to_vec())
        );
        assert_eq!(unescape("a%2"), None);
        assert_eq!(unescape("a%zz"), None);
        assert_eq!(unescape("a%+1"), None);
    }
}
