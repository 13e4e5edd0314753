//! `cargo xtask rooms`: the folders of each crate depend on each other one way, and no file grows past the longest of today.
//!
//! A room is a file or folder directly under a crate's `src`. One room depends on another if its code, tests aside, names
//! `crate::<other>`, or means the same by `super::`. How long a function may be is clippy's affair (`too_many_lines`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The most lines that a source file may have, its unit tests included.
const LONGEST_FILE: usize = 500;
/// The same in the crate that is itself for tests, where a script is one long story.
const LONGEST_FOR_TESTS: usize = 690;

/// Which rooms each room names.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Checks every crate.
pub(crate) fn rooms() -> Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").canonicalize()?;
    let (mut number, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(&crates).with_context(|| format!("{} cannot be read", crates.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let source = entry.path().join("src");
        let mut uses = Uses::new();
        let longest = if name == "andon-testkit" { LONGEST_FOR_TESTS } else { LONGEST_FILE };
        read_folder(&source, &[], longest, &mut uses, &mut wrong)?;
        number += uses.len();
        let told = |circle: Vec<String>| format!("{name}: {} depend on each other in a circle", circle.join(", "));
        wrong.extend(circles(&uses).into_iter().map(told));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("{number} rooms, no circle, no file over {LONGEST_FILE} lines ({LONGEST_FOR_TESTS} in the testkit)");
    Ok(())
}

/// Reads what the files of a folder name. `modules` are the modules from `src` down to the folder.
fn read_folder(
    folder: &Path,
    modules: &[String],
    longest: usize,
    uses: &mut Uses,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module = [modules, std::slice::from_ref(&stem)].concat();
        if path.is_dir() {
            read_folder(&path, &module, longest, uses, wrong)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            let lines = text.lines().count();
            if lines > longest {
                wrong.push(format!("{} has {lines} lines: split it by idea", path.display()));
            }
            let is_root = modules.is_empty() && (stem == "lib" || stem == "main");
            if let (Some(room), false, false) = (module.first(), is_root, is_test(&stem)) {
                let depth = if stem == "mod" { modules.len() } else { module.len() };
                uses.entry(room.clone()).or_default().extend(named(&text, depth));
            }
        }
    }
    Ok(())
}

fn is_test(stem: &str) -> bool {
    stem == "tests" || stem.ends_with("_tests") || stem == "threads"
}

/// The rooms that a file names, outside its comments and unit tests. Its module is `depth` levels below the crate's root, so that
/// many `super::` are the root as well.
fn named(text: &str, depth: usize) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut rooms = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (place, _) in code.match_indices(&root) {
            let before = code.get(..place).unwrap_or_default();
            let behind = code.get(place + root.len()..).unwrap_or_default();
            if before.ends_with(|last: char| last.is_alphanumeric() || last == '_' || last == ':') {
                continue;
            }
            match behind.strip_prefix('{').and_then(|group| group.split_once('}')) {
                Some((group, _)) => rooms.extend(group.split(',').map(|name| first_word(name.trim()))),
                None => drop(rooms.insert(first_word(behind))),
            }
        }
    }
    rooms
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Every circle: rooms of which each can be reached from each other one.
fn circles(uses: &Uses) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = uses.keys().map(|room| (room, reachable(uses, room))).collect();
    let reaches = |one: &String, other: &String| reached.get(one).is_some_and(|rooms| rooms.contains(other));
    let circle_of = |room: &String| -> Vec<String> {
        uses.keys().filter(|other| reaches(room, other) && reaches(other, room)).cloned().collect()
    };
    // A room that names itself is not a circle.
    uses.keys().map(circle_of).filter(|circle| circle.len() > 1).collect()
}

fn reachable<'a>(uses: &'a Uses, room: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = uses.get(room).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if uses.contains_key(next) && found.insert(next) {
            open.extend(uses.get(next).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(edges: &[(&str, &[&str])]) -> Uses {
        let owned = |rooms: &[&str]| rooms.iter().map(|room| (*room).to_owned()).collect();
        edges.iter().map(|(room, others)| ((*room).to_owned(), owned(others))).collect()
    }

    #[test]
    fn finds_every_circle_and_no_others() {
        let one_way = uses(&[("journal", &["lanes"]), ("lanes", &["lanes"]), ("live", &["journal", "lanes"])]);
        assert!(circles(&one_way).is_empty());
        let two = uses(&[
            ("driver", &["live"]),
            ("journal", &["driver"]),
            ("live", &["journal"]),
            ("plan", &["words"]),
            ("tool", &["live"]),
            ("words", &["plan"]),
        ]);
        let found: Vec<Vec<String>> = circles(&two).into_iter().collect();
        assert_eq!(found, [vec!["driver", "journal", "live"], vec!["plan", "words"]]);
    }

    #[test]
    fn what_a_file_names_is_read_from_its_code_and_not_from_comments_or_tests() {
        let text = "//! As crate::prose.\nuse crate::live::Live;\nuse crate::{Shared, page};\nfn f() { crate::tool::g() } // crate::aside\n\
                    #[cfg(test)]\nmod tests {\n    use crate::tests_only::X;\n}\n";
        assert_eq!(named(text, 1), ["Shared", "live", "page", "tool"].map(str::to_owned).into());
    }

    #[test]
    fn a_file_that_says_super_names_a_room_if_it_is_just_below_the_root() {
        let text = "use super::plan::Call;\nuse super::super::board::Row;\n";
        assert_eq!(named(text, 1), ["plan", "super"].map(str::to_owned).into());
        assert_eq!(named(text, 2), ["board".to_owned()].into());
    }
}
