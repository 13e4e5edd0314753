//! What a running tool shows reaches those who watch in order and unchanged, live and from the journal, and never comes
//! after the end of its call (P3, P6, P10).

use std::future::Future;
use std::sync::Mutex;

use andon_runtime::{BoxFuture, Delta, Kind, Progress};
use andon_testkit::check::read_all;
use tokio::time::sleep;

use crate::common::held::HeldJournal;
use crate::common::*;

const CAP: usize = 256 << 10;
const NOTICE: &str = "\n[output of this call is limited to 256 KiB: the rest is not shown]\n";

fn tool<R: Future<Output = Returned> + Send + 'static>(name: &str, does: fn(Invocation) -> R) -> FnTool {
    FnTool::new(name, "Shows its work.", json!({"type": "object"}), does).effect(Effect::ReadOnly)
}

fn on(journal: &TestJournal, tool: FnTool) -> Session {
    let model = ScriptedModel::new([calls(&[("c", "tool")]), says("Well.")]);
    Agent::builder().model(model).runtime(&runtime_on(journal)).tool(tool).open()
}

/// What these items show of a call.
fn shown_by(items: &[FeedItem], call: &str) -> String {
    let texts = items.iter().filter_map(|item| match item {
        FeedItem::Delta(Delta { kind: Kind::ToolOutput(of), text, .. }) if of.as_str() == call => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The feed of a run that another process reads from the journal.
async fn feed_from_journal(journal: &TestJournal, run: &Run) -> Vec<FeedItem> {
    let next = next_runtime_on(journal);
    read_all(&mut next.feed(run.id(), Cursor::default()).await.unwrap().unwrap()).await
}

/// The bytes of each kind between two events, however a reader happened to get them.
fn joined(items: &[FeedItem]) -> Vec<(u64, Kind, String)> {
    let mut joined: Vec<(u64, Kind, String)> = Vec::new();
    for item in items {
        if let FeedItem::Delta(delta) = item {
            match joined.last_mut().filter(|(seq, kind, _)| *seq == delta.at.seq && *kind == delta.kind) {
                Some((_, _, text)) => text.push_str(&delta.text),
                None => joined.push((delta.at.seq, delta.kind.clone(), delta.text.clone())),
            }
        }
    }
    joined
}

/// Checks that nothing of a call is shown after its end, and nothing at all after the run's end.
fn assert_nothing_after_the_end(items: &[FeedItem]) {
    let mut over: Vec<String> = Vec::new();
    for item in items {
        match item {
            FeedItem::Fact(record) => match &record.event {
                Event::ToolFinished { call, .. } => over.push(call.to_string()),
                Event::RunSettled { .. } => over.push("all".to_owned()),
                _ => {}
            },
            FeedItem::Delta(Delta { kind: Kind::ToolOutput(call), text, .. }) => {
                assert!(!over.contains(&call.to_string()), "{text:?} of {call} is shown after its end");
                assert!(!over.contains(&"all".to_owned()), "{text:?} is shown after the end of the run");
            }
            FeedItem::Delta(_) => {}
            FeedItem::TextLost { at } => panic!("text was lost at {at}"),
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
}

async fn counts(call: Invocation) -> Returned {
    for number in 1..=20 {
        call.progress.show(&format!("line {number} åäö\n"));
        if number % 4 == 0 {
            sleep(millis(13)).await;
        }
    }
    call.progress.step(3.0, Some(10.0), Some("pages read"));
    call.progress.step(0.5, None, None);
    call.progress.step(1.0, Some(2.0), None);
    call.progress.step(2.0, None, Some("pages"));
    Ok("counted".into())
}

fn counted() -> String {
    let lines: String = (1..=20).map(|number| format!("line {number} åäö\n")).collect();
    lines + "3/10 pages read\n0.5\n1/2\n2 pages\n"
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_shows_is_the_same_live_and_from_the_journal_on_a_quick_and_on_a_slow_disk() {
    let disks = [
        memory(),
        TestJournal::slow(None, millis(7)),
        TestJournal::slow(None, millis(30)),
        TestJournal::slow(None, secs(2)),
    ];
    for journal in disks {
        let session = on(&journal, tool("tool", counts));
        let run = session.start("Go.").unwrap();
        let live = read_all(&mut run.feed()).await;
        settled(&session, &run).await;
        assert_eq!(shown_by(&live, "c"), counted());
        assert_nothing_after_the_end(&live);
        let told = feed_from_journal(&journal, &run).await;
        assert_eq!(joined(&told), joined(&live));
        assert_nothing_after_the_end(&told);
        assert_eq!(result_of(&session.history().await.unwrap(), "c").to_text(), "counted", "the model sees none of it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_call_keeps_what_it_had_shown() {
    for disk in [None, Some(millis(30)), Some(secs(2))] {
        for (cancel, on_cancel) in [
            (Cancel::graceful(), OnCancel::Cooperate),
            (Cancel::now(), OnCancel::Cooperate),
            (Cancel::graceful(), OnCancel::Drop),
            (Cancel::graceful(), OnCancel::Detach),
        ] {
            let journal = disk.map_or_else(memory, |disk| TestJournal::slow(None, disk));
            let talks = tool("tool", |call| async move {
                for number in 1..200 {
                    call.progress.show(&format!("{number} "));
                    sleep(millis(10)).await;
                }
                Ok("done".into())
            });
            let session = on(&journal, talks.on_cancel(on_cancel).grace(millis(100)));
            let run = start_until_shown(&session, "Go.", "7 ").await;
            run.cancel(cancel.clone());
            let live = read_all(&mut run.feed()).await;
            cancelled(&session, &run).await;
            session.agent().runtime().idle().await;
            let expected: String = (1..200).map(|number| format!("{number} ")).collect();
            let shown = shown_by(&live, "c");
            assert!(shown.contains("7 ") && expected.starts_with(&shown), "{disk:?} {cancel:?} {on_cancel:?}: {shown}");
            assert_nothing_after_the_end(&live);
            assert_eq!(
                joined(&feed_from_journal(&journal, &run).await),
                joined(&live),
                "{disk:?} {cancel:?} {on_cancel:?}"
            );
            assert_eq!(joined(&read_all(&mut run.feed()).await), joined(&live), "nothing comes later");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_one_turn_that_talk_at_once_are_told_apart_and_each_keeps_its_order() {
    for journal in [memory(), TestJournal::slow(None, millis(40))] {
        let talks = tool("tool", |call| async move {
            for number in 0..30 {
                call.progress.show(&format!("{}{number} ", call.call));
                sleep(millis(3)).await;
            }
            Ok("done".into())
        });
        let model = ScriptedModel::new([calls(&[("a", "tool"), ("b", "tool"), ("c", "tool")]), says("Well.")]);
        let session = Agent::builder().model(model).runtime(&runtime_on(&journal)).tool(talks).open();
        let run = session.start("Go.").unwrap();
        let live = read_all(&mut run.feed()).await;
        settled(&session, &run).await;
        for call in ["a", "b", "c"] {
            let expected: String = (0..30).map(|number| format!("{call}{number} ")).collect();
            assert_eq!(shown_by(&live, call), expected);
        }
        assert_nothing_after_the_end(&live);
        assert_eq!(joined(&feed_from_journal(&journal, &run).await), joined(&live));
    }
}

#[tokio::test(start_paused = true)]
async fn once_a_call_is_closed_nothing_of_it_is_shown_whoever_still_holds_its_progress() {
    let kept: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let keeper = Arc::clone(&kept);
    let tool = FnTool::new("tool", "Leaks its progress.", json!({"type": "object"}), move |call| {
        keeper.lock().unwrap().push(call.progress.clone());
        call.progress.show("while it runs");
        async { Ok("done".into()) }
    });
    let model = ScriptedModel::new([calls(&[("c", "tool")]), says_and_hangs("Hm")]);
    let session = agent(&model).tool(tool).open();
    let run = start_until_shown(&session, "Go.", "Hm").await;
    kept.lock().unwrap()[0].show("while the model speaks");
    run.cancel(Cancel::now());
    kept.lock().unwrap()[0].show("after the pull");
    cancelled(&session, &run).await;
    kept.lock().unwrap()[0].show("after the end");
    settle_down().await;
    let items = read_all(&mut run.feed()).await;
    assert_eq!(shown_by(&items, "c"), "while it runs");
    let mut answer = String::new();
    for (_, kind, text) in joined(&items) {
        if kind == Kind::Text {
            answer.push_str(&text);
        }
    }
    assert_eq!(answer, "Hm", "and nothing gets into the answer");
}

#[tokio::test(start_paused = true)]
async fn a_call_shows_256_kib_and_then_one_notice_and_a_character_is_never_cut() {
    // How it is chunked, and how many bytes of "ö" fit before the notice.
    let cases: [(&str, usize); 4] = [("ö", 2), ("aö", 3), ("aöö€", 8), ("🙂", 4)];
    for (chunk, length) in cases {
        assert_eq!(chunk.len(), length);
        let journal = memory();
        let text = chunk.to_owned();
        let tool = FnTool::new("tool", "Talks.", json!({"type": "object"}), move |call| {
            let text = text.clone();
            async move {
                for _ in 0..CAP / text.len() + 100 {
                    call.progress.show(&text);
                }
                sleep(secs(1)).await;
                call.progress.show("and more");
                Ok("done".into())
            }
        });
        let session = on(&journal, tool);
        let (run, _) = run_to_end(&session, "Go.").await;
        let live = shown_by(&read_all(&mut run.feed()).await, "c");
        let kept = live.strip_suffix(NOTICE).unwrap_or_else(|| panic!("{chunk}: no notice at the end"));
        assert!(!kept.contains("256 KiB"), "one notice");
        assert!(kept.len() <= CAP && kept.len() > CAP - 4, "{chunk}: {} bytes", kept.len());
        assert!(kept.chars().zip(chunk.chars().cycle()).all(|(a, b)| a == b), "{chunk}: bytes were lost on the way");
        assert_eq!(shown_by(&feed_from_journal(&journal, &run).await, "c"), live);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fits_exactly_is_shown_without_a_notice_and_one_huge_text_is_cut() {
    let exact = tool("tool", |call| async move {
        call.progress.show(&"x".repeat(CAP));
        call.progress.show("");
        Ok("done".into())
    });
    let huge = tool("tool", |call| async move {
        call.progress.show(&"€".repeat(CAP));
        Ok("done".into())
    });
    for (tool, kept, has_notice) in [(exact, CAP, false), (huge, CAP / 3 * 3, true)] {
        let journal = memory();
        let session = on(&journal, tool);
        let (run, _) = run_to_end(&session, "Go.").await;
        let live = shown_by(&read_all(&mut run.feed()).await, "c");
        assert_eq!((live.ends_with(NOTICE), live.trim_end_matches(NOTICE).len()), (has_notice, kept));
        assert_eq!(shown_by(&feed_from_journal(&journal, &run).await, "c"), live);
    }
}

#[tokio::test(start_paused = true)]
async fn the_bound_is_each_calls_own() {
    let talks = tool("tool", |call| async move {
        call.progress.show(&"x".repeat(CAP - 1));
        Ok("done".into())
    });
    let session = scripted([calls(&[("a", "tool"), ("b", "tool")]), says("Well.")]).tool(talks).open();
    let (run, _) = run_to_end(&session, "Go.").await;
    let items = read_all(&mut run.feed()).await;
    assert_eq!((shown_by(&items, "a").len(), shown_by(&items, "b").len()), (CAP - 1, CAP - 1));
}

#[tokio::test(start_paused = true)]
async fn a_reader_can_go_on_from_any_byte_of_what_a_tool_shows() {
    for journal in [memory(), TestJournal::slow(None, millis(30))] {
        let session = on(&journal, tool("tool", counts));
        let run = session.start("Go.").unwrap();
        let live = read_all(&mut run.feed()).await;
        settled(&session, &run).await;
        let whole = joined(&live);
        let (seq, _, text) = whole.iter().find(|(_, kind, _)| matches!(kind, Kind::ToolOutput(_))).unwrap();
        let next = next_runtime_on(&journal);
        for byte in 0..=text.len() {
            let from = Cursor { seq: *seq, byte };
            // A place inside a character counts as that character's beginning.
            let rest = &text[text.floor_char_boundary(byte)..];
            for mut feed in [run.feed_from(from), next.feed(run.id(), from).await.unwrap().unwrap()] {
                let items = read_all(&mut feed).await;
                let first = joined(&items).into_iter().find(|(at, _, _)| at == seq);
                assert_eq!(first.map(|(_, _, text)| text).unwrap_or_default(), rest, "from byte {byte}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_and_goes_while_a_tool_talks_misses_nothing_and_sees_nothing_twice() {
    let journal = TestJournal::slow(None, millis(30));
    let session = on(&journal, tool("tool", counts));
    let run = session.start("Go.").unwrap();
    let (mut cursor, mut items) = (Cursor::default(), Vec::new());
    loop {
        // A new reader for each item.
        let Some(item) = run.feed_from(cursor).next().await else { break };
        cursor = item.cursor();
        items.push(item);
    }
    settled(&session, &run).await;
    assert_eq!(shown_by(&items, "c"), counted());
    assert_eq!(joined(&items), joined(&feed_from_journal(&journal, &run).await));
}

/// A tool that talks for two seconds, and a reader that notes what it saw and when.
async fn watched(session: &Session, until: std::time::Duration) -> (Run, Vec<(Instant, FeedItem)>) {
    let run = session.start("Go.").unwrap();
    let (mut feed, mut seen) = (run.feed(), Vec::new());
    let dies = Instant::now() + until;
    while let Ok(Some(item)) = tokio::time::timeout_at(dies, feed.next()).await {
        seen.push((Instant::now(), item));
    }
    (run, seen)
}

async fn talks(call: Invocation) -> Returned {
    for number in 0..200 {
        call.progress.show(&format!("å{number} "));
        sleep(millis(10)).await;
    }
    Ok("done".into())
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_what_a_tool_had_shown_is_there_but_for_the_last_50_milliseconds() {
    for at in [millis(103), millis(250), millis(777)] {
        let journal = memory();
        let session = on(&journal, tool("tool", talks));
        let (run, seen) = watched(&session, at).await;
        journal.crash();
        let died = Instant::now();
        let durable = TestJournal::new(journal.durable(), None);
        let next = next_runtime_on(&durable);
        next.recover().await.unwrap();
        let items = read_all(&mut next.feed(run.id(), Cursor::default()).await.unwrap().unwrap()).await;
        let kept = shown_by(&items, "c");
        let old: Vec<FeedItem> =
            seen.iter().filter(|(when, _)| *when + millis(50) <= died).map(|(_, item)| item.clone()).collect();
        let all: Vec<FeedItem> = seen.iter().map(|(_, item)| item.clone()).collect();
        assert!(!kept.is_empty() && shown_by(&all, "c").starts_with(&kept), "{at:?}: {kept}");
        assert!(kept.starts_with(&shown_by(&old, "c")), "{at:?}: more than 50 ms of what was shown are lost");
        assert_nothing_after_the_end(&items);
        let receipt = next.find(run.id()).await.unwrap().unwrap().receipt().unwrap();
        assert_eq!(receipt.calls[0].verdict, Verdict::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_place_was_lost_in_a_crash_is_told_so_and_goes_on() {
    let journal = memory();
    let session = on(&journal, tool("tool", talks));
    let (run, seen) = watched(&session, millis(250)).await;
    journal.crash();
    let next = next_runtime_on(&TestJournal::new(journal.durable(), None));
    next.recover().await.unwrap();
    let place = seen.last().unwrap().1.cursor();
    let mut feed = next.feed(run.id(), Cursor { byte: place.byte + 1_000, ..place }).await.unwrap().unwrap();
    assert!(matches!(feed.next().await, Some(FeedItem::TextLost { at }) if at.seq == place.seq && at.byte > 0));
    let rest = read_all(&mut feed).await;
    assert!(matches!(rest.last(), Some(FeedItem::Fact(record)) if matches!(record.event, Event::RunSettled { .. })));
}

#[tokio::test(start_paused = true)]
async fn on_a_disk_that_has_stopped_no_more_is_shown_than_a_crash_may_lose() {
    let journal = TestJournal::slow(None, secs(5));
    let session = on(&journal, tool("tool", talks));
    let run = start_until(&session, "Go.", |event| matches!(event, Event::ToolStarted { .. })).await;
    let began = Instant::now();
    let mut feed = run.feed_from(Cursor { seq: run.seq(), byte: 0 });
    let mut shown = String::new();
    while let Ok(Some(item)) = tokio::time::timeout_at(began + secs(4), feed.next()).await {
        let FeedItem::Delta(delta) = item else { break };
        assert!(
            began.elapsed() <= millis(60),
            "{:?} is shown {:?} after what is not durable",
            delta.text,
            began.elapsed()
        );
        shown.push_str(&delta.text);
    }
    assert!(shown.starts_with("å0 å1 "), "{shown}");
    let live = read_all(&mut run.feed()).await;
    settled(&session, &run).await;
    let expected: String = (0..200).map(|number| format!("å{number} ")).collect();
    assert_eq!(shown_by(&live, "c"), expected, "what had to wait is shown in the end");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_while_a_tool_shows_ends_the_run_and_the_tool() {
    let journal = memory();
    let gone = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&gone);
    let tool = FnTool::new("tool", "Talks.", json!({"type": "object"}), move |call: Invocation| {
        let guard = Flag(Arc::clone(&flag));
        async move {
            let _guard = guard;
            loop {
                call.progress.show("on and on ");
                sleep(millis(1)).await;
            }
        }
    });
    let session = on(&journal, tool);
    let run = start_until_shown(&session, "Go.", "on and on").await;
    journal.fail(JournalError::Storage("disk full".into()));
    let failed = Instant::now();
    run.settled().await.unwrap_err();
    assert!(failed.elapsed() <= millis(100), "{:?}", failed.elapsed());
    assert!(gone.load(Ordering::SeqCst), "the tool is stopped");
    journal.heal();
    let outcome = run.outcome().await;
    assert!(matches!(&*outcome.ending, Ending::Failed(failure) if failure.message.contains("disk full")));
    session.agent().runtime().idle().await;
    assert_nothing_after_the_end(&read_all(&mut run.feed()).await);
}

struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn is_tool_end(entry: &Entry) -> bool {
    matches!(entry, Entry::Fact(record) if matches!(record.event, Event::ToolFinished { .. }))
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_says_while_facts_are_on_their_way_comes_after_them_and_is_not_lost() {
    let journal = HeldJournal::new(is_tool_end);
    let clock = Arc::new(andon_runtime::TestClock::new());
    let runtime = Runtime::builder().journal(Arc::clone(&journal)).one_lane().clock(clock).build();
    let model = ScriptedModel::new([calls(&[("q", "quick"), ("c", "tool")]), says("Well.")]);
    let quick = tool("quick", |_| async { Ok("ok".into()) });
    let talks = tool("tool", talks);
    let session = Agent::builder().model(model).runtime(&runtime).tool(quick).tool(talks).open();
    let run = session.start("Go.").unwrap();
    journal.until_a_batch_is_held().await;
    sleep(millis(500)).await;
    journal.release().await;
    let live = read_all(&mut run.feed()).await;
    settled(&session, &run).await;
    let expected: String = (0..200).map(|number| format!("å{number} ")).collect();
    assert_eq!(shown_by(&live, "c"), expected);
    assert_nothing_after_the_end(&live);
    assert_eq!(joined(&feed_from_journal(&journal.durable, &run).await), joined(&live));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_several_threads_at_once_every_line_is_whole_and_each_threads_are_in_order() {
    let tool = FnTool::blocking("tool", "Talks.", json!({"type": "object"}), |call: Invocation| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let progress = call.progress.clone();
                scope.spawn(move || {
                    for number in 0..500 {
                        progress.show(&format!("{thread}:{number}å\n"));
                    }
                });
            }
        });
        Ok("done".into())
    });
    let journal = memory();
    let runtime = Runtime::builder().journal(Arc::new(journal.clone())).build();
    let model = ScriptedModel::new([calls(&[("c", "tool")])]);
    let session = Agent::builder().model(model).runtime(&runtime).tool(tool).open();
    let run = session.start("Go.").unwrap();
    let live = read_all(&mut run.feed()).await;
    settled(&session, &run).await;
    let shown = shown_by(&live, "c");
    for thread in 0..4 {
        let own: Vec<&str> = shown.lines().filter(|line| line.starts_with(&format!("{thread}:"))).collect();
        let expected: Vec<String> = (0..500).map(|number| format!("{thread}:{number}å")).collect();
        assert_eq!(own, expected);
    }
    assert_eq!(shown.lines().count(), 2_000);
    assert_eq!(joined(&feed_from_journal(&journal, &run).await), joined(&live));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_shows_in_a_tight_loop_does_not_keep_a_pull_waiting() {
    let talks: fn(Invocation) -> BoxFuture<Returned> = |call| {
        Box::pin(async move {
            while !call.cord.is_pulled() {
                call.progress.show("x");
            }
            Ok("stopped".into())
        })
    };
    let on_thread = FnTool::blocking("thread", "Talks.", json!({"type": "object"}), |call: Invocation| {
        while !call.cord.is_pulled() {
            call.progress.show("y");
        }
        Ok("stopped".into())
    })
    .effect(Effect::ReadOnly);
    let in_task = FnTool::new("task", "Talks.", json!({"type": "object"}), talks).effect(Effect::ReadOnly);
    let model = ScriptedModel::new([calls(&[("a", "task"), ("b", "thread"), ("c", "thread")])]);
    let runtime = Runtime::builder().build();
    let session = Agent::builder().model(model).runtime(&runtime).tool(in_task).tool(on_thread).open();
    let run = session.start("Go.").unwrap();
    tokio::time::timeout(secs(60), until_shown(&run, "y")).await.unwrap();
    // The tools talk until the cord is pulled: a pull that waited for them would wait forever.
    run.cancel(Cancel::graceful());
    let outcome = tokio::time::timeout(secs(60), run.outcome()).await.unwrap();
    assert!(outcome.ending.is_cancelled());
    // One of the threads may not have begun.
    let is_stopped = |verdict| matches!(verdict, Verdict::Cut | Verdict::NeverStarted);
    assert!(outcome.receipt.calls.iter().all(|account| is_stopped(account.verdict)), "{:?}", outcome.receipt.calls);
}
