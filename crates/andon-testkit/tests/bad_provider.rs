//! The bad provider behaves as badly as it promises, over both protocols, and reports the truth about it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::time::Duration;

use andon_testkit::provider::{
    BadProvider, ClosedHow, Dialect, Gate, Generation, Hangup, Protocol, Refusal, Reply, Script, Tokens,
};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

const CANCEL: u32 = 8;
/// More than an HTTP/2 client opens by default.
const MANY: usize = 150;
const CHAT: Dialect = Dialect::OpenAiChat;

fn client(protocol: Protocol) -> Client {
    let builder = Client::builder().no_proxy();
    let builder = match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    builder.build().unwrap()
}

async fn ask(client: &Client, provider: &BadProvider) -> reqwest::Result<Response> {
    let body = json!({"model": "bad-model-1", "stream": true}).to_string();
    client.post(format!("{}/v1/chat", provider.base_url())).header("x-test", "yes").body(body).send().await
}

/// Runs a scene over both protocols. One that hangs fails.
async fn over_both(scene: impl AsyncFn(Protocol, BadProvider, Client)) {
    for protocol in Protocol::ALL {
        let provider = BadProvider::start(protocol).await;
        let played = timeout(Duration::from_secs(90), scene(protocol, provider, client(protocol))).await;
        assert!(played.is_ok(), "it hangs over {protocol:?}");
    }
}

/// Whether this is how a client that leaves in mid-answer looks to the server.
fn is_a_hangup(protocol: Protocol, how: ClosedHow) -> bool {
    match protocol {
        Protocol::Http1 => matches!(how, ClosedHow::ByClient(Hangup::Closed | Hangup::Reset)),
        Protocol::Http2 => how == ClosedHow::ByClient(Hangup::StreamReset(CANCEL)),
    }
}

fn hello() -> Reply {
    Reply::text(["Hel", "lo, ", "wörld"])
}

