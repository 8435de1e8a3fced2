//! A true controlling terminal: job control, sizes, and exact bytes.

use sandshell_client::types::TerminalRequest;
use sandshell_testkit::{Agent, UnprivilegedUser};

use super::drive::{Driver, bash, command, create};
use crate::calls::{env, in_time};

#[tokio::test]
async fn ctrl_c_ctrl_z_fg_and_bg_do_what_they_do() {
    // Also where no cgroup can be had, and the program is started by a keeper.
    for args in [&[][..], &["--without", "cgroup"], &["--without", "clone3"]] {
        let agent = Agent::builder().args(args).start();
        let client = agent.client();
        let mut shell = Driver::bash(&client).await;
        // Each says when it runs: a key that is typed before goes to the shell.
        let up = |n: u32| format!("sh -c 'echo up-$(({n}+1)); exec sleep 1000'");
        shell.run(&up(1), "up-2").await;
        shell.type_in("\x03").await;
        shell.run("echo status-$?", "status-130").await;
        let cat = "clear; sh -c 'echo cat-$((4+4)); exec cat'";
        shell.run(cat, "cat-8").await;
        let seen = String::from_utf8_lossy(&shell.output).into_owned();
        assert!(!seen.contains("no job control"), "{seen}");
        shell.type_in("typed\r").await;
        shell
            .until("an echo of cat", |s| s.text.matches("typed").count() == 2)
            .await;
        shell.type_in("\x1a").await;
        shell.until_text("Stopped").await;
        shell.run("jobs -l", "Stopped").await;
        shell.type_in("fg\r").await;
        // Named when it was stopped, in the list, and now.
        shell
            .until("cat in front", |s| s.text.matches("exec cat'").count() == 3)
            .await;
        shell.type_in("again\r").await;
        shell
            .until("an echo of cat", |s| s.text.matches("again").count() == 2)
            .await;
        shell.type_in("\x04").await;
        // Both ends say so: bash itself misses the stop of a member that it is still starting, also
        // at a plain terminal.
        let first = "sh -c 'echo low-$((1+1)) >&2; exec sleep 1000'";
        shell.type_in(format!("clear; {first} | {}\r", up(2))).await;
        shell
            .until("both ends of the pipeline", |s| {
                s.text.contains("low-2") && s.text.contains("up-3")
            })
            .await;
        shell.type_in("\x1a").await;
        shell.until_text("Stopped").await;
        shell.run("bg", "&").await;
        shell.run("jobs -r", "Running").await;
        shell
            .run("kill %1; wait; echo left-$(jobs | wc -l)", "left-0")
            .await;
        shell
            .run(
                "clear; bash -c 'trap \"echo got-\\$((2+1)); exit 9\" INT; \
                 echo up-$((4+1)); sleep 1000 & wait'",
                "up-5",
            )
            .await;
        shell.type_in("\x03").await;
        shell.until_text("got-3").await;
        shell.type_in("exit 7\r").await;
        assert_eq!(shell.exit().await, (7, None), "{args:?}");
    }
}

#[tokio::test]
async fn programs_know_their_terminal_and_its_size() {
    let agent = Agent::start();
    let client = agent.client();
    let mut shell = Driver::bash(&client).await;
    shell.run("tty; echo $TERM-$LANG; stty size", "24 80").await;
    let screen = shell.screen().await;
    assert!(screen.text.contains("/dev/pts/"), "{}", screen.text);
    assert!(
        screen.text.contains("xterm-256color-C.UTF-8"),
        "{}",
        screen.text
    );
    shell
        .run(
            "clear; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && ls /proc/$$/fd | tr '\\n' ,",
            "0,1,2,255,",
        )
        .await;
    shell
        .run(
            "clear; echo hi >/dev/tty; echo to-$(tty >/dev/tty; echo it)",
            "to-it",
        )
        .await;
    let told = "$|=1; $SIG{WINCH}=sub{print \"winch-\",1+1,\"\\n\"}; \
         print \"up-\",4+4,\"\\n\"; sleep 1000 while 1";
    shell.run(&format!("clear; perl -e '{told}'"), "up-8").await;
    shell.resize(132, 43).await;
    shell.until_text("winch-2").await;
    shell.type_in("\x03").await;
    shell.run("clear; stty size", "43 132").await;
    // While it makes the terminal ready to read, bash gives it back the size that it had.
    shell
        .until("its prompt", |s| s.text.trim_end().ends_with("ready>"))
        .await;
    let record = in_time(client.resize_terminal(&shell.id, 40, 10))
        .await
        .unwrap();
    assert_eq!((record.cols, record.rows), (40, 10));
    shell.run("clear; stty size", "10 40").await;
    shell.type_in("printf '\\033]2;my %s\\007' title\r").await;
    shell
        .until("its title", |s| s.title.as_deref() == Some("my title"))
        .await;
    let session = "ps -o sid= -p $$ | tr -d ' '; echo $$-lead''er";
    shell.run(&format!("clear; {session}"), "leader").await;
    let text = shell.screen().await.text;
    let sid = text.lines().next().unwrap();
    assert!(text.contains(&format!("{sid}-leader")), "{text}");
}

