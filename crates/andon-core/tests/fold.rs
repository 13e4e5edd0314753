//! What the fold of a run's events promises: sense, order, and the next step.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use andon_core::closing::{Why, close_model};
use andon_core::digest::Digest;
use common::*;

mod sense {
    use super::*;

    #[test]
    fn a_journal_begins_with_run_accepted() {
        let record = |event| Entry::Fact(Arc::new(record(1, event)));
        let lump = Entry::Lump(Arc::new(Lump { v: 1, from: 0, span: Span::new(1) }));
        for journal in [vec![], vec![record(Event::RunStarted)], vec![lump]] {
            assert_eq!(RunProgress::fold(&journal).unwrap_err(), FoldError::NoBeginning);
        }
        assert!(RunProgress::fold(&[record(Event::RunAccepted { accepted: accepted() })]).is_ok());
    }

    #[test]
    fn a_journal_begins_at_one() {
        let second = Entry::Fact(Arc::new(record(2, Event::RunAccepted { accepted: accepted() })));
        assert_eq!(RunProgress::fold(&[second]).unwrap_err(), FoldError::Gap { expected: 1, found: 2 });
    }

    #[test]
    fn a_missing_or_repeated_seq_is_refused() {
        for found in [1, 3] {
            let mut progress = RunProgress::new(accepted());
            let refused = progress.apply_record(&record(found, Event::RunStarted));
            assert_eq!(refused, Err(FoldError::Gap { expected: 2, found }));
        }
    }

