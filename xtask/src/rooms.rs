//! `cargo xtask rooms`: the folders of each crate depend on each other one way, and no file grows past the longest of today.
//!
//! A room is a file or folder directly under a crate's `src`. One room depends on another if its code, tests aside, names
//! `crate::<other>`. How long a function is, is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The most lines that a source file may have, its unit tests included.
const LONGEST_FILE: usize = 720;

/// Crates in which rooms still depend on each other in a circle, and how many rooms are in the largest one. Every other crate has
/// none.
const KNOTS: [(&str, usize); 3] = [("andon-cli", 12), ("andon-models", 5), ("andon-shim", 2)];

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
        read_folder(&source, None, &mut uses, &mut wrong)?;
        number += uses.len();
        let allowed = KNOTS.iter().find(|(known, _)| *known == name).map_or(1, |(_, rooms)| *rooms);
        let knot = largest_knot(&uses);
        if knot.len() > allowed {
            wrong.push(format!("{name}: {} depend on each other in a circle", knot.join(", ")));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("{number} rooms, no new circle, no file over {LONGEST_FILE} lines");
    Ok(())
}

/// Reads what the files of a folder name; `room` is `None` directly under `src`.
fn read_folder(folder: &Path, room: Option<&str>, uses: &mut Uses, wrong: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let own = room.unwrap_or(&stem);
        if path.is_dir() {
            read_folder(&path, Some(own), uses, wrong)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            let lines = text.lines().count();
            if lines > LONGEST_FILE {
                wrong.push(format!("{} has {lines} lines: split it by idea", path.display()));
            }
            let is_root = room.is_none() && (stem == "lib" || stem == "main");
            if !is_root && !is_test(&stem) {
                uses.entry(own.to_owned()).or_default().extend(named(&text));
            }
        }
    }
    Ok(())
}

fn is_test(stem: &str) -> bool {
    stem == "tests" || stem.ends_with("_tests") || stem == "threads"
}

/// The rooms that a file names, outside its comments and unit tests.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut rooms = BTreeSet::new();
    for (place, _) in code.match_indices("crate::") {
        let before = code.get(..place).unwrap_or_default();
        let behind = code.get(place + "crate::".len()..).unwrap_or_default();
        if before.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
            continue;
        }
        match behind.strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, _)) => rooms.extend(group.split(',').map(|name| first_word(name.trim()))),
            None => drop(rooms.insert(first_word(behind))),
        }
    }
    rooms
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The most rooms of which each can be reached from each other one; a single room if there is no circle.
fn largest_knot(uses: &Uses) -> Vec<String> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = uses.keys().map(|room| (room, reachable(uses, room))).collect();
    let together = |one: &String, other: &String| {
        one == other
            || (reached.get(one).is_some_and(|rooms| rooms.contains(other))
                && reached.get(other).is_some_and(|rooms| rooms.contains(one)))
    };
    let knots = uses.keys().map(|room| uses.keys().filter(|other| together(room, other)).cloned().collect());
    knots.max_by_key(Vec::len).unwrap_or_default()
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
    fn rooms_that_reach_each_other_are_a_knot_and_others_are_none() {
        let one_way = uses(&[("journal", &["lanes"]), ("lanes", &[]), ("live", &["journal", "lanes"])]);
        assert_eq!(largest_knot(&one_way).len(), 1);
        let circle =
            uses(&[("driver", &["live"]), ("journal", &["driver"]), ("live", &["journal"]), ("tool", &["live"])]);
        assert_eq!(largest_knot(&circle), ["driver", "journal", "live"]);
    }

    #[test]
    fn what_a_file_names_is_read_from_its_code_and_not_from_comments_or_tests() {
        let text = "//! As crate::prose.\nuse crate::live::Live;\nuse crate::{Shared, page};\nfn f() { crate::tool::g() } // crate::aside\n\
                    #[cfg(test)]\nmod tests {\n    use crate::tests_only::X;\n}\n";
        assert_eq!(named(text), ["Shared", "live", "page", "tool"].map(str::to_owned).into());
    }
}
