//! Scripts about several sessions of one agent: a cancel of one reaches nobody else (P9).

use andon_runtime::core::cancel::ReplyKind;
use andon_runtime::core::event::Event;
use andon_runtime::core::id::LOCAL;
use andon_runtime::{Cancel, FeedItem, Run, RunId, Session, WhenBusy};

use crate::explore::World;

use super::{answer, done, drip};

/// Who cancels, as receipts name her.
const ADA: &str = "ada";

/// Ada's session is cancelled while a run is in progress and another waits in it, and once more when nothing runs. A
/// second session of hers and one of somebody else go on, and so does whatever comes next.
pub(super) async fn one_of_several(world: World) {
    let slow = |text: &str| answer([drip(text, 200), done()]);
    let silent = answer([drip("Hers ", 60_000), done()]);
    let model = world.model([silent, slow("Also hers "), slow("His "), done(), done()]);
    let hers = world.open(world.agent(&model));
    let also_hers = hers.agent().session(LOCAL, "also");
    let (Ok(also_hers), Ok(his)) = (also_hers, hers.agent().session("bob", "s")) else { return };

    let mut others = Vec::new();
    let Ok(first) = world.start(hers.prompt("Tell.")) else { return };
    begun(&world, &first).await;
    let queued = world.start(hers.prompt("Then this.").when_busy(WhenBusy::Queue));
    for session in [&also_hers, &his] {
        let Ok(run) = world.start(session.prompt("Tell.")) else { return };
        begun(&world, &run).await;
        others.push(run);
    }

    cancel(&world, &hers);
    world.follow(&first).await;
    if let Ok(queued) = &queued {
        world.follow(queued).await;
    }
    for other in &others {
        world.follow(other).await;
    }
    // Nobody is busy now: this one must not reach what comes next, in this session or in another.
    cancel(&world, &hers);
    for session in [&his, &hers] {
        let Ok(run) = world.start(session.prompt("And now?")) else { return };
        world.follow(&run).await;
        others.push(run);
    }
    for other in others.iter().filter(|other| is_hit(other)) {
        world.broken(&format!("P9: a cancel of a session reached run {} outside of it", other.id()));
    }
}

async fn begun(world: &World, run: &Run) {
    world.follow_until(run, |item| matches!(item, FeedItem::Delta(_))).await;
}

/// Cancels a session, and checks that the reply names exactly what was in it.
fn cancel(world: &World, session: &Session) {
    let here: Vec<RunId> = world
        .runtime()
        .in_progress()
        .iter()
        .filter(|run| run.session() == session.key())
        .map(|run| run.id().clone())
        .collect();
    let reply = session.cancel_with(Cancel::graceful().by(ADA));
    let reached: Vec<RunId> = reply.runs().iter().map(|reply| reply.run_id().clone()).collect();
    if reached != here {
        world.broken(&format!("P7: a session with the runs {here:?} was cancelled, and the reply names {reached:?}"));
    }
    if here.is_empty() != (reply.kind() == ReplyKind::NotRunning) {
        world.broken(&format!(
            "P7: a session with the runs {here:?} was cancelled, and the reply is {:?}",
            reply.kind()
        ));
    }
}

/// Whether Ada's cancel is on record with this run.
fn is_hit(run: &Run) -> bool {
    let is_hers =
        |event: &Event| matches!(event, Event::CancelRequested { request, .. } if request.by.as_deref() == Some(ADA));
    run.records().iter().any(|record| is_hers(&record.event))
}
