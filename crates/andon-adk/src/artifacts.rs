//! Artifacts: files that people and agents save beside a conversation, each under a name and in versions.
//!
//! An artifact whose name begins with `user:` is shared by all of the user's sessions in the app; any other belongs to its
//! session and is deleted with it.
//!
//! # Invariants
//!
//! 1. The versions of a name count from 0 without a gap, and none is ever replaced: saves are serialized.
//! 2. The number of versions and their total bytes are limited per session and per user; no version is larger than a request may
//!    be.
//! 3. A version's metadata is stored apart from its content. So a request for names, versions or metadata reads no content, and a
//!    request for one version reads only that one.

use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, SessionKey, StateChange};
use andon_server::dialect::{JsonBody, PathParams, Principal, Problem};
use axum::extract::{RawQuery, State};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Map, Value, json};

use super::event::seconds;
use super::form::Body;
use super::reach::{self, SessionPath, no_session};
use super::valid::{self, Fields, noted};
use crate::core::Shared;

/// The kind under which a version's metadata is stored.
const KIND: &str = "adk.artifact";

/// The prefix of the kind under which a version's content is stored. Each version has its own kind, with one item in it.
const PART: &str = "adk.artifact.part";

/// The most versions that a session, or a user, may have.
const MOST: usize = 1_000;

/// The most bytes that all versions of a session, or of a user, may have, as serialized.
const MOST_BYTES: u64 = 32 << 20;

/// The longest name, in bytes.
const MAX_NAME: usize = 256;

/// One version of an artifact.
struct Version {
    name: String,
    number: u64,
    at: Wall,
    value: Value,
}

impl Version {
    fn read(name: &str, at: Option<Wall>, value: Value) -> Option<Self> {
        let (name, number) = name.rsplit_once('@')?;
        let saved = value.get("savedAt").and_then(Value::as_u64).map(Wall);
        Some(Self { name: name.to_owned(), number: number.parse().ok()?, at: at.or(saved)?, value })
    }

    /// Its metadata, as ADK formats it.
    fn metadata(&self, key: &SessionKey) -> Value {
        let owner = if is_shared(&self.name) { String::new() } else { format!("/sessions/{}", key.session) };
        let place = format!("apps/{}/users/{}{owner}/artifacts/{}", key.app, key.user, self.name);
        let mut told = json!({
            "version": self.number,
            "canonicalUri": format!("andon://{place}/versions/{}", self.number),
            "customMetadata": self.value.get("customMetadata").cloned().unwrap_or_else(|| json!({})),
            "createTime": seconds(self.at),
        });
        if let (Some(media), Value::Object(told)) = (self.value.get("mimeType"), &mut told) {
            told.insert("mimeType".to_owned(), media.clone());
        }
        told
    }

    /// Its key among all versions.
    fn place(&self) -> String {
        place(&self.name, self.number)
    }

    /// Its size in bytes.
    fn bytes(&self) -> u64 {
        self.value.get("bytes").and_then(Value::as_u64).unwrap_or_default()
    }
}

fn place(name: &str, number: u64) -> String {
    format!("{name}@{number:08}")
}

/// The kind that holds only this version's content.
fn part_kind(place: &str) -> String {
    format!("{PART}/{place}")
}

fn is_shared(name: &str) -> bool {
    name.starts_with("user:")
}

/// The kind on the shelf for what all of a user's sessions share.
fn shelf_kind(key: &SessionKey) -> String {
    // None of these names can contain a slash.
    format!("{KIND}/{}/{}/{}", key.tenant, key.app, key.user)
}

/// The same, for a version's content.
fn shelf_part_kind(key: &SessionKey, place: &str) -> String {
    format!("{PART}/{}/{}/{}/{place}", key.tenant, key.app, key.user)
}

/// All versions that belong to a session, in order.
async fn of_session(core: &Shared, key: &SessionKey) -> Result<Vec<Version>, Problem> {
    let kept = core.host.runtime().kept(key, KIND).await?;
    Ok(kept.into_iter().filter_map(|kept| Version::read(&kept.name, Some(kept.at), kept.value)).collect())
}

/// All versions that a user's sessions share, in order.
async fn of_user(core: &Shared, key: &SessionKey) -> Result<Vec<Version>, Problem> {
    let kept = core.host.runtime().shelf().kept(&shelf_kind(key)).await?;
    Ok(kept.into_iter().filter_map(|(name, value)| Version::read(&name, None, value)).collect())
}

