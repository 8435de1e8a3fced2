//! Keys: once for all, also at the same time, and never for ever.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::future::Future;
use std::task::Waker;

use super::*;

fn keys(capacity: usize) -> Arc<Keys<u32>> {
    Arc::new(Keys::new(capacity))
}

async fn first(keys: &Arc<Keys<u32>>, key: &str) -> Ticket<u32> {
    match keys.claim(key, "POST /a").await {
        Claim::First(ticket) => ticket,
        other => panic!("{key} is not free: {other:?}"),
    }
}

async fn again(keys: &Arc<Keys<u32>>, key: &str) -> u32 {
    match keys.claim(key, "POST /a").await {
        Claim::Again(kept) => kept.answer,
        other => panic!("{key} is not answered: {other:?}"),
    }
}

/// Whether a future is not done when polled now.
fn waits<F: Future>(future: Pin<&mut F>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

#[tokio::test]
async fn gives_the_first_answer_to_all() {
    let keys = keys(10);
    let ticket = first(&keys, "k").await;
    ticket.answer(1);
    ticket.answer(2);
    drop(ticket);
    assert_eq!(again(&keys, "k").await, 1);
    assert_eq!(again(&keys, "k").await, 1);
}

#[tokio::test]
async fn a_repeat_waits_for_the_first() {
    let keys = keys(10);
    let ticket = first(&keys, "k").await;
    let mut repeat = Box::pin(again(&keys, "k"));
    assert!(waits(repeat.as_mut()));
    ticket.answer(5);
    assert_eq!(repeat.await, 5);
}

#[tokio::test]
async fn a_failed_first_makes_room_for_the_next() {
    let keys = keys(10);
    let ticket = first(&keys, "k").await;
    let mut repeat = Box::pin(first(&keys, "k"));
    assert!(waits(repeat.as_mut()));
    drop(ticket);
    let second = repeat.await;
    let mut third = Box::pin(again(&keys, "k"));
    assert!(waits(third.as_mut()));
    second.answer(2);
    assert_eq!(third.await, 2);
}

#[tokio::test]
async fn makes_room_by_age_and_never_at_the_cost_of_those_in_flight() {
    let keys = keys(3);
    let flying = first(&keys, "flying").await;
    first(&keys, "old").await.answer(1);
    first(&keys, "new").await.answer(2);
    let more = first(&keys, "more").await;
    assert_eq!(again(&keys, "new").await, 2);
    let much = first(&keys, "much").await;
    assert!(matches!(
        keys.claim("too much", "POST /a").await,
        Claim::Full
    ));
    drop(much);
    let _fits = first(&keys, "fits").await;
    flying.answer(3);
    assert_eq!(again(&keys, "flying").await, 3);
    drop(more);
}

#[tokio::test(start_paused = true)]
async fn forgets_after_a_while() {
    let keys = keys(10);
    first(&keys, "a").await.answer(1);
    tokio::time::advance(KEPT_FOR / 2).await;
    first(&keys, "b").await.answer(2);
    tokio::time::advance(KEPT_FOR / 2).await;
    keys.expire();
    assert_eq!(again(&keys, "b").await, 2);
    drop(first(&keys, "a").await);
    tokio::time::advance(KEPT_FOR).await;
    keys.expire();
    assert!(keys.lock().slots.is_empty());
    assert!(keys.lock().answered.is_empty());
}

#[tokio::test]
async fn knows_a_body_by_its_digest() {
    let keys = keys(10);
    let ticket = Arc::new(first(&keys, "k").await);
    let body = ticket.watch_body(Body::from("hello"));
    assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
    ticket.answer(1);
    let Claim::Again(kept) = keys.claim("k", "POST /b").await else {
        panic!("not answered")
    };
    assert_eq!(kept.target, "POST /a");
    assert_eq!(kept.digest, digest_of(Body::from("hello")).await.unwrap());
    assert_ne!(kept.digest, digest_of(Body::from("hallo")).await.unwrap());
    let pieces = futures_util::stream::iter(["he", "", "llo"].map(Ok::<_, std::io::Error>));
    assert_eq!(
        kept.digest,
        digest_of(Body::from_stream(pieces)).await.unwrap()
    );
}