    /// What came before, the event, and why it cannot follow.
    type Case = (RunProgress, Event, &'static str);

    fn assert_refused(cases: Vec<Case>) {
        for (mut progress, event, why) in cases {
            let seq = progress.seq() + 1;
            let refused = progress.apply(&event);
            assert_eq!(refused, Err(FoldError::OutOfPlace { seq, why }), "{event:?}");
            assert_eq!(progress.seq() + 1, seq, "a refused event changes nothing");
        }
    }

    #[test]
    fn nothing_of_a_run_happens_before_it_has_started() {
        let events = [
            hook_started(HookPoint::BeforeRun),
            model_started(1),
            message(Message::assistant("So.")),
            usage(1),
            answered(1, ModelStop::EndTurn),
            backoff_started(),
            tool_started("a"),
            refused("a"),
            Event::GraceEnded { calls: [id("a")].into() },
        ];
        let queued = |event| (fold([]).unwrap(), event, "the run has not started");
        assert_refused(events.map(queued).into());
    }

    #[test]
    fn an_event_of_the_runs_life_out_of_place_is_refused() {
        let accepted = Event::RunAccepted { accepted: accepted() };
        assert_refused(vec![
            (run([]), accepted, "a run is accepted once"),
            (run([]), Event::RunStarted, "a run starts once"),
            (run([hook_started(HookPoint::BeforeRun)]), hook_started(HookPoint::BeforeModel), "a hook is open"),
            (run([]), hook_finished(HookPoint::BeforeRun), "no such hook is open"),
            (run([hook_started(HookPoint::BeforeRun)]), hook_finished(HookPoint::AfterRun), "no such hook is open"),
        ]);
    }

    #[test]
    fn an_event_of_a_model_call_out_of_place_is_refused() {
        let busy = "a model is called when nothing else is open";
        let answer = "an answer needs an open model call, and each call has only one";
        let none = "no such model call is open";
        let once = "usage must belong to an open model call, and comes once";
        let two = "two calls of one answer have the same id";
        assert_refused(vec![
            (run([model_started(1)]), model_started(2), busy),
            (asked(&["a"], []), model_started(2), busy),
            (run([]), message(Message::assistant("So.")), answer),
            (run([model_started(1), message(Message::assistant("So."))]), message(Message::assistant("So.")), answer),
            (run([model_started(1)]), message(Message::user("So.")), "an answer must have the role assistant"),
            (run([model_started(1)]), message(asking(&["a", "b", "a"])), two),
            (run([]), usage(1), once),
            (run([model_started(1)]), usage(2), once),
            (run([model_started(1), usage(1)]), usage(1), once),
            (run([model_started(1), answered(1, ModelStop::EndTurn)]), usage(1), once),
            (run([]), answered(1, ModelStop::EndTurn), none),
            (run([model_started(1)]), answered(2, ModelStop::EndTurn), none),
        ]);
    }

    #[test]
    fn an_event_of_a_back_off_out_of_place_is_refused() {
        let between = "a back-off is only allowed between two model calls";
        let busy = "a model is called when nothing else is open";
        assert_refused(vec![
            (run([backoff_started()]), backoff_started(), between),
            (run([model_started(1)]), backoff_started(), between),
            (run([backoff_started()]), model_started(1), busy),
            (run([]), Event::BackoffFinished, "no back-off is open"),
        ]);
    }

    #[test]
    fn an_event_of_a_tool_call_out_of_place_is_refused() {
        let both = ["a", "b"];
        let unknown = "the model did not ask for this call in this turn";
        let approval = "approval is requested before the call starts";
        let starts = "a call starts once, and only when it may";
        let finishes = "only a call that runs can finish";
        let refuses = "a call that has started cannot be refused";
        assert_refused(vec![
            (run([]), tool_started("a"), unknown),
            (asked(&["a"], [tool_started("a"), tool_finished("a")]), tool_started("a"), unknown),
            (asked(&both, []), approval_requested("c"), unknown),
            (asked(&both, [tool_started("a")]), approval_requested("a"), approval),
            (asked(&both, [approval_requested("a")]), approval_requested("a"), approval),
            (asked(&both, []), approved("a"), "no approval is open for this call"),
            (
                asked(&both, [approval_requested("a"), approved("a")]),
                approved("a"),
                "no approval is open for this call",
            ),
            (asked(&both, [tool_started("a")]), tool_started("a"), starts),
            (asked(&both, [approval_requested("a")]), tool_started("a"), starts),
            (asked(&both, [refused("a")]), tool_started("a"), starts),
            (asked(&both, []), tool_finished("a"), finishes),
            (asked(&both, [tool_started("a"), tool_finished("a")]), tool_finished("a"), finishes),
            (asked(&both, [tool_started("a")]), refused("a"), refuses),
            (asked(&both, [refused("a")]), refused("a"), refuses),
        ]);
    }

    #[test]
    fn a_no_is_never_turned_into_a_yes() {
        for verdict in [Approval::Denied { by: None, why: None }, Approval::Closed] {
            let no = || asked(&["a"], [approval_requested("a"), approval_resolved("a", verdict.clone())]);
            assert_refused(vec![
                (no(), approved("a"), "no approval is open for this call"),
                (no(), denied("a"), "no approval is open for this call"),
                (no(), approval_requested("a"), "approval is requested before the call starts"),
                (no(), tool_started("a"), "a call starts once, and only when it may"),
                (no(), tool_finished("a"), "only a call that runs can finish"),
            ]);
            assert_eq!(no().calls()[0].state, CallState::Denied(Box::new(verdict.clone())));
            assert!(no().apply(&refused("a")).is_ok());
        }
    }

    #[test]
    fn a_result_for_another_call_is_refused() {
        let both = ["a", "b"];
        let why = "a result belongs to the call that it closes";
        assert_refused(vec![
            (asked(&both, [tool_started("a")]), finished_with("a", result("b")), why),
            (asked(&both, []), refused_with("a", result("b")), why),
        ]);
    }

    #[test]
    fn a_run_does_not_settle_while_something_is_open() {
        let open = "something is still open";
        assert_refused(vec![
            (run([model_started(1)]), settled(cancelled()), open),
            (asked(&["a"], []), settled(cancelled()), open),
            (run([hook_started(HookPoint::BeforeRun)]), settled(cancelled()), open),
            (run([backoff_started()]), settled(cancelled()), open),
        ]);
    }

    #[test]
    fn nothing_follows_run_settled() {
        let events = [
            Event::RunStarted,
            model_started(1),
            hook_started(HookPoint::AfterRun),
            cancel_requested(Force::Now),
            Event::RunQuieted,
            settled(completed()),
        ];
        let done = || run([settled(cancelled())]);
        assert_refused(events.map(|event| (done(), event, "the run has settled")).into());
        assert_eq!((done().state(), done().ending()), (RunState::Settled, Some(&Arc::new(cancelled()))));
    }

    #[test]
    fn text_streams_only_while_the_model_is_called_and_a_hole_in_it_bricks_no_session() {
        let mut journal = journal([Event::RunStarted, model_started(1)]);
        let mut span = Span::new(3);
        span.push(&Kind::Text, "So it is");
        let hole = span.lump_from(3, 1).unwrap();
        journal.push(Entry::Lump(Arc::new(hole)));
        let spans = RunProgress::fold(&journal).unwrap().open_model().unwrap().spans.clone();
        assert!(spans.iter().all(|span| span.text.is_empty()), "text after a hole is not taken for the beginning");
        let lump = Arc::new(span.lump_from(0, 0).unwrap());
        let refused = RunProgress::fold(&[journal[0].clone(), journal[1].clone(), Entry::Lump(lump)]).unwrap_err();
        assert_eq!(
            refused,
            FoldError::OutOfPlace { seq: 2, why: "text streams only while the model is called or a tool runs" }
        );
    }

    #[test]
    fn no_text_streams_after_the_answer_that_it_would_belong_to() {
        let mut journal = journal([Event::RunStarted, model_started(1), message(Message::assistant("So."))]);
        let mut span = Span::new(4);
        span.push(&Kind::Text, "And");
        journal.push(Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap())));
        let refused = RunProgress::fold(&journal).unwrap_err();
        assert_eq!(
            refused,
            FoldError::OutOfPlace { seq: 4, why: "text streams only while the model is called or a tool runs" }
        );
    }
}