/// A version's content; `None` if it was deleted in the meantime.
async fn part_of(core: &Shared, key: &SessionKey, version: &Version) -> Result<Option<Value>, Problem> {
    let place = version.place();
    if is_shared(&version.name) {
        let kept = core.host.runtime().shelf().kept(&shelf_part_kind(key, &place)).await?;
        return Ok(kept.into_iter().next().map(|(_, part)| part));
    }
    let kept = core.host.runtime().kept(key, &part_kind(&place)).await?;
    Ok(kept.into_iter().next().map(|kept| kept.value))
}

/// All versions of a name, in order.
async fn of_name(core: &Shared, key: &SessionKey, name: &str) -> Result<Vec<Version>, Problem> {
    let all = if is_shared(name) { of_user(core, key).await? } else { of_session(core, key).await? };
    Ok(all.into_iter().filter(|version| version.name == name).collect())
}

pub(crate) async fn names(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session)): PathParams<SessionPath>,
) -> Result<JsonBody<Value>, Problem> {
    let key = reach::session(&principal, &app, &user, &session)?;
    let mut all = of_session(&core, &key).await?;
    all.extend(of_user(&core, &key).await?);
    let mut names: Vec<String> = all.into_iter().map(|version| version.name).collect();
    names.sort();
    names.dedup();
    Ok(JsonBody(names.into()))
}

pub(crate) async fn save(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session)): PathParams<SessionPath>,
    Body(body): Body,
) -> Result<JsonBody<Value>, Problem> {
    let (name, value, part) = valid::read(&body, order)?;
    let key = reach::session(&principal, &app, &user, &session)?;
    // Once begun, it runs to completion even if the client stops waiting.
    let shared = Shared::clone(&core);
    let saving = core.host.spawn(async move { put(&shared, &key, name, value, part).await });
    saving.await.map_err(|_| Problem::unavailable("journal", "the artifact was not saved: try again"))?.map(JsonBody)
}

/// What to save: the name, the metadata and the content.
fn order(body: &Fields<'_>) -> Result<(String, Map<String, Value>, Value), Problem> {
    let name = body.text("filename");
    let artifact = body.needed("artifact");
    let more = body.map("customMetadata").cloned();
    let (Some(name), Some(artifact)) = (name, artifact) else { return Err(noted()) };
    let mut value = Map::new();
    let (part, media) = part(&artifact)?;
    check_name(name)?;
    value.extend(media.map(|media| ("mimeType".to_owned(), media.into())));
    value.extend(more.map(|more| ("customMetadata".to_owned(), more.into())));
    Ok((name.to_owned(), value, part))
}

/// Saves the next version of a name.
async fn put(
    core: &Shared,
    key: &SessionKey,
    name: String,
    mut value: Map<String, Value>,
    part: Value,
) -> Result<Value, Problem> {
    // Serialized: two saves that count at once would get the same number (invariant 1).
    let _lock = core.artifacts.lock(&whose(key, &name)).await;
    if core.host.runtime().state(key).await?.is_none() {
        return Err(no_session());
    }
    let all = if is_shared(&name) { of_user(core, key).await? } else { of_session(core, key).await? };
    let at = core.host.runtime().now().wall;
    value.insert("savedAt".to_owned(), at.0.into());
    let bytes = size(&part).saturating_add(value.values().map(size).sum());
    has_room(&all, bytes)?;
    value.insert("bytes".to_owned(), bytes.into());
    let last = all.iter().filter(|version| version.name == name).map(|version| version.number).max();
    let number = last.map_or(0, |last| last.saturating_add(1));
    let version = Version { name, number, at, value: Value::from(value) };
    let (place, value) = (version.place(), version.value.clone());
    if is_shared(&version.name) {
        // The content first: if the metadata exists, so does the content.
        core.host.runtime().shelf().keep(&shelf_part_kind(key, &place), &place, part).await?;
        core.host.runtime().shelf().keep(&shelf_kind(key), &place, value).await?;
    } else {
        let part = Attachment::new(part_kind(&place), place.clone(), at, part);
        let known = Attachment::new(KIND.to_owned(), place, at, value);
        if !core.host.runtime().keep(key, vec![part, known], StateChange::new()).await? {
            return Err(no_session());
        }
    }
    Ok(version.metadata(key))
}

