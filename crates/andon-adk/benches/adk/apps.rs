//! What there is to run in ours. `peer.py` has the same apps, but for `drip` and `hello`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_models::Compatible;
use andon_runtime::core::message::Role;
use andon_runtime::{Agent, Answer, FnTool, Model, ModelError, ModelRequest, ModelStop, Piece, Runtime};
use serde_json::json;

use crate::models::{Before, Does};

/// How many pieces an answer has.
pub(crate) const PIECES: u32 = 1_000;
/// How many naps a run takes, one after the other.
pub(crate) const NAPS: usize = 6;
/// How long a nap is.
pub(crate) const NAP: Duration = Duration::from_secs(2);
/// How many tools work at once.
pub(crate) const NAPPERS: usize = 500;

/// All agents. Those of `upstream` ask the server at this address.
pub(crate) fn agents(runtime: &Runtime, upstream: &str) -> Vec<Agent> {
    let agent = |name: &str, model: Arc<dyn Model>| {
        let agent = Agent::builder().name(name).model(model).runtime(runtime);
        let agent = if name == "napper" { agent.tool(nap()) } else { agent };
        agent.build().expect("an agent")
    };
    let all_ready = Does::Stream { pieces: PIECES, before: Before::Nothing };
    let one_by_one = Does::Stream { pieces: PIECES, before: Before::Yield };
    let upstream = Compatible::builder(upstream, "bench").build().expect("a model over HTTP");
    vec![
        agent("hello", Arc::new(Does::Stream { pieces: 1, before: Before::Nothing })),
        agent("flood", Arc::new(all_ready)),
        agent("drip", Arc::new(one_by_one)),
        agent("silent", Arc::new(Does::Silence { after: 1 })),
        agent("upstream", Arc::new(upstream)),
        agent("napper", Arc::new(Napper)),
    ]
}

/// A tool that blocks its thread.
fn nap() -> FnTool {
    FnTool::blocking("nap", "Sleeps.", json!({"type": "object"}), |_| {
        #[expect(clippy::disallowed_methods, reason = "a tool that blocks is what is measured")]
        std::thread::sleep(NAP);
        Ok("slept".into())
    })
}

/// Asks for one nap after the other.
struct Napper;

impl Model for Napper {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let turn = request.history.iter().filter(|message| message.role == Role::Assistant).count();
        let pieces = if turn < NAPS {
            let call = Piece::Call { id: format!("nap{turn}"), name: "nap".to_owned() };
            [call, Piece::CallEnd { index: 0 }, Piece::End(ModelStop::ToolUse)].into()
        } else {
            [Piece::Text("Done.".to_owned()), Piece::End(ModelStop::EndTurn)].into()
        };
        Box::new(Pieces(pieces))
    }
}

struct Pieces(VecDeque<Piece>);

impl Answer for Pieces {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}
