#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn screen(cols: u16, rows: u16, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(cols, rows).unwrap();
    screen.feed(bytes);
    screen
}

/// Everything a person could see, and what a program could have left set.
fn shown(screen: &Screen) -> (String, TerminalCursor, bool, Option<String>, Vec<u8>) {
    (
        screen.text(),
        screen.cursor(),
        screen.is_alternate(),
        screen.title().map(str::to_owned),
        screen.redraw(),
    )
}

/// Bytes as programs write them, and as they never should.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        "[a-z\u{e9}\u{4e16}\u{1f600}\u{301}\u{200d}]{1,6}".prop_map(String::into_bytes),
        Just(b"\r\n".to_vec()),
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[?1049h".to_vec()),
        Just(b"\x1b[?1049l".to_vec()),
        Just(b"\x1bc".to_vec()),
        Just(b"\x1b(0".to_vec()),
        Just(b"\x1b[3J".to_vec()),
        (
            "[?>! ]{0,1}",
            prop::collection::vec(0u32..70000, 0..4),
            "[@-~]"
        )
            .prop_map(|(mark, numbers, last)| {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("\u{1b}[{mark}{}{last}", numbers.join(";")).into_bytes()
            }),
        "[0-9]{1,3};[a-z?;]{0,20}".prop_map(|text| format!("\u{1b}]{text}\u{7}").into_bytes()),
        "[a-z+]{0,20}".prop_map(|text| format!("\u{1b}P{text}\u{1b}\\").into_bytes()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn any_bytes_cut_anywhere_give_the_same_screen(
        bytes in hostile(),
        cuts in prop::collection::vec(0usize..400, 0..6),
        cols in 1u16..40,
        rows in 1u16..12,
    ) {
        let whole = screen(cols, rows, &bytes);
        let mut cut = Screen::new(cols, rows).unwrap();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            cut.feed(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!(shown(&cut), shown(&whole));
    }

    #[test]
    fn sizes_may_change_at_any_time(
        parts in prop::collection::vec((hostile(), 0u16..90, 0u16..40), 1..5),
    ) {
        let mut it = Screen::new(80, 24).unwrap();
        for (bytes, cols, rows) in parts {
            it.feed(&bytes);
            it.resize(cols, rows);
            let (is_cols, is_rows) = it.size();
            prop_assert!((1..=MAX_COLS).contains(&is_cols) && (1..=MAX_ROWS).contains(&is_rows));
            prop_assert_eq!(it.text().split('\n').count(), usize::from(is_rows));
        }
    }

    #[test]
    fn a_redraw_goes_on_as_the_screen_itself_does(
        before in hostile(),
        after in hostile(),
        cols in 2u16..40,
        rows in 1u16..12,
    ) {
        let mut it = screen(cols, rows, &before);
        let mut drawn = screen(cols, rows, &it.redraw_to_go_on());
        prop_assert_eq!(shown(&drawn), shown(&it));
        it.feed(&after);
        drawn.feed(&after);
        prop_assert_eq!(drawn.text(), it.text());
        prop_assert_eq!(drawn.cursor(), it.cursor());
    }
}

#[test]
fn a_character_or_sequence_may_come_in_pieces() {
    let mut it = Screen::new(20, 2).unwrap();
    for byte in "h\u{e9}\u{4e16}\x1b[31mred\x1b]0;a \u{e9} title\x1b\\".bytes() {
        it.feed(&[byte]);
    }
    assert_eq!(it.text(), "h\u{e9}\u{4e16}red\n");
    assert_eq!(it.title(), Some("a \u{e9} title"));
    it.feed(b"\xff\xc3");
    it.feed(b"x");
    assert_eq!(it.text(), "h\u{e9}\u{4e16}red\u{fffd}\u{fffd}x\n");
}

#[test]
fn a_control_inside_a_sequence_is_obeyed_once() {
    for before in [&b"\x1b\r\n"[..], b"\x1b[3\r\n1", b"\x1b[\x08"] {
        let it = screen(8, 3, before);
        let drawn = screen(8, 3, &it.redraw_to_go_on());
        assert_eq!(shown(&drawn), shown(&it), "{before:?}");
    }
}

#[test]
fn sizes_are_brought_into_bounds() {
    let mut it = Screen::new(80, 24).unwrap();
    it.resize(60_000, 0);
    assert_eq!(it.size(), (MAX_COLS, 1));
    it.resize(0, 60_000);
    assert_eq!(it.size(), (1, MAX_ROWS));
    assert!(Screen::new(MAX_COLS + 1, 1).is_err() && Screen::new(0, 1).is_err());
}

#[test]
fn questions_are_answered_once() {
    let mut it = Screen::new(80, 24).unwrap();
    for (question, answer) in [
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;10;0c"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[5;9H\x1b[6n", "\x1b[5;9R"),
        ("\x1b[18t", "\x1b[8;24;80t"),
        ("\x1b[?2004$p", "\x1b[?2004;2$y"),
        ("\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y"),
        ("\x1b[?9999$p", "\x1b[?9999;0$y"),
        ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
        ("plain text", ""),
        ("\x1b[6", ""),
        ("n", "\x1b[5;19R"),
    ] {
        it.feed(question.as_bytes());
        assert_eq!(
            String::from_utf8(it.take_answers()).unwrap(),
            answer,
            "{question:?}"
        );
    }
    it.feed(&b"\x1b[c".repeat(10_000));
    assert!(it.take_answers().len() <= ANSWERS_MAX);
}

#[test]
fn what_the_cells_do_not_have_is_drawn_again_too() {
    let it = screen(
        20,
        3,
        b"\x1b]2;mine\x07\x1b[?1000;1006h\x1b[?2004h\x1b=\x1b[4 q\x1b[?1000l",
    );
    let redraw = String::from_utf8(it.redraw()).unwrap();
    for part in [
        "\x1b]2;mine\x07",
        "\x1b[?1006h",
        "\x1b[?2004h",
        "\x1b=",
        "\x1b[4 q",
    ] {
        assert!(redraw.contains(part), "{part:?} in {redraw:?}");
    }
    assert!(!redraw.contains("\x1b[?1000h"));
    let mut reset = screen(20, 3, redraw.as_bytes());
    reset.feed(b"\x1bc");
    let fresh = Screen::new(20, 3).unwrap();
    assert_eq!(reset.redraw(), fresh.redraw());
}

#[test]
fn scrollback_is_bounded_and_can_be_cleared() {
    let mut it = Screen::new(10, 2).unwrap();
    for n in 0..5000 {
        it.feed(format!("{n}\r\n").as_bytes());
    }
    assert_eq!(it.scrollback(usize::MAX).split('\n').count(), SCROLLBACK);
    assert_eq!(it.scrollback(2), "4997\n4998");
    it.feed(b"\x1b[H\x1b[2J\x1b[3Jnew");
    assert_eq!(it.scrollback(usize::MAX), "");
    it.resize(10, 5);
    assert_eq!(it.text(), "new\n\n\n\n");
}

#[test]
fn the_old_alternate_screen_is_one() {
    let mut it = screen(10, 1, b"normal\x1b[?47h");
    assert!(it.is_alternate());
    it.feed(b"\x1b[?47l");
    assert_eq!((it.text().as_str(), it.is_alternate()), ("normal", false));
}

#[test]
fn a_panic_in_the_model_costs_only_the_picture() {
    let mut it = screen(10, 2, b"before");
    it.guarded(|_| std::panic::resume_unwind(Box::new("a bug")));
    assert_eq!((it.text().as_str(), it.size()), ("\n", (10, 2)));
    it.feed(b"after");
    assert_eq!(it.text(), "after\n");
}

#[test]
fn a_few_bytes_never_cost_much() {
    let began = std::time::Instant::now();
    let mut it = Screen::new(MAX_COLS, MAX_ROWS).unwrap();
    for costly in [
        "x\x1b[65535b",
        "\x1b[65535S",
        "\x1b[65535L",
        "\x1b[65535@",
        "\x1b[65535I",
    ] {
        it.feed(costly.repeat(4).as_bytes());
    }
    // Far above what it takes, far below what the numbers ask for.
    assert!(began.elapsed() < std::time::Duration::from_secs(150));
}
