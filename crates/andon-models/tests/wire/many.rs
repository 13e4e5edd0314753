//! Many answers at once, and on several runtimes: none waits for another.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use andon_runtime::{Message, Model as _};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::common::*;

const CHAT: Dialect = Dialect::OpenAiChat;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_answers_go_on_at_once_though_a_connection_takes_no_more_than_a_hundred() {
    let provider = BadProvider::start_on_thread(Protocol::Http2);
    provider.limit_streams(100);
    let model = model_of(&provider, Protocol::Http2, builder(CHAT));
    provider.always(Script::stream(CHAT).frames([CHAT.text_frame(10)]).stall());
    let mut open = Vec::new();
    for _ in 0..400 {
        let mut answer = call(&model);
        // It says something, and is kept open.
        next(&mut answer).await.unwrap().unwrap();
        open.push(answer);
    }
    assert_eq!(provider.open_streams(), 400);
    assert!(provider.connections() <= 8, "{} connections", provider.connections());
    drop(open);
    timeout(Duration::from_secs(60), provider.all_streams_closed()).await.expect("all are closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_wait_for_their_reader_do_not_hold_up_others_on_the_connection() {
    let provider = BadProvider::start_on_thread(Protocol::Http2);
    let model = model_of(&provider, Protocol::Http2, builder(CHAT));
    let mut waiting = Vec::new();
    for number in 0..40 {
        provider.answer(Script::stream(CHAT).flood(CHAT.text_frame(4000)));
        let mut answer = call(&model);
        let first = timeout(Duration::from_secs(60), poll_fn(|cx| answer.poll_piece(cx))).await;
        assert!(first.is_ok(), "answer {number} got nothing");
        waiting.push(answer);
        // Its window fills before the next one begins.
        assert!(provider.seen(number).await.sent_bytes(250 * 1024).await);
    }
    assert_eq!(provider.connections(), 1);
}

#[test]
fn a_connection_whose_runtime_stands_still_is_not_used_by_another() {
    for protocol in Protocol::ALL {
        let provider = BadProvider::start_on_thread(protocol);
        let model = model_of(&provider, protocol, builder(CHAT));
        let runtime = || -> Runtime { Builder::new_current_thread().enable_all().build().unwrap() };
        let (first, second) = (runtime(), runtime());
        provider.always(Script::reply(CHAT, &Reply::text(["hi"])));
        let ask = async || timeout(Duration::from_secs(60), async { all(&mut call(&model)).await.1 }).await;
        assert_eq!(first.block_on(ask()), Ok(None));
        // `first` lives and is not driven.
        assert_eq!(second.block_on(ask()), Ok(None));
        assert_eq!(first.block_on(ask()), Ok(None));
        assert_eq!(provider.connections(), 2, "each has its own and keeps it");
    }
}

/// Checks P1: a long conversation takes a while to write down, and nothing else on the thread waits for it.
#[tokio::test(flavor = "current_thread")]
async fn a_long_conversation_is_written_aside_and_sent_whole() {
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    provider.always(Script::reply(CHAT, &Reply::text(["hi"])));
    let said = |number| match number % 2 {
        0 => Message::user(format!("question {number}")),
        _ => Message::assistant(format!("answer {number}")),
    };
    let history: Vec<_> = (0..20_001).map(|number| Arc::new(said(number))).collect();
    let mut answer = model.call(request().history(history));
    assert_eq!(all(&mut answer).await.1, None);
    let asked: Value = serde_json::from_slice(&provider.seen(0).await.body).unwrap();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1 + 20_001, "with the instructions");
    assert_eq!(messages[20_001]["content"], "question 20000");
}

/// Checks P1: a stop while it is being written waits for nothing, and nothing is sent.
#[tokio::test(flavor = "current_thread")]
async fn a_conversation_that_is_given_up_while_it_is_written_is_not_sent() {
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    let history: Vec<_> = (0..2_001).map(|_| Arc::new(Message::user("again"))).collect();
    let mut answer = model.call(request().history(history));
    assert!(poll_fn(|cx| Poll::Ready(answer.poll_piece(cx))).await.is_pending());
    drop(answer);
    provider.always(Script::reply(CHAT, &Reply::text(["hi"])));
    assert_eq!(all(&mut call(&model)).await.1, None);
    assert_eq!(provider.connections(), 1, "the other call's");
}

/// Checks P1: a conversation is long by its bytes as well, and a short one needs no thread.
#[test]
fn few_large_messages_are_written_aside_too() {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let count = || {
        THREADS.fetch_add(1, Ordering::Relaxed);
    };
    let runtime = Builder::new_current_thread().enable_all().on_thread_start(count).build().unwrap();
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    provider.always(Script::reply(CHAT, &Reply::text(["hi"])));
    let threads_after = |request| {
        runtime.block_on(async { assert_eq!(all(&mut model.call(request)).await.1, None) });
        THREADS.load(Ordering::Relaxed)
    };
    assert_eq!(threads_after(request()), 0);
    let history = vec![Arc::new(Message::user("word ".repeat(100_000)))];
    assert_eq!(threads_after(request().history(history)), 1);
}

/// Checks P5: requests that are given up while they are written do not leave many threads behind.
#[test]
fn requests_that_are_given_up_keep_their_permits_until_they_are_written() {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let count = || {
        THREADS.fetch_add(1, Ordering::Relaxed);
    };
    let runtime = Builder::new_current_thread().enable_all().on_thread_start(count).build().unwrap();
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    let history: Vec<_> = (0..3_001).map(|_| Arc::new(Message::user("again and again"))).collect();
    runtime.block_on(async {
        for _ in 0..60 {
            let mut answer = model.call(request().history(history.clone()));
            let _ = poll_fn(|cx| Poll::Ready(answer.poll_piece(cx))).await;
        }
    });
    // Waits for its threads, so that those which a busy machine has not started yet are counted, too.
    drop(runtime);
    let threads = THREADS.load(Ordering::Relaxed);
    // A thread that has just returned its permit may not be idle yet for the next one.
    assert!((1..=8).contains(&threads), "{threads} threads");
}
