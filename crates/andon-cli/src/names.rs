//! Names: of the program's own agent, and for new sessions.

/// The name of the program's own agent, which is the app of its sessions, and of its default model. A session may continue with
/// another model.
pub(crate) const PRACTICE: &str = "practice";

const LOOKS: [&str; 24] = [
    "amber", "bold", "brave", "bright", "calm", "clear", "cosy", "eager", "fair", "gentle", "golden", "green", "happy",
    "kind", "light", "lucky", "merry", "nimble", "quiet", "silver", "sunny", "swift", "warm", "wise",
];
const ANIMALS: [&str; 24] = [
    "badger", "beaver", "crane", "deer", "dolphin", "falcon", "finch", "fox", "hare", "heron", "ibis", "koala", "lark",
    "lynx", "magpie", "marten", "otter", "owl", "panda", "robin", "seal", "swan", "tern", "wren",
];

/// A name such as `calm-otter-17`, which a person can say and type. It may be taken: the caller checks.
pub(crate) fn session_name() -> String {
    let pick = |words: &[&'static str]| fastrand::choice(words.iter().copied()).unwrap_or("plain");
    format!("{}-{}-{}", pick(&LOOKS), pick(&ANIMALS), fastrand::u8(10..100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_typed_without_quotes() {
        let name = session_name();
        assert_eq!(crate::paste::quoted(&name), name);
        assert_eq!(name.split('-').count(), 3);
    }
}
