//! API keys: creating, checking and revoking them.
//!
//! A key is `andon_<id>_<secret>`: the id finds it, the secret proves it.
//!
//! # Invariants
//!
//! 1. A secret is shown once, to whoever creates the key. Only its hash is kept, in memory and on record.
//! 2. A revoked key stops working at once, even if the disk fails. It stays on record as revoked, so that it is still
//!    revoked after a restart.
//! 3. A key on record that cannot be read gives no access.
//! 4. Checking a key takes one lookup and one hash, however many keys there are.

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
use crate::access::secret::{NoRandom, Secret, Trace, random, random_word};

/// The kind under which keys are stored.
const KIND: &str = "key";

/// The prefix of every key.
pub(crate) const PREFIX: &str = "andon_";

/// The maximum number of keys, not counting those that are no longer valid.
const MOST: usize = 10_000;

/// The value of `revoked` for a key that was not revoked.
const NEVER: u64 = 0;

/// A key to create.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NewKey {
    /// The name of the key. What is done with the key is recorded under this name.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// The scopes of the key: `run:create`, `run:read`, `run:cancel`, `impersonate`, `metrics`, `admin`.
    pub scopes: Vec<String>,
    /// The user that the key acts as. By default, the user with the name of the key.
    #[serde(default)]
    pub user: Option<String>,
    /// The tenant whose data the key can access. `local` by default.
    #[serde(default)]
    pub tenant: Option<String>,
    /// When the key expires, as RFC 3339. By default, it never expires.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Wall>,
}

andon_runtime::core::with!(NewKey: user: text String, tenant: text String, expires_at: into Option<Wall>);

impl NewKey {
    /// A key for everybody's things, that never expires.
    pub fn new(name: impl Into<String>, scopes: Vec<String>) -> Self {
        Self { name: name.into(), scopes, ..Self::default() }
    }
}

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
#[non_exhaustive]
pub struct KeyInfo {
    /// The id of the key.
    pub id: String,
    /// The name of the key.
    pub name: String,
    /// The tenant whose data the key can access.
    pub tenant: String,
    /// The user that the key acts as.
    pub user: String,
    /// The scopes of the key.
    pub scopes: Vec<String>,
    /// When the key was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Wall,
    /// When the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Wall>,
    /// When the key was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Wall>,
}

/// A key as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    #[serde(flatten)]
    info: KeyInfo,
    sha256: String,
}

