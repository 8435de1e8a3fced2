//! What goes into a result.

use super::super::Excerpt;
use super::*;

async fn excerpt(text: &[u8], max: u64, truncate: Truncate) -> (Vec<u8>, u64) {
    let dir = TempDir::new().unwrap();
    let log = tiny_log(dir.path(), PLENTY, 0);
    log.append(Stdout, text).await;
    let Excerpt { bytes, omitted } = log.excerpt(Stdout, max, truncate).await.unwrap();
    assert_eq!(bytes.len() as u64 + omitted, text.len() as u64);
    (bytes, omitted)
}

#[tokio::test]
async fn an_excerpt_cuts_where_it_is_told() {
    let text = numbered(120);
    assert_eq!(excerpt(&text, 120, Truncate::Both).await, (text.clone(), 0));
    assert_eq!(
        excerpt(&text, 50, Truncate::Tail).await,
        (text[..50].to_vec(), 70)
    );
    assert_eq!(
        excerpt(&text, 50, Truncate::Head).await,
        (text[70..].to_vec(), 70)
    );
    let both = [&text[..25], &text[94..]].concat();
    assert_eq!(excerpt(&text, 51, Truncate::Both).await, (both, 69));
    assert_eq!(excerpt(&text, 0, Truncate::Both).await, (vec![], 120));
    assert_eq!(excerpt(b"", 0, Truncate::Both).await, (vec![], 0));
}

#[tokio::test]
async fn an_excerpt_never_splits_a_character() {
    let text = "aé€🦀".repeat(12);
    for max in 0..text.len() as u64 {
        for truncate in [Truncate::Head, Truncate::Tail, Truncate::Both] {
            let (bytes, _) = excerpt(text.as_bytes(), max, truncate).await;
            assert!(std::str::from_utf8(&bytes).is_ok(), "{max} {truncate:?}");
            let left_out = if truncate == Truncate::Both { 6 } else { 3 };
            assert!(bytes.len() as u64 + left_out >= max && bytes.len() as u64 <= max);
        }
    }
    // What is not UTF-8 around the cut is cut to the byte.
    for binary in [[0x80; 40], [0xC3; 40], [0xF0; 40], [0xFF; 40]] {
        for truncate in [Truncate::Head, Truncate::Tail, Truncate::Both] {
            assert_eq!(
                excerpt(&binary, 20, truncate).await.0.len(),
                20,
                "{binary:?} {truncate:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_excerpt_around_a_hole_is_still_text() {
    let dir = TempDir::new().unwrap();
    for keep_head in 60..70 {
        let log = tiny_log(&dir.path().join(keep_head.to_string()), 400, keep_head);
        log.append(Stdout, "€".repeat(1000).as_bytes()).await;
        settled(&log).await;
        for truncate in [Truncate::Head, Truncate::Tail, Truncate::Both] {
            for max in [100, 300, 5000] {
                let kept = log.excerpt(Stdout, max, truncate).await.unwrap();
                assert!(
                    std::str::from_utf8(&kept.bytes).is_ok(),
                    "{keep_head} {truncate:?} {max}"
                );
                assert_eq!(kept.bytes.len() as u64 + kept.omitted, 3000);
            }
        }
    }
}
