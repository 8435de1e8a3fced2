//! Many viewers, slow ones, late ones, and those that only look.

use sandshell_client::ConnectOptions;
use sandshell_client::types::{TerminalFrame, TerminalRole};
use sandshell_testkit::Agent;

use super::drive::{Driver, command, create};
use crate::calls::in_time;

fn from(offset: u64) -> ConnectOptions {
    ConnectOptions {
        offset: Some(offset),
        ..Default::default()
    }
}

fn viewer() -> ConnectOptions {
    ConnectOptions {
        role: TerminalRole::Viewer,
        ..Default::default()
    }
}

#[tokio::test]
async fn twenty_viewers_at_once_get_the_same_bytes() {
    let agent = Agent::start();
    let client = agent.client();
    let text = "read go; for i in $(seq 1 20000); do echo line-$i; done; exit 3";
    let mut writer = Driver::start(&client, &command(text)).await;
    let mut viewers = Vec::new();
    for n in 0..20 {
        let options = ConnectOptions {
            role: if n % 2 == 0 {
                TerminalRole::Viewer
            } else {
                TerminalRole::Writer
            },
            ..from(0)
        };
        let mut viewer = Driver::connect(&client, &writer.id, options).await;
        viewers.push(tokio::spawn(async move {
            let exit = viewer.exit().await;
            (viewer.output, exit)
        }));
    }
    assert_eq!(client.terminal(&writer.id).await.unwrap().viewers, 21);
    writer.type_in("\r").await;
    assert_eq!(writer.exit().await, (3, None));
    let expected: Vec<String> = (1..=20000).map(|n| format!("line-{n}\r\n")).collect();
    let seen = String::from_utf8(writer.output.clone()).unwrap();
    assert_eq!(seen.trim_start_matches("\r\n"), expected.concat());
    for viewer in viewers {
        let (output, exit) = in_time(viewer).await.unwrap();
        assert!(output == writer.output, "{} bytes", output.len());
        assert_eq!(exit, (3, None));
    }
}

#[tokio::test]
async fn a_late_viewer_sees_the_screen_and_then_what_comes() {
    let agent = Agent::start();
    let client = agent.client();
    let mut first = Driver::bash(&client).await;
    first
        .run(
            "printf '\\033[1;31mred\\033[0m \\033[?2004h\\n'; seq 1 50",
            "\n49\n50\n",
        )
        .await;
    let mut late = Driver::connect(&client, &first.id, ConnectOptions::default()).await;
    let TerminalFrame::Ready {
        offset,
        cols,
        rows,
        redraw_bytes,
    } = late.frames[0]
    else {
        panic!()
    };
    assert_eq!((cols, rows), (80, 24));
    assert!(redraw_bytes > 0 && offset >= first.offset);
    late.type_in("echo more-$((3+4))\r").await;
    late.until_output("more-7\r\n").await;
    first.until_output("more-7\r\n").await;
    // Both have the same bytes from there on, and the redraw is not among them.
    while first.offset != late.offset {
        let behind = if first.offset < late.offset {
            &mut first
        } else {
            &mut late
        };
        assert!(behind.step().await);
    }
    assert!(first.output.ends_with(&late.output) && !late.output.is_empty());
    let redraw = String::from_utf8(late.redraws[0].clone()).unwrap();
    assert!(
        redraw.contains("50") && redraw.contains("\x1b[?2004h"),
        "{redraw:?}"
    );
    // Twenty-four rows only; what scrolled away is asked for.
    let screen = client.terminal_scrollback(&first.id, 1000).await.unwrap();
    let above = screen.scrollback.unwrap();
    assert!(
        above.contains("red") && above.contains("\n12\n13"),
        "{above}"
    );
    assert!(!screen.text.contains("red"));
}

