//! A stop at every point of a command's life.
//!
//! If one of these fails, a stop keeps nothing, comes late, or is forgotten.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::world::*;

tests![
    a_stop_before_the_start_leaves_nothing,
    a_stop_right_after_the_start_leaves_nothing,
    a_stop_while_it_prints_keeps_what_was_printed,
    a_process_that_ends_in_its_grace_is_not_killed,
    a_child_has_the_same_grace_as_its_parent,
    a_stopped_process_gets_the_signal_to_end,
    a_process_that_ignores_the_stop_is_killed_within_the_grace,
    a_call_that_is_dropped_at_any_point_leaves_nothing,
    nothing_starts_in_a_tree_that_has_ended,
    a_tree_that_is_only_dropped_is_ended_too,
];

fn a_stop_before_the_start_leaves_nothing() {
    let token = Token::new();
    block_on(async {
        // It is told at once, and does not use up its grace.
        let (tree, button) = (Tree::new(), Button::new(Duration::from_secs(3600)));
        button.press();
        let finished = sh(r#"sleep "$0" & wait"#, token).run(&tree, &button, |_| {}).await.unwrap();
        assert!(finished.stopped);
        assert!(tree.end().await.is_none());
        token.assert_none_lives(&[]);
    });
}

fn a_stop_right_after_the_start_leaves_nothing() {
    for _ in 0..20 {
        with_tree(async |token, tree| {
            let running = sh(r#"setsid sleep "$0" & sleep "$0" & wait"#, token).start(&tree).await.unwrap();
            running.ask_to_end();
            running.kill();
            assert!(tree.end().await.is_none());
            token.assert_none_lives(&[]);
        });
    }
}

fn a_stop_while_it_prints_keeps_what_was_printed() {
    with_tree(async |token, tree| {
        let button = Button::new(Duration::from_secs(1));
        let mut shown = String::new();
        let script = r#"i=0; while :; do i=$((i + 1)); echo "line $i"; done"#;
        let finished = sh(script, token)
            .run(&tree, &button, |text| {
                shown.push_str(text);
                if shown.contains("line 500\n") {
                    button.press();
                }
            })
            .await
            .unwrap();
        assert_eq!((finished.stopped, finished.status), (true, Some(Status::Signal(15))));
        let kept = finished.stdout.into_text();
        assert!(kept.starts_with("line 1\nline 2\n"), "{}", &kept[..100]);
        assert!(shown.contains("line 500\n"));
        assert!(tree.end().await.is_none());
        token.assert_none_lives(&[]);
    });
}

fn a_process_that_ends_in_its_grace_is_not_killed() {
    with_tree(async |token, tree| {
        let button = Button::new(Duration::from_secs(5));
        let script = r#"trap 'echo "bye $0"; exit 7' TERM; echo up; while :; do sleep 0.01; done"#;
        let finished = sh(script, token)
            .run(&tree, &button, |text| {
                if text.contains("up") {
                    button.press();
                }
            })
            .await
            .unwrap();
        assert_eq!((finished.stopped, finished.status), (true, Some(Status::Code(7))));
        assert_eq!(finished.stdout.into_text(), format!("up\nbye {token}\n"));
        assert!(tree.end().await.is_none());
    });
}

fn a_child_has_the_same_grace_as_its_parent() {
    with_tree(async |token, tree| {
        let button = Button::new(Duration::from_secs(5));
        let script = r#"sh -c 'trap "sleep 0.3; echo saved; exit" TERM; echo up; while :; do sleep 0.01; done' "$0" &
            trap 'exit 1' TERM; wait"#;
        let finished = sh(script, token)
            .run(&tree, &button, |text| {
                if text.contains("up") {
                    button.press();
                }
            })
            .await
            .unwrap();
        assert_eq!(finished.status, Some(Status::Code(1)), "the parent had ended long before");
        assert_eq!(finished.stdout.into_text(), "up\nsaved\n");
        assert!(tree.end().await.is_none());
        token.assert_none_lives(&[]);
    });
}

fn a_stopped_process_gets_the_signal_to_end() {
    with_tree(async |token, tree| {
        let button = Button::new(Duration::from_secs(5));
        let script = r#"trap 'echo woken; exit 0' TERM; kill -STOP $$; sleep 0.01; echo not reached"#;
        let press = async {
            until(|| token.processes().iter().any(|one| one.state == 'T').then_some(())).await;
            button.press();
        };
        let command = sh(script, token);
        let (finished, ()) = tokio::join!(command.run(&tree, &button, |_| {}), press);
        assert_eq!(finished.unwrap().stdout.into_text(), "woken\n");
        assert!(tree.end().await.is_none());
    });
}

fn a_process_that_ignores_the_stop_is_killed_within_the_grace() {
    with_tree(async |token, tree| {
        let grace = Duration::from_secs(3);
        let button = Button::new(grace);
        let lateness = Lateness::measure();
        let mut pressed = None;
        let finished = sh(r#"trap "" TERM; echo kept; sleep "$0" & wait"#, token)
            .run(&tree, &button, |_| {
                button.press();
                pressed = Some(now());
            })
            .await
            .unwrap();
        let took = pressed.unwrap().elapsed();
        assert!(took >= grace / 2, "it had next to no grace: {took:?}");
        // A kill takes a few turns of this process and of its shim, each of which a busy machine may delay.
        let late = lateness.longest() * 4;
        assert!(
            took <= grace + late,
            "what was printed would have been lost: {took:?}, of which {late:?} are the machine's"
        );
        assert_eq!((finished.stopped, finished.status), (true, Some(Status::Signal(9))));
        assert_eq!(finished.stdout.into_text(), "kept\n");
        token.assert_none_lives(&[]);
        assert!(tree.end().await.is_none());
    });
}

/// Polls a future this many times, and then drops it. Returns whether it was done before.
async fn poll_and_drop<T>(future: impl Future<Output = T>, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|_| true)
    })
    .await
}

fn a_call_that_is_dropped_at_any_point_leaves_nothing() {
    let script =
        r#"(setsid sleep "$0" &); for i in 1 2 3; do echo $i; done; trap "" TERM; sleep "$0" & sleep 0.02; exit 0"#;
    let mut points = 0;
    for polls in 0..200 {
        let token = Token::new();
        let over = block_on(async {
            let (tree, button) = (Tree::new(), Button::new(Duration::from_millis(30)));
            let command = sh(script, token);
            let over = poll_and_drop(command.run(&tree, &button, |_| button.press()), polls).await;
            let remains = tree.end().await;
            token.assert_none_lives(&[]);
            assert!(remains.is_none(), "dropped at point {polls}: {remains:?}");
            over
        });
        points = polls;
        if over {
            break;
        }
    }
    assert!(points >= 5, "it was dropped at {points} points only");
}

fn nothing_starts_in_a_tree_that_has_ended() {
    with_tree(async |token, tree| {
        tree.end().await;
        let error = sh("sleep $0", token).run(&tree, &never(), |_| {}).await.unwrap_err();
        assert_eq!(error.to_string(), "nothing was started, because the call has already ended");
    });
}

fn a_tree_that_is_only_dropped_is_ended_too() {
    with_tree(async |token, tree| {
        let running = sh(crate::ends::GROUP, token).start(&tree).await.unwrap();
        let known = token.at_least(8).await;
        drop((tree, running));
        until(|| token.processes().is_empty().then_some(())).await;
        token.assert_none_lives(&known);
    });
}
