//! A key given by the user, which is used instead of the owner's.

/// Where the user's key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// The variable or the flag.
    pub(crate) place: &'static str,
    /// Whether it replaces the owner's key, which is beside the database.
    pub(crate) is_in_the_way: bool,
}

impl Given {
    /// How to use the owner's key instead; `None` if there is no such key.
    pub(crate) fn way_out(self) -> Option<String> {
        let place = self.place;
        let without =
            || format!("without {place}, the owner's key beside the database is used, which can reach everything");
        self.is_in_the_way.then(without)
    }
}
