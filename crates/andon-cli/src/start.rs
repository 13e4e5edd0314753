//! What happens before the first prompt: the database is opened, the session chosen, and what a dead program left is taken up.

use andon::{Agent, Cancel, Reason, Recovered, Runtime, SessionFilter, SessionKey, State};
use anyhow::{Context, bail};

use crate::agent::{PRACTICE, build_agent};
use crate::args::{DbArgs, Options, TalkArgs};
use crate::db::{Db, For};
use crate::names;

/// A program that is ready to talk.
pub(crate) struct Start {
    /// The agent, in its session.
    pub(crate) agent: Agent,
    /// Where it is recorded.
    pub(crate) db: Db,
    /// Whether nothing was said in the session yet.
    pub(crate) is_new: bool,
    /// The runs that a dead program left open, and what became of them.
    pub(crate) recovered: Vec<Recovered>,
}

/// Gets ready to talk.
pub(crate) async fn start(program: &str, options: &Options, talk: &TalkArgs, db: &DbArgs) -> anyhow::Result<Start> {
    let db = Db::named(db)?;
    let runtime = db.open(program, For::Running)?;
    let agent = build_agent(options, &runtime).await?;
    // Before recovery: what that settles is no use of a session.
    let name = choose(&runtime, talk, &db).await?;
    let agent = agent.session(name)?;
    let is_new = runtime.state(agent.session_key()).await?.is_none();
    let recovered = runtime.recover().await.context("what an earlier program left open cannot be taken up")?;
    Ok(Start { agent, db, is_new, recovered })
}

async fn choose(runtime: &Runtime, talk: &TalkArgs, db: &Db) -> anyhow::Result<String> {
    match &talk.session {
        Some(session) => Ok(session.0.to_string()),
        None if talk.continue_last => last_used(runtime, db).await,
        None => new_name(runtime).await,
    }
}

async fn last_used(runtime: &Runtime, db: &Db) -> anyhow::Result<String> {
    let which = SessionFilter {
        tenant: Some(andon::core::id::LOCAL.to_owned()),
        app: Some(PRACTICE.to_owned()),
        user: Some(andon::core::id::LOCAL.to_owned()),
        limit: Some(1),
    };
    match runtime.list_sessions(which).await?.first() {
        Some(last) => Ok(last.key.session.to_string()),
        None if db.is_kept() => {
            bail!("there is no session to continue in {}: begin one with `{}`", db.shown(), db.command("chat"))
        }
        None => bail!("there is no session to continue: `--db memory` keeps nothing"),
    }
}

async fn new_name(runtime: &Runtime) -> anyhow::Result<String> {
    loop {
        let name = names::session_name();
        let key = SessionKey::new(PRACTICE, andon::core::id::LOCAL, &name)?;
        if runtime.state(&key).await?.is_none() {
            return Ok(name);
        }
    }
}

/// Stops what still runs in other sessions: a run that was queued when its program died lives on in this one. What
/// waits is left as it is, and waits for the next program.
pub(crate) async fn stop_the_rest(runtime: &Runtime) -> anyhow::Result<()> {
    for run in runtime.runs() {
        let Some(run) = runtime.find(&run).await? else { continue };
        if matches!(run.state(), State::Running | State::Cancelling) {
            run.cancel(Cancel::graceful().reason(Reason::Shutdown).by("andon").note("the program was left"));
            run.outcome().await;
        }
    }
    Ok(())
}
