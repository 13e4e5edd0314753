//! Tools whose effects are lines in a file, which says what really happened, whatever the journal says.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{FnTool, Invocation, Probe, ToolError, ToolOutput};
use serde_json::json;
use tokio::time::sleep;

use crate::log::{Moment, Witness};
use crate::points::Trigger;

/// How long the slow tool takes.
const SLOW: Duration = Duration::from_millis(12);
/// How long it may take to stop.
const GRACE: Duration = Duration::from_millis(4);

/// The tools of every scene.
pub(crate) struct Tools {
    pub(crate) witness: Arc<Witness>,
    pub(crate) trigger: Arc<Trigger>,
}

impl Tools {
    /// Has its effect at once.
    pub(crate) fn note(&self) -> FnTool {
        self.tool("note", Duration::ZERO)
    }

    /// Has its effect bit by bit.
    pub(crate) fn slow(&self) -> FnTool {
        self.tool("slow", SLOW)
    }

    /// Has its effect at once, if a person approves.
    pub(crate) fn danger(&self) -> FnTool {
        self.tool("danger", Duration::ZERO).needs_approval()
    }

    fn tool(&self, name: &str, takes: Duration) -> FnTool {
        let (witness, trigger) = (Arc::clone(&self.witness), Arc::clone(&self.trigger));
        let schema = json!({"type": "object", "properties": {}});
        let tool = FnTool::new(name, "Writes a line.", schema, move |call| {
            have_effect(call, takes, Arc::clone(&witness), Arc::clone(&trigger))
        });
        tool.grace(GRACE)
    }
}

async fn have_effect(
    call: Invocation,
    takes: Duration,
    witness: Arc<Witness>,
    trigger: Arc<Trigger>,
) -> Result<ToolOutput, ToolError> {
    trigger.hit("tool: before effect");
    witness.tell_deed(call.run.as_str(), call.call.as_str(), Moment::Begin);
    if !takes.is_zero() {
        sleep(takes).await;
    }
    witness.tell_deed(call.run.as_str(), call.call.as_str(), Moment::End);
    trigger.hit("tool: after effect");
    Ok("done".into())
}
