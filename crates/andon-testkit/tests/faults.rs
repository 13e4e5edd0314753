//! A checker that catches nothing proves nothing: every planted fault must be caught by the explorer.

use andon::fault::{Fault, plant};
use andon_testkit::explore::{Mode, explore_modes};
use andon_testkit::scripts;

/// The script that is about what a fault breaks, if only one is. Another may catch it, too: this only saves time.
fn first_tried(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::CleanupNotAwaited => Some("a process"),
        Fault::DetachedToolStopped => Some("a tool that outlives its run"),
        Fault::LateResultLost => Some("a thread that goes on"),
        Fault::UnendedNotNamed => Some("a tool that works elsewhere"),
        Fault::HeldOutputLost => Some("a tool that shows its work on a slow disk"),
        Fault::QueuedThreadAfterPull => Some("more threads than places"),
        Fault::TimeoutIgnored => Some("a tool that takes too long"),
        Fault::CompensationNotRecorded => Some("a call that is undone"),
        Fault::LastWordMissing => Some("a cut call that is drained"),
        Fault::AddendumBeforeEnd => Some("a cut call that is looked up while the disk is slow"),
        _ => None,
    }
}

/// The first violation that the explorer finds with a fault planted.
fn catch(fault: Fault) -> Option<String> {
    plant(Some(fault));
    let mut scripts = scripts::all();
    scripts.sort_by_key(|script| Some(script.name) != first_tried(fault));
    let found = scripts.iter().find_map(|script| {
        let report = explore_modes(script, &Mode::ALL, 1);
        report.violations.into_iter().next()
    });
    plant(None);
    found
}

#[test]
fn the_explorer_catches_every_planted_fault() {
    let mut missed = Vec::new();
    let only = std::env::var("FAULT").ok();
    for fault in Fault::ALL.into_iter().filter(|fault| only.as_ref().is_none_or(|only| *only == format!("{fault:?}"))) {
        match catch(fault) {
            Some(violation) => println!("{fault:?} is caught: {violation}"),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
    println!("{} planted faults, {} caught", Fault::ALL.len(), Fault::ALL.len() - missed.len());
}

#[test]
fn without_a_fault_the_same_scripts_are_clean() {
    plant(None);
    let script = scripts::all().into_iter().next().expect("there is a script");
    let report = explore_modes(&script, &[Mode::Graceful, Mode::Crash], usize::MAX);
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.points > 0);
}
