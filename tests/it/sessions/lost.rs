//! The watchdog: a completion that cannot come is found, and the truth is told.

use sandshell_testkit::Agent;

use crate::calls::Shell;

/// Runs a command that breaks the shell's way to report, then goes on.
async fn is_found(breaking: &str) {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("v=kept; cd /usr; f() { echo function; }").await;
    let broken = shell.run(breaking).await;
    assert_ne!(broken.session_state, "ended", "{broken:?}");
    // Where the break shows only at the next command, that one says so: when it runs on another shell, too.
    let next = shell.run("echo ran").await;
    let kept = next.session_state == "kept";
    if kept || (next.session_state == "restored_before" && next.exit_code == 0) {
        assert_eq!(
            (next.exit_code, next.stdout.as_str()),
            (0, "ran\n"),
            "{breaking}: {next:?}"
        );
    } else {
        assert_eq!(broken.session_state, "kept");
        assert_ne!(next.exit_code, 0, "{breaking}: {next:?}");
    }
    assert_eq!(
        shell.out("echo $v; pwd; f").await,
        "kept\n/usr\nfunction\n",
        "after {breaking}"
    );
}

#[tokio::test]
async fn no_execution_mode_is_found() {
    is_found("set -n").await;
}

#[tokio::test]
async fn a_function_called_builtin_is_no_obstacle() {
    is_found("builtin() { echo caught; }").await;
}

#[tokio::test]
async fn functions_with_the_names_of_all_our_builtins_are_no_obstacle() {
    is_found("printf() { :; }; trap() { :; }; cd() { :; }; declare() { :; }; exec() { :; }; source() { :; }").await;
}

#[tokio::test]
async fn a_function_called_dot_is_no_obstacle_or_is_found() {
    is_found(".() { :; }").await;
}

#[tokio::test]
async fn aliases_with_the_names_of_all_our_builtins_are_no_obstacle() {
    is_found("shopt -s expand_aliases; alias builtin=false printf=false .=false if=false {=false")
        .await;
}

#[tokio::test]
async fn a_closed_session_directory_is_found() {
    is_found("exec 31<&-").await;
}

#[tokio::test]
async fn a_replaced_session_directory_is_found() {
    is_found("exec 31</tmp").await;
}

#[tokio::test]
async fn a_debug_trap_that_forbids_everything_is_found() {
    is_found("shopt -s extdebug; trap 'false' DEBUG").await;
}

#[tokio::test]
async fn a_posix_shell_option_is_no_obstacle() {
    is_found("set -o posix; set -f; set -C; set -o noglob; IFS=/").await;
}

#[tokio::test]
async fn disabled_builtins_are_no_obstacle_or_are_found() {
    is_found("enable -n printf declare trap alias umask builtin .").await;
}

#[tokio::test]
async fn a_closed_standard_input_is_found() {
    is_found("exec 0<&-").await;
}

#[tokio::test]
async fn a_long_quiet_command_is_not_taken_for_a_lost_one() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    for command in [
        "sleep 1.2; echo done",
        "read -t 1.2 < <(sleep 2); echo done",
    ] {
        let result = shell.run(command).await;
        assert_eq!(
            (result.stdout.as_str(), result.session_state.as_str()),
            ("done\n", "kept")
        );
    }
}
