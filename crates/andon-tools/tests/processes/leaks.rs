//! A thousand starts and stops leave the host as it was.
//!
//! If this fails, a server has to be restarted every few days.

use andon_shim::proc;

use crate::world::*;

tests![a_thousand_starts_and_stops_leave_no_process_no_descriptor_and_no_thread];

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Including dead ones that nobody has reaped.
fn children() -> usize {
    let own = std::process::id() as i32;
    proc::all().iter().filter(|one| one.parent == own).count()
}

fn a_thousand_starts_and_stops_leave_no_process_no_descriptor_and_no_thread() {
    let seed = 7;
    println!("seed {seed}");
    let token = Token::new();
    block_on(async {
        let cycle = async |number: u64| {
            let (tree, button) = (Tree::new(), Button::new(Duration::from_millis(20)));
            let command = sh(r#"sleep "$0" & setsid sleep "$0" & echo up; wait"#, token);
            let run = command.run(&tree, &button, |_| button.press());
            match number % 3 {
                // It is stopped when it has printed something, and ends.
                0 => drop(run.await.unwrap()),
                // It is dropped at some moment of its start.
                1 => drop(tokio::time::timeout(Duration::from_micros(number * seed % 3000), run).await),
                // It is ended before it has started.
                _ => drop(run),
            }
            let remains = tree.end().await;
            assert!(remains.is_none(), "cycle {number}: {remains:?}");
        };
        // The first few create what is made once and kept.
        for number in 0..10 {
            cycle(number).await;
        }
        let before = (count("/proc/self/fd"), count("/proc/self/task"), children());
        for number in 0..1000 {
            cycle(number).await;
        }
        token.assert_none_lives(&[]);
        assert_eq!(shims(), []);
        // tokio reaps dropped processes when it gets to it.
        until(|| (children() == before.2).then_some(())).await;
        let after = (count("/proc/self/fd"), count("/proc/self/task"), children());
        assert_eq!(before, after, "descriptors, threads, children");
        assert_eq!(after.2, 0, "no child is left, dead or alive");
    });
}
