//! What clients do in a life: every scene in its own session, all at once.

use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::{Cancel, Record};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, Watching};
use crate::provider::Scene;

/// What a person does with a run that needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    Approves,
    Denies,
    Cancels,
    /// Does nothing in this life.
    IsAway,
}

impl Person {
    pub(crate) fn any(dice: &mut fastrand::Rng) -> Self {
        match dice.u8(0..8) {
            0..3 => Self::Approves,
            3 => Self::Denies,
            4 => Self::Cancels,
            _ => Self::IsAway,
        }
    }

    pub(crate) fn who_is_there(dice: &mut fastrand::Rng) -> Self {
        if dice.u8(0..3) == 0 { Self::Cancels } else { Self::Approves }
    }
}

/// Begins every scene. `busy` is whether the session of approvals has a run from an earlier life.
pub(crate) fn begin(client: &Client, dice: &mut fastrand::Rng, busy: bool, scenes: &mut JoinSet<()>) {
    for scene in Scene::SESSIONS {
        let (client, person, is_hard) = (client.clone(), Person::any(dice), dice.bool());
        let cancel = if is_hard { Cancel::now() } else { Cancel::graceful() };
        scenes.spawn(async move {
            match scene {
                Scene::Approve if busy => wait_in_line(&client).await,
                Scene::Approve => approve(&client, person).await,
                Scene::Queue => queue(&client).await,
                Scene::CutText => cut_text(&client, cancel).await,
                Scene::CutTool => cut_tool(&client, cancel).await,
                Scene::Late => late(&client, cancel).await,
                Scene::Forget => forget(&client).await,
                scene => watch(&client, scene).await,
            }
        });
    }
}

async fn watch(client: &Client, scene: Scene) {
    let Some(mut run) = client.ask(scene, scene, 1, false) else { return };
    run.until_end().await;
}

async fn approve(client: &Client, person: Person) {
    let Some(run) = client.ask(Scene::Approve, Scene::Approve, 1, false) else { return };
    decide(run, person).await;
}

/// Decides about a run that waits for a person, or soon will.
pub(crate) async fn decide(mut run: Watching, person: Person) {
    let waits = |record: &Record| matches!(record.event, Event::ApprovalRequested { .. });
    let asked = run.run.records().iter().any(|record| waits(record)) || run.until(waits).await;
    if person == Person::IsAway {
        return;
    }
    sleep(Duration::from_millis(5)).await;
    let call = run.run.records().iter().find_map(|record| match &record.event {
        Event::ApprovalRequested { call, .. } => Some(call.clone()),
        _ => None,
    });
    // A decision that comes too late has no effect: somebody else may have stopped the run.
    match (person, call) {
        (Person::Approves, Some(call)) => drop(run.run.decide(&call).approve().by("somebody").send()),
        (Person::Denies, Some(call)) => drop(run.run.decide(&call).deny().by("somebody").note("not now").send()),
        (Person::Cancels, Some(_)) if asked => return run.cancel(Cancel::graceful()).await,
        (Person::Approves | Person::Denies | Person::Cancels | Person::IsAway, _) => {}
    }
    run.until_end().await;
}

/// A run that is queued behind one that waits for a person.
async fn wait_in_line(client: &Client) {
    let Some(mut run) = client.ask(Scene::Approve, Scene::Plain, 1, false) else { return };
    run.until(|record| matches!(record.event, Event::RunAccepted { .. })).await;
}

/// One run streams, one waits for it, and a third is stopped while it waits.
async fn queue(client: &Client) {
    let ask = |number| client.ask(Scene::Queue, Scene::Queue, number, false);
    let (Some(mut first), Some(mut second), Some(mut third)) = (ask(1), ask(2), ask(3)) else { return };
    let stopping = async {
        third.until(|record| matches!(record.event, Event::RunAccepted { .. })).await;
        third.cancel(Cancel::graceful()).await;
    };
    tokio::join!(first.until_end(), second.until_end(), stopping);
}

async fn cut_text(client: &Client, cancel: Cancel) {
    let Some(mut run) = client.ask(Scene::CutText, Scene::CutText, 1, false) else { return };
    run.until_deltas(12).await;
    run.cancel(cancel).await;
}

async fn cut_tool(client: &Client, cancel: Cancel) {
    let Some(mut run) = client.ask(Scene::CutTool, Scene::CutTool, 1, false) else { return };
    run.until(|record| matches!(record.event, Event::ToolStarted { .. })).await;
    sleep(Duration::from_millis(3)).await;
    run.cancel(cancel).await;
}

async fn late(client: &Client, cancel: Cancel) {
    let Some(mut run) = client.ask(Scene::Late, Scene::Late, 1, false) else { return };
    run.until_end().await;
    run.cancel(cancel).await;
}

/// Deletes a session: nothing of it may be left, and the disk is cleaned up at once.
async fn forget(client: &Client) {
    let Some(mut run) = client.ask(Scene::Forget, Scene::Forget, 1, false) else { return };
    run.until_end().await;
    client.delete(Scene::Forget).await;
}
