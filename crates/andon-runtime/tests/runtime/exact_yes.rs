//! An approval is for the arguments that a person has seen, and for no others: it is bound to them, on record and
//! across a restart (P7, P10).

use andon_runtime::core::event::Approval;
use andon_runtime::{DecideError, Digest};

use crate::common::*;

const ARGUMENTS: &str = "{\"n\":  7}";

fn session_in(runtime: &Runtime, log: &ToolLog) -> Session {
    let asks = [Act::call(0, "g", "danger", ARGUMENTS), Act::call(1, "h", "danger", "{}"), vec![Act::tool_use()]];
    let model = ScriptedModel::new([answer(asks), says("Done.")]);
    let tool = tools::quick("danger", log).needs_approval();
    Agent::builder().model(model).runtime(runtime).tool(tool).build().unwrap().session(LOCAL, "s").unwrap()
}

async fn waiting(session: &Session) -> Run {
    let run = session.start("Do it.").unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { call, .. } if *call == id("h"))).await;
    settle_down().await;
    run
}

/// What a person is shown: the digest in the question.
fn asked(run: &Run, call: &str) -> Digest {
    let question = |event: Event| match event {
        Event::ApprovalRequested { call: asked, arguments } if asked == id(call) => arguments,
        _ => None,
    };
    events(run).into_iter().find_map(question).expect("the question has a digest")
}

fn verdict(run: &Run, call: &str) -> Option<Approval> {
    let verdict = |event: Event| match event {
        Event::ApprovalResolved { call: decided, verdict } if decided == id(call) => Some(*verdict),
        _ => None,
    };
    events(run).into_iter().find_map(verdict)
}

#[tokio::test(start_paused = true)]
async fn a_yes_to_other_arguments_is_refused_and_the_question_stays_open() {
    let log = ToolLog::new();
    let session = session_in(&runtime(), &log);
    let run = waiting(&session).await;
    // Other arguments, the other call's, and the same JSON written differently.
    for wrong in [Digest::of(b"[]"), asked(&run, "h"), Digest::of(b"{\"n\":7}")] {
        assert_eq!(run.decide(&id("g")).approve_exactly(wrong).by("ada").send(), Err(DecideError::OtherArguments));
    }
    settle_down().await;
    assert_eq!((log.started(), verdict(&run, "g")), (0, None), "nothing was decided");
    let right = asked(&run, "g");
    assert_eq!(run.decide(&id("g")).approve_exactly(right).by("ada").send(), Ok(()));
    assert_eq!(run.decide(&id("g")).approve_exactly(right).by("ada").send(), Err(DecideError::NotWaiting));
    assert_eq!(run.decide(&id("h")).approve().send(), Ok(()), "the order of the questions does not matter");
    settled(&session, &run).await;
    assert_eq!(log.started(), 2);
    assert_eq!(
        verdict(&run, "g"),
        Some(Approval::Approved { by: Some("ada".into()), arguments: Some(right), why: None })
    );
    assert_eq!(right, Digest::of(ARGUMENTS.as_bytes()), "of the bytes that the model wrote");
}

#[tokio::test(start_paused = true)]
async fn an_exact_yes_that_comes_after_the_pull_is_refused() {
    for right in [true, false] {
        let log = ToolLog::new();
        let session = session_in(&runtime(), &log);
        let run = waiting(&session).await;
        let digest = if right { asked(&run, "g") } else { Digest::of(b"") };
        run.cancel(Cancel::graceful());
        assert_eq!(run.decide(&id("g")).approve_exactly(digest).send(), Err(DecideError::TooLate));
        cancelled(&session, &run).await;
        assert_eq!(run.decide(&id("g")).approve_exactly(digest).send(), Err(DecideError::TooLate));
        assert_eq!((log.started(), verdict(&run, "g")), (0, Some(Approval::Closed)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_after_a_wrong_yes_tells_the_model_why() {
    let log = ToolLog::new();
    let session = session_in(&runtime(), &log);
    let run = waiting(&session).await;
    assert_eq!(run.decide(&id("g")).approve_exactly(Digest::of(b"")).send(), Err(DecideError::OtherArguments));
    run.decide(&id("g")).deny().by("ada").note("Seven is too many.").send().unwrap();
    run.decide(&id("h")).approve_exactly(asked(&run, "h")).send().unwrap();
    let outcome = settled(&session, &run).await;
    let told = result_of(&session.history().await.unwrap(), "g");
    assert_eq!(told.status, ResultStatus::Refused);
    assert_eq!(told.to_text(), "Not run: a person was asked and said no. Seven is too many.");
    let account = outcome.receipt.calls.iter().find(|account| account.call == id("g")).unwrap();
    assert_eq!((account.refused, log.started()), (Some(Refusal::DeniedByPerson), 1));
}

#[tokio::test(start_paused = true)]
async fn a_yes_is_bound_to_the_same_arguments_after_a_restart() {
    let (journal, log) = (memory(), ToolLog::new());
    let first = session_in(&runtime_on(&journal), &log);
    let run = waiting(&first).await;
    let seen = asked(&run, "g");
    journal.crash();

    let next = next_runtime_on(&andon_testkit::TestJournal::new(journal.durable(), None));
    let model = ScriptedModel::new([says("Done.")]);
    let tool = tools::quick("danger", &log).needs_approval();
    let session = Agent::builder().model(model).runtime(&next).tool(tool).build().unwrap().session(LOCAL, "s").unwrap();
    next.recover().await.unwrap();
    let run = next.find(run.id()).await.unwrap().unwrap();
    assert_eq!(run.decide(&id("g")).approve_exactly(Digest::of(b"{}")).send(), Err(DecideError::OtherArguments));
    assert_eq!(run.decide(&id("g")).approve_exactly(seen).by("ada").send(), Ok(()));
    run.decide(&id("h")).deny().send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
    assert_eq!(log.started(), 1);
    assert_eq!(
        verdict(&run, "g"),
        Some(Approval::Approved { by: Some("ada".into()), arguments: Some(seen), why: None })
    );
}
