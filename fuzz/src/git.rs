//! What git prints, which names of files are a part of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandshell_files::fuzzing::{
    git_branch, git_diff, git_log, git_progress, git_pushed, git_status, git_url,
};

use crate::input::Input;

/// No more entries than records; a name that is no text is there in base64, byte for byte.
pub(crate) fn output(data: &[u8]) {
    let records = data.split(|byte| *byte == 0).count();
    let stands = |path: &str, exact: Option<&String>| {
        let bytes = exact.map_or_else(
            || path.as_bytes().to_vec(),
            |exact| STANDARD.decode(exact).unwrap(),
        );
        assert!(bytes.is_empty() || data.windows(bytes.len()).any(|window| window == bytes));
    };
    let status = git_status(data);
    assert!(status.entries.len() <= records);
    for entry in &status.entries {
        stands(&entry.path, entry.path_base64.as_ref());
        if let Some(original) = &entry.original_path {
            stands(original, entry.original_path_base64.as_ref());
        }
    }
    let files = git_diff(data);
    assert!(files.len() <= records);
    for file in &files {
        stands(&file.path, file.path_base64.as_ref());
    }
    assert!(git_log(data).len() <= records);
    let (whole, pieces) = Input(data).pieces();
    assert_eq!(git_progress(&[whole]), git_progress(&pieces));
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        let _ = (git_branch(line), git_pushed(line), git_url(line));
    }
}
