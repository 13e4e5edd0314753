//! The apps to run.

use std::time::Duration;

use crate::models::{Before, Does};

/// The number of pieces in a streamed answer.
pub(crate) const PIECES: u32 = 50_000;
/// The number of pieces in an answer that comes at its own pace.
pub(crate) const PACED: u32 = 200;

/// Each app, and what its model does.
pub(crate) const APPS: [(&str, Does); 6] = [
    ("hello", Does::Stream { pieces: 1, before: Before::Nothing }),
    ("silent", Does::Silence { after: 0 }),
    ("slow", Does::Stream { pieces: u32::MAX, before: Before::Pause(Duration::from_millis(100)) }),
    ("flood", Does::Stream { pieces: PIECES, before: Before::Nothing }),
    ("drip", Does::Stream { pieces: PIECES, before: Before::Yield }),
    ("paced", Does::Stream { pieces: PACED, before: Before::Pause(Duration::from_millis(20)) }),
];

/// Each app whose model calls the provider, and its prompt, which tells the provider what to do.
pub(crate) const PROVIDED: [(&str, &str); 2] = [("asks", "pieces=1"), ("asks-held", "pieces=1 hold=1")];

/// The prompt for an app.
pub(crate) fn prompt(app: &str) -> &'static str {
    PROVIDED.iter().find(|(name, _)| *name == app).map_or("Go.", |(_, prompt)| prompt)
}

/// Whether this app's model calls the provider.
pub(crate) fn asks(app: &str) -> bool {
    PROVIDED.iter().any(|(name, _)| *name == app)
}
