//! The outcome of a run that completed, for whoever wants nothing but a finished answer.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::ending::{Ending, FailureKind, ModelStop};
use crate::outcome::Outcome;

impl Outcome {
    /// The outcome of a run that completed with a whole answer, or an error that says why there is none: the run was
    /// cancelled, it failed, or it was lost; the model stopped at its limit of tokens for one answer; or the answer was
    /// refused by the model or its provider, or withdrawn by a hook. The error carries the outcome, so nothing is lost by
    /// asking.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use andon_core::id::{RunId, SessionKey};
    /// # use andon_core::message::Message;
    /// # use andon_core::outcome::{Ending, Failure, FailureKind, ModelStop, Outcome};
    /// # use andon_core::receipt::Receipt;
    /// # use andon_core::usage::Used;
    /// # let key = SessionKey::new("app", "ada", "monday")?;
    /// # let receipt = Receipt::unknown(&RunId::new("r")?, &key);
    /// # let message = Some(Arc::new(Message::assistant("One, two")));
    /// # let ending = Arc::new(Ending::Completed { stop: ModelStop::EndTurn });
    /// # let outcome = Outcome::new(ending, message.clone(), Used::NONE, receipt.clone());
    /// # let outcome = Arc::new(outcome);
    /// // The run completed: `agent.run("Count to two").await?`
    /// assert_eq!(outcome.completed()?.text(), "One, two");
    ///
    /// # let failure = Failure::new(FailureKind::StreamBroken, "the answer broke off");
    /// # let outcome = Arc::new(Outcome::new(Arc::new(Ending::Failed(failure)), message, Used::NONE, receipt));
    /// // Another broke off in the middle of its answer.
    /// let error = outcome.completed().unwrap_err();
    /// assert!(error.to_string().starts_with("the run failed: the answer broke off; "));
    /// assert_eq!(error.outcome.text_so_far(), "One, two");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn completed(self: &Arc<Self>) -> Result<Completed, NotCompleted> {
        let outcome = Arc::clone(self);
        match *outcome.ending {
            Ending::Completed { stop } if is_whole(stop) => Ok(Completed { outcome, stop }),
            Ending::Completed { .. } | Ending::Cancelled { .. } | Ending::Failed(_) | Ending::Lost => {
                Err(NotCompleted { outcome })
            }
        }
    }
}

/// Whether a model that stopped for this reason had written all of its answer.
fn is_whole(stop: ModelStop) -> bool {
    match stop {
        // One that asked for tools and named none has nothing more to say. A stop sequence is where the answer was to end.
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence => true,
        ModelStop::MaxTokens | ModelStop::Refused => false,
    }
}

/// The outcome of a run that completed: see [`Outcome::completed`]. All that an [`Outcome`] has can be read from it.
#[must_use = "it has the answer"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    outcome: Arc<Outcome>,
    stop: ModelStop,
}

impl Completed {
    /// The text of the answer, which is whole.
    pub fn text(&self) -> String {
        self.outcome.text_so_far()
    }

    /// Why the model stopped writing.
    pub fn stop(&self) -> ModelStop {
        self.stop
    }

    /// The outcome, to keep or to share.
    pub fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }
}

impl Deref for Completed {
    type Target = Outcome;

    fn deref(&self) -> &Outcome {
        &self.outcome
    }
}

/// There is no finished answer: see [`Outcome::completed`]. Its text says how the run ended, why, and what to do.
///
/// ```
/// # use std::sync::Arc;
/// # use andon_core::cancel::Reason;
/// # use andon_core::id::{RunId, SessionKey};
/// # use andon_core::message::Message;
/// # use andon_core::outcome::{Ending, Outcome};
/// # use andon_core::receipt::Receipt;
/// # use andon_core::usage::Used;
/// # let receipt = Receipt::unknown(&RunId::new("r")?, &SessionKey::new("app", "ada", "monday")?);
/// # let message = Some(Arc::new(Message::assistant("One, ")));
/// # let ending = Arc::new(Ending::Cancelled { reason: Reason::Requested });
/// # let outcome = Arc::new(Outcome::new(ending, message, Used::NONE, receipt));
/// // Ada stopped the run. What it had said is in the error's outcome.
/// if let Err(error) = outcome.completed() {
///     assert!(error.to_string().starts_with("the run was cancelled: requested"));
///     assert_eq!(error.outcome.text_so_far(), "One, ");
/// }
/// # Ok::<(), andon_core::id::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Why(outcome))]
#[non_exhaustive]
pub struct NotCompleted {
    /// How the run ended, with the answer as far as it came, its usage and its receipt.
    pub outcome: Arc<Outcome>,
}

