//! `cargo xtask drops`: every public async function says under `# Cancel safety` what becomes of its work when its future is dropped.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The section that must be there.
const SECTION: &str = "/// # Cancel safety";
/// A program, not a library: nobody awaits its functions.
const PROGRAM: &str = "andon-cli";

/// Checks every library.
pub(crate) fn drops() -> Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").canonicalize()?;
    let (mut said, mut silent) = (0, Vec::new());
    for entry in fs::read_dir(&crates).with_context(|| format!("{} cannot be read", crates.display()))? {
        let entry = entry?;
        if entry.file_name() != PROGRAM {
            read_folder(&entry.path().join("src"), &mut said, &mut silent)?;
        }
    }
    if !silent.is_empty() {
        bail!("without `{SECTION}`, which says what dropping its future does:\n{}", silent.join("\n"));
    }
    println!("{said} public async functions say what dropping them does");
    Ok(())
}

fn read_folder(folder: &Path, said: &mut usize, silent: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(&path, said, silent)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            for (line, says) in functions(&text) {
                match says {
                    true => *said += 1,
                    false => silent.push(format!("{}:{line}", path.display())),
                }
            }
        }
    }
    Ok(())
}

/// The lines with a public async function, and whether its comment has the section.
fn functions(text: &str) -> Vec<(usize, bool)> {
    let (mut found, mut says) = (Vec::new(), false);
    for (number, line) in text.lines().map(str::trim_start).enumerate() {
        if line.starts_with("///") {
            says |= line.trim_end() == SECTION;
        } else if line.starts_with("pub async fn ") {
            found.push((number + 1, std::mem::take(&mut says)));
        } else if !line.starts_with("#[") {
            says = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_must_say_it_in_its_own_comment() {
        let text = "/// # Cancel safety\npub async fn one() {}\n\npub async fn two() {}\n/// # Cancel safety\n#[must_use]\npub async fn three() {}\n";
        assert_eq!(functions(text), [(2, true), (4, false), (7, true)]);
    }
}
