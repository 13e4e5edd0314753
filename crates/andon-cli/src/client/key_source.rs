//! A key given by the user, which is used instead of the owner's.

/// Where the user's key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeySource {
    /// The variable or the flag.
    pub(crate) source: &'static str,
    /// Whether it replaces the owner's key, which is beside the database.
    pub(crate) hides_owner_key: bool,
}

impl KeySource {
    /// How to use the owner's key instead; `None` if there is no such key.
    pub(crate) fn way_out(self) -> Option<String> {
        let source = self.source;
        let without =
            || format!("without {source}, the owner's key beside the database is used, which can reach everything");
        self.hides_owner_key.then(without)
    }
}
