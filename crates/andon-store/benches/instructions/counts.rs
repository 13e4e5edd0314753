//! Counts instructions, and compares with earlier counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::AS_SCENE;
use crate::scenes::{FIGURES, Figure, Part};

/// How far a count may be off, in percent.
const TOLERANCE: f64 = 2.0;

/// Counts everything, prints it beside the counts in the file, and fails if any differ.
pub(crate) fn compare(saves: bool) -> ExitCode {
    let before = read();
    let (mut now, mut off) = (BTreeMap::new(), 0);
    println!("| {:<52} | {:>12} | {:>12} | {:>10} |", "Instructions", "now", "on file", "difference");
    println!("|{:-<54}|{:->13}:|{:->13}:|{:->11}:|", "", "", "", "");
    for figure in &FIGURES {
        let count = count(figure);
        let (known, difference) = match before.get(figure.name) {
            Some(known) => (known.to_string(), Some(100.0 * (count as f64 / *known as f64 - 1.0))),
            None => ("–".to_owned(), None),
        };
        let is_off = difference.is_none_or(|difference| difference.abs() > TOLERANCE);
        off += usize::from(is_off);
        let shown = difference.map_or_else(|| "new".to_owned(), |difference| format!("{difference:+.1} %"));
        println!("| {:<52} | {count:>12} | {known:>12} | {shown:>10} |", figure.what);
        now.insert(figure.name, count);
    }
    if saves {
        write(&now);
        return ExitCode::SUCCESS;
    }
    println!("{off} of {} are off by more than {TOLERANCE} %", FIGURES.len());
    if off == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The instructions of one round.
fn count(figure: &Figure) -> u64 {
    let of = |part: Part| {
        let once = collected(figure, part, figure.rounds);
        collected(figure, part, 2 * figure.rounds).saturating_sub(once)
    };
    let without = if figure.has_setup { of(Part::Setup) } else { 0 };
    of(Part::Whole).saturating_sub(without) / figure.rounds
}

/// The instructions of a whole process.
fn collected(figure: &Figure, part: Part, rounds: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe().expect("this program"));
    valgrind.args([AS_SCENE, &part.name(figure), &rounds.to_string()]);
    let output = valgrind.output().expect("valgrind is installed: `apt-get install valgrind`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} ends well under valgrind: {said}", figure.name);
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    line.and_then(|(_, count)| count.trim().parse().ok()).expect("callgrind reports its count")
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/counts.txt")
}

/// The earlier counts: a name and a number per line.
fn read() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' ').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?))))
        .collect()
}

fn write(counts: &BTreeMap<&str, u64>) {
    let mut text =
        "# Instructions of one round, by callgrind. `cargo xtask bench instructions --save` writes this file.\n"
            .to_owned();
    for tool in ["rustc", "valgrind"] {
        let said = Command::new(tool).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        text.push_str(&format!("# {}\n", String::from_utf8_lossy(&said).trim()));
    }
    for (name, count) in counts {
        text.push_str(&format!("{name} {count}\n"));
    }
    std::fs::write(file(), text).expect("a file that can be written");
}
