//! Whether a server keeps what it acknowledges.

use std::time::Duration;

use super::address::PostgresAddress;
use super::error::{Fault, PostgresError};
use super::link::{Link, attempt};

/// The oldest version that is known to work.
pub(super) const OLDEST: i64 = 15;

const SETTINGS: &str = "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
    pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('server_encoding')";

/// How long a check may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Refuses a server on which an acknowledged fact could be lost, or that cannot be written.
pub(crate) async fn check(link: &mut Link, address: &PostgresAddress) -> Result<(), Fault> {
    let row = attempt(link, PATIENCE, async |client| client.query_typed_one(SETTINGS, &[]).await).await?;
    let address = address.shown.clone();
    let refused = |error| Err(Fault::Unusable(Box::new(error)));
    if row.try_get::<_, i64>(0)? < OLDEST * 10_000 {
        return refused(PostgresError::TooOld { address, found: row.try_get(1)? });
    }
    if row.try_get(2)? {
        return refused(PostgresError::ReadOnly { address, why: "it is a standby" });
    }
    if row.try_get::<_, &str>(3)? == "on" {
        return refused(PostgresError::ReadOnly { address, why: "its transactions are read-only" });
    }
    let loses = "so a crash would lose what was acknowledged";
    let settings = [
        (4, "fsync", "off", loses, "on"),
        (5, "full_page_writes", "off", "so a crash could damage its files", "on"),
        (6, "synchronous_commit", "off", loses, "on"),
    ];
    for (column, setting, bad, why, wanted) in settings {
        let value: String = row.try_get(column)?;
        if value == bad {
            return refused(PostgresError::Setting { address, setting, value, why, wanted });
        }
    }
    let value: String = row.try_get(7)?;
    if value != "UTF8" {
        let why = "so it cannot store every text";
        return refused(PostgresError::Setting {
            address,
            setting: "the encoding",
            value,
            why,
            wanted: "UTF8, in a new database",
        });
    }
    Ok(())
}