#[tokio::test]
async fn bytes_are_replayed_from_any_offset() {
    let agent = Agent::start();
    let client = agent.client();
    let mut first = Driver::start(&client, &command("seq 1 3000; exit 0")).await;
    first.exit().await;
    let all = first.output.clone();
    for offset in [0, 1, 77, all.len() as u64 / 2, all.len() as u64] {
        let mut again = Driver::connect(&client, &first.id, from(offset)).await;
        assert_eq!(again.exit().await, (0, None));
        assert!(again.output == all[offset as usize..], "from {offset}");
    }
    // A viewer of the past gets a picture of the end.
    let mut again = Driver::connect(&client, &first.id, ConnectOptions::default()).await;
    assert_eq!(again.exit().await, (0, None));
    assert!(again.output.is_empty());
    assert!(String::from_utf8_lossy(&again.redraws[0]).contains("3000"));
    let beyond = client
        .connect_terminal(&first.id, from(all.len() as u64 + 1))
        .await;
    let problem = beyond.unwrap_err();
    assert_eq!(
        problem.problem().unwrap().pointer.as_deref(),
        Some("/offset")
    );
}

#[tokio::test]
async fn a_viewer_only_looks() {
    let agent = Agent::start();
    let client = agent.client();
    let mut writer = Driver::bash(&client).await;
    let mut looking = Driver::connect(&client, &writer.id, viewer()).await;
    looking.type_in("echo from-the-viewer\r").await;
    looking.resize(20, 5).await;
    looking.connection.send_text("not even json").await.unwrap();
    writer.run("echo from-$((6*7))", "from-42").await;
    looking.until_text("from-42").await;
    let screen = looking.screen().await;
    assert!(!screen.text.contains("from-the-viewer"), "{}", screen.text);
    assert_eq!((screen.cols, screen.rows), (80, 24));
    assert_eq!(looking.closed, None);
}

#[tokio::test]
async fn every_viewer_hears_of_a_resize_where_it_happened() {
    let agent = Agent::start();
    let client = agent.client();
    let mut writer = Driver::bash(&client).await;
    let mut other = Driver::connect(&client, &writer.id, viewer()).await;
    writer.run("echo before-$((1+1))", "before-2").await;
    writer.resize(100, 30).await;
    let is_resize = |frame: &TerminalFrame| {
        *frame
            == TerminalFrame::Resize {
                cols: 100,
                rows: 30,
            }
    };
    for driver in [&mut writer, &mut other] {
        while !driver.frames.iter().any(is_resize) {
            assert!(driver.step().await);
        }
        assert!(String::from_utf8_lossy(&driver.output).contains("before-2"));
    }
    // The same on a replay: the size comes between the same bytes.
    let at = writer.output.len();
    writer.type_in("exit\r").await;
    writer.exit().await;
    let mut replay = Driver::connect(&client, &writer.id, from(0)).await;
    let first = replay.frames[0].clone();
    assert!(matches!(
        first,
        TerminalFrame::Ready {
            cols: 80,
            rows: 24,
            ..
        }
    ));
    while !replay.frames.iter().any(is_resize) {
        assert!(replay.step().await);
    }
    assert!(
        replay.output.len() <= at,
        "{} after {at}",
        replay.output.len()
    );
    // A size that is the same already is no news.
    assert_eq!(replay.exit().await, (0, None));
}

#[tokio::test]
async fn a_slow_viewer_is_shown_the_present_and_holds_up_nobody() {
    // The buffers of a Unix socket are small: the viewer is behind soon.
    let agent = Agent::builder().unix_socket().start();
    let client = agent.client();
    let mut writer = Driver::bash(&client).await;
    let mut slow = Driver::connect(&client, &writer.id, viewer()).await;
    // Whoever asks for every byte gets it, however slow the machine is.
    let mut quick = Driver::connect(&client, &writer.id, from(0)).await;
    let line = "a line that is repeated and long enough to be more than a few bytes";
    let flood = format!("yes '{line}' | head -c 2500000; echo; echo done-$((8+8))\r");
    writer.type_in(flood).await;
    // It reads nothing while the others read all of it.
    quick.until_output("done-16\r\n").await;
    writer.until_text("done-16").await;
    assert!(quick.output.len() > 2_500_000, "{}", quick.output.len());
    let screen = slow.until_text("done-16").await;
    while slow.offset < screen.offset {
        assert!(slow.step().await);
    }
    let skipped = slow
        .frames
        .iter()
        .any(|frame| matches!(frame, TerminalFrame::Truncated { .. }));
    assert!(skipped, "nothing was left out: {:?}", slow.frames);
    assert!(slow.output.len() < 1_500_000, "{}", slow.output.len());
    // From here on it has every byte again.
    writer.type_in("echo and-$((9+9))\r").await;
    slow.until_output("and-18\r\n").await;
}