mod output {
    use super::*;

    fn lump(kind: &Kind, text: &str, after: u64) -> Entry {
        let mut span = Span::new(after);
        span.push(kind, text);
        Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap()))
    }

    #[test]
    fn what_a_tool_shows_may_come_only_while_a_tool_runs_and_is_not_part_of_the_conversation() {
        let shown = Kind::ToolOutput(id("a"));
        let asked = || {
            [Event::RunStarted, model_started(1), message(asking(&["a"])), usage(1), answered(1, ModelStop::ToolUse)]
        };
        let mut early = journal(asked());
        let seq = early.len() as u64;
        early.push(lump(&shown, "early", seq));
        assert!(RunProgress::fold(&early).is_err(), "nothing runs yet");

        let mut journal = journal(asked().into_iter().chain([tool_started("a")]));
        let before = RunProgress::fold(&journal).unwrap();
        journal.push(lump(&shown, "working", seq + 1));
        let after = RunProgress::fold(&journal).unwrap();
        assert_eq!(after.messages(), before.messages());
        journal.push(lump(&Kind::Text, "the model's?", seq + 1));
        assert!(RunProgress::fold(&journal).is_err(), "an answer does not stream while tools run");
    }

    #[test]
    fn an_approval_of_other_arguments_than_the_call_has_does_not_fold() {
        let asks = || {
            [
                Event::RunStarted,
                model_started(1),
                message(asking(&["a"])),
                usage(1),
                answered(1, ModelStop::ToolUse),
                approval_requested("a"),
            ]
        };
        let yes = |arguments: &[u8]| {
            approval_resolved("a", Approval::Approved { by: None, arguments: Some(Digest::of(arguments)), why: None })
        };
        assert!(RunProgress::fold(&journal(asks().into_iter().chain([yes(b"{}")]))).is_ok());
        assert!(RunProgress::fold(&journal(asks().into_iter().chain([yes(b"{\"all\":true}")]))).is_err());
    }
}

mod next {
    use super::*;

    #[test]
    fn a_run_that_waits_for_its_session_or_has_settled_has_no_next_step() {
        assert_eq!(RunProgress::new(accepted()).next_step(8), None);
        assert_eq!(run([settled(cancelled())]).next_step(8), None);
    }

