//! The screen model of terminals.

use sandshell_exec::fuzzing::Screen;

use crate::input::Input;

type Shown = (String, (u16, u16, bool), bool, Option<String>, Vec<u8>);

/// Everything a person could see, and what a program could have left set.
fn shown(screen: &Screen) -> Shown {
    let cursor = screen.cursor();
    (
        screen.text(),
        (cursor.col, cursor.row, cursor.visible),
        screen.is_alternate(),
        screen.title().map(str::to_owned),
        screen.redraw(),
    )
}

/// The same bytes give the same screen however they are cut, a redraw draws it anew and goes on as it does,
/// and any size may follow.
pub(crate) fn screen(data: &[u8]) {
    let mut input = Input(data);
    let (cols, rows) = (
        u16::from(input.byte() % 40) + 2,
        u16::from(input.byte() % 12) + 1,
    );
    let after = input.bytes(usize::from(Input(data).byte() >> 3));
    let size = (u16::from(input.byte()), u16::from(input.byte()));
    let (whole, pieces) = input.pieces();
    let mut screen = Screen::new(cols, rows).unwrap();
    screen.feed(whole);
    let mut cut = Screen::new(cols, rows).unwrap();
    for piece in pieces {
        cut.feed(piece);
    }
    assert_eq!(shown(&cut), shown(&screen));

    let mut drawn = Screen::new(cols, rows).unwrap();
    drawn.feed(&screen.redraw_to_go_on());
    assert_eq!(
        shown(&drawn),
        shown(&screen),
        "a redraw shows something else"
    );
    for one in [&mut screen, &mut drawn] {
        one.feed(after);
    }
    assert_eq!(drawn.text(), screen.text(), "a redraw goes on otherwise");
    assert_eq!(drawn.cursor(), screen.cursor());

    screen.resize(size.0, size.1);
    let (cols, rows) = screen.size();
    assert!((1..=500).contains(&cols) && (1..=300).contains(&rows));
    assert_eq!(screen.text().split('\n').count(), usize::from(rows));
    screen.feed(whole);
    assert_eq!(screen.text().split('\n').count(), usize::from(rows));
    assert!(screen.cursor().col < cols && screen.cursor().row < rows);
    assert!(screen.take_answers().len() <= 4096);
}
