//! The protocol broken in four ways: the judge must notice each.

use std::path::Path;

use anyhow::Result;

use crate::campaign::{Campaign, run};

/// How the protocol is broken, and the invariant that must be seen to break.
const MUTANTS: [(&str, &str); 4] = [
    ("AcknowledgedBeforeCommit", "I6:"),
    ("EpochNotChecked", "I4:"),
    ("TerminalNotUnique", "I1:"),
    ("EffectBeforeIntent", "I5:"),
];

/// A mutant that lives through so many kills is missed.
const KILLS: usize = 400;

/// Plants each mutant in turn; says whether all were caught.
pub(crate) fn hunt(base: &Path, seed: u64, has_disks: bool) -> Result<bool> {
    let mut caught = 0;
    for (mutant, invariant) in MUTANTS {
        let (fault, until) = (Some(mutant.to_owned()), Some(invariant));
        let tally = run(&Campaign { base: base.join(mutant), kills: KILLS, seed, fault, has_disks, until })?;
        match tally.violations.iter().find(|violation| violation.contains(invariant)) {
            Some(violation) => {
                caught += 1;
                println!("{mutant} is caught: {violation}, at kill {}", tally.kills);
            }
            None => println!("{mutant} is missed: {} kills and no violation of {invariant}", tally.kills),
        }
    }
    println!("{} mutants, {caught} caught", MUTANTS.len());
    Ok(caught == MUTANTS.len())
}