    #[test]
    fn the_model_is_asked_first_and_again_when_every_call_has_its_result() {
        assert_eq!(step(&run([])), Step::CallModel);
        assert_eq!(step(&asked(&["a"], [tool_started("a"), tool_finished("a")])), Step::CallModel);
        assert_eq!(step(&asked(&["a"], [refused("a")])), Step::CallModel);
    }

    #[test]
    fn an_answer_without_calls_completes_the_run_with_the_models_own_reason() {
        for stop in [ModelStop::EndTurn, ModelStop::MaxTokens, ModelStop::Refused] {
            let progress = run([model_started(1), message(Message::assistant("So.")), answered(1, stop)]);
            assert_eq!(step(&progress), settle(Ending::Completed { stop }));
        }
    }

    #[test]
    fn a_model_that_answered_with_nothing_is_not_asked_again() {
        let nothing = || Message::new(Role::Assistant, vec![]);
        let absent = || vec![model_started(1), answered(1, ModelStop::EndTurn)];
        let empty = || vec![model_started(1), message(nothing()), answered(1, ModelStop::EndTurn)];
        for answer in [absent(), empty()] {
            assert_eq!(step(&run(answer)), settle(completed()));
        }
        let silent = [refused("a"), model_started(2), answered(2, ModelStop::EndTurn)];
        assert_eq!(step(&asked(&["a"], silent)), settle(completed()), "after results, too");
    }

    #[test]
    fn an_answer_completes_the_run_only_while_it_is_the_latest() {
        let calls_closed_early =
            [model_started(1), message(asking(&["a"])), refused("a"), answered(1, ModelStop::ToolUse)];
        assert_eq!(step(&run(calls_closed_early)), Step::CallModel);
        let again = [model_started(1), answered(1, ModelStop::EndTurn), model_started(2), failed(2)];
        let forgiven = run(again.into_iter().chain([backoff_started(), Event::BackoffFinished]));
        assert_eq!(step(&forgiven), Step::CallModel);
    }

    #[test]
    fn concurrent_calls_start_together_and_sequential_ones_one_after_the_other() {
        let all = asked(&["a", "b", "c"], []);
        assert_eq!(all.next_step(8), Some(start(&["a", "b", "c"])));
        assert_eq!(all.next_step(2), Some(start(&["a", "b"])));
        assert_eq!(all.next_step(1), Some(start(&["a"])));
        let first = asked(&["a", "b", "c"], [tool_started("a")]);
        assert_eq!(first.next_step(8), Some(start(&["b", "c"])));
        assert_eq!(first.next_step(1), Some(start(&[])), "one runs: wait for it");
        let second = asked(&["a", "b", "c"], [tool_started("a"), tool_finished("a")]);
        assert_eq!(second.next_step(1), Some(start(&["b"])));
    }

    #[test]
    fn a_call_that_waits_for_a_person_holds_up_nothing_but_itself() {
        let one = asked(&["a", "b"], [approval_requested("a")]);
        assert_eq!((step(&one), one.state()), (start(&["b"]), RunState::Running));
        let both = asked(&["a", "b"], [approval_requested("a"), tool_started("b")]);
        assert_eq!((step(&both), both.phase()), (start(&[]), Phase::Tools));
        let alone = asked(&["a", "b"], [approval_requested("a"), tool_started("b"), tool_finished("b")]);
        assert_eq!((step(&alone), alone.state()), (Step::AwaitApproval, RunState::Waiting));
        let yes = asked(&["a"], [approval_requested("a"), approved("a")]);
        assert_eq!(step(&yes), start(&["a"]));
        let no = asked(&["a"], [approval_requested("a"), denied("a"), refused("a")]);
        assert_eq!(step(&no), Step::CallModel);
    }

