//! The configuration: layers, origins, tokens that stay where they belong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{User, bare, config_file, ended, fed};
use crate::house::root;

#[test]
fn a_hub_and_a_command_need_no_setting() {
    // As `sandshell serve` and then `sandshell ls` in one home: the token is where serve wrote it.
    let user = User::new();
    let state = user.home().join(".local/state/sandshell/hub");
    fs::create_dir_all(&state).unwrap();
    fs::copy(user.hub.state_dir().join("token"), state.join("token")).unwrap();
    let listed = ended(bare(user.home(), &["ls"]).env("SANDSHELL_URL", user.hub.url()));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let shown = ended(&mut bare(user.home(), &["config", "show", "--origin"])).out;
    assert!(shown.contains("http://127.0.0.1:4020"), "{shown}");
    assert!(
        shown
            .lines()
            .all(|line| line.contains("ORIGIN") || line.ends_with("default")),
        "{shown}"
    );
}

#[test]
fn each_layer_wins_over_the_next() {
    let home = tempfile::tempdir().unwrap();
    let file = config_file(home.path());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let own = "# mine\nhub = \"work\"\nsandbox = \"of-user\"\n[hubs.work]\nurl = \"http://127.0.0.1:11\"\n[hubs.other]\nurl = \"http://127.0.0.1:12\"\n";
    fs::write(&file, own).unwrap();
    let shown = |words: &[&str], env: &[(&str, &str)]| {
        let line = [&["config", "show", "--json"], words].concat();
        let shown = ended(bare(home.path(), &line).envs(env.iter().copied()));
        let value: serde_json::Value = serde_json::from_str(&shown.out).expect(&shown.err);
        let part = |key: &str, side: &str| value[key][side].as_str().unwrap_or("-").to_owned();
        [
            part("url", "value"),
            part("url", "origin"),
            part("sandbox", "value"),
        ]
    };
    let shown_file = file.display().to_string();
    assert_eq!(
        shown(&[], &[]),
        ["http://127.0.0.1:11", &shown_file, "of-user"]
    );
    fs::write(
        home.path().join("sandshell.toml"),
        "hub = \"other\"\nsandbox = \"of-project\"\n",
    )
    .unwrap();
    assert_eq!(
        shown(&[], &[]),
        ["http://127.0.0.1:12", &shown_file, "of-project"]
    );
    let env = [
        ("SANDSHELL_URL", "http://127.0.0.1:13"),
        ("SANDSHELL_SANDBOX", "of-env"),
    ];
    assert_eq!(
        shown(&[], &env),
        ["http://127.0.0.1:13", "environment SANDSHELL_URL", "of-env"]
    );
    assert_eq!(
        shown(&["--url", "http://127.0.0.1:14"], &env),
        ["http://127.0.0.1:14", "--url", "of-env"]
    );
    assert_eq!(shown(&["--hub", "work"], &env)[0], "http://127.0.0.1:11");
}

#[test]
fn a_project_cannot_have_the_token_sent_to_a_stranger() {
    let user = User::with_box();
    // Somebody listens, to see that nothing comes.
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let url = format!("http://{}", stranger.local_addr().unwrap());
    fs::write(
        user.home().join("sandshell.toml"),
        format!("url = \"{url}\"\n"),
    )
    .unwrap();
    let mut command = bare(user.home(), &["exec", "--", "true"]);
    let refused = ended(command.env("SANDSHELL_TOKEN", user.hub.token()));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("is not sent there"), "{refused:?}");
    assert!(
        refused
            .err
            .contains("hint: if you trust it: `sandshell login"),
        "{refused:?}"
    );
    let typed = fed(&mut bare(user.home(), &["login"]), b"sk_mine\n");
    assert_eq!(typed.status.code(), Some(2), "{typed:?}");
    assert!(stranger.accept().is_err(), "it was connected to");
    // The user's own word counts.
    let mut command = bare(user.home(), &["ls", "-q", "--url", user.hub.url()]);
    let listed = ended(command.env("SANDSHELL_TOKEN", user.hub.token()));
    assert_eq!(listed.out, "box\n", "{listed:?}");
}

#[test]
fn login_keeps_a_token_that_only_the_user_reads() {
    let user = User::with_box();
    let wrong = fed(
        &mut bare(user.home(), &["login", "--url", user.hub.url()]),
        b"sk_wrong\n",
    );
    assert_eq!(wrong.status.code(), Some(4), "{wrong:?}");
    assert!(!user.config_file().exists(), "nothing was kept");
    let token = format!("{}\n", user.hub.token());
    let line = ["login", "--name", "test", "--url", user.hub.url()];
    let done = fed(&mut bare(user.home(), &line), token.as_bytes());
    assert!(done.status.success(), "{done:?}");
    let kept = user.home().join(".config/sandshell/tokens/test");
    assert_eq!(fs::read_to_string(&kept).unwrap(), token);
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(ended(&mut bare(user.home(), &["ls", "-q"])).out, "box\n");
    // And nothing shows it.
    for words in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["ls", "--json"],
        &["get"],
    ] {
        let shown = ended(&mut bare(user.home(), words));
        let all = format!("{}{}", shown.out, shown.err);
        assert!(!all.contains(user.hub.token()), "{words:?} shows the token");
    }
    assert!(
        !fs::read_to_string(user.config_file())
            .unwrap()
            .contains(user.hub.token())
    );
}

#[test]
fn the_file_is_changed_without_losing_what_stands_in_it() {
    let home = tempfile::tempdir().unwrap();
    let file = config_file(home.path());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "# a comment\nsandbox = \"old\" # why\n").unwrap();
    for words in [
        &["config", "set", "sandbox", "new"][..],
        &["config", "set", "hubs.work.url", "http://10.0.0.1:4020"],
        &["config", "use", "work"],
    ] {
        let set = ended(&mut bare(home.path(), words));
        assert_eq!(set.code, Some(0), "{words:?}: {set:?}");
    }
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# a comment\nsandbox = \"new\" # why\n"),
        "{text}"
    );
    assert!(
        text.contains("[hubs.work]\nurl = \"http://10.0.0.1:4020\"\n"),
        "{text}"
    );
    assert!(text.contains("hub = \"work\"\n"), "{text}");
    let unset = ended(&mut bare(home.path(), &["config", "unset", "hub"]));
    assert_eq!(unset.code, Some(0), "{unset:?}");
    assert!(!fs::read_to_string(&file).unwrap().contains("hub = "));
    let paths = ended(&mut bare(home.path(), &["config", "path"])).out;
    assert!(paths.ends_with(&format!("{}\n", file.display())), "{paths}");
}

#[test]
fn unknown_keys_are_warned_of_and_the_schema_is_printed() {
    let user = User::new();
    fs::create_dir_all(user.config_file().parent().unwrap()).unwrap();
    fs::write(user.config_file(), "sandbx = \"a\"\n").unwrap();
    let listed = user.run(&["ls"]);
    assert_eq!(listed.code, Some(0));
    assert!(
        listed.err.contains("warning: ") && listed.err.contains("did you mean \"sandbox\"?"),
        "{listed:?}"
    );
    let schema = ended(&mut bare(user.home(), &["config", "schema"])).out;
    assert_eq!(
        schema,
        fs::read_to_string(root().join("schema/config.schema.json")).unwrap()
    );
}