/// Why a key was not created.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum KeyError {
    /// The name, user or tenant is not a valid id.
    #[error("{0}: {1}")]
    BadId(&'static str, IdError),
    /// There is no such scope.
    #[error("{0}")]
    NoSuchScope(#[from] NoSuchScope),
    /// The key would have no scope.
    #[error("scopes: a key without a scope gives no access: name at least one, such as run:read")]
    NoScope,
    /// The expiry time has already passed.
    #[error("expires_at: {0} is in the past: choose a later time, or leave it out")]
    Past(Wall),
    /// The maximum number of keys has been reached.
    #[error("there are already {MOST} keys, which is the maximum: revoke some")]
    TooMany,
    /// The system has no random numbers.
    #[error("{0}, so no key can be created")]
    NoRandom(#[from] NoRandom),
}

/// A key in memory.
#[derive(Debug)]
pub(crate) struct Key {
    info: KeyInfo,
    trace: Trace,
    /// When the key was revoked, in microseconds since 1970; [`NEVER`] if it was not.
    revoked: AtomicU64,
    /// Whose key it is. Each request gets a clone, which is valid as long as the key.
    principal: Principal,
}

impl Key {
    fn new(info: KeyInfo, trace: Trace) -> Result<Self, NoSuchScope> {
        let scopes = Scopes::read(info.scopes.iter().map(String::as_str))?;
        let (tenant, name, user) = (info.tenant.as_str().into(), info.name.as_str().into(), info.user.as_str().into());
        let principal = Principal { tenant, name, user: Some(user), scopes, pass: Pass::Always };
        let revoked = AtomicU64::new(info.revoked_at.map_or(NEVER, |at| at.0));
        Ok(Self { info, trace, revoked, principal })
    }

    pub(crate) fn id(&self) -> &str {
        &self.info.id
    }

    /// Whether the key has neither expired nor been revoked.
    pub(crate) fn is_valid(&self, now: Wall) -> bool {
        self.revoked.load(Ordering::Acquire) == NEVER && self.info.expires_at.is_none_or(|end| now < end)
    }

    fn info(&self) -> KeyInfo {
        let revoked = self.revoked.load(Ordering::Acquire);
        KeyInfo { revoked_at: (revoked != NEVER).then_some(Wall(revoked)), ..self.info.clone() }
    }

    fn keep(&self, shelf: &dyn Shelf) -> Append {
        let kept = StoredKey { info: self.info(), sha256: self.trace.to_text() };
        match serde_json::to_value(kept) {
            Ok(value) => shelf.keep(KIND, &self.info.id, value),
            Err(error) => Append::ready(Err(JournalError::Storage(error.to_string()))),
        }
    }

    fn read(name: &str, value: Value) -> Result<Self, String> {
        let kept: StoredKey = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if kept.info.id != name {
            return Err("it is stored under another id".to_owned());
        }
        let trace = Trace::read(&kept.sha256).ok_or("its hash is not valid")?;
        Self::new(kept.info, trace).map_err(|error| error.to_string())
    }
}

/// All keys.
#[derive(Debug, Default)]
pub struct Keys {
    keys: RwLock<HashMap<String, Arc<Key>>>,
    warnings: Vec<String>,
}

/// A newly created key and its secret (invariant 1).
#[derive(Debug)]
#[non_exhaustive]
pub struct NewlyMade {
    /// The key, without its secret.
    pub info: KeyInfo,
    /// The whole key, to be shown once.
    pub key: Secret,
    /// Completes when the key is on record. Until then the key works, but does not survive this process.
    pub recorded: Append,
}

impl Keys {
    /// Reads the keys on record.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn read(shelf: &dyn Shelf) -> Result<Self, JournalError> {
        let (mut keys, mut warnings) = (HashMap::new(), Vec::new());
        for (name, value) in shelf.kept(KIND).await? {
            match Key::read(&name, value) {
                Ok(key) => drop(keys.insert(name, Arc::new(key))),
                Err(error) => warnings.push(format!("the key {name} cannot be read and gives no access: {error}")),
            }
        }
        Ok(Self { keys: RwLock::new(keys), warnings })
    }

    /// One message for each key on record that cannot be read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Creates a key.
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

    /// All keys, including those that are no longer valid, oldest first.
    pub fn list(&self) -> Vec<KeyInfo> {
        let mut all: Vec<KeyInfo> = self.keys.read().values().map(|key| key.info()).collect();
        all.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        all
    }

    /// Revokes a key at once (invariant 2); `None` if there is no key with that id.
    pub fn revoke(&self, id: &str, now: Wall, shelf: &dyn Shelf) -> Option<(KeyInfo, Append)> {
        // Under the lock, so that changes are stored in the order in which they are made.
        let keys = self.keys.write();
        let key = keys.get(id)?;
        // If the key was already revoked, the earlier time stays.
        let _ = key.revoked.compare_exchange(NEVER, now.0.max(1), Ordering::AcqRel, Ordering::Acquire);
        Some((key.info(), key.keep(shelf)))
    }

    /// Whose key this is; `None` if it is not a valid key.
    pub(crate) fn open(&self, key: &str, now: Wall) -> Option<Principal> {
        let (id, word) = key.strip_prefix(PREFIX)?.split_once('_')?;
        let key = Arc::clone(self.keys.read().get(id)?);
        if !key.trace.is_of(word) || !key.is_valid(now) {
            return None;
        }
        Some(Principal { pass: Pass::Key(Arc::clone(&key)), ..key.principal.clone() })
    }
}

/// Validates a new key. The id is filled in later.
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

/// If there are too many keys, removes the oldest one that is no longer valid.
fn make_room(keys: &mut HashMap<String, Arc<Key>>, now: Wall, shelf: &dyn Shelf) -> Result<(), KeyError> {
    if keys.len() < MOST {
        return Ok(());
    }
    let over = keys.values().filter(|key| !key.is_valid(now));
    let oldest = over.min_by_key(|key| key.info.created_at).map(|key| key.info.id.clone());
    let oldest = oldest.ok_or(KeyError::TooMany)?;
    keys.remove(&oldest);
    // It gives no access, whether or not it is removed from the disk.
    drop(shelf.discard(KIND, &oldest));
    Ok(())
}

fn unused_id(keys: &HashMap<String, Arc<Key>>) -> Result<String, NoRandom> {
    loop {
        let id = hex::encode(random::<6>()?);
        if !keys.contains_key(&id) {
            return Ok(id);
        }
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
