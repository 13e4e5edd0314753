//! The bad provider: a client reads one piece of an answer and goes away, and the server reports what it saw. In your project
//! this is a test; here it is a program.

use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script};

type Error = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    for protocol in Protocol::ALL {
        client_goes_away(protocol).await?;
    }
    Ok(())
}

/// The client under test.
fn client(protocol: Protocol) -> Result<reqwest::Client, Error> {
    let builder = reqwest::Client::builder().no_proxy();
    Ok(match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_prior_knowledge(),
    }
    .build()?)
}

async fn client_goes_away(protocol: Protocol) -> Result<(), Error> {
    let provider = BadProvider::start(protocol).await;
    let answer = Dialect::Anthropic.frames(&Reply::text(["It is ", "a cord."]));
    // The start, the block, a ping and the first piece of text; then silence.
    let script = Script::stream(Dialect::Anthropic).frames(answer.into_iter().take(4)).mark("first token").stall();
    provider.answer(script);

    let url = format!("{}/v1/messages", provider.base_url());
    let mut response = client(protocol)?.post(url).body(r#"{"stream": true}"#).send().await?;
    let seen = provider.seen(0).await;
    assert!(seen.reached("first token").await);
    response.chunk().await?;
    drop(response);

    let closed = seen.closed().await;
    assert!(closed.by_client());
    assert_eq!((closed.sent_frames, closed.said.as_str()), (4, "It is "));
    assert_eq!(provider.open_streams(), 0, "nothing is left open");
    println!("{protocol:?}: {:?} after {:?}", closed.how, closed.at - seen.at);
    Ok(())
}