#[tokio::test]
async fn a_whole_answer_arrives_as_it_was_written_and_the_connection_is_used_again() {
    over_both(async |_, provider, client| {
        for dialect in Dialect::ALL {
            provider.answer(Script::reply(dialect, &hello()));
        }
        for (number, dialect) in Dialect::ALL.into_iter().enumerate() {
            let response = ask(&client, &provider).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-type"], dialect.content_type());
            let body = dialect.body(&hello());
            assert_eq!(response.bytes().await.unwrap(), body);
            let seen = provider.seen(number).await;
            let closed = seen.closed().await;
            assert_eq!((closed.how, closed.said.as_str()), (ClosedHow::Whole, "Hello, wörld"));
            assert_eq!(closed.sent_frames, dialect.frames(&hello()).len());
            assert_eq!(closed.sent_bytes, body.len() as u64);
        }
        assert_eq!(provider.connections(), 1);
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_was_asked_is_on_record() {
    over_both(async |_, provider, client| {
        provider.always(Script::json(200, &json!({})));
        client.get(format!("{}/a/b?c=d", provider.base_url())).send().await.unwrap();
        ask(&client, &provider).await.unwrap();
        let (first, second) = (provider.seen(0).await, provider.seen(1).await);
        assert_eq!((first.method.as_str(), first.path.as_str(), first.query.as_deref()), ("GET", "/a/b", Some("c=d")));
        assert_eq!((second.method.as_str(), second.path.as_str()), ("POST", "/v1/chat"));
        assert_eq!(second.header("X-Test"), Some("yes"));
        assert_eq!(second.json(), json!({"model": "bad-model-1", "stream": true}));
        assert_eq!((second.number(), second.connection(), provider.all_seen().len()), (1, 0, 2));
        assert!(first.at <= second.at);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_headers_is_seen_at_once() {
    over_both(async |protocol, provider, client| {
        provider.answer(Script::stream(CHAT).stall_before_headers());
        let seen = async {
            let seen = provider.seen(0).await;
            assert!(seen.reached("stall").await);
            assert_eq!(provider.open_streams(), 1);
            seen
        };
        let seen = tokio::select! {
            answer = ask(&client, &provider) => panic!("headers came: {answer:?}"),
            seen = seen => seen,
        };
        let closed = seen.closed().await;
        assert!(is_a_hangup(protocol, closed.how), "{closed:?}");
        assert_eq!((closed.sent_frames, closed.sent_bytes), (0, 0));
        assert!(!seen.reached("headers").await, "the answer is over, and they were never sent");
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_body_is_seen_with_what_had_been_sent() {
    over_both(async |protocol, provider, client| {
        let frames = CHAT.frames(&hello());
        let script = Script::stream(CHAT).frames(frames[..3].to_vec()).mark("half way").stall();
        provider.answer(script);
        let mut response = ask(&client, &provider).await.unwrap();
        let seen = provider.seen(0).await;
        assert!(seen.reached("half way").await);
        assert!(seen.closed_already().is_none());
        response.chunk().await.unwrap().unwrap();
        drop(response);
        let closed = seen.closed().await;
        assert!(is_a_hangup(protocol, closed.how), "{closed:?}");
        assert_eq!((closed.sent_frames, closed.said.as_str()), (3, "Hello, "));
        let sent: usize = frames[..3].iter().map(|frame| frame.bytes().len()).sum();
        assert_eq!(closed.sent_bytes, sent as u64);
        assert!(closed.by_client() && closed.at >= seen.at);
        assert_eq!(provider.open_streams(), 0);
        if protocol == Protocol::Http1 {
            provider.all_connections_closed().await;
        } else {
            assert_eq!(provider.open_connections(), 1, "only the stream was closed");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pause_lasts_until_its_gate_is_opened() {
    over_both(async |_, provider, client| {
        let (before, between) = (Gate::new(), Gate::new());
        let frames = CHAT.frames(&hello());
        let script = Script::stream(CHAT).pause_before_headers(&before).frames(frames[..2].to_vec());
        provider.answer(
            script.mark("first token").pause(&between).frames(frames[2..].to_vec()).end().flood(CHAT.text_frame(9)),
        );
        let test = async {
            let seen = provider.seen(0).await;
            assert!(seen.reached("pause").await);
            before.open();
            assert!(seen.reached("first token").await);
            assert!(seen.sent_frames(2).await);
            between.open();
            seen.closed().await
        };
        let body = async { ask(&client, &provider).await.unwrap().bytes().await.unwrap() };
        let (closed, body) = tokio::join!(test, body);
        assert_eq!(closed.how, ClosedHow::Whole);
        assert_eq!(body, CHAT.body(&hello()), "nothing follows an end");
    })
    .await;
}

#[tokio::test]
async fn a_dribble_comes_byte_by_byte() {
    over_both(async |_, provider, client| {
        let body = CHAT.body(&hello());
        provider.answer(Script::stream(CHAT).dribble(CHAT.frames(&hello())));
        let mut response = ask(&client, &provider).await.unwrap();
        let mut got = Vec::new();
        while let Some(chunk) = response.chunk().await.unwrap() {
            // The last one over HTTP/2 is empty.
            assert!(chunk.len() <= 1, "{chunk:?}");
            got.extend_from_slice(&chunk);
        }
        assert_eq!(got, body);
        let closed = provider.seen(0).await.closed().await;
        assert_eq!((closed.how, closed.sent_bytes), (ClosedHow::Whole, body.len() as u64));
    })
    .await;
}

/// Reads a body to its end: what came, and whether it broke off.
async fn read(mut response: Response) -> (Vec<u8>, Result<(), reqwest::Error>) {
    let mut got = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => got.extend_from_slice(&chunk),
            Ok(None) => return (got, Ok(())),
            Err(error) => return (got, Err(error)),
        }
    }
}

#[tokio::test]
async fn a_cut_ends_in_mid_frame_as_an_error_of_the_transport() {
    over_both(async |_, provider, client| {
        let frames = CHAT.frames(&hello());
        provider.answer(Script::stream(CHAT).frames(frames[..2].to_vec()).half(&frames[2]).cut());
        let (got, end) = read(ask(&client, &provider).await.unwrap()).await;
        assert!(end.is_err());
        let expected: usize =
            frames[..2].iter().map(|frame| frame.bytes().len()).sum::<usize>() + frames[2].bytes().len() / 2;
        assert_eq!(got, CHAT.body(&hello())[..expected], "all of it came first");
        let closed = provider.seen(0).await.closed().await;
        assert_eq!((closed.how, closed.sent_frames), (ClosedHow::ByServer, 2));
        assert_eq!(closed.sent_bytes, expected as u64);
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_a_cut_always_arrives() {
    over_both(async |protocol, provider, client| {
        let sent = CHAT.body(&hello()).slice(..100);
        provider.always(Script::stream(CHAT).bytes(sent.clone()).cut());
        for round in 0..200 {
            let (got, end) = read(ask(&client, &provider).await.unwrap()).await;
            assert!(end.is_err());
            assert_eq!(got, sent, "{protocol:?}, round {round}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_end_in_mid_frame_looks_whole_to_the_transport() {
    over_both(async |_, provider, client| {
        let frames = CHAT.frames(&hello());
        provider.answer(Script::stream(CHAT).half(&frames[0]).end());
        let (got, end) = read(ask(&client, &provider).await.unwrap()).await;
        assert!(end.is_ok());
        assert_eq!(got, frames[0].bytes()[..frames[0].bytes().len() / 2]);
        let closed = provider.seen(0).await.closed().await;
        assert_eq!((closed.how, closed.sent_frames), (ClosedHow::Whole, 0));
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    over_both(async |protocol, provider, client| {
        let gate = Gate::new();
        let script = Script::stream(CHAT).frames(CHAT.frames(&hello())).pause(&gate).reset();
        provider.answer(script);
        let mut response = ask(&client, &provider).await.unwrap();
        response.chunk().await.unwrap().unwrap();
        gate.open();
        let (_, end) = read(response).await;
        let told = format!("{:?}", end.unwrap_err());
        let word = if protocol == Protocol::Http1 { "ConnectionReset" } else { "INTERNAL_ERROR" };
        assert!(told.contains(word), "{told}");
        let closed = provider.seen(0).await.closed().await;
        assert_eq!(closed.how, ClosedHow::ByServer);
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test]
async fn it_can_cut_and_reset_before_the_headers() {
    over_both(async |_, provider, client| {
        provider.answer(Script::stream(CHAT).cut_before_headers());
        provider.answer(Script::stream(CHAT).reset_before_headers());
        for number in 0..2 {
            assert!(ask(&client, &provider).await.is_err());
            assert_eq!(provider.seen(number).await.closed().await.how, ClosedHow::ByServer);
        }
    })
    .await;
}

#[tokio::test]
async fn a_flood_ends_when_the_client_goes_away() {
    over_both(async |protocol, provider, client| {
        provider.answer(Script::stream(CHAT).flood(CHAT.text_frame(10_000)));
        let mut response = ask(&client, &provider).await.unwrap();
        let mut got = 0;
        while got < 5_000_000 {
            got += response.chunk().await.unwrap().unwrap().len();
        }
        let seen = provider.seen(0).await;
        assert!(seen.reached("flood").await);
        drop(response);
        let closed = seen.closed().await;
        assert!(is_a_hangup(protocol, closed.how), "{closed:?}");
        assert!(closed.sent_bytes >= got as u64, "{} sent, {got} got", closed.sent_bytes);
        let whole = closed.sent_frames as u64 * CHAT.text_frame(10_000).bytes().len() as u64;
        assert_eq!(closed.sent_bytes, whole);
        assert_eq!(provider.open_streams(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_flood_sees_a_client_go_that_has_not_read() {
    over_both(async |_, provider, client| {
        provider.answer(Script::stream(CHAT).flood(CHAT.text_frame(10_000)));
        let response = ask(&client, &provider).await.unwrap();
        let seen = provider.seen(0).await;
        assert!(seen.sent_bytes(50_000).await);
        drop(response);
        assert!(seen.closed().await.by_client());
    })
    .await;
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    over_both(async |_, provider, client| {
        for dialect in Dialect::ALL {
            provider.answer(Script::refuse(dialect, Refusal::RateLimited));
            let response = ask(&client, &provider).await.unwrap();
            assert_eq!(response.status(), 429);
            let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            let limits = response.headers().keys().filter(|name| name.as_str().contains("ratelimit")).count();
            let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            match dialect {
                Dialect::Gemini => assert_eq!(body["error"]["details"][0]["retryDelay"], "7s"),
                Dialect::Ollama => assert_eq!((after.as_deref(), limits), (Some("7"), 0)),
                _ => assert!(after.as_deref() == Some("7") && limits >= 6, "{dialect:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_refusal_has_its_status_and_a_page_is_a_page() {
    over_both(async |_, provider, client| {
        for dialect in Dialect::ALL {
            for refusal in Refusal::ALL {
                provider.answer(Script::refuse(dialect, refusal));
                let response = ask(&client, &provider).await.unwrap();
                assert_eq!(response.status(), refusal.status(dialect));
                let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
                assert!(body.get("error").is_some(), "{body}");
            }
        }
        assert_eq!(Refusal::Overloaded.status(Dialect::Anthropic), 529);
        provider.answer(Script::html_page(502));
        let response = ask(&client, &provider).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (502, &"text/html; charset=UTF-8".parse().unwrap())
        );
        assert!(response.text().await.unwrap().starts_with("<!DOCTYPE html>"));
        provider.answer(Script::reply(CHAT, &hello()).content_type("text/plain"));
        assert_eq!(ask(&client, &provider).await.unwrap().headers()["content-type"], "text/plain");
    })
    .await;
}

#[tokio::test]
async fn a_false_length_is_noticed_and_a_true_one_is_kept() {
    let provider = BadProvider::start(Protocol::Http1).await;
    let client = client(Protocol::Http1);
    provider.answer(Script::new(200).header("content-length", "5").bytes("Hello"));
    provider.answer(Script::new(200).header("content-length", "500").bytes("Hello").cut());
    provider.answer(Script::new(200).header("connection", "close").bytes("Hello"));
    assert_eq!(ask(&client, &provider).await.unwrap().text().await.unwrap(), "Hello");
    let (got, end) = read(ask(&client, &provider).await.unwrap()).await;
    assert!(got == b"Hello" && end.is_err());
    assert_eq!(ask(&client, &provider).await.unwrap().text().await.unwrap(), "Hello");
    assert_eq!(provider.connections(), 2);
    provider.all_connections_closed().await;
}

#[tokio::test]
async fn the_endpoints_beside_the_stream_answer_with_their_figure_and_leave_the_queue_alone() {
    over_both(async |_, provider, client| {
        let base = provider.base_url();
        provider.answer(Script::reply(CHAT, &hello()));
        for (dialect, path, pointer) in [
            (Dialect::Anthropic, "/v1/messages/count_tokens", "/input_tokens"),
            (Dialect::OpenAiResponses, "/v1/responses/input_tokens", "/input_tokens"),
            (Dialect::Gemini, "/v1beta/models/gemini-2.5-flash:countTokens", "/totalTokens"),
        ] {
            provider.counts(dialect, 1234);
            let response = client.post(format!("{base}{path}")).body("{}").send().await.unwrap();
            let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
            assert_eq!(body.pointer(pointer), Some(&json!(1234)), "{body}");
            provider.refuses_to_count(dialect, Refusal::Internal);
            assert_eq!(client.post(format!("{base}{path}")).body("{}").send().await.unwrap().status(), 500);
        }
        let tokens = Tokens { input: 10, cache_read: 5, cache_write: 0, output: 7, reasoning: 3 };
        let (id, model) = ("gen-1".to_owned(), "a/b".to_owned());
        provider.generation(&Generation { id, model, tokens, cost: 0.5, cancelled: true }, 2);
        let look = async || client.get(format!("{base}/api/v1/generation?id=gen-1")).send().await.unwrap();
        assert_eq!((look().await.status().as_u16(), look().await.status().as_u16()), (404, 404));
        let body: Value = serde_json::from_slice(&look().await.bytes().await.unwrap()).unwrap();
        assert_eq!(body["data"]["native_tokens_prompt"], 15);
        assert_eq!((&body["data"]["native_tokens_reasoning"], &body["data"]["cancelled"]), (&json!(3), &json!(true)));
        assert_eq!(provider.seen(8).await.query.as_deref(), Some("id=gen-1"));
        assert_eq!(ask(&client, &provider).await.unwrap().bytes().await.unwrap(), CHAT.body(&hello()));
    })
    .await;
}

#[tokio::test]
async fn a_request_without_a_script_is_told_so() {
    over_both(async |_, provider, client| {
        let response = ask(&client, &provider).await.unwrap();
        assert_eq!(response.status(), 500);
        assert!(response.text().await.unwrap().contains("no script for POST /v1/chat"));
    })
    .await;
}

#[tokio::test]
async fn many_answers_at_once_are_each_closed_alone() {
    over_both(async |protocol, provider, client| {
        provider.always(Script::stream(CHAT).frames(CHAT.frames(&hello())).stall());
        let mut open = Vec::new();
        for number in 0..MANY {
            open.push(ask(&client, &provider).await.unwrap());
            assert_eq!(provider.open_streams(), number + 1);
        }
        for (number, response) in open.into_iter().enumerate() {
            drop(response);
            assert!(provider.seen(number).await.closed().await.by_client());
            assert_eq!(provider.open_streams(), MANY - 1 - number);
        }
        provider.all_streams_closed().await;
        assert_eq!(provider.connections(), if protocol == Protocol::Http1 { MANY } else { 1 });
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_is_dropped_closes_everything_and_says_so() {
    over_both(async |_, provider, client| {
        provider.answer(Script::stream(CHAT).frames(CHAT.frames(&hello())).stall());
        let response = ask(&client, &provider).await.unwrap();
        let (seen, address) = (provider.seen(0).await, provider.address());
        drop(provider);
        assert_eq!(seen.closed().await.how, ClosedHow::ByServer);
        assert!(read(response).await.1.is_err());
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_breaks_ends_every_stream_on_it() {
    let provider = BadProvider::start(Protocol::Http2).await;
    provider.always(Script::stream(CHAT).stall());
    let socket = tokio::net::TcpStream::connect(provider.address()).await.unwrap();
    let (mut requests, connection) = h2::client::handshake(socket).await.unwrap();
    let scene = async {
        for _ in 0..2 {
            requests = requests.clone().ready().await.unwrap();
            let request = http::Request::post(provider.base_url()).body(()).unwrap();
            let (response, _) = requests.send_request(request, true).unwrap();
            // The answer is kept, so that only the connection can end it.
            std::mem::forget(response.await.unwrap());
        }
    };
    tokio::select! {
        _ = connection => panic!("the connection ended first"),
        () = scene => {}
    }
    for number in 0..2 {
        let closed = provider.seen(number).await.closed().await;
        assert!(matches!(closed.how, ClosedHow::ByClient(Hangup::Closed | Hangup::Reset)), "{closed:?}");
    }
    assert_eq!(provider.open_streams(), 0);
    provider.all_connections_closed().await;
}

#[test]
fn a_provider_on_its_own_thread_sees_a_client_whose_runtime_is_gone() {
    for protocol in Protocol::ALL {
        let provider = BadProvider::start_on_thread(protocol);
        provider.answer(Script::stream(CHAT).frames(CHAT.frames(&hello())).stall());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = runtime();
        let response = first.block_on(async { ask(&client(protocol), &provider).await.unwrap() });
        assert_eq!(provider.open_streams(), 1);
        drop(response);
        drop(first);
        let closed = runtime().block_on(async { provider.seen(0).await.closed().await });
        assert!(closed.by_client(), "{closed:?}");
        assert_eq!(provider.open_streams(), 0);
    }
}
