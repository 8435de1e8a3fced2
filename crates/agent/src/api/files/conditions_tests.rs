#![allow(clippy::unwrap_used)]

use super::*;

fn facts() -> Facts {
    Facts {
        etag: "\"a,b\"".to_owned(),
        size: 10,
        modified: 1_000_000_000,
    }
}

fn of(pairs: &[(&'static str, &str)]) -> Conditions {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    Conditions::of(&headers)
}

const THEN: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";

#[test]
fn reading_depends_on_tags_before_dates() {
    use Verdict::{Failed, GoOn, NotModified};
    for (headers, verdict) in [
        (&[][..], GoOn),
        (&[("if-none-match", "\"a,b\"")], NotModified),
        (&[("if-none-match", "\"x\", W/\"a,b\"")], NotModified),
        (
            &[("if-none-match", "\"x\""), ("if-none-match", "\"a,b\"")],
            NotModified,
        ),
        (&[("if-none-match", "*")], NotModified),
        (&[("if-none-match", "\"x\"")], GoOn),
        (
            &[("if-none-match", "\"x\""), ("if-modified-since", THEN)],
            GoOn,
        ),
        (&[("if-modified-since", THEN)], NotModified),
        (&[("if-modified-since", BEFORE)], GoOn),
        (&[("if-modified-since", "yesterday")], GoOn),
        (&[("if-match", "\"a,b\"")], GoOn),
        (&[("if-match", "*")], GoOn),
        (&[("if-match", "W/\"a,b\"")], Failed),
        (&[("if-match", "\"a\"")], Failed),
        (
            &[("if-match", "\"a,b\""), ("if-unmodified-since", BEFORE)],
            GoOn,
        ),
        (&[("if-unmodified-since", BEFORE)], Failed),
        (&[("if-unmodified-since", THEN)], GoOn),
        (
            &[("if-match", "\"a\""), ("if-none-match", "\"a,b\"")],
            Failed,
        ),
    ] {
        assert_eq!(of(headers).for_reading(&facts()), verdict, "{headers:?}");
    }
}

#[test]
fn writing_may_ask_for_a_file_or_for_none() {
    for (headers, there, missing) in [
        (&[][..], true, true),
        (&[("if-match", "*")], true, false),
        (&[("if-match", "\"a,b\"")], true, false),
        (&[("if-match", "\"x\"")], false, false),
        (&[("if-none-match", "*")], false, true),
        (&[("if-none-match", "\"a,b\"")], false, true),
        (&[("if-unmodified-since", BEFORE)], false, true),
        (&[("if-modified-since", THEN)], true, true),
    ] {
        let conditions = of(headers);
        assert_eq!(conditions.for_writing(Some(&facts())), there, "{headers:?}");
        assert_eq!(conditions.for_writing(None), missing, "{headers:?}");
    }
}

#[test]
fn ranges_are_one_part_or_everything() {
    use Bytes::{All, Outside, Part};
    for (range, bytes) in [
        ("bytes=0-0", Part(0..1)),
        ("bytes=2-", Part(2..10)),
        ("bytes=2-99", Part(2..10)),
        ("bytes=9-9", Part(9..10)),
        ("bytes=-3", Part(7..10)),
        ("bytes=-99", Part(0..10)),
        ("Bytes = 1-2", Part(1..3)),
        ("bytes=0-99999999999999999999999", Part(0..10)),
        ("bytes=10-", Outside),
        ("bytes=10-12", Outside),
        ("bytes=-0", Outside),
        ("bytes=3-2", All),
        ("bytes=0-1,3-4", All),
        ("bytes=", All),
        ("bytes=-", All),
        ("bytes=a-b", All),
        ("bytes=1-x", All),
        ("bytes=+1-2", All),
        ("lines=1-2", All),
        ("nonsense", All),
    ] {
        assert_eq!(of(&[("range", range)]).bytes(&facts()), bytes, "{range}");
    }
    let mut empty = facts();
    empty.size = 0;
    for range in ["bytes=0-", "bytes=-1"] {
        assert_eq!(of(&[("range", range)]).bytes(&empty), Outside, "{range}");
    }
}

#[test]
fn a_range_of_another_version_gives_the_whole_file() {
    use Bytes::{All, Part};
    for (condition, bytes) in [
        ("\"a,b\"", Part(1..10)),
        ("W/\"a,b\"", All),
        ("\"x\"", All),
        (THEN, Part(1..10)),
        (BEFORE, All),
    ] {
        let asked = of(&[("range", "bytes=1-"), ("if-range", condition)]);
        assert_eq!(asked.bytes(&facts()), bytes, "{condition}");
    }
}

#[test]
fn dates_that_http_cannot_say_are_left_out() {
    assert_eq!(http_date(1_000_000_000).as_deref(), Some(THEN));
    assert_eq!(http_date(-1), None);
    assert_eq!(http_date(i64::MAX), None);
}
