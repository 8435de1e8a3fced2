//! vim, less, tmux, top and htop, step by step beside a plain tmux.

use std::fs;

use sandshell_client::types::TerminalRequest;
use sandshell_client::{Client, ConnectOptions, Page};
use sandshell_testkit::Agent;

use super::drive::{Driver, create};
use super::oracle::{Inner, Oracle};
use crate::calls::{env, marker};

/// What is typed, and what is then on the screen for sure.
type Step<'a> = (&'a str, &'a str);

fn program(agent: &Agent, argv: &[&str], cols: u16, rows: u16) -> TerminalRequest {
    TerminalRequest {
        argv: Some(argv.iter().map(|&word| word.to_owned()).collect()),
        cwd: Some(agent.work_dir().display().to_string()),
        env: env(&[("HOME", Some("/")), ("PS1", Some("ready> "))]),
        cols,
        rows,
        ..Default::default()
    }
}

/// Drives both and compares after each step.
async fn same(agent: &Agent, argv: &[&str], theirs: &[&str], steps: &[Step<'_>]) {
    let client = agent.client();
    let mut ours = Driver::start(&client, &program(agent, argv, 80, 24)).await;
    let oracle = Oracle::start(theirs, &agent.work_dir(), 80, 24);
    for (keys, expected) in steps {
        if !keys.is_empty() {
            ours.type_in(keys).await;
            oracle.type_in(keys.as_bytes());
        }
        ours.until_text(expected).await;
        oracle.agrees(&mut ours, &format!("{keys:?}")).await;
    }
}

fn lines(n: usize) -> String {
    let lines: Vec<String> = (1..=n).map(|n| format!("line {n} of the file\n")).collect();
    lines.concat()
}

#[tokio::test]
async fn vim_shows_what_it_shows_in_tmux() {
    let agent = Agent::start();
    fs::write(agent.work_dir().join("file"), lines(100)).unwrap();
    let argv = ["vim", "-u", "NONE", "-N", "-n", "-i", "NONE", "file"];
    let steps: &[Step<'_>] = &[
        ("", "line 1 of"),
        (
            "Ohello \u{e9}\u{4e16}\u{754c} wide\x1b",
            "hello \u{e9}\u{4e16}\u{754c} wide",
        ),
        (":set number ruler laststatus=2\r", "1,"),
        ("/line 42\r", "line 42 of"),
        (":split\r", "file [+]"),
        ("ddp:%s/of the/OF THE/g\r", "OF THE"),
        ("\x17j25Gdw", "24 "),
        (":vsplit\r", "file [+]"),
        ("gg10>>", "10 lines >ed"),
        (":q!\r:only\r", "line 1"),
        ("ggVGd:echo 'all ' . 'gone'\r", "all gone"),
    ];
    same(&agent, &argv, &argv, steps).await;
}

#[tokio::test]
async fn less_shows_what_it_shows_in_tmux() {
    let agent = Agent::start();
    let long = format!("{}{}\nlast\n", lines(120), "wrapped ".repeat(40));
    fs::write(agent.work_dir().join("file"), long).unwrap();
    let argv = ["less", "file"];
    let steps: &[Step<'_>] = &[
        ("", "line 1 of"),
        (" ", "line 24 of"),
        ("G", "last"),
        ("kkk", "line 117"),
        ("g", "line 1 of"),
        ("/line 57\r", "line 57 of"),
        ("-N\r", "57 line 57"),
        ("50p", "line 69"),
        ("\x1bOA", "line 68"),
    ];
    same(&agent, &argv, &argv, steps).await;
}

#[tokio::test]
async fn tmux_shows_what_it_shows_in_tmux() {
    let agent = Agent::start();
    let client = agent.client();
    let conf = agent.work_dir().join("conf");
    let text = "set -g status-right ''\nset -g status-left 'inner '\n\
        set -g automatic-rename off\nset -g assume-paste-time 0\nset -g allow-rename off\n\
        set -g default-shell /bin/sh\nset -g default-command 'exec bash --norc --noprofile -i'\n";
    fs::write(&conf, text).unwrap();
    let conf = conf.display().to_string();
    let (one, two) = (marker(), marker());
    let _ended_after = Inner(two.clone());
    let argv = |socket| {
        let fixed = [
            "tmux",
            "-u",
            "-f",
            &conf,
            "-L",
            socket,
            "new-session",
            "-n",
            "w",
        ];
        fixed.map(str::to_owned)
    };
    let (ours, theirs) = (argv(one.as_str()), argv(two.as_str()));
    // What is typed into a shell before its prompt is there would be echoed twice. The prompt of a new window has
    // more empty rows below it than that of a pane.
    let at_right = format!("\u{2502}30\n{:40}\u{2502}ready>", "");
    let new_window = format!("ready>{}", "\n".repeat(20));
    let steps: &[Step<'_>] = &[
        ("", "ready>"),
        ("echo one-$((40+2))\r", "one-42\nready>"),
        ("\x02\"", "\u{2500}\nready>"),
        ("echo lower-$((50+5))\r", "lower-55\nready>"),
        ("\x02%", "\u{2502}ready>"),
        ("seq 1 30\r", &at_right),
        ("\x02[\x1b[5~", "["),
        ("q\x02o", "inner"),
        ("\x02c", &new_window),
        ("printf '\\033[31mred\\033[0m\\n'\r", "\nred\nready>"),
        ("\x02p\x02z", "*Z"),
    ];
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
    same(&agent, &ours, &theirs, steps).await;
    let killed = client.list_terminals(&Page::default()).await.unwrap();
    let reply = client.delete_terminal(&killed.items[0].id).await.unwrap();
    assert!(
        reply.killed > 2,
        "the server of tmux was one of them: {reply:?}"
    );
    assert_eq!(
        sandshell_testkit::alive_with_marker(&one),
        Vec::<i32>::new()
    );
}

/// Rows that start with a number, below the line with the names of the columns.
fn processes(text: &str) -> usize {
    let pid = |row: &str| {
        row.split_whitespace()
            .next()
            .is_some_and(|w| w.parse::<u32>().is_ok())
    };
    let below = text.lines().skip_while(|row| !row.contains("PID"));
    below.skip(1).filter(|row| pid(row)).count()
}

/// Some processes to be shown.
async fn sleepers(client: &Client, n: usize) {
    for _ in 0..n {
        create(client, &super::drive::command("exec sleep 1000")).await;
    }
}

#[tokio::test]
async fn top_has_its_header_columns_and_rows() {
    let agent = Agent::start();
    let client = agent.client();
    sleepers(&client, 3).await;
    let request = TerminalRequest {
        env: env(&[("HOME", Some("/nonexistent"))]),
        ..program(&agent, &["top", "-d", "1000"], 100, 30)
    };
    let mut top = Driver::start(&client, &request).await;
    let total = |text: &str| -> Option<usize> {
        let row = text.lines().find(|row| row.starts_with("Tasks:"))?;
        row.split_whitespace().nth(1)?.parse().ok()
    };
    let screen = top
        .until("all of its rows", |screen| {
            total(&screen.text).is_some_and(|n| processes(&screen.text) == n.min(23))
        })
        .await;
    let rows: Vec<&str> = screen.text.split('\n').collect();
    assert!(rows[0].starts_with("top - "), "{}", screen.text);
    assert!(rows[2].starts_with("%Cpu(s):"), "{}", screen.text);
    assert!(rows[3].starts_with("MiB Mem"), "{}", screen.text);
    let columns: Vec<&str> = rows[6].split_whitespace().collect();
    let expected = "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND";
    assert_eq!(columns.join(" "), expected);
    assert_eq!(rows.len(), 30);
    // A wider one shows the same columns, a lower one fewer rows.
    top.resize(120, 9).await;
    top.until("two rows", |screen| {
        screen.rows == 9 && processes(&screen.text) == 2
    })
    .await;
    top.type_in("q").await;
    assert_eq!(top.exit().await, (0, None));
}

#[tokio::test]
async fn htop_has_its_header_columns_and_rows() {
    let agent = Agent::start();
    let client = agent.client();
    sleepers(&client, 3).await;
    let request = TerminalRequest {
        env: env(&[("HTOPRC", Some("/nonexistent/htoprc"))]),
        ..program(&agent, &["htop", "-d", "100"], 120, 40)
    };
    let mut htop = Driver::start(&client, &request).await;
    let tasks = |text: &str| -> Option<usize> {
        let rest = text.split_once("Tasks: ")?.1;
        rest.split([',', ' ', ';']).next()?.parse().ok()
    };
    let screen = htop
        .until("all of its rows", |screen| {
            let text = &screen.text;
            let header = text.lines().position(|row| row.contains("PID"));
            let keys = text.lines().nth(39);
            keys.is_some_and(|row| row.contains("F10Quit"))
                && header.is_some_and(|at| {
                    tasks(text).is_some_and(|n| processes(text) >= n.min(40 - at - 2))
                })
        })
        .await;
    let rows: Vec<&str> = screen.text.lines().collect();
    assert!(screen.text.contains("Mem[") && screen.text.contains("Swp["));
    assert!(screen.text.contains("Load average:") && screen.text.contains("Uptime:"));
    let columns = rows.iter().find(|row| row.contains("PID")).unwrap();
    for name in [
        "PID", "USER", "PRI", "NI", "VIRT", "RES", "SHR", "S", "CPU%", "MEM%", "Command",
    ] {
        assert!(columns.contains(name), "{name} is not in {columns}");
    }
    assert!(
        rows[39].starts_with("F1Help") && rows[39].contains("F10Quit"),
        "{}",
        rows[39]
    );
    assert!(screen.alternate);
    htop.type_in("q").await;
    assert_eq!(htop.exit().await.0, 0);
    assert!(!htop.screen().await.alternate, "the normal screen is back");
}

#[tokio::test]
async fn a_reconnect_in_the_middle_of_vim_at_another_size_redraws_exactly() {
    let agent = Agent::start();
    let client = agent.client();
    fs::write(agent.work_dir().join("file"), lines(100)).unwrap();
    let argv = ["vim", "-u", "NONE", "-N", "-n", "-i", "NONE", "file"];
    let mut first = Driver::start(&client, &program(&agent, &argv, 80, 24)).await;
    let oracle = Oracle::start(&argv, &agent.work_dir(), 80, 24);
    first.until_text("line 1 of").await;
    oracle.agrees(&mut first, "the start").await;
    let keys = ":set number laststatus=2\r:syntax on\r30Gihalf of an \u{e9}dit";
    first.type_in(keys).await;
    oracle.type_in(keys.as_bytes());
    first.until_text("half of an \u{e9}dit").await;
    oracle.agrees(&mut first, "the first part").await;
    let id = first.id.clone();
    drop(first);
    for (cols, rows) in [(121, 37), (60, 15), (80, 24)] {
        let options = ConnectOptions {
            size: Some((cols, rows)),
            ..Default::default()
        };
        oracle.resize(cols, rows);
        let mut again = Driver::connect(&client, &id, options).await;
        // Its last row is vim's last, so vim has drawn anew.
        again
            .until("the size", |screen| {
                (screen.cols, screen.rows) == (cols, rows) && screen.text.ends_with("-- INSERT --")
            })
            .await;
        oracle.agrees(&mut again, &format!("{cols}x{rows}")).await;
        // What a viewer who comes now is sent draws the same in another emulator.
        let redraw = client.terminal_redraw(&id).await.unwrap();
        let file = agent.work_dir().join("redraw");
        fs::write(&file, &redraw).unwrap();
        let shown = format!("stty raw; cat {}; sleep 1000", file.display());
        let emulator = Oracle::start(&["sh", "-c", &shown], &agent.work_dir(), cols, rows);
        emulator
            .agrees(&mut again, &format!("a redraw at {cols}x{rows}"))
            .await;
    }
    let mut again = Driver::connect(&client, &id, ConnectOptions::default()).await;
    again.type_in("\x1b:q!\r").await;
    assert_eq!(again.exit().await, (0, None));
}
