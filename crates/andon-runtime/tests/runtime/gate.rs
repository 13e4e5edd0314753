//! The gate: what passes it is counted, and nothing that a pull forbids begins after it.

use std::sync::OnceLock;

use andon_runtime::{Cord, GateCounts, Probe};

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn what_has_passed_the_gate_is_counted() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), says("Done.")]);
    let session = agent(&model).tool(tools::quick("look", &ToolLog::new())).open();
    let (run, _) = run_to_end(&session, "Look.").await;
    let pieces = run.pieces().unwrap();
    assert!(pieces > 1);
    assert_eq!(run.passed(), GateCounts { pieces, tools: 1, models: 2 });
}

#[tokio::test(start_paused = true)]
async fn how_many_pieces_were_accepted_is_unknown_to_a_process_that_did_not_accept_them() {
    let journal = memory();
    let session = scripted_on(&journal, [says("Done.")]).open();
    let (run, _) = run_to_end(&session, "Go.").await;
    let next = next_runtime_on(&TestJournal::new(journal.durable(), None));
    let found = next.find(run.id()).await.unwrap().unwrap();
    assert_eq!((run.pieces().is_some(), found.pieces()), (true, None));
}

/// Pulls the cord of its run when that reaches this seam.
struct PullsAt(&'static str, OnceLock<Cord>);

impl Probe for PullsAt {
    fn hit(&self, seam: &'static str) {
        if seam == self.0 {
            self.1.get().unwrap().pull(Cancel::graceful());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_a_pull_came_before_is_not_on_record_as_started() {
    let (log, probe) = (ToolLog::new(), Arc::new(PullsAt("driver: before tool intent", OnceLock::new())));
    let runtime = Runtime::builder().one_lane().seed(1).probe(Arc::clone(&probe) as Arc<dyn Probe>).build();
    let agent = Agent::builder().model(ScriptedModel::new([calls(&[("a", "look")])])).runtime(&runtime);
    let session = agent.tool(tools::quick("look", &log)).open();
    let run = session.start("Look.").unwrap();
    probe.1.set(run.cord()).ok().unwrap();
    cancelled(&session, &run).await;
    assert_eq!((count(&run, |event| matches!(event, Event::ToolStarted { .. })), log.started()), (0, 0));
}
