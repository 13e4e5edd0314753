//! `andon keys`: on the server that holds the database, or on the database itself.
//!
//! A server knows the keys that were on record when it started, and those that it was asked for itself. Servers that share a database
//! do not tell each other.

use andon_runtime::core::time::Wall;
use andon_server::{KeyInfo, Keys, NewKey, NewlyMade, Scope};
use anyhow::{Context, anyhow};
use serde_json::Value;

use crate::args::{CreateKeyArgs, KeysArgs, KeysCommand, KeysTarget, RevokeKeyArgs};
use crate::client::Target;
use crate::db::{Db, OpenFor};
use crate::print::{Style, Table, aside, plain_line, when, write, write_line};

/// Creates, lists or revokes keys.
pub(crate) async fn keys(args: &KeysArgs) -> anyhow::Result<()> {
    match &args.command {
        KeysCommand::Create(args) => create(args).await,
        KeysCommand::List(target) => list(target).await,
        KeysCommand::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: &CreateKeyArgs) -> anyhow::Result<()> {
    let expires_at = args.expires.map(|time| {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Wall(when::now().0.saturating_add(micros))
    });
    let new = NewKey::new(args.name.clone(), args.scopes.iter().map(|scope| scope.as_str().to_owned()).collect())
        .user(args.user.clone())
        .tenant(args.tenant.clone())
        .expires_at(expires_at);
    let (key, info) = match Target::find(&args.target.target).await? {
        Target::Server(client) => client.create_key(&new).await?,
        Target::Database(db) => {
            let runtime = db.open("andon keys", OpenFor::Changing).await?;
            let keys = Keys::read(runtime.shelf()).await?;
            let NewlyMade { info, key, recorded, .. } = keys.create(new, runtime.now().wall, runtime.shelf())?;
            recorded.await.context("the key could not be recorded, so it does not work")?;
            tell_servers(&db, "Servers that are running on it accept this key from their next start on.");
            (key.show().to_owned(), info)
        }
    };
    if args.target.json {
        let mut told = serde_json::to_value(&info)?;
        if let Value::Object(told) = &mut told {
            told.insert("key".to_owned(), Value::String(key));
        }
        return Ok(write_line(&told.to_string())?);
    }
    let (id, name, scopes) = (&info.id, plain_line(&info.name), info.scopes.join(", "));
    let end = info.expires_at.map_or_else(String::new, |end| format!(" until {}", when::utc(end)));
    aside(&format!("Key {id} of {name} allows {scopes}{end}. It is shown only once:\n"));
    Ok(write_line(&key)?)
}

/// Says what becomes of a key on servers that may be running: they read the keys when they start.
fn tell_servers(db: &Db, words: &str) {
    if db.is_shared() {
        aside(&format!("This was written to {}. {words}\n", plain_line(&db.shown())));
    }
}

async fn list(args: &KeysTarget) -> anyhow::Result<()> {
    let target = Target::find(&args.target).await?;
    let keys = match &target {
        Target::Server(client) => client.keys().await?,
        Target::Database(db) => read(db).await?,
    };
    if args.json {
        for key in &keys {
            write_line(&serde_json::to_string(key)?)?;
        }
    } else if keys.is_empty() {
        let create = target.command("keys create NAME --scope run:read");
        write(&format!("There are no keys. Create one with `{create}`.\n"))?;
    } else {
        write(&table(&keys))?;
    }
    Ok(())
}

/// The keys in a database, of which no server is known.
async fn read(db: &Db) -> anyhow::Result<Vec<KeyInfo>> {
    let Some(journal) = db.journal_to_read().await? else { return Ok(Vec::new()) };
    let keys = Keys::read(journal.shelf()).await?;
    for warning in keys.warnings() {
        let stop = Style::STOP;
        aside(&format!("{stop}warning:{stop:#} {}\n", plain_line(warning)));
    }
    Ok(keys.list())
}

fn table(keys: &[KeyInfo]) -> String {
    let mut table = Table::new(&["ID", "NAME", "USER", "TENANT", "ALLOWS", "CREATED (UTC)", "VALID"]);
    let now = when::now();
    for key in keys {
        let valid = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("no, revoked {}", when::utc(at)),
            (None, Some(end)) if end <= now => format!("no, expired {}", when::utc(end)),
            (None, Some(end)) => format!("until {}", when::utc(end)),
            (None, None) => "yes".to_owned(),
        };
        let names = [&key.id, &key.name, &key.user, &key.tenant].map(|name| name.as_str().into());
        let rest = [key.scopes.join(" ").into(), when::utc(key.created_at).into(), valid.into()];
        table.row(names.into_iter().chain(rest).collect());
    }
    table.fit(None)
}

async fn revoke(args: &RevokeKeyArgs) -> anyhow::Result<()> {
    let info = match Target::find(&args.target.target).await? {
        Target::Server(client) => client.revoke_key(&args.id).await?,
        Target::Database(db) => {
            let runtime = db.open("andon keys", OpenFor::Changing).await?;
            let keys = Keys::read(runtime.shelf()).await?;
            let revoked = keys.revoke(&args.id, runtime.now().wall, runtime.shelf());
            let list = db.command("keys list");
            let (info, recorded) = revoked.ok_or_else(|| anyhow!("there is no such key: list them with `{list}`"))?;
            recorded.await.context("the key could not be revoked")?;
            tell_servers(
                &db,
                "Servers that are running on it accept this key until their next start: revoke it on each of them, too, with --server.",
            );
            info
        }
    };
    if args.target.json {
        return Ok(write_line(&serde_json::to_string(&info)?)?);
    }
    let what = if info.scopes.iter().any(|scope| scope == Scope::Admin.as_str()) { "admin key" } else { "key" };
    Ok(write(&format!("Revoked the {what} {} of {}.\n", info.id, plain_line(&info.name)))?)
}
