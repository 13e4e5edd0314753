//! Scripts about what programs write themselves: tools with typed arguments, a model from a stream, a layer around a model.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::core::message::Role;
use andon_runtime::{Answer, Model, ModelLayer, ModelRequest, Piece, Run, Session};

use crate::explore::World;
use crate::figures::ScriptedMeter;
use crate::model::{Act, ScriptedModel};
use crate::tools;

use super::{answer, ask, done, words};

/// One call that takes a while, and one with an argument that no `i64` can be.
pub(super) async fn typed(world: World) {
    let first = answer([
        words("Two errands. "),
        Act::call(0, "a", "errand", "{\"n\":1}"),
        Act::call(1, "b", "errand", "{\"n\":99999999999999999999}"),
        vec![Act::usage(5, 9), Act::tool_use()],
    ]);
    let model = world.model([first, done()]);
    let tool = tools::typed("errand", Duration::from_millis(300), &world.tools);
    ask(&world, world.agent(&model).tool(tool), "Go.").await;
}

/// The provider says what it has used before each word.
pub(super) async fn streamed(world: World) {
    let text = ["One ", "two ", "three ", "four "].iter().zip(1..);
    let text = text.flat_map(|(word, output)| [Act::usage(12, output), Act::text(word), Act::Yield]);
    let model = world.model([text.chain([Act::usage(12, 4), Act::end()]).collect()]);
    let agent = world.agent(&model).model(model.streamed());
    watch_figures(&world, &world.open(agent), |said, figures| figures.value.is_some_and(|value| value >= said)).await;
}

/// Its inner model reports at the end of an answer, and has a meter for one that does not come to its end.
pub(super) async fn layered(world: World) {
    let text = answer([words("One two "), vec![Act::Yield], words("three "), done()]);
    let model = world.model([text]).metered(&Arc::<ScriptedMeter>::default());
    let agent = world.agent(&model).model(Layer(model));
    watch_figures(&world, &world.open(agent), |_, figures| figures.value.is_some() || figures.is_pending).await;
}

/// What is on record of a call's output.
struct Figures {
    value: Option<u64>,
    is_pending: bool,
}

/// Plays one prompt. Once any word of the answer was kept, what is on record of its usage must be right, given the number of words.
async fn watch_figures(world: &World, session: &Session, is_right: impl Fn(u64, &Figures) -> bool) {
    let Ok(run) = world.start(session.prompt("Count.")) else { return };
    world.follow(&run).await;
    let Some(figures) = figures(&run) else { return };
    let said = words_on_record(&run);
    if said > 0 && !is_right(said, &figures) {
        world.broken(&format!("P4: {said} words are on record, and the output is {:?}", figures.value));
    }
}

fn figures(run: &Run) -> Option<Figures> {
    run.records().iter().rev().find_map(|record| match &record.event {
        Event::Usage { used, pending, .. } => {
            Some(Figures { value: used.delivered.output.value, is_pending: pending.is_some() })
        }
        _ => None,
    })
}

fn words_on_record(run: &Run) -> u64 {
    let records = run.records();
    let words = records.iter().map(|record| match &record.event {
        Event::Message { message } if message.role == Role::Assistant => message.text().split_whitespace().count(),
        _ => 0,
    });
    words.sum::<usize>() as u64
}

/// A layer that looks at each piece and changes none.
struct Layer(ScriptedModel);

impl ModelLayer for Layer {
    fn inner(&self) -> &dyn Model {
        &self.0
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        self.0.call(request).map_pieces(|piece: Piece| Ok(piece))
    }
}
