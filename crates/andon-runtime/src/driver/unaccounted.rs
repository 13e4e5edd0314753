//! Estimates what a model call used that was open when its process, or its driver, died: from what is on record of it.
//!
//! # Invariants
//!
//! 1. Nobody waits for an estimate: the run settles first, with what the provider had reported, and its receipt says until when a
//!    better figure may come.
//! 2. What is not on record is not guessed: without the conversation there is no figure for the input, and without an agent that asks
//!    the same model none at all.
//! 3. One call is estimated at a time, however many runs a dead process left open.

use std::sync::Arc;

use andon_core::answer::{AnswerEnd, assemble};
use andon_core::event::Learnt;
use andon_core::history::History;
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, Part};
use andon_core::outcome::ModelStop;
use andon_core::progress::Progress;
use andon_core::usage::{Awaited, Pending, Usage, Used};

use super::core::RuntimeCore;
use super::metering::{ESTIMATING, Metered, Times, Unreported, awaited, patiently};
use crate::agent::AgentCore;
use crate::journal::Earlier;
use crate::live::Live;
use crate::live::observe::SeenLater;
use crate::model::{Anchor, Request};
use crate::session::recorded;

/// How many bytes of the conversation before the run are read.
const MOST: usize = 8 << 20;

/// A model call that was open, and of which nobody has said what it used.
pub(crate) struct Unaccounted {
    runtime: Arc<RuntimeCore>,
    agent: Arc<AgentCore>,
    run: RunId,
    session: SessionKey,
    call: u32,
    answered_by: Option<String>,
    answer: Vec<Part>,
    /// What was said in the run before the answer.
    said: Vec<Arc<Message>>,
    /// Whether the answer came to its end.
    ended: bool,
    known: Usage,
    pub(crate) awaited: Awaited,
}

impl Unaccounted {
    /// The open call of a run; `None` if there is none, or none that can be estimated here.
    pub(crate) fn of(runtime: &Arc<RuntimeCore>, progress: &Progress) -> Option<Self> {
        let open = progress.open_model().filter(|open| !open.accounted)?;
        let session = &progress.accepted().session;
        let agent = runtime.agents.find(&session.app).filter(|agent| agent.model_name == open.model)?;
        agent.model.meter()?;
        let mut said = progress.messages().to_vec();
        let answer = match said.pop_if(|_| open.answered) {
            Some(answer) => answer.parts.clone(),
            // An incomplete tool call was written and is billed, although it is not kept.
            None => assemble(&open.spans, AnswerEnd::Whole(ModelStop::ToolUse)),
        };
        Some(Self {
            runtime: Arc::clone(runtime),
            agent,
            run: progress.accepted().run.clone(),
            session: session.clone(),
            call: open.number,
            answered_by: open.answerer().and_then(|answerer| answerer.model.as_deref()).map(str::to_owned),
            answer,
            said,
            ended: open.answered,
            known: open.reported(),
            awaited: awaited(runtime.services.clock.now(), Pending::Estimating, ESTIMATING),
        })
    }

    /// Begins to estimate it, once the run has settled. `live` is the run, if it is one of this process.
    pub(crate) fn begin(self, live: Option<&Arc<Live>>) {
        let (runtime, live) = (Arc::clone(&self.runtime), live.map(|live| (Arc::clone(live), live.learning())));
        let services = Arc::clone(&runtime.services);
        services.door.spawn_keeper(async move {
            let (run, session, call) = (self.run.clone(), self.session.clone(), self.call);
            let known = Used::cut(self.known);
            let estimated = patiently(&runtime.services, ESTIMATING, self.estimate()).await.flatten();
            let used = Box::new(estimated.unwrap_or(known));
            let word = Learnt::UsageCorrected { call, used };
            match live {
                // There is nobody to report a journal error to.
                Some((live, _learning)) => drop(live.learn(word).await),
                None => add(&runtime, &run, &session, word).await,
            }
        });
    }

    async fn estimate(self) -> Option<Used> {
        let (runtime, known) = (Arc::clone(&self.runtime), self.known);
        let _alone = runtime.estimating.lock().await;
        let Earlier { messages, unsettled, truncated } =
            runtime.services.journal.said_before(&self.run, MOST).await.ok()??;
        let is_whole = unsettled.is_empty() && !truncated;
        let history: History = messages.into_iter().chain(self.said).collect();
        let anchor = match is_whole {
            true => anchor(&runtime, &self.session, &self.agent.model_name, &history).await,
            false => None,
        };
        let request = Request {
            run: self.run,
            number: self.call,
            instructions: self.agent.instructions.clone(),
            history,
            tools: Arc::clone(&self.agent.specs),
            anchor,
        };
        let mut metered = Metered::of(&*self.agent.model, &request)?;
        metered.model = self.answered_by;
        metered.recalling(&runtime, &self.agent.model_name).await;
        let now = runtime.services.clock.now();
        // How long it took is not on record, and says nothing about tokens.
        let times = Times { started: now, first_piece: (!self.answer.is_empty()).then_some(now), ended: now };
        let call = Unreported { metered, answer: self.answer, ended: self.ended, times, known };
        let used = call.estimate_well(&runtime.services).await?;
        let without_input = |usage: Usage| Usage { output: usage.output, reasoning: usage.reasoning, ..known };
        Some(match is_whole {
            true => used,
            false => Used { delivered: without_input(used.delivered), billed: without_input(used.billed) },
        })
    }
}

/// The call of a session that one to this model, with this history, is measured from.
async fn anchor(runtime: &RuntimeCore, session: &SessionKey, model: &str, history: &History) -> Option<Anchor> {
    let journal = &runtime.services.journal;
    let last = journal.last_reported(session).await.ok()??;
    // Later runs may have settled since.
    let (asked, anchor) = recorded(&journal.history(session).await.ok()?, last)?;
    (*asked.model == *model && anchor.messages < history.len()).then_some(anchor)
}

/// Adds what was learned to a run that is on record only, and tells observers.
async fn add(runtime: &RuntimeCore, run: &RunId, session: &SessionKey, word: Learnt) {
    let services = &runtime.services;
    let added = services.add(run, services.clock.now(), word).await;
    if added.is_err() || services.observers.is_empty() {
        return;
    }
    let Ok(Some(stored)) = services.journal.read(run).await else { return };
    let facts: Vec<_> = stored.facts().cloned().collect();
    if let Some((addendum, earlier)) = stored.addenda.split_last() {
        services.observers.addendum(&SeenLater { run, session, addendum, earlier, facts: &facts });
    }
}
