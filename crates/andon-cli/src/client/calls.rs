//! The requests to a server.

use std::ops::Not;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::id::LOCAL;
use andon_runtime::{CallId, Digest, Message, RunFilter, RunId, RunInfo, SessionFilter, SessionInfo, SessionKey};
use andon_server::{KeyInfo, NewKey};
use anyhow::bail;
use reqwest::{Method, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::forms::{
    AppView, Cancelled, CancelledMany, LineView, MadeKey, RunPage, RunView, ServerReceipt, SessionView,
};
use super::{ANSWER, Client, ClientError, RunRequest};
use crate::how::How;

/// How long to wait for a server that is said to be running.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
/// How long a response may take that waits for runs to end: a server waits for half a minute, and then answers anyway.
const WAITED: Duration = Duration::from_secs(60);
/// The most entries that a server lists per request.
const PAGE: usize = 1_000;
/// How many runs to search for the beginning of an id. Older runs are found by their whole id.
const NEWEST: usize = 10_000;
/// How many runs to name when several match.
const NAMED: usize = 5;

/// Which runs are meant, to cancel them or to hold new ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Selector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

/// The request body of a cancel.
#[derive(Serialize)]
struct CancelBody<'a> {
    #[serde(flatten)]
    how: &'a How,
    /// Which runs, if the path does not say so.
    #[serde(flatten)]
    which: Option<&'a Selector>,
    #[serde(skip_serializing_if = "Not::not")]
    all: bool,
    #[serde(skip_serializing_if = "Not::not")]
    wait: bool,
}

impl Client {
    /// Checks that the server answers soon.
    pub(crate) async fn is_there(&self) -> Result<(), ClientError> {
        self.ask::<Value>(self.request(Method::GET, &["healthz"]).timeout(SIGN_OF_LIFE)).await.map(drop)
    }

    /// Who we are to the server.
    pub(crate) async fn own_user(&self) -> Result<String, ClientError> {
        self.get_field(&["v1", "me"], &[], "user").await
    }

    /// Creates a key, and returns the key itself and its description.
    pub(crate) async fn create_key(&self, new: &NewKey) -> Result<(String, KeyInfo), ClientError> {
        let made: MadeKey = self.ask(self.request(Method::POST, &["v1", "keys"]).json(new).timeout(ANSWER)).await?;
        Ok((made.key, made.info))
    }

    pub(crate) async fn keys(&self) -> Result<Vec<KeyInfo>, ClientError> {
        self.get_field(&["v1", "keys"], &[], "keys").await
    }

    pub(crate) async fn revoke_key(&self, id: &str) -> Result<KeyInfo, ClientError> {
        self.ask(self.request(Method::DELETE, &["v1", "keys", id]).timeout(ANSWER)).await
    }

    pub(crate) async fn apps(&self) -> Result<Vec<AppView>, ClientError> {
        self.get_field(&["v1", "apps"], &[], "apps").await
    }

    /// Starts a run. The same request again gives the same run.
    pub(super) async fn create(&self, order: &RunRequest) -> Result<RunView, ClientError> {
        self.ask(self.request(Method::POST, &["v1", "runs"]).json(order).timeout(ANSWER)).await
    }

    pub(crate) async fn run(&self, run: &RunId) -> Result<RunView, ClientError> {
        self.get(&["v1", "runs", run.as_str()], &[]).await
    }

    pub(crate) async fn receipt(&self, run: &RunId) -> Result<ServerReceipt, ClientError> {
        self.get(&["v1", "runs", run.as_str(), "receipt"], &[]).await
    }

    /// A run's feed after a cursor; `None` if nothing follows.
    pub(super) async fn events(&self, run: &RunId, after: &str) -> Result<Option<Response>, ClientError> {
        let request = self.request(Method::GET, &["v1", "runs", run.as_str(), "events"]);
        let sent = self.send(request.header("last-event-id", after));
        // The timeout is for the response's head: the feed itself takes as long as the run.
        let Ok(response) = timeout(ANSWER, sent).await else {
            return Err(self.unheard("it took too long to answer"));
        };
        let response = response?;
        Ok((response.status() != StatusCode::NO_CONTENT).then_some(response))
    }

