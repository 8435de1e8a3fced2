//! What a request for a process says, before anything is done about it.

use bytes::Bytes;
use sandshell_types::{Encoded, ProcessRequest, RestartMode, TextEncoding};

use crate::ExecError;
use crate::host;
use crate::shell_text::suits_waiting_shell;

/// The text of an exec that a waiting shell can run: default everything, and a text that suits it.
pub(super) fn poolable(spec: &ProcessRequest) -> Option<&str> {
    let plain = spec.argv.is_none()
        && spec.cwd.is_none()
        && spec.env.is_empty()
        && spec.stdin.is_none()
        && spec.shell.is_none()
        && spec.user.is_none()
        && spec.limits.is_none();
    spec.command
        .as_deref()
        .filter(|text| plain && suits_waiting_shell(text))
}

/// Refuses what asks for nothing, or for two things at once.
pub(super) fn check_process(spec: &ProcessRequest) -> Result<(), ExecError> {
    let hint = || Some("give {\"command\": \"ls -l\"} or {\"argv\": [\"ls\", \"-l\"]}".to_owned());
    match (&spec.command, &spec.argv) {
        (None, None) => {
            return Err(ExecError::Invalid {
                pointer: "/command".to_owned(),
                detail: "one of `command` and `argv` is needed".to_owned(),
                hint: hint(),
            });
        }
        (Some(_), Some(_)) => {
            return Err(ExecError::Invalid {
                pointer: "/argv".to_owned(),
                detail: "only one of `command` and `argv` can be given".to_owned(),
                hint: hint(),
            });
        }
        (Some(command), None) if command.contains('\0') => {
            return Err(ExecError::invalid(
                "/command",
                "a command contains no NUL byte",
            ));
        }
        _ => {}
    }
    if spec.argv.is_some() && spec.session.is_some() {
        return Err(ExecError::Invalid {
            pointer: "/session".to_owned(),
            detail: "an argv has no shell, so it cannot start from a session's state".to_owned(),
            hint: Some("use `command`".to_owned()),
        });
    }
    if spec.argv.is_some() && spec.shell.is_some() {
        return Err(ExecError::invalid(
            "/shell",
            "an argv is run without a shell",
        ));
    }
    if let Some(restart) = spec.restart
        && restart.mode != RestartMode::Never
        && spec.stdin.is_some()
    {
        return Err(ExecError::invalid(
            "/stdin",
            "a process that is started again cannot be given its first input twice",
        ));
    }
    for (name, value) in &spec.env {
        host::check_variable(name, value.as_deref())?;
    }
    if let Some(text) = &spec.stdin {
        decode_stdin(text, spec.stdin_encoding)?;
    }
    Ok(())
}

/// The bytes of the first input.
pub(super) fn decode_stdin(text: &str, encoding: TextEncoding) -> Result<Bytes, ExecError> {
    Encoded::decode(text, encoding)
        .map(Bytes::from)
        .ok_or_else(|| ExecError::invalid("/stdin", "stdin is not valid base64"))
}
