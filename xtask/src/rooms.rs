//! `cargo xtask rooms`: the folders of each crate depend on each other one way and not on its root, and no file grows past the
//! longest of today.
//!
//! A room is a file or folder directly under a crate's `src`. One room depends on another if its code, tests aside, names
//! `crate::<other>`, or means the same by `super::`. Everything has a room: no file names an item of the crate's root, except a
//! macro. How long a function may be is clippy's affair (`too_many_lines`).

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

/// A crate while it is read.
struct Reader {
    longest: usize,
    /// The modules that its root declares.
    modules: BTreeSet<String>,
    uses: Uses,
    wrong: Vec<String>,
}

/// Checks every crate.
pub(crate) fn rooms() -> Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").canonicalize()?;
    let (mut number, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(&crates).with_context(|| format!("{} cannot be read", crates.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let source = entry.path().join("src");
        let longest = if name == "andon-testkit" { LONGEST_FOR_TESTS } else { LONGEST_FILE };
        let mut reader = Reader { longest, modules: declared(&root(&source)?), uses: Uses::new(), wrong: Vec::new() };
        reader.read_folder(&source, &[])?;
        number += reader.uses.len();
        wrong.append(&mut reader.wrong);
        let words = |circle: Vec<String>| format!("{name}: {} depend on each other in a circle", circle.join(", "));
        wrong.extend(circles(&reader.uses).into_iter().map(words));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("{number} rooms, no circle, no file over {LONGEST_FILE} lines ({LONGEST_FOR_TESTS} in the testkit)");
    Ok(())
}

/// The text of a crate's root.
fn root(source: &Path) -> Result<String> {
    let library = source.join("lib.rs");
    let root = if library.exists() { library } else { source.join("main.rs") };
    fs::read_to_string(&root).with_context(|| format!("{} cannot be read", root.display()))
}

/// The modules that a root declares.
fn declared(root: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (before, after) = line.split_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then(|| first_word(after))
    };
    root.lines().filter_map(name).collect()
}

impl Reader {
    /// Reads what the files of a folder name. `modules` are the modules from `src` down to the folder.
    fn read_folder(&mut self, folder: &Path, modules: &[String]) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let module = [modules, std::slice::from_ref(&stem)].concat();
            if path.is_dir() {
                self.read_folder(&path, &module)?;
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
                let lines = text.lines().count();
                if lines > self.longest {
                    self.wrong.push(format!("{} has {lines} lines: split it by idea", path.display()));
                }
                let is_root = modules.is_empty() && (stem == "lib" || stem == "main");
                if let (Some(room), false, false) = (module.first(), is_root, is_test(&stem)) {
                    let depth = if stem == "mod" { modules.len() } else { module.len() };
                    let names = named(&text, depth);
                    for name in names.difference(&self.modules) {
                        let words = "which is in the crate's root: give it a module";
                        self.wrong.push(format!("{} names {name}, {words}", path.display()));
                    }
                    self.uses.entry(room.clone()).or_default().extend(names);
                }
            }
        }
        Ok(())
    }
}

fn is_test(stem: &str) -> bool {
    stem == "tests" || stem.ends_with("_tests") || stem == "threads"
}

/// What a file names in the crate's root, outside its comments and unit tests: rooms, and items that should be in one. Its module is
/// `depth` levels below the root, so that many `super::` are the root as well.
fn named(text: &str, depth: usize) -> BTreeSet<String> {
    let lines = without_tests(text).into_iter().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut names = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (place, _) in code.match_indices(&root) {
            let before = code.get(..place).unwrap_or_default();
            let after = code.get(place + root.len()..).unwrap_or_default();
            if before.ends_with(|last: char| last.is_alphanumeric() || last == '_' || last == ':') {
                continue;
            }
            match after.strip_prefix('{') {
                Some(group) => names.extend(members(group).into_iter().map(|member| first_word(member.trim()))),
                None => names.extend(Some(first_word(after)).filter(|name| !is_macro(name, after))),
            }
        }
    }
    // The comma after a group's last member is followed by nothing.
    names.remove("");
    names
}

/// A macro has no module: it is in the root wherever it is defined.
fn is_macro(name: &str, text: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| rest.starts_with('!'))
}

/// The members of a group of which this is the text after its opening brace. A member may have a group of its own.
fn members(group: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (place, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(group.get(begin..place));
                begin = place + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

/// The lines of a file without the items that are only for tests, as rustfmt lays them out: an item ends on its first line, or with
/// a brace below its beginning.
fn without_tests(text: &str) -> Vec<&str> {
    let (mut kept, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.trim_start() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let mut in_attribute = false;
        let item = lines.by_ref().find(|line| {
            in_attribute |= line.trim_start().starts_with("#[");
            let is_item = !in_attribute && !line.trim_start().starts_with("//");
            in_attribute &= !line.ends_with(']');
            is_item
        });
        let item = item.unwrap_or_default();
        if !item.ends_with([';', '}', ',']) {
            let indent = item.len() - item.trim_start().len();
            let _ = lines.by_ref().find(|line| line.get(indent..).is_some_and(|rest| rest.starts_with('}')));
        }
    }
    kept
}

/// The name that a text begins with; `*` is the name of everything.
fn first_word(text: &str) -> String {
    if text.starts_with('*') {
        return "*".to_owned();
    }
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

    #[test]
    fn a_group_within_a_group_hides_nothing_that_comes_after_it() {
        let text = "use crate::{live::{Live, log::{Log, Seq}}, page, tool::Tool,};\nuse super::{\n    words::{A, B},\n    lanes,\n};\n";
        assert_eq!(named(text, 1), ["lanes", "live", "page", "tool", "words"].map(str::to_owned).into());
    }

    #[test]
    fn a_test_module_is_not_read_whatever_is_between_it_and_its_cfg() {
        let text = "#[cfg(test)]\n#[path = \"plan_tests.rs\"]\nmod tests;\nuse crate::live::Live;\n\n\
                    #[cfg(test)]\nfn only_here(\n    page: crate::aside::Page,\n) {\n    crate::aside::look()\n}\n\n\
                    fn f() { crate::tool::g() }\n\n\
                    #[cfg(test)]\n#[expect(\n    clippy::unwrap_used,\n    reason = \"a test\"\n)]\n// Far from here.\nmod more {\n    \
                    use crate::tests_only::X;\n\n    fn f() {\n    }\n}\n\nuse crate::words;\n";
        assert_eq!(named(text, 1), ["live", "tool", "words"].map(str::to_owned).into());
    }

    #[test]
    fn an_item_of_the_root_is_not_a_room_but_a_macro_may_be_there() {
        let root = "//! As a mod of prose.\nmod live;\npub mod words {\n    pub use andon_core::*;\n}\npub(crate) mod page;\nuse live::Live;\n";
        let modules = declared(root);
        assert_eq!(modules, ["live", "page", "words"].map(str::to_owned).into());
        let names = named("use crate::live::Live;\nuse crate::Shared;\nuse super::*;\nfn f() { crate::say!() }\n", 1);
        assert_eq!(names.difference(&modules).collect::<Vec<_>>(), ["*", "Shared"]);
    }
}
