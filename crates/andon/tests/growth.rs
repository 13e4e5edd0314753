//! Every public type says whether it may grow: docs/decisions/0040-growth-breaks-nobody.md.

use std::fs;
use std::path::Path;

/// The crates whose types other people's programs name.
const CRATES: [&str; 7] =
    ["andon-core", "andon-models", "andon-runtime", "andon-server", "andon-store", "andon-testkit", "andon-tools"];

/// The types that cannot grow without meaning something else, each with the reason.
const WHOLE: [(&str, &str); 29] = [
    // A new one changes what a stop means, for everybody who reasons about it.
    ("andon-core", "Force"),
    ("andon-core", "Stop"),
    ("andon-core", "Step"),
    ("andon-core", "Why"),
    ("andon-runtime", "RequestFate"),
    // A provider's adapter or a journal that skipped one would lose what was said.
    ("andon-core", "Entry"),
    ("andon-core", "Role"),
    ("andon-core", "MarkKind"),
    ("andon-core", "Mark"),
    ("andon-core", "Span"),
    ("andon-core", "Lump"),
    ("andon-core", "CallHead"),
    ("andon-core", "Answerer"),
    // Two halves of one thing.
    ("andon-core", "AnswerEnd"),
    ("andon-core", "Stretch"),
    ("andon-core", "Stamp"),
    ("andon-runtime", "Cursor"),
    ("andon-runtime", "Scope"),
    ("andon-server", "App"),
    // What a provider sends.
    ("andon-models", "Frame"),
    ("andon-models", "FrameTooLong"),
    ("andon-models", "Event"),
    ("andon-models", "Delta"),
    ("andon-models", "Tokens"),
    // For tests, where a literal says most.
    ("andon-runtime", "GateCounts"),
    ("andon-testkit", "Scene"),
    ("andon-testkit", "Line"),
    ("andon-testkit", "Goal"),
    ("andon-testkit", "After"),
];

#[test]
fn every_public_type_may_grow_or_says_why_not() {
    let (mut wrong, mut stale) = (Vec::new(), WHOLE.to_vec());
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        assert!(!sources(&folder).is_empty(), "{name} has no sources");
        for file in sources(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            // The bad provider and the judges of what it is sent: other crates' tests go through all of what they can do.
            let is_scripted = name == "andon-testkit"
                && file.components().any(|part| part.as_os_str() == "provider" || part.as_os_str() == "wire");
            stale.retain(|(of, word)| *of != name || !whole_types(&text).contains(word));
            let types = whole_types(&text).into_iter().filter(|word| !is_scripted && !WHOLE.contains(&(name, word)));
            wrong.extend(types.map(|word| format!("{}: {word}", file.display())));
        }
    }
    let help =
        "#[non_exhaustive] for a struct, #[cfg_attr(not(andon_whole), non_exhaustive)] for an enum, or a line in WHOLE";
    assert_eq!(wrong, Vec::<String>::new(), "these say neither that they may grow nor why not; add {help}");
    assert_eq!(stale, [], "there are no such types, or they may grow: take them off WHOLE");
}

#[test]
fn a_linted_build_sees_enums_whole() {
    // Without the cfg, a new variant would go unnoticed by the crates that decide about each. `.cargo/config.toml` sets it.
    assert_eq!(cfg!(andon_whole), cfg!(clippy));
}

fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    files.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// The public enums, and the public structs that others could write as a literal, that do not say that they may grow.
fn whole_types(text: &str) -> Vec<&str> {
    let mut whole = Vec::new();
    for (start, _) in text.match_indices("\npub enum ").chain(text.match_indices("\npub struct ")) {
        let item = &text[start + 1..];
        // A plain `non_exhaustive` would keep an enum open for us, too.
        let mark = if item.starts_with("pub enum") {
            "#[cfg_attr(not(andon_whole), non_exhaustive)]"
        } else {
            "#[non_exhaustive]"
        };
        let is_marked =
            text[..start].lines().rev().take_while(|line| line.starts_with(['#', '/'])).any(|line| line.contains(mark));
        let body = &item[..item.find("\n}").unwrap_or(item.len())];
        let head = body.lines().next().unwrap_or_default();
        let fields =
            || body.lines().skip(1).filter(|line| line.starts_with("    ") && !line.trim().starts_with(['/', '#']));
        let is_open = head.starts_with("pub enum") || fields().all(|field| field.trim().starts_with("pub "));
        if !is_marked && is_open && head.ends_with('{') {
            let name = head.split([' ', '<', '(', '{']).nth(2).unwrap_or_default();
            whole.push(name);
        }
    }
    whole
}
