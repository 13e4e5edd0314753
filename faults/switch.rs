
/// The one fault that is on. Stands only in the copy of the source that `cargo xtask faults` breaks.
mod fault {
    pub(crate) fn is(name: &str) -> bool {
        static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        ON.get_or_init(|| std::env::var("ANDON_FAULT").ok()).as_deref() == Some(name)
    }
}