/// Says why there is no finished answer, and what to do.
struct Why<'a>(&'a Outcome);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receipt = &self.0.receipt;
        match &*self.0.ending {
            Ending::Completed { stop } => f.write_str(why_not_whole(*stop)),
            Ending::Cancelled { reason } => {
                write!(f, "the run was cancelled: {}", reason.as_str())?;
                if let Some(by) = &receipt.by {
                    write!(f, ", by {by}")?;
                }
                if let Some(note) = &receipt.note {
                    write!(f, " ({note})")?;
                }
                f.write_str("; its outcome has the text so far: prompt again for a finished answer")
            }
            Ending::Failed(failure) => {
                let message = failure.message.trim_end_matches('.');
                write!(f, "the run failed: {message}; {}", after_a_failure(failure.error))
            }
            Ending::Lost => f.write_str(
                "the run was lost, because the process that ran it died: check the receipt for calls that may have had an \
                 effect, then prompt again",
            ),
        }
    }
}

/// Why an answer is not whole, and what to do.
fn why_not_whole(stop: ModelStop) -> &'static str {
    match stop {
        ModelStop::MaxTokens => {
            "the model stopped at its limit of tokens for one answer, so the answer is not whole; its outcome has what it wrote: \
             raise the model's max_output, or ask in the same session for the rest"
        }
        ModelStop::Refused => {
            "the answer was refused by the model, its provider's filter or a hook of this program; its events say which, and its \
             outcome has what is left of it"
        }
        ModelStop::EndTurn | ModelStop::ToolUse | ModelStop::StopSequence => "the answer is whole",
    }
}

/// What to do after a failure of this kind.
fn after_a_failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::ContextOverflow => "continue in a new session",
        FailureKind::Journal => "prompt again when the journal can be written",
        FailureKind::Model | FailureKind::StreamBroken | FailureKind::Hook | FailureKind::Internal => {
            "its outcome has the text so far: fix the cause, then prompt again"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Failure;
    use crate::id::{RunId, SessionKey};
    use crate::message::Message;
    use crate::reason::Reason;
    use crate::receipt::Receipt;
    use crate::usage::Used;

    fn outcome(ending: Ending) -> Arc<Outcome> {
        let (run, session) = (RunId::new("r").unwrap(), SessionKey::new("app", "ann", "s").unwrap());
        let receipt = Receipt::unknown(&run, &session);
        let message = Some(Arc::new(Message::assistant("One, two")));
        Arc::new(Outcome { ending: Arc::new(ending), message, usage: Used::NONE, receipt })
    }

    fn why_not(outcome: &Arc<Outcome>) -> String {
        let error = outcome.completed().unwrap_err();
        assert_eq!(&error.outcome, outcome, "the error carries the outcome");
        error.to_string()
    }

    #[test]
    fn a_completed_run_gives_its_answer_and_why_the_model_stopped() {
        for stop in [ModelStop::EndTurn, ModelStop::StopSequence, ModelStop::ToolUse] {
            let outcome = outcome(Ending::Completed { stop });
            let completed = outcome.completed().unwrap();
            assert_eq!((completed.text().as_str(), completed.stop()), ("One, two", stop));
            assert_eq!((completed.outcome(), completed.stop_reason()), (&outcome, stop.as_str()));
        }
    }

    #[test]
    fn half_an_answer_and_a_refused_one_are_errors_that_say_what_to_do() {
        let half = why_not(&outcome(Ending::Completed { stop: ModelStop::MaxTokens }));
        assert!(
            half.starts_with("the model stopped at its limit of tokens for one answer, so the answer is not whole"),
            "{half}"
        );
        assert!(half.ends_with("raise the model's max_output, or ask in the same session for the rest"), "{half}");
        let refused = why_not(&outcome(Ending::Completed { stop: ModelStop::Refused }));
        assert!(
            refused.starts_with("the answer was refused by the model, its provider's filter or a hook of this program"),
            "{refused}"
        );
        assert!(refused.ends_with("its events say which, and its outcome has what is left of it"), "{refused}");
    }

    #[test]
    fn a_cancelled_run_says_why_and_by_whom_as_far_as_that_is_known() {
        let cancelled = outcome(Ending::Cancelled { reason: Reason::Deadline });
        let rest = "its outcome has the text so far: prompt again for a finished answer";
        assert_eq!(why_not(&cancelled), format!("the run was cancelled: deadline; {rest}"));

        let mut stopped = (*outcome(Ending::Cancelled { reason: Reason::Requested })).clone();
        (stopped.receipt.by, stopped.receipt.note) = (Some("ada".into()), Some("too long".into()));
        let said = why_not(&Arc::new(stopped));
        assert_eq!(said, format!("the run was cancelled: requested, by ada (too long); {rest}"));
    }

    #[test]
    fn a_failed_run_says_what_happened_and_what_to_do() {
        let failed = |error| outcome(Ending::Failed(Failure { error, message: "It broke.".into() }));
        let kept = "the run failed: It broke; its outcome has the text so far: fix the cause, then prompt again";
        assert_eq!(why_not(&failed(FailureKind::StreamBroken)), kept);
        let too_long = why_not(&failed(FailureKind::ContextOverflow));
        assert_eq!(too_long, "the run failed: It broke; continue in a new session");
    }

    #[test]
    fn a_lost_run_says_to_look_at_its_calls_before_asking_again() {
        let said = why_not(&outcome(Ending::Lost));
        assert!(
            said.starts_with("the run was lost, because the process that ran it died: check the receipt"),
            "{said}"
        );
    }
}
