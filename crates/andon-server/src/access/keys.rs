//! API keys: made, known again, and taken back.
//!
//! A key is `andon_<id>_<secret>`: the id finds it, the secret proves it.
//!
//! # Invariants
//!
//! 1. A secret is told once, to whoever makes the key. What is kept, in memory and on record, knows it again and cannot say it.
//! 2. A key that is taken back is good for nothing from that moment on, whatever the disk does; on record it stays, as taken
//!    back, so that it is so after a restart too.
//! 3. A key on record that cannot be read opens nothing.
//! 4. Knowing a key again takes one look and one hash, however many there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::core::id::LOCAL;
use andon_runtime::core::time::Wall;
use andon_runtime::{Append, IdError, JournalError, SessionId, Shelf};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::principal::{Pass, Principal};
use crate::access::scopes::{NoSuchScope, Scopes};
use crate::access::secret::{NoRandom, Secret, Trace, hex, random, random_word};

/// Where keys are kept.
const KIND: &str = "key";

/// How every key begins.
pub(crate) const PREFIX: &str = "andon_";

/// How many keys there may be, those that are no longer valid left out.
const MOST: usize = 10_000;

/// No time: the key was not taken back.
const NEVER: u64 = 0;

/// A key to be made.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Its name, under which what is done with it is on record.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// What it allows: `run:create`, `run:read`, `run:cancel`, `impersonate`, `metrics`, `admin`.
    pub scopes: Vec<String>,
    /// The user that it is; the one of its name unless told otherwise.
    #[serde(default)]
    pub user: Option<String>,
    /// Whose data it opens; `local` unless told otherwise.
    #[serde(default)]
    pub tenant: Option<String>,
    /// When it ends, as RFC 3339; never unless told otherwise.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Wall>,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whose data it opens.
    pub tenant: String,
    /// The user that it is.
    pub user: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Wall,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Wall>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Wall>,
}

/// As a key is on record.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    info: KeyInfo,
    sha256: String,
}