    #[test]
    fn a_denied_call_neither_starts_nor_is_waited_for() {
        let no = || [approval_requested("a"), denied("a")];
        assert_eq!(step(&asked(&["a", "b"], no())), start(&["b"]));
        let other = asked(&["a", "b"], no().into_iter().chain([approval_requested("b")]));
        assert_eq!((step(&other), other.state()), (Step::AwaitApproval, RunState::Waiting));
        let alone = asked(&["a"], no());
        let message = "a call that was denied was not closed; this is a defect in Andon";
        let defect = Ending::Failed(Failure::new(FailureKind::Internal, message));
        assert_eq!((step(&alone), alone.phase()), (settle(defect), Phase::Between), "no news would end a wait");
    }

    #[test]
    fn after_turn_lets_the_answer_and_its_tools_finish_and_makes_no_further_model_call() {
        let stop = || cancel_requested(Force::AfterTurn);
        assert_eq!(step(&run([stop()])), settle(cancelled()), "no turn has begun");
        assert_eq!(step(&asked(&["a"], [stop()])), start(&["a"]));
        assert_eq!(step(&asked(&["a"], [stop(), tool_started("a")])), start(&[]));
        let turn_ended = asked(&["a"], [stop(), tool_started("a"), tool_finished("a")]);
        assert_eq!((step(&turn_ended), turn_ended.state()), (settle(cancelled()), RunState::Cancelling));
        let last = [model_started(1), stop(), message(Message::assistant("So.")), answered(1, ModelStop::EndTurn)];
        assert_eq!(step(&run(last)), settle(completed()), "that turn was the last one");
    }

    #[test]
    fn a_pull_that_cuts_settles_whatever_is_in_progress_and_keeps_its_first_reason() {
        for force in [Force::Graceful, Force::Now] {
            assert_eq!(step(&asked(&["a"], [cancel_requested(force)])), settle(cancelled()));
            let late = [model_started(1), message(Message::assistant("So.")), answered(1, ModelStop::EndTurn)];
            assert_eq!(step(&run(late.into_iter().chain([cancel_requested(force)]))), settle(cancelled()));
        }
        let harder = CancelRequest::new(Reason::Shutdown, Force::Now, request(Force::Now).requested_at);
        let harder = Event::CancelRequested { request: Arc::new(harder), delivered_at: Stamp::default() };
        let progress = run([cancel_requested(Force::AfterTurn), harder]);
        assert_eq!(progress.cancel(), Some((Reason::Requested, Force::Now)));
    }

    #[test]
    fn the_force_only_rises() {
        let progress = run([cancel_requested(Force::Now), cancel_requested(Force::AfterTurn)]);
        assert_eq!(progress.cancel(), Some((Reason::Requested, Force::Now)));
    }

    #[test]
    fn a_failed_call_fails_the_run_unless_a_back_off_forgives_it() {
        let progress = run([model_started(1), failed(1)]);
        assert_eq!(step(&progress), settle(Ending::Failed(failure())));
        let backoff = backoff_started();
        let waiting = run([model_started(1), failed(1), backoff.clone()]);
        assert_eq!((waiting.phase(), waiting.in_backoff()), (Phase::Backoff, true));
        let again = run([model_started(1), failed(1), backoff.clone(), Event::BackoffFinished]);
        assert_eq!(step(&again), Step::CallModel);
        let told = [model_started(1), failed(1), backoff, cancel_requested(Force::AfterTurn), Event::BackoffFinished];
        assert_eq!(step(&run(told)), settle(cancelled()));
        let pulled = run([model_started(1), failed(1), cancel_requested(Force::Graceful)]);
        assert_eq!(step(&pulled), settle(cancelled()), "a pull is stronger than a failure");
    }
}

mod tally {
    use super::*;

    #[test]
    fn every_attempt_counts_as_a_model_call_every_answer_as_a_turn_and_every_usage_in_the_sum() {
        let failed = [model_started(1), usage(1), failed(1), backoff_started(), Event::BackoffFinished];
        let asks = [model_started(2), message(asking(&["a"])), usage(2), answered(2, ModelStop::ToolUse)];
        let tool = [tool_started("a"), tool_finished("a")];
        let ends = [model_started(3), message(Message::assistant("So.")), usage(3), answered(3, ModelStop::EndTurn)];
        let before = run([]);
        let after = run(failed.into_iter().chain(asks).chain(tool).chain(ends));
        assert_eq!((before.model_calls(), before.turns(), before.used()), (0, 0, Used::NONE));
        let sum = reported().plus(reported()).plus(reported());
        assert_eq!((after.model_calls(), after.turns(), after.used()), (3, 2, sum));
    }