#[tokio::test]
async fn user_cwd_and_environment_are_as_asked() {
    let agent = Agent::start();
    let client = agent.client();
    let user = UnprivilegedUser::get();
    let request = TerminalRequest {
        cwd: Some("/tmp".to_owned()),
        env: env(&[
            ("TERM", Some("vt100")),
            ("LANG", None),
            ("MINE", Some("a b")),
        ]),
        user: user.map(|_| "nobody".to_owned()),
        ..command("id -un; pwd; echo \"$TERM/$LANG/$MINE\"; echo own >$(tty); stat -c %a $(tty)")
    };
    let mut shell = Driver::start(&client, &request).await;
    assert_eq!(shell.exit().await, (0, None));
    let shown = String::from_utf8(shell.output.clone()).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    let name = if request.user.is_some() {
        "nobody"
    } else {
        "root"
    };
    assert_eq!(lines, [name, "/tmp", "vt100//a b", "own", "620"], "{shown}");
}

#[tokio::test]
async fn an_agent_without_rights_has_terminals_too() {
    let Some(user) = UnprivilegedUser::get() else {
        return;
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let mut shell = Driver::bash(&client).await;
    shell
        .run("sh -c 'echo up-$((1+1)); exec sleep 1000'", "up-2")
        .await;
    shell.type_in("\x1a").await;
    shell.until_text("Stopped").await;
    shell.run("clear; id -u; tty", "/dev/pts/").await;
    shell.type_in("kill -9 $$\r").await;
    assert_eq!(shell.exit().await, (137, Some("SIGKILL".to_owned())));
}

#[tokio::test]
async fn without_a_command_it_is_a_login_shell() {
    let agent = Agent::start();
    let client = agent.client();
    let request = TerminalRequest {
        env: env(&[("HOME", Some("/nonexistent"))]),
        ..Default::default()
    };
    let mut shell = Driver::start(&client, &request).await;
    let line =
        "shopt -q login_shell && echo login-$((1+1)); case $- in *i*m*) echo inter-$((2+2));; esac";
    shell.run(line, "inter-4").await;
    shell.until_text("login-2").await;
    shell.type_in("exit\r").await;
    shell.exit().await;
}

#[tokio::test]
async fn bytes_are_exact() {
    let agent = Agent::start();
    let client = agent.client();
    // All bytes, in every order of two, and no newline at the end.
    let script =
        "stty raw -opost; awk 'BEGIN{for(i=0;i<256;i++)for(j=0;j<256;j++)printf \"%c%c\",i,j}'";
    let request = TerminalRequest {
        env: env(&[("LC_ALL", Some("C"))]),
        ..command(&format!("{script}; printf end"))
    };
    let mut ours = Driver::start(&client, &request).await;
    ours.exit().await;
    let expected = std::process::Command::new("sh")
        .args(["-c", &script.replace("stty raw -opost;", "")])
        .env("LC_ALL", "C")
        .output()
        .unwrap()
        .stdout;
    assert!(expected.len() >= 2 * 65536);
    assert_eq!(ours.output.len(), expected.len() + 3);
    assert!(ours.output[..expected.len()] == expected && ours.output.ends_with(b"end"));
    // And the other way.
    let mut input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let sum = "stty raw -echo; printf ready; head -c 100000 | cksum";
    let mut ours = Driver::start(&client, &command(sum)).await;
    ours.until_text("ready").await;
    let split = input.split_off(40_000);
    ours.type_in(&input).await;
    ours.type_in(&split).await;
    ours.exit().await;
    input.extend(split);
    let dir = agent.work_dir().join("input");
    std::fs::write(&dir, &input).unwrap();
    let expected = crate::calls::plain_bash(&format!("cksum <{}", dir.display())).stdout;
    let shown = String::from_utf8_lossy(&ours.output).into_owned();
    assert_eq!(
        shown.trim_start_matches("ready").trim(),
        String::from_utf8(expected).unwrap().trim()
    );
}

#[tokio::test]
async fn typing_gets_through_a_flood_of_output() {
    let agent = Agent::start();
    let client = agent.client();
    let mut shell = Driver::bash(&client).await;
    shell.type_in("yes flood\r").await;
    shell.until_text("flood\nflood\nflood").await;
    shell.type_in("\x03").await;
    shell.type_in("clear; echo out-$((5+5))\r").await;
    shell.until_output("out-10\r\n").await;
}

#[tokio::test]
async fn programs_that_ask_their_terminal_are_answered_when_nobody_else_does() {
    let agent = Agent::start();
    let client = agent.client();
    let ask = |question: &str, end: &str| {
        format!(
            "stty raw -echo; printf '{question}'; IFS= read -r -d {end} answer; \
             stty sane; printf '%q\\n' \"$answer\""
        )
    };
    for (question, end, answer) in [
        ("\\033[6n", "R", "\\E[1;1"),
        ("abc\\033[6n", "R", "\\E[1;4"),
        ("\\033[c", "c", "\\E[?62;22"),
        ("\\033[5n", "n", "\\E[0"),
        ("\\033]11;?\\033\\\\\\\\", "\\\\\\\\", "rgb:0000"),
    ] {
        let record = create(&client, &command(&ask(question, end))).await;
        let options = sandshell_client::ConnectOptions {
            offset: Some(0),
            answers: Some(false),
            ..Default::default()
        };
        let mut driver = Driver::connect(&client, &record.id, options).await;
        driver.exit().await;
        let shown = String::from_utf8_lossy(&driver.output).into_owned();
        assert!(shown.contains(answer), "{question}: {shown:?}");
    }
    // A client that answers is the only one who does.
    let mut shell = Driver::start(&client, &bash()).await;
    shell.until_text("ready>").await;
    shell
        .run(
            "printf 'where\\033[6n\\n'; read -t 0.2 -n 1 || echo un-$((1+1))",
            "un-2",
        )
        .await;
}
