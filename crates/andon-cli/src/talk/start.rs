//! What happens before the first prompt: finding a server or a database, choosing the session, and recovering the runs that a
//! dead program left open.

use andon_runtime::core::id::LOCAL;
use andon_runtime::{Recovered, RunId, Runtime, SessionKey};
use anyhow::{Context, bail};

use super::conversation::{Conversation, RemoteSession};
use crate::agents::build_agent;
use crate::args::{ConversationArgs, SessionName, TalkArgs};
use crate::client::calls::last_sessions;
use crate::client::{Client, RunOptions, Target};
use crate::db::{Db, OpenFor};
use crate::names::{self, PRACTICE};
use crate::print::plain;

/// Everything that is ready before the first prompt.
pub(crate) struct Start {
    /// The session.
    pub(crate) conversation: Conversation,
    /// The name of the model.
    pub(crate) model: String,
    /// The server or database.
    pub(crate) target: Target,
    /// Whether the session is new.
    pub(crate) is_new: bool,
    /// The runs that a dead program left open, and what happened to them.
    pub(crate) recovered: Vec<Recovered>,
}

/// What the command line says about the conversation.
pub(crate) struct TalkRequest<'a> {
    /// The command, such as `andon chat`.
    pub(crate) program: &'static str,
    pub(crate) args: &'a ConversationArgs,
    /// The run's id, if it was given.
    pub(crate) run_id: Option<&'a RunId>,
    /// A flag that only works with a server.
    pub(crate) needs_a_server: Option<&'static str>,
}

/// Gets ready to talk.
pub(crate) async fn start(wanted: &TalkRequest<'_>) -> anyhow::Result<Start> {
    match Target::find(&wanted.args.target).await? {
        Target::Server(client) => start_remote(wanted, client).await,
        Target::Database(db) => start_local(wanted, db).await,
    }
}

async fn start_local(wanted: &TalkRequest<'_>, db: Db) -> anyhow::Result<Start> {
    if let Some(flag) = wanted.needs_a_server {
        bail!("{flag} needs a server: {}", db.no_server());
    }
    let runtime = db.open(wanted.program, OpenFor::Running).await?;
    let agent = build_agent(&wanted.args.options, &runtime).await?;
    // Before recovery, because settling a run there must not make its session the last used one.
    let name = choose(&runtime, &wanted.args.talk, &db).await?;
    let session = agent.session(LOCAL, name)?;
    let is_new = runtime.state(session.key()).await?.is_none();
    let recovered =
        runtime.recover().await.context("the runs that an earlier program left open cannot be recovered")?;
    let model = wanted.args.options.model.clone();
    Ok(Start { conversation: Conversation::Local(session), model, target: Target::Database(db), is_new, recovered })
}

async fn start_remote(wanted: &TalkRequest<'_>, client: Client) -> anyhow::Result<Start> {
    let ConversationArgs { talk, options, served, .. } = wanted.args;
    let flags = options.only_here();
    if !flags.is_empty() {
        let (flags, server) = (flags.join(" and "), client.shown());
        bail!(
            "the server at {server} defines its own agents, so {flags} cannot be used: choose an agent with --app, or run your \
             own here with another database (--db PATH or --db memory)"
        );
    }
    let (app, user) = whose(wanted.args)?;
    let (app, model) = choose_app(&client, app).await?;
    let user = match user {
        Some(user) => user.to_owned(),
        None => client.own_user().await?,
    };
    let key = RemoteSession::choose_session(&client, &app, &user, talk, wanted.run_id).await?;
    let is_new = !client.has_session(&key).await?;
    let options =
        RunOptions { when_busy: served.when_busy, on_disconnect: served.on_disconnect, limits: options.limits() };
    let remote = Box::new(RemoteSession { client: client.clone(), key, options });
    let target = Target::Server(client);
    Ok(Start { conversation: Conversation::Remote(remote), model, target, is_new, recovered: Vec::new() })
}

/// The app and the user, from their flags or from the session's full name.
fn whose(args: &ConversationArgs) -> anyhow::Result<(Option<&str>, Option<&str>)> {
    let (app, user) = (args.served.app.as_deref(), args.served.user.as_deref());
    let Some(SessionName::Whole(key)) = &args.talk.session else { return Ok((app, user)) };
    for (flag, said, whole) in [("--app", app, &*key.app), ("--user", user, &*key.user)] {
        if let Some(said) = said.filter(|said| *said != whole) {
            bail!("{flag} {said} contradicts --session {key}: leave {flag} out, or give only the session's name");
        }
    }
    Ok((Some(&*key.app), Some(&*key.user)))
}

/// The app and its model: the named one, else the practice agent, else the only one.
async fn choose_app(client: &Client, named: Option<&str>) -> anyhow::Result<(String, String)> {
    let apps = client.apps().await?;
    let wanted = named.unwrap_or(PRACTICE);
    let found = apps.iter().find(|app| app.app == wanted);
    let found = match (found, named, apps.as_slice()) {
        (None, None, [only]) => Some(only),
        _ => found,
    };
    let Some(app) = found else {
        let names: Vec<&str> = apps.iter().map(|app| app.app.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { plain(&names.join(", ")) };
        match named {
            Some(named) => bail!("the server at {} has no app {named}; it has: {names}", client.shown()),
            None => bail!("name an app with --app; the server at {} has: {names}", client.shown()),
        }
    };
    Ok((app.app.clone(), app.model.clone().unwrap_or_default()))
}

async fn choose(runtime: &Runtime, talk: &TalkArgs, db: &Db) -> anyhow::Result<String> {
    match &talk.session {
        Some(session) => {
            let key = session.key()?;
            if (&*key.app, &*key.user) != (PRACTICE, LOCAL) {
                let why = if db.is_kept() {
                    format!(", and {}", db.no_server())
                } else {
                    ": name one with --server".to_owned()
                };
                bail!("session {key} belongs to another agent. Only a server can run that agent{why}");
            }
            Ok(key.session.to_string())
        }
        None if talk.continue_last => last_used(runtime, db).await,
        None => new_name(runtime).await,
    }
}

async fn last_used(runtime: &Runtime, db: &Db) -> anyhow::Result<String> {
    match runtime.list_sessions(last_sessions(PRACTICE, LOCAL, 1)).await?.first() {
        Some(last) => Ok(last.key.session.to_string()),
        None if db.is_kept() => {
            bail!("there is no session to continue in {}: start one with `{}`", db.shown(), db.command("chat"))
        }
        None => bail!("there is no session to continue: `--db memory` keeps nothing"),
    }
}

async fn new_name(runtime: &Runtime) -> anyhow::Result<String> {
    loop {
        let name = names::session_name();
        let key = SessionKey::new(PRACTICE, LOCAL, &name)?;
        if runtime.state(&key).await?.is_none() {
            return Ok(name);
        }
    }
}