    #[test]
    fn a_run_has_started_once_it_has_its_session_and_forever() {
        assert!(!fold([]).unwrap().has_started());
        assert!(!fold([cancel_requested(Force::Now), settled(cancelled())]).unwrap().has_started());
        assert!(run([]).has_started() && run([settled(cancelled())]).has_started());
    }

    #[test]
    fn a_hook_that_panics_fails_the_run_unless_it_is_a_tool_hook() {
        let ended = |point, end| run([hook_started(point), Event::hook_finished(point, end)]);
        for point in [HookPoint::BeforeRun, HookPoint::AfterRun, HookPoint::BeforeModel, HookPoint::AfterModel] {
            let message = format!("the {} hook panicked", point.as_str());
            let failed = Ending::Failed(Failure::new(FailureKind::Hook, message));
            assert_eq!(step(&ended(point, HookEnd::Panicked)), settle(failed));
            assert_eq!(step(&ended(point, HookEnd::Continued)), Step::CallModel);
        }
        for point in [HookPoint::BeforeTool, HookPoint::AfterTool] {
            assert_eq!(step(&ended(point, HookEnd::Panicked)), Step::CallModel);
        }
    }
}

mod history {
    use super::*;

    #[test]
    fn results_stand_in_the_models_order_whatever_order_they_came_in() {
        let progress = asked(
            &["a", "b", "c"],
            [tool_started("a"), tool_started("c"), tool_finished("c"), refused("b"), tool_finished("a")],
        );
        let Event::ToolRefused { result: no, .. } = refused("b") else { panic!("a refusal") };
        let parts = [result("a"), (*no).clone(), result("c")].map(Part::ToolResult).to_vec();
        let expected = [Message::user("Look."), asking(&["a", "b", "c"]), Message::new(Role::Tool, parts)];
        assert_eq!(progress.messages().iter().map(|message| (**message).clone()).collect::<Vec<_>>(), expected);
        assert_eq!(progress.calls(), []);
    }

    #[test]
    fn results_join_the_history_only_when_the_last_call_is_closed() {
        let progress = asked(&["a", "b"], [tool_started("b"), tool_finished("b")]);
        assert_eq!(progress.messages().len(), 2);
        assert_eq!(progress.calls()[1].state, CallState::Closed(Arc::new(result("b"))));
    }

    #[test]
    fn a_run_that_never_started_adds_nothing() {
        let progress = fold([cancel_requested(Force::Graceful), Event::RunQuieted, settled(cancelled())]).unwrap();
        assert!(progress.messages().is_empty());
        assert_eq!((progress.state(), progress.last_answer()), (RunState::Settled, None));
    }

    #[test]
    fn the_events_that_close_a_cut_answer_fold_and_let_the_run_settle() {
        let mut span = Span::new(3);
        span.push(&Kind::Text, "Looking");
        span.push(&Kind::ToolInput(head(0, "a")), "{}");
        span.mark(MarkKind::CallEnded { index: 0 });
        span.push(&Kind::ToolInput(head(1, "b")), "{");
        let why = Why::Cancelled(Reason::Requested);
        let closing = close_model(1, [&span], Event::usage(1, Used::UNKNOWN), None, &why);
        let events = [model_started(1), cancel_requested(Force::Now)].into_iter().chain(closing);
        let progress = run(events.chain([Event::RunQuieted, settled(cancelled())]));
        let answer = progress.last_answer().unwrap();
        assert_eq!((answer.text().as_str(), answer.cut), ("Looking", Some(Cut::Cancelled(Reason::Requested))));
        assert_eq!(progress.messages().last().unwrap().results().count(), 1, "the half call is gone");
    }
}