#[tokio::test]
async fn bytes_that_are_no_longer_kept_are_named() {
    let agent = Agent::builder().args(["--log-bytes", "1048576"]).start();
    let client = agent.client();
    let mut shell = Driver::start(
        &client,
        &command("yes 'some words' | head -c 2000000; echo last-words"),
    )
    .await;
    shell.exit().await;
    let mut again = Driver::connect(&client, &shell.id, from(10)).await;
    assert!(matches!(
        again.frames[0],
        TerminalFrame::Ready {
            offset: 10,
            redraw_bytes: 0,
            ..
        }
    ));
    again.exit().await;
    let Some(TerminalFrame::Truncated {
        offset: 10,
        bytes,
        redraw_bytes,
        ..
    }) = again.frames.get(1)
    else {
        panic!("{:?}", again.frames)
    };
    assert!(*bytes > 900_000 && *redraw_bytes > 0);
    assert!(String::from_utf8_lossy(&again.redraws[0]).contains("last-words"));
    let recording = client.terminal_recording(&shell.id).await.unwrap();
    let text = String::from_utf8(recording.read_to_end().await.unwrap().to_vec()).unwrap();
    assert!(text.contains("bytes are no longer kept") && text.len() < 20_000_000);
}

#[tokio::test]
async fn a_recording_plays_the_same_screen() {
    let agent = Agent::start();
    let client = agent.client();
    let mut shell = Driver::bash(&client).await;
    shell
        .run(
            "printf 'h\\303\\251llo \\377 \\033[1mbold\\n'",
            "h\u{e9}llo",
        )
        .await;
    shell.resize(100, 30).await;
    shell.run("echo wi-$((1+1))de", "wi-2de").await;
    shell.type_in("exit 0\r").await;
    shell.exit().await;
    let recording = client.terminal_recording(&shell.id).await.unwrap();
    let text = String::from_utf8(recording.read_to_end().await.unwrap().to_vec()).unwrap();
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(
        (&header["version"], &header["width"], &header["height"]),
        (&2.into(), &80.into(), &24.into())
    );
    assert_eq!(header["env"]["TERM"], "xterm-256color");
    let events: Vec<serde_json::Value> = lines.collect();
    let times: Vec<f64> = events
        .iter()
        .map(|event| event[0].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted());
    let output: String = events
        .iter()
        .filter(|event| event[1] == "o")
        .map(|event| event[2].as_str().unwrap())
        .collect();
    assert_eq!(output, String::from_utf8_lossy(&shell.output));
    assert!(
        events
            .iter()
            .any(|event| event[1] == "r" && event[2] == "100x30")
    );
}

#[tokio::test]
async fn nothing_is_left_of_connections_that_came_and_went() {
    let agent = Agent::start();
    let client = agent.client();
    let record = create(&client, &command("echo here; exec sleep 1000")).await;
    let mut first = Driver::connect(&client, &record.id, ConnectOptions::default()).await;
    first.until_text("here").await;
    drop(first);
    // Init, a shell held ready of each kind and the program: then nothing else starts.
    let processes = || sandshell_testkit::children_deep(agent.pid()).len();
    in_time(async {
        while processes() < 1 + 1 + 1 + 1 {
            client.healthz().await.unwrap();
        }
    })
    .await;
    let settled = async || {
        // The last connections end a moment after their client.
        in_time(async { while client.terminal(&record.id).await.unwrap().viewers > 0 {} }).await;
        client.close_idle();
        (sandshell_testkit::open_fds(agent.pid()), processes())
    };
    let before = settled().await;
    for n in 0..10_000 {
        let options = if n % 2 == 0 {
            ConnectOptions::default()
        } else {
            from(0)
        };
        let mut connection = in_time(client.connect_terminal(&record.id, options))
            .await
            .unwrap();
        // Closed properly, dropped after the first frame, or dropped at once.
        match n % 3 {
            0 => in_time(connection.close()).await.unwrap(),
            1 => drop(in_time(connection.next()).await.unwrap()),
            _ => {}
        }
    }
    in_time(async { while settled().await.0 > before.0 + 4 {} }).await;
    let after = settled().await;
    assert!(
        after.0 <= before.0 + 4,
        "descriptors {} -> {}",
        before.0,
        after.0
    );
    assert_eq!(after.1, before.1, "processes");
}