/// Why a key is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A name, a user or a tenant is no id.
    #[error("{0}: {1}")]
    BadId(&'static str, IdError),
    /// A scope is none.
    #[error("{0}")]
    NoSuchScope(#[from] NoSuchScope),
    /// It would allow nothing.
    #[error("scopes: a key without one opens nothing: name at least one, such as run:read")]
    NoScope,
    /// It would have ended already.
    #[error("expires_at: {0} has passed: choose a time to come, or leave it out")]
    Past(Wall),
    /// There are as many as there may be.
    #[error("there are {MOST} keys, and no more are made: revoke some")]
    TooMany,
    /// There is no secret to be had.
    #[error("{0}: no key can be made")]
    NoRandom(#[from] NoRandom),
}

/// A key, as it is known in memory.
#[derive(Debug)]
pub(crate) struct Key {
    info: KeyInfo,
    trace: Trace,
    /// When it was taken back, in microseconds since 1970.
    revoked: AtomicU64,
    principal: Whose,
}

/// The parts of a principal, ready to be handed out.
#[derive(Debug)]
struct Whose {
    tenant: Arc<str>,
    name: Arc<str>,
    user: Arc<str>,
    scopes: Scopes,
}

impl Key {
    fn new(info: KeyInfo, trace: Trace) -> Result<Self, NoSuchScope> {
        let scopes = Scopes::read(info.scopes.iter().map(String::as_str))?;
        let principal = Whose {
            tenant: info.tenant.as_str().into(),
            name: info.name.as_str().into(),
            user: info.user.as_str().into(),
            scopes,
        };
        let revoked = AtomicU64::new(info.revoked_at.map_or(NEVER, |at| at.0));
        Ok(Self { info, trace, revoked, principal })
    }

    pub(crate) fn id(&self) -> &str {
        &self.info.id
    }

    /// Whether it opens anything now.
    pub(crate) fn is_valid(&self, now: Wall) -> bool {
        self.revoked.load(Ordering::Acquire) == NEVER && self.info.expires_at.is_none_or(|end| now < end)
    }

    fn info(&self) -> KeyInfo {
        let revoked = self.revoked.load(Ordering::Acquire);
        KeyInfo { revoked_at: (revoked != NEVER).then_some(Wall(revoked)), ..self.info.clone() }
    }

    fn keep(&self, shelf: &dyn Shelf) -> Append {
        let kept = Kept { info: self.info(), sha256: self.trace.to_text() };
        match serde_json::to_value(kept) {
            Ok(value) => shelf.keep(KIND, &self.info.id, value),
            Err(error) => Append::ready(Err(JournalError::Storage(error.to_string()))),
        }
    }

    fn read(name: &str, value: Value) -> Result<Self, String> {
        let kept: Kept = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if kept.info.id != name {
            return Err("it is kept under another id".to_owned());
        }
        let trace = Trace::read(&kept.sha256).ok_or("its hash is none")?;
        Self::new(kept.info, trace).map_err(|error| error.to_string())
    }
}

/// All keys.
#[derive(Debug, Default)]
pub struct Keys {
    keys: RwLock<HashMap<String, Arc<Key>>>,
    warnings: Vec<String>,
}

/// A key that was made: what is known of it, and what opens (invariant 1).
#[derive(Debug)]
#[non_exhaustive]
pub struct NewlyMade {
    /// What is known of it.
    pub info: KeyInfo,
    /// The whole key, to be shown once.
    pub key: Secret,
    /// Done when it is on record. Until then it is good, and does not survive this process.
    pub recorded: Append,
}

impl Keys {
    /// The keys on record.
    pub async fn read(shelf: &dyn Shelf) -> Result<Self, JournalError> {
        let (mut keys, mut warnings) = (HashMap::new(), Vec::new());
        for (name, value) in shelf.kept(KIND).await? {
            match Key::read(&name, value) {
                Ok(key) => drop(keys.insert(name, Arc::new(key))),
                Err(error) => warnings.push(format!("the key {name} cannot be read, and opens nothing: {error}")),
            }
        }
        Ok(Self { keys: RwLock::new(keys), warnings })
    }

    /// Those on record that cannot be read, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Makes a key.
    pub fn create(&self, new: NewKey, now: Wall, shelf: &dyn Shelf) -> Result<NewlyMade, KeyError> {
        let info = checked(new, now)?;
        let word = random_word()?;
        let mut keys = self.keys.write();
        make_room(&mut keys, now, shelf)?;
        let id = unused_id(&keys)?;
        let secret = Secret::new(format!("{PREFIX}{id}_{word}"));
        let key = Key::new(KeyInfo { id: id.clone(), ..info }, Trace::of(&word))?;
        let (info, recorded) = (key.info(), key.keep(shelf));
        keys.insert(id, Arc::new(key));
        Ok(NewlyMade { info, key: secret, recorded })
    }

    /// All keys, also those that are no longer valid, the oldest first.
    pub fn list(&self) -> Vec<KeyInfo> {
        let mut all: Vec<KeyInfo> = self.keys.read().values().map(|key| key.info()).collect();
        all.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        all
    }

    /// Takes a key back, from now on (invariant 2); `None` if there is none of that id.
    pub fn revoke(&self, id: &str, now: Wall, shelf: &dyn Shelf) -> Option<(KeyInfo, Append)> {
        // Under the lock, so that what is kept is in the order of what is done.
        let keys = self.keys.write();
        let key = keys.get(id)?;
        // The first time stands.
        let _ = key.revoked.compare_exchange(NEVER, now.0.max(1), Ordering::AcqRel, Ordering::Acquire);
        Some((key.info(), key.keep(shelf)))
    }

    /// Whose key this is, if it is one and is good.
    pub(crate) fn open(&self, key: &str, now: Wall) -> Option<Principal> {
        let (id, word) = key.strip_prefix(PREFIX)?.split_once('_')?;
        let key = Arc::clone(self.keys.read().get(id)?);
        if !key.trace.is_of(word) || !key.is_valid(now) {
            return None;
        }
        let Whose { tenant, name, user, scopes } = &key.principal;
        Some(Principal {
            tenant: Arc::clone(tenant),
            name: Arc::clone(name),
            user: Some(Arc::clone(user)),
            scopes: *scopes,
            pass: Pass::Key(key),
        })
    }
}

/// What the key will be, but for its id.
fn checked(new: NewKey, now: Wall) -> Result<KeyInfo, KeyError> {
    let NewKey { name, scopes, user, tenant, expires_at } = new;
    let id = |what, text: String| match SessionId::new(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(KeyError::BadId(what, error)),
    };
    let user = id("user", user.unwrap_or_else(|| name.clone()));
    let (name, user, tenant) = (id("name", name)?, user?, id("tenant", tenant.unwrap_or_else(|| LOCAL.to_owned()))?);
    let scopes = Scopes::read(scopes.iter().map(String::as_str))?;
    if scopes.is_empty() {
        return Err(KeyError::NoScope);
    }
    if let Some(end) = expires_at.filter(|end| *end <= now) {
        return Err(KeyError::Past(end));
    }
    let scopes = scopes.words().into_iter().map(str::to_owned).collect();
    Ok(KeyInfo { id: String::new(), name, tenant, user, scopes, created_at: now, expires_at, revoked_at: None })
}

/// Forgets the oldest keys that are no longer valid, if there are too many.
fn make_room(keys: &mut HashMap<String, Arc<Key>>, now: Wall, shelf: &dyn Shelf) -> Result<(), KeyError> {
    if keys.len() < MOST {
        return Ok(());
    }
    let over = keys.values().filter(|key| !key.is_valid(now));
    let oldest = over.min_by_key(|key| key.info.created_at).map(|key| key.info.id.clone());
    let oldest = oldest.ok_or(KeyError::TooMany)?;
    keys.remove(&oldest);
    // Whether or not it is gone from the disk, it opens nothing.
    drop(shelf.discard(KIND, &oldest));
    Ok(())
}

fn unused_id(keys: &HashMap<String, Arc<Key>>) -> Result<String, NoRandom> {
    loop {
        let id = hex(&random::<6>()?);
        if !keys.contains_key(&id) {
            return Ok(id);
        }
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
