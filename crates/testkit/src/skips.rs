//! Checks that cannot be made where the tests run.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says that a check could not be made here. A test that passes says nothing under nextest, so the line goes into the
/// file that `scripts/test` shows at its end as well.
#[expect(clippy::print_stderr, reason = "it must be seen")]
pub fn skipped(why: &str) {
    let line = format!("SKIPPED: {why}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("SANDSHELL_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // In one write, since tests run beside each other.
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
