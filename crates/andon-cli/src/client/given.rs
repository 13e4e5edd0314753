//! A key that a command was given, in place of the owner's.

/// Where the key was found that a command was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// The variable, or the flag.
    pub(crate) place: &'static str,
    /// Whether it stands in the way of the owner's key, which is beside the database.
    pub(crate) is_in_the_way: bool,
}

impl Given {
    /// How to use the owner's key instead; `None` if there is none here.
    pub(crate) fn way_out(self) -> Option<String> {
        let place = self.place;
        let without =
            || format!("without {place} the owner's key beside the database is used, which reaches everything");
        self.is_in_the_way.then(without)
    }
}
