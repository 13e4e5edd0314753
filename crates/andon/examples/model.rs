//! A model of your own: an async closure that returns a stream of pieces. Here it speaks a protocol of JSON lines.
#![expect(clippy::disallowed_methods, reason = "a program of its own spawns its own tasks")]

use std::net::SocketAddr;
use std::time::Duration;

use andon::model::{ModelError, ModelStop, Piece, StreamModel};
use andon::run::Provenance;
use andon::{Agent, Cancel, FeedItem, Usage};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The model.
fn line_model(provider: SocketAddr) -> StreamModel {
    StreamModel::new("line/1", move |request| async move {
        let mut socket = TcpStream::connect(provider).await?;
        // `prompt()` is the history as a model may be sent it: valid, with a note where an answer was stopped.
        let question = json!({"system": request.instructions, "messages": request.prompt()});
        socket.write_all(format!("{question}\n").as_bytes()).await?;
        Ok(stream::try_unfold(BufReader::new(socket).lines(), next_piece))
    })
}

/// The next piece of its answer, and what comes after it. A stop drops this wherever it is, and with it the connection.
async fn next_piece(mut lines: Connected) -> Result<Option<(Piece, Connected)>, ModelError> {
    let Some(line) = lines.next_line().await? else { return Ok(None) };
    let piece = match serde_json::from_str(&line).map_err(ModelError::fatal)? {
        Line::Text(text) => Piece::Text(text),
        Line::Usage(input, output) => Usage::reported(input, output).into(),
        Line::End => ModelStop::EndTurn.into(),
    };
    Ok(Some((piece, lines)))
}

type Connected = Lines<BufReader<TcpStream>>;

/// What the provider writes: a JSON value on each line.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Text(String),
    Usage(u64, u64),
    End,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let agent = Agent::builder().model(line_model(listener.local_addr()?)).build()?;
    tokio::spawn(provide(listener));

    let answer = agent.run("one two three").await?.completed()?;
    println!("whole: {:?}, output {:?}", answer.text(), answer.usage.delivered.output);
    assert_eq!(answer.usage.billed.output.value, Some(5));

    let run = agent.start("Tell me a long story")?;
    let mut feed = run.feed();
    while !matches!(feed.next().await, Some(FeedItem::Delta(_)) | None) {}
    run.cancel(Cancel::graceful());
    let usage = run.outcome().await.usage;
    println!("cut: delivered {:?}, billed {:?}", usage.delivered.output, usage.billed.output);
    assert_eq!(usage.delivered.output.provenance, Provenance::ReportedRunning);
    // What the provider will charge past the cut is unknown, and is not reported as 0.
    assert_eq!((usage.billed.output.value, usage.billed.output.low), (None, usage.delivered.output.value));
    Ok(())
}

/// The provider: it writes a word at a time, and says how many there were before each.
async fn provide(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut socket, _) = listener.accept().await?;
        let mut question = String::new();
        BufReader::new(&mut socket).read_line(&mut question).await?;
        for word in 1..=if question.contains("long") { 500 } else { 5 } {
            sleep(Duration::from_millis(5)).await;
            let lines = format!("{}\n{}\n", json!({"usage": [3, word]}), json!({"text": format!("word {word} ")}));
            if socket.write_all(lines.as_bytes()).await.is_err() {
                break; // The answer was stopped.
            }
        }
        let _ = socket.write_all(b"\"end\"\n").await;
    }
}
