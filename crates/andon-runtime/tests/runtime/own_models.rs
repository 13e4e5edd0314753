//! A model made from a stream keeps what had arrived when it is cut, and a layer around a model loses nothing of it.

use std::io;

use andon_runtime::core::usage::{Figure, Provenance};
use andon_runtime::{
    Answer, Model, ModelError, ModelLayer, ModelRequest, Piece, Receipt, Rendering, Retry, StreamModel, Usage,
};
use andon_testkit::figures::{After, ScriptedMeter};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;

use crate::common::*;

type Item = Result<Piece, ModelError>;

fn text(text: &str) -> Item {
    Ok(Piece::Text(text.to_owned()))
}

fn used(input: u64, output: u64) -> Item {
    Ok(Usage::reported(input, output).into())
}

fn end() -> Item {
    Ok(ModelStop::EndTurn.into())
}

fn session_of(model: impl Model) -> Session {
    Agent::builder().name("a").model(model).runtime(&runtime()).open()
}

/// A model whose answer is always this one.
fn streams<S: Stream<Item = Item> + Send + 'static>(make: impl Fn() -> S + Send + Sync + 'static) -> StreamModel {
    StreamModel::new("mine", move |_| {
        let pieces = make();
        async move { Ok(pieces) }
    })
}

async fn failure(model: impl Model) -> (Failure, String) {
    let session = session_of(model);
    let (_, outcome) = run_to_end(&session, "Go.").await;
    match &*outcome.ending {
        Ending::Failed(failure) => (failure.clone(), outcome.text_so_far()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_an_answer_and_its_closure_gets_the_conversation() {
    let model = StreamModel::new("echo", |request: ModelRequest| async move {
        let said = request.prompt().last().map(|message| message.text()).unwrap_or_default();
        Ok(stream::iter([text(&said), used(3, 7), end()]))
    });
    let session = session_of(model);
    let (_, outcome) = run_to_end(&session, "Hello.").await;
    assert_eq!((outcome.stop_reason(), outcome.text_so_far()), ("end_turn", "Hello.".to_owned()));
    assert_eq!(outcome.usage.billed.output, Figure::reported(7));
    assert_eq!(&*outcome.receipt.model_calls[0].model, "echo");
}

#[tokio::test(start_paused = true)]
async fn the_last_figures_of_a_stream_that_is_cut_are_in_the_receipt_with_their_provenance() {
    let pieces = || stream::iter([used(12, 1), text("one "), used(12, 2), text("two ")]).chain(stream::pending());
    let session = session_of(streams(pieces));
    let run = start_until_shown(&session, "Count.", "two ").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let delivered = outcome.receipt.usage.delivered;
    assert_eq!((delivered.input.value, delivered.output.value), (Some(12), Some(2)));
    assert_eq!(delivered.output.provenance, Provenance::ReportedRunning);
    assert_eq!(outcome.receipt.usage.billed.output.value, None, "what is charged past the cut is unknown");
}

/// Notes when it is dropped.
struct Connection(Arc<AtomicUsize>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_drops_the_stream_at_once_and_also_the_future_that_connects() {
    let closed = Arc::new(AtomicUsize::new(0));
    let of_stream = Arc::clone(&closed);
    let model = streams(move || {
        let connection = Connection(Arc::clone(&of_stream));
        stream::iter([text("one ")])
            .chain(stream::pending())
            .inspect(move |_| assert_eq!(connection.0.load(Ordering::SeqCst), 0))
    });
    let session = session_of(model);
    let run = start_until_shown(&session, "Count.", "one ").await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(closed.load(Ordering::SeqCst), 1);

    let of_closure = Arc::clone(&closed);
    let model = StreamModel::new("connects", move |_| {
        let connection = Connection(Arc::clone(&of_closure));
        async move {
            std::future::pending::<()>().await;
            drop(connection);
            Ok(stream::empty())
        }
    });
    let session = session_of(model);
    let run = session.start("Connect.").unwrap();
    settle_down().await;
    stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(closed.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_fails_is_retried_and_a_stream_that_fails_keeps_its_text() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&attempts);
    let model = StreamModel::new("flaky", move |_| {
        let attempt = tried.fetch_add(1, Ordering::SeqCst);
        async move {
            if attempt == 0 {
                Err(io::Error::from(io::ErrorKind::ConnectionRefused))?;
            }
            Ok(stream::iter([text("There."), end()]))
        }
    });
    let session = Agent::builder().model(model).runtime(&runtime()).retry(Retry::default()).open();
    let (_, outcome) = run_to_end(&session, "Go.").await;
    assert_eq!((outcome.text_so_far(), attempts.load(Ordering::SeqCst)), ("There.".to_owned(), 2));

    let broken = streams(|| stream::iter([text("Half "), Err(ModelError::fatal("the line is dead"))]));
    let (failed, said) = failure(broken).await;
    assert_eq!((failed.message.as_str(), said.as_str()), ("the line is dead", "Half "));
    let (failed, said) = failure(streams(|| stream::iter([text("Half ")]))).await;
    assert!(failed.message.contains("the stream ended before the model said it was done"), "{}", failed.message);
    assert_eq!(said, "Half ");
}

// ---- layers ----

/// Changes nothing.
struct Plain<M>(M);

impl<M: Model> ModelLayer for Plain<M> {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.0.call(request).map_pieces(Ok)
    }
}

/// A model that has everything that a model can have.
fn rich() -> ScriptedModel {
    let pieces = vec![Act::text("one "), Act::text("two "), Act::Silence];
    ScriptedModel::new([pieces])
        .named("rich")
        .metered(&Arc::<ScriptedMeter>::default())
        .after_a_cut(After::looked_up(secs(1), 40))
}

/// The same, of which nothing is learned after a cut, and in which the provider reports nothing.
fn rich_without_a_look_up() -> ScriptedModel {
    let pieces = vec![Act::text("one "), Act::text("two "), Act::Silence];
    ScriptedModel::new([pieces]).metered(&Arc::<ScriptedMeter>::default())
}

/// What is on record of a run that was cut, and its account.
async fn cut(model: impl Model) -> (Vec<Event>, Receipt) {
    cut_at(model, "two ").await
}

async fn cut_at(model: impl Model, shown: &str) -> (Vec<Event>, Receipt) {
    let session = session_of(model);
    let run = start_until_shown(&session, "Count.", shown).await;
    run.cancel(Cancel::graceful());
    let receipt = run.last_word().await.unwrap();
    (events(&run), receipt)
}

#[tokio::test(start_paused = true)]
async fn a_run_through_a_layer_that_changes_nothing_is_the_same_as_without_it() {
    let through = cut(Plain(Plain(Arc::new(rich())))).await;
    assert_eq!(through, cut(rich()).await);
    let call = &through.1.model_calls[0];
    let names = [Some(&*call.model), call.answered_by.as_deref(), call.request_id.as_deref()];
    assert_eq!(names, [Some("rich"), Some("scripted-1"), Some("req-1")]);
    assert_eq!(call.usage.billed.output.provenance, Provenance::LookedUp, "its inner model was asked after the cut");
    assert_eq!(call.usage.delivered.output.provenance, Provenance::Estimated, "its meter is its inner model's");
}

/// Shows what it would send.
struct Rendered(ScriptedModel);

impl ModelLayer for Rendered {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        Some(Rendering::new("mine", json!({"messages": request.prompt().len()})))
    }
}

#[tokio::test]
async fn what_a_model_would_be_sent_is_shown_through_a_layer() {
    let run = andon_runtime::RunId::new("r").unwrap();
    let request = ModelRequest::new(run, 1, vec![Arc::new(Message::user("Hello"))]);
    let shown = Model::rendering(&Plain(Rendered(rich())), &request);
    assert_eq!(shown, Some(Rendering::new("mine", json!({"messages": 1}))));
    assert_eq!(Model::rendering(&Plain(rich()), &request), None);
}

/// Shouts, refuses one word, and says that nothing was used.
struct Loud(ScriptedModel);

impl ModelLayer for Loud {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn name(&self) -> &str {
        "loud"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.0.call(request).map_pieces(|piece| match piece {
            Piece::Text(text) if text.contains("secret") => Err(ModelError::fatal("it was about to tell a secret")),
            Piece::Text(text) => Ok(Piece::Text(text.to_uppercase())),
            Piece::Usage(_) => Ok(Usage::reported(0, 0).into()),
            other => Ok(other),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_changes_pieces_and_may_end_an_answer_but_figures_stay_the_providers() {
    let loud = Loud(ScriptedModel::new([says("Hello.")]));
    let (_, outcome) = run_to_end(&session_of(loud), "Go.").await;
    assert_eq!((outcome.text_so_far(), outcome.usage.billed.output), ("HELLO.".to_owned(), Figure::reported(2)));
    assert_eq!(&*outcome.receipt.model_calls[0].model, "loud");

    let loud = Loud(ScriptedModel::new([vec![Act::text("One. "), Act::text("A secret: "), Act::Silence]]));
    let (failed, said) = failure(loud).await;
    assert_eq!((failed.message.as_str(), said.as_str()), ("it was about to tell a secret", "ONE. "));
}

/// Makes figures of text.
struct Inventive(ScriptedModel);

impl ModelLayer for Inventive {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.0.call(request).map_pieces(|piece| match piece {
            Piece::Text(_) => Ok(Usage::reported(1000, 1000).into()),
            other => Ok(other),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_cannot_make_up_figures() {
    let model = Inventive(ScriptedModel::new([vec![Act::text("Hello."), Act::end()]]));
    let (_, outcome) = run_to_end(&session_of(model), "Go.").await;
    assert_eq!((outcome.text_so_far(), outcome.usage.billed.output.value), (String::new(), None));
}

#[tokio::test(start_paused = true)]
async fn layers_and_streams_stand_in_for_any_model() {
    let models: Vec<Arc<dyn Model>> =
        vec![Arc::new(Plain(rich())), Arc::new(streams(|| stream::iter([text("Hi."), end()])))];
    let names: Vec<Value> = models.iter().map(|model| json!(model.name())).collect();
    assert_eq!(names, [json!("rich"), json!("mine")]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_learned_or_measured_from_an_answer_that_a_layer_changed() {
    // How often the meter has learned, and what the second call is measured from.
    async fn learned<L: ModelLayer>(layer: impl Fn(ScriptedModel) -> L) -> (usize, bool) {
        let (meter, model) = (Arc::<ScriptedMeter>::default(), ScriptedModel::new([says("One."), says("Two.")]));
        let session = session_of(layer(model.clone().metered(&meter)));
        for _ in 0..2 {
            session.start("Go.").unwrap().last_word().await.unwrap();
        }
        (meter.learned(), model.requests()[1].anchor.is_some())
    }
    assert_eq!(learned(Plain).await, (2, true), "one that only looks costs no figures");
    assert_eq!(learned(Loud).await, (0, false));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_measured_from_an_answer_that_a_layer_changed_after_a_restart_either() {
    async fn anchored<L: ModelLayer>(layer: impl Fn(ScriptedModel) -> L) -> bool {
        let (journal, meter) = (memory(), Arc::<ScriptedMeter>::default());
        let model = ScriptedModel::new([says("One."), says("Two.")]);
        for runtime in [runtime_on(&journal), next_runtime_on(&journal)] {
            let agent = Agent::builder().name("a").model(layer(model.clone().metered(&meter))).runtime(&runtime);
            let session = agent.build().unwrap().session("ada", "s").unwrap();
            session.start("Go.").unwrap().last_word().await.unwrap();
        }
        model.requests()[1].anchor.is_some()
    }
    assert_eq!((anchored(Plain).await, anchored(Loud).await), (true, false));
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_cut_answer_that_a_layer_changed_is_not_estimated_from_the_text_of_the_layer() {
    let (_, changed) = cut_at(Plain(Loud(rich_without_a_look_up())), "TWO ").await;
    let used = changed.model_calls[0].usage.delivered;
    assert_eq!((used.output.value, used.input.provenance), (None, Provenance::Estimated), "{used:?}");
    let (_, same) = cut(Plain(rich_without_a_look_up())).await;
    assert_eq!(same.model_calls[0].usage.delivered.output.provenance, Provenance::Estimated);
}