/// Checks that one more version of this size fits (invariant 2).
fn has_room(all: &[Version], bytes: u64) -> Result<(), Problem> {
    if all.len() >= MOST {
        let detail =
            format!("There are already {MOST} artifact versions here, which is the maximum: delete some first.");
        return Err(Problem::bad_request("too-many-artifacts", detail));
    }
    let taken = all.iter().map(Version::bytes).fold(bytes, u64::saturating_add);
    if taken > MOST_BYTES {
        let detail = format!("All artifact versions here may take {MOST_BYTES} bytes in total: delete some first.");
        return Err(Problem::bad_request("too-many-artifacts", detail));
    }
    Ok(())
}

/// A value's size in bytes.
fn size(value: &Value) -> u64 {
    value.to_string().len() as u64
}

/// The key under which versions are counted together.
fn whose(key: &SessionKey, name: &str) -> String {
    if is_shared(name) { shelf_kind(key) } else { format!("{}/{}", shelf_kind(key), key.session) }
}

fn check_name(name: &str) -> Result<(), Problem> {
    let wrong = if name.is_empty() || name == "user:" {
        "must not be empty"
    } else if name.len() > MAX_NAME {
        "is too long"
    } else if name.chars().any(char::is_control) {
        "must not contain control characters"
    } else if name.starts_with('/') || name.contains('\\') {
        "must be a relative path"
    } else if name.split(['/', ':']).any(|step| matches!(step, ".." | ".")) {
        "must not contain parent traversal"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(80).collect();
    Err(Problem::bad_request("bad-name", format!("Artifact filename {shown:?} {wrong}.")))
}

/// The part to store, and its media type.
fn part(artifact: &Fields<'_>) -> Result<(Value, Option<String>), Problem> {
    if let Some(data) = artifact.object("inlineData") {
        let media = data.some_text("mimeType").map(str::to_owned);
        let text = data.text("data").ok_or_else(noted)?;
        if STANDARD.decode(text).is_err() && URL_SAFE.decode(text).is_err() {
            data.refuse("data", "bytes_invalid_encoding", "Data should be valid base64", &json!(text));
        }
        let mut kept = json!({"data": text});
        if let (Some(media), Value::Object(kept)) = (&media, &mut kept) {
            kept.insert("mimeType".to_owned(), media.clone().into());
        }
        return Ok((json!({"inlineData": kept}), media));
    }
    if let Some(text) = artifact.some_text("text") {
        return Ok((json!({"text": text}), Some("text/plain".to_owned())));
    }
    Err(Problem::bad_request("bad-artifact", "Artifact must have either inline_data or text content."))
}

/// What a path below `artifacts/` asks for.
#[derive(Debug, PartialEq)]
enum WantedVersion<'a> {
    One(&'a str),
    Versions(&'a str),
    Version(&'a str, &'a str),
    AllMetadata(&'a str),
    Metadata(&'a str, &'a str),
}

impl<'a> WantedVersion<'a> {
    fn read(rest: &'a str) -> Self {
        if let Some(name) = rest.strip_suffix("/versions/metadata") {
            return Self::AllMetadata(name);
        }
        if let Some(name) = rest.strip_suffix("/versions") {
            return Self::Versions(name);
        }
        let (place, is_metadata) = rest.strip_suffix("/metadata").map_or((rest, false), |place| (place, true));
        match place.rsplit_once("/versions/") {
            Some((name, number)) if !number.contains('/') && is_metadata => Self::Metadata(name, number),
            Some((name, number)) if !number.contains('/') => Self::Version(name, number),
            _ => Self::One(rest),
        }
    }
}

pub(crate) async fn look(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session, rest)): PathParams<(String, String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<JsonBody<Value>, Problem> {
    let key = reach::session(&principal, &app, &user, &session)?;
    let wanted = WantedVersion::read(&rest);
    let name = match wanted {
        WantedVersion::One(name)
        | WantedVersion::Versions(name)
        | WantedVersion::Version(name, _)
        | WantedVersion::AllMetadata(name)
        | WantedVersion::Metadata(name, _) => name,
    };
    let number = match wanted {
        WantedVersion::Version(_, number) | WantedVersion::Metadata(_, number) => version(number)?,
        WantedVersion::One(_) => version_of_query(query.as_deref().unwrap_or_default())?,
        WantedVersion::Versions(_) | WantedVersion::AllMetadata(_) => None,
    };
    let all = of_name(&core, &key, name).await?;
    let one = || match number {
        None => all.last(),
        Some(number) => all.iter().find(|version| i64::try_from(version.number).is_ok_and(|known| known == number)),
    };
    let missing = |what: &str| Problem::not_found("no-such-artifact", what);
    if let WantedVersion::One(_) | WantedVersion::Version(..) = wanted {
        let version = one().ok_or_else(|| missing("Artifact not found"))?;
        return Ok(JsonBody(part_of(&core, &key, version).await?.ok_or_else(|| missing("Artifact not found"))?));
    }
    Ok(JsonBody(match wanted {
        WantedVersion::Versions(_) => all.iter().map(|version| Value::from(version.number)).collect(),
        WantedVersion::AllMetadata(_) => all.iter().map(|version| version.metadata(&key)).collect(),
        _ => one().ok_or_else(|| missing("Artifact version not found"))?.metadata(&key),
    }))
}

/// A version number in a path; `None` means the latest.
fn version(number: &str) -> Result<Option<i64>, Problem> {
    if number == "latest" {
        return Ok(None);
    }
    number.parse().map(Some).map_err(|_| Problem::unprocessable("bad-version", "Invalid version ID"))
}

fn version_of_query(query: &str) -> Result<Option<i64>, Problem> {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    let Some((_, number)) = fields.find(|(name, _)| *name == "version") else { return Ok(None) };
    let words = "Input should be a valid integer, unable to parse string as an integer";
    let refuse = |_| valid::invalid("int_parsing", &[json!("query"), json!("version")], words, &json!(number));
    number.parse().map(Some).map_err(refuse)
}

/// Deletes all versions of a name, if there are any.
pub(crate) async fn delete(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session, name)): PathParams<(String, String, String, String)>,
) -> Result<JsonBody<Value>, Problem> {
    let key = reach::session(&principal, &app, &user, &session)?;
    let shared = Shared::clone(&core);
    let deleting = core.host.spawn(async move {
        let _lock = shared.artifacts.lock(&whose(&key, &name)).await;
        for version in of_name(&shared, &key, &name).await? {
            let place = version.place();
            if is_shared(&name) {
                shared.host.runtime().shelf().discard(&shelf_kind(&key), &place).await?;
                shared.host.runtime().shelf().discard(&shelf_part_kind(&key, &place), &place).await?;
            } else {
                shared.host.runtime().discard(&key, KIND, &place).await?;
                shared.host.runtime().discard(&key, &part_kind(&place), &place).await?;
            }
        }
        Ok::<_, Problem>(())
    });
    deleting.await.map_err(|_| Problem::unavailable("journal", "the artifact was not deleted: try again"))??;
    Ok(JsonBody(Value::Null))
}

pub(crate) async fn no_memory(_: Principal, Body(body): Body) -> Problem {
    match valid::read(&body, |body| body.text("sessionId").map(drop).ok_or_else(noted)) {
        Ok(_) => Problem::bad_request("no-memory", "Memory service is not configured."),
        Err(problem) => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked_for_and_names_may_have_slashes() {
        assert_eq!(WantedVersion::read("a/b.txt"), WantedVersion::One("a/b.txt"));
        assert_eq!(WantedVersion::read("a/b.txt/versions"), WantedVersion::Versions("a/b.txt"));
        assert_eq!(WantedVersion::read("a/b.txt/versions/7"), WantedVersion::Version("a/b.txt", "7"));
        assert_eq!(WantedVersion::read("a/versions/metadata"), WantedVersion::AllMetadata("a"));
        assert_eq!(WantedVersion::read("a/versions/latest/metadata"), WantedVersion::Metadata("a", "latest"));
        assert_eq!(WantedVersion::read("versions/1"), WantedVersion::One("versions/1"));
        assert_eq!(WantedVersion::read("a/metadata"), WantedVersion::One("a/metadata"));
    }

    #[test]
    fn a_name_stays_where_it_belongs() {
        for good in ["a.txt", "p/q.txt", "user:p/q.txt", "a..b", "größe"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "user:", "..", "../x", "a/../b", "/etc/passwd", "user:../x", "a\\b", "a\nb", &"x".repeat(300)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
