//! A soak of twenty seconds, with the bars that so short a time allows: no wrong answer, every count as it
//! was, nothing left. How memory grows is told, and judged by `make soak`.

use std::process::Command;

#[test]
fn a_short_soak_leaves_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_sandshell-bench"))
        .args(["soak", "--seconds", "20"])
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}:\n{err}\n{out}", output.status);
    // So that it cannot pass because it measured nothing.
    for row in [
        "processes alive when the last sandbox was gone",
        "left after the hub",
    ] {
        assert!(out.contains(&format!("PASS  soak: {row}")), "{out}");
    }
}
