//! Names and tables: beginnings of ids, the sandbox that is meant, lists for scripts.

use super::User;

#[test]
fn a_beginning_names_what_begins_so() {
    let user = User::new();
    for id in ["web-1", "web-2", "db"] {
        user.make(id);
    }
    assert_eq!(user.ok(&["exec", "d", "--", "hostname"]).lines().count(), 1);
    let several = user.run(&["get", "web"]);
    assert_eq!(several.code, Some(1));
    assert!(several.err.contains("web-1, web-2"), "{several:?}");
    assert_eq!(user.ok(&["ls", "-q"]), "web-1\nweb-2\ndb\n");
    assert_eq!(user.ok(&["pause", "web-1"]), "web-1\n");
    assert_eq!(user.ok(&["ls", "-q", "--state", "paused"]), "web-1\n");
    assert_eq!(user.ok(&["resume", "web-1"]), "web-1\n");
    let set = super::ended(
        user.command(&["get", "--json"])
            .env("SANDSHELL_SANDBOX", "web-2"),
    );
    assert!(set.out.contains("\"id\":\"web-2\""), "{set:?}");
    assert_eq!(user.ok(&["rm", "web-1", "web-2"]), "web-1\nweb-2\n");
    assert_eq!(
        user.ok(&["exec", "--", "echo", "the only one"]),
        "the only one\n"
    );
}

#[test]
fn what_can_be_done_is_done_and_the_rest_is_told() {
    let user = User::with_box();
    let ended = user.run(&["rm", "nothing", "box"]);
    assert_eq!((ended.code, &*ended.out), (Some(1), "box\n"));
    assert!(ended.err.contains("nothing"), "{ended:?}");
    assert_eq!(user.ok(&["rm", "--all"]), "");
}

#[test]
fn a_table_survives_a_pipe() {
    let user = User::new();
    let label = "a-long-label=".to_owned() + &"x".repeat(120);
    user.ok(&[
        "create",
        "one",
        "--isolation",
        "best-effort",
        "--label",
        &label,
    ]);
    user.ok(&[
        "create",
        "two",
        "--isolation",
        "best-effort",
        "-l",
        "team=web",
    ]);
    let table = user.ok(&["ls"]);
    let mut lines = table.lines();
    assert_eq!(
        lines.next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["ID", "STATE", "IMAGE", "CREATED", "USED", "LABELS"]
    );
    assert!(
        lines.next().unwrap().ends_with(&label),
        "nothing is cut: {table}"
    );
    assert!(!table.contains('\x1b'));
    assert_eq!(user.ok(&["ls", "-q", "--label", "team=web"]), "two\n");
}

#[test]
fn a_spec_is_what_was_said() {
    let user = User::new();
    let made = user.ok(&[
        "create",
        "spec",
        "--isolation",
        "best-effort",
        "-e",
        "A=1",
        "-w",
        "/tmp",
        "--memory",
        "256m",
        "--pids",
        "50",
        "--idle",
        "10m",
        "--on-idle",
        "destroy",
        "--lifetime",
        "8h",
        "--json",
    ]);
    let record: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!(record["limits"]["memory_bytes"], 256 << 20);
    assert_eq!(record["limits"]["pids"], 50);
    assert_eq!(record["idle_timeout_ms"], 600_000);
    assert_eq!(record["on_idle"], "destroy");
    assert_eq!(record["max_lifetime_ms"], 28_800_000);
    assert_eq!(user.ok(&["exec", "-c", "echo $A $PWD"]), "1 /tmp\n");
    let shown = user.ok(&["get", "spec"]);
    assert!(
        shown.contains("limits       memory 256.0 MiB, pids 50\n"),
        "{shown}"
    );
}