    /// The matching runs, newest first, up to the filter's limit.
    pub(crate) async fn list_runs(&self, which: RunFilter) -> Result<Vec<RunInfo>, ClientError> {
        let (wanted, settled) = (which.limit.unwrap_or(usize::MAX), which.settled.map(|settled| settled.to_string()));
        let mut before = which.before.as_ref().map(ToString::to_string);
        let mut found = Vec::new();
        loop {
            let limit = (wanted - found.len()).min(PAGE).to_string();
            let query = [
                ("settled", settled.as_deref()),
                ("app", which.app.as_deref()),
                ("user", which.user.as_deref()),
                ("session", which.session.as_deref()),
                ("before", before.as_deref()),
                ("limit", Some(limit.as_str())),
            ];
            let page: RunPage = self.get(&["v1", "runs"], &query).await?;
            found.extend(page.runs.into_iter().map(RunInfo::from));
            before = page.next;
            if before.is_none() || found.len() >= wanted {
                return Ok(found);
            }
        }
    }

    /// The run with this id, or the one among the newest whose id begins like this; `None` if there is none.
    pub(crate) async fn find(&self, text: &str) -> anyhow::Result<Option<RunView>> {
        let Ok(id) = RunId::new(text) else { return Ok(None) };
        match self.run(&id).await {
            Err(error) if error.is_not_found() => {}
            other => return Ok(Some(other?)),
        }
        let newest = self.list_runs(RunFilter::new().limit(NEWEST)).await?;
        match the_one(text, newest)? {
            Some(run) => Ok(Some(self.run(&run).await?)),
            None => Ok(None),
        }
    }

    /// Sessions, most recently used first. A server lists a thousand at most.
    pub(crate) async fn list_sessions(&self, which: SessionFilter) -> Result<Vec<SessionInfo>, ClientError> {
        let limit = which.limit.unwrap_or(PAGE).clamp(1, PAGE).to_string();
        let query = [("app", which.app.as_deref()), ("user", which.user.as_deref()), ("limit", Some(limit.as_str()))];
        let sessions: Vec<SessionView> = self.get_field(&["v1", "sessions"], &query, "sessions").await?;
        Ok(sessions.into_iter().map(SessionInfo::from).collect())
    }

    /// The messages of a session; `None` if there is no such session.
    pub(crate) async fn history(&self, key: &SessionKey) -> Result<Option<Vec<Arc<Message>>>, ClientError> {
        let path = ["v1", "sessions", &*key.app, &*key.user, key.session.as_str(), "history"];
        some(self.get_field(&path, &[], "messages").await)
    }

    /// Deletes a session. Returns whether it existed.
    pub(crate) async fn delete(&self, key: &SessionKey) -> Result<bool, ClientError> {
        let path = ["v1", "sessions", &*key.app, &*key.user, key.session.as_str()];
        // The server stops its runs first, which takes as long as their tools' grace.
        Ok(some(self.send(self.request(Method::DELETE, &path).timeout(WAITED)).await)?.is_some())
    }

    /// Stops one run.
    pub(crate) async fn cancel(&self, run: &RunId, how: &How, wait: bool) -> Result<Cancelled, ClientError> {
        let body = CancelBody { how, which: None, all: false, wait };
        self.stop(&["v1", "runs", run.as_str(), "cancel"], body).await
    }

    /// Stops only one call of a run.
    pub(crate) async fn cancel_call(&self, run: &RunId, call: &CallId, how: &How) -> Result<Cancelled, ClientError> {
        let body = CancelBody { how, which: None, all: false, wait: false };
        self.stop(&["v1", "runs", run.as_str(), "calls", call.as_str(), "cancel"], body).await
    }

    /// Stops all the runs that a selector names, or every run if it is empty.
    pub(crate) async fn cancel_many(
        &self,
        which: &Selector,
        how: &How,
        wait: bool,
    ) -> Result<CancelledMany, ClientError> {
        let all = which.app.is_none() && which.user.is_none() && which.session.is_none();
        self.stop(&["v1", "cancel"], CancelBody { how, which: Some(which), all, wait }).await
    }

    async fn stop<T: DeserializeOwned>(&self, path: &[&str], body: CancelBody<'_>) -> Result<T, ClientError> {
        let patience = if body.wait { WAITED } else { ANSWER };
        self.ask(self.request(Method::POST, path).json(&body).timeout(patience)).await
    }

    /// Approves a call with exactly these arguments.
    pub(crate) async fn approve(&self, run: &RunId, call: &CallId, digest: Digest) -> Result<(), ClientError> {
        self.decide(run, call, json!({ "decision": "approve", "digest": digest })).await
    }

    /// Denies a call.
    pub(crate) async fn deny(&self, run: &RunId, call: &CallId, why: Option<&str>) -> Result<(), ClientError> {
        let body = match why {
            Some(why) => json!({ "decision": "deny", "why": why }),
            None => json!({ "decision": "deny" }),
        };
        self.decide(run, call, body).await
    }

