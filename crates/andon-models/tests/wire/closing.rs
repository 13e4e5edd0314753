//! Dropping an answer closes its connection at once, in every phase.

use std::future::poll_fn;

use andon_runtime::Answer;
use tokio::time::timeout;

use crate::common::*;

/// Sooner than a pool would close an idle connection.
const SOON: Duration = Duration::from_secs(60);

/// Polls an answer until the provider has reached this step.
async fn until(answer: &mut Box<dyn Answer>, provider: &BadProvider, number: usize, reached: &str) {
    let reading = async { while poll_fn(|cx| answer.poll_piece(cx)).await.is_some() {} };
    let reached = async {
        assert!(provider.seen(number).await.reached(reached).await);
    };
    tokio::select! {
        () = reached => {}
        () = async { reading.await; std::future::pending().await } => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_dropped_is_closed_at_once_in_every_phase() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            let frames = dialect.frames(&Reply::text(["One", "two", "three"]));
            let some = || frames.iter().take(3).cloned();
            let stream = || Script::stream(dialect);
            let phases = [
                (stream().stall_before_headers(), "stall"),
                (stream().stall(), "stall"),
                (stream().frames(some()).stall(), "stall"),
                (stream().frames(some()).half(&frames[2]).stall(), "stall"),
                (stream().flood(dialect.text_frame(100)), "flood"),
            ];
            for (phase, (script, reached)) in phases.into_iter().enumerate() {
                let number = provider.all_seen().len();
                provider.answer(script);
                let mut answer = call(&model);
                until(&mut answer, &provider, number, reached).await;
                let usage = answer.usage_so_far();
                drop(answer);
                let closed = timeout(SOON, async { provider.seen(number).await.closed().await }).await.unwrap();
                assert!(closed.by_client(), "{dialect:?} phase {phase} {:?}", closed.how);
                assert_ne!(usage, Usage::NONE, "{dialect:?} phase {phase}");
            }
        }
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_still_being_made_is_given_up_too() {
    // It accepts and never sends anything: TLS waits forever.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", silent.local_addr().unwrap());
    let model = builder(Dialect::OpenAiChat).base_url(address).key("k").build().unwrap();
    let mut answer = call(&model);
    let accepted = tokio::select! {
        accepted = silent.accept() => accepted.unwrap().0,
        _ = poll_fn(|cx| answer.poll_piece(cx)) => panic!("nothing can have come"),
    };
    drop(answer);
    let mut bytes = Vec::new();
    let mut accepted = accepted;
    let closed = tokio::io::AsyncReadExt::read_to_end(&mut accepted, &mut bytes);
    timeout(SOON, closed).await.expect("it is closed").ok();
}