    async fn decide(&self, run: &RunId, call: &CallId, body: Value) -> Result<(), ClientError> {
        let path = ["v1", "runs", run.as_str(), "approvals", call.as_str()];
        self.ask::<Value>(self.request(Method::POST, &path).json(&body).timeout(ANSWER)).await.map(drop)
    }

    pub(crate) async fn line(&self) -> Result<LineView, ClientError> {
        self.get(&["v1", "line"], &[]).await
    }

    pub(crate) async fn change_line(&self, body: &Map<String, Value>) -> Result<LineView, ClientError> {
        let waits = body.get("wait").and_then(Value::as_bool).unwrap_or_default();
        let patience = if waits { WAITED } else { ANSWER };
        self.ask(self.request(Method::PUT, &["v1", "line"]).json(body).timeout(patience)).await
    }

    /// How accurate each model's estimates were.
    pub(crate) async fn usage(&self) -> Result<Map<String, Value>, ClientError> {
        self.get_field(&["v1", "usage"], &[], "models").await
    }

    /// The runs of a session that have not settled, oldest first.
    pub(crate) async fn open_runs(&self, key: &SessionKey) -> Result<Vec<RunInfo>, ClientError> {
        let which = runs_of(key).settled(false);
        let mut runs = self.list_runs(which).await?;
        runs.reverse();
        Ok(runs)
    }

    /// Whether there is such a session.
    pub(crate) async fn has_session(&self, key: &SessionKey) -> Result<bool, ClientError> {
        debug_assert_eq!(&*key.tenant, LOCAL);
        let path = ["v1", "sessions", &*key.app, &*key.user, key.session.as_str()];
        Ok(some(self.get::<Value>(&path, &[]).await)?.is_some())
    }
}

/// All runs of a session.
pub(crate) fn runs_of(key: &SessionKey) -> RunFilter {
    RunFilter::new()
        .tenant(key.tenant.to_string())
        .app(key.app.to_string())
        .user(key.user.to_string())
        .session(key.session.to_string())
}

/// The most recently used sessions of a user of an app.
pub(crate) fn last_sessions(app: &str, user: &str, limit: usize) -> SessionFilter {
    let [tenant, app, user] = [LOCAL, app, user].map(|name| Some(name.to_owned()));
    SessionFilter::new().tenant(tenant).app(app).user(user).limit(limit)
}

/// `None` if the server answered 404.
fn some<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The one run whose id begins like this; `None` if there is none.
pub(crate) fn the_one(beginning: &str, runs: Vec<RunInfo>) -> anyhow::Result<Option<RunId>> {
    let meant: Vec<RunId> =
        runs.into_iter().map(|run| run.run).filter(|run| run.as_str().starts_with(beginning)).collect();
    match meant.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => {
            let named: Vec<&str> = meant.iter().take(NAMED).map(RunId::as_str).collect();
            let more =
                if meant.len() > NAMED { format!("\n  and {} more", meant.len() - NAMED) } else { String::new() };
            bail!("{} runs have an id that begins with {beginning}:\n  {}{more}", meant.len(), named.join("\n  "))
        }
    }
}

#[cfg(test)]
mod tests {
    use andon_runtime::Force;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_port_that_accepts_connections_and_never_answers_times_out() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::at(&port.local_addr().unwrap().to_string()).unwrap();
        let (run, call) = (RunId::new("run-1").unwrap(), CallId::new("c1").unwrap());
        let (key, all) = (SessionKey::new("shop", LOCAL, "s1").unwrap(), Selector::default());
        let how = How::asked(Force::Graceful, None);
        let line = |wait: bool| Map::from_iter([("state".to_owned(), json!("held")), ("wait".to_owned(), json!(wait))]);
        let asked = async {
            let mut errors = Vec::new();
            for wait in [false, true] {
                errors.push(client.cancel(&run, &how, wait).await.map(drop));
                errors.push(client.cancel_many(&all, &how, wait).await.map(drop));
                errors.push(client.change_line(&line(wait)).await.map(drop));
            }
            errors.push(client.cancel_call(&run, &call, &how).await.map(drop));
            errors.push(client.delete(&key).await.map(drop));
            errors.push(client.events(&run, "0").await.map(drop));
            errors
        };
        let errors = timeout(Duration::from_secs(3_600), asked).await.expect("it never times out");
        for error in errors {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("took too long to answer"), "{error}");
        }
    }
}
