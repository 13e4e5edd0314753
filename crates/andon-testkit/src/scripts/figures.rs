//! Scripts about what a cut call used: looked up, drained, never learned, estimated.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::Limits;

use crate::explore::World;
use crate::figures::{After, ScriptedMeter};
use crate::model::Act;
use crate::tools;

use super::{answer, ask, done, drip, play, words};

/// Two turns, so that the second call has one before it.
fn two_turns() -> [Vec<Act>; 2] {
    let first =
        answer([words("Let me see. "), Act::call(0, "a", "look", "{}"), vec![Act::usage(3, 9), Act::tool_use()]]);
    let second = answer([vec![Act::usage(20, 2)], words("It is so, and so "), vec![Act::Yield], done()]);
    [first, second]
}

/// A call's bill becomes known only afterwards. That may be at once: the disk may be slower still.
pub(super) async fn looked_up(world: World) {
    let model = world.model(two_turns()).after_a_cut(After::looked_up(Duration::ZERO, 40));
    ask(&world, world.agent(&model).tool(tools::quick("look", &world.tools)), "Look.").await;
}

pub(super) async fn drained(world: World) {
    let text = answer([drip("One two three ", 200), words("four "), done()]);
    let after = After::drained(Duration::from_secs(3), 70, "and nobody was shown this");
    ask(&world, world.agent(&world.model([text]).after_a_cut(after)), "Count.").await;
}

/// The session goes on while nothing comes.
pub(super) async fn never_learned(world: World) {
    let texts = ["One two ", "Three four "].map(|text| answer([words(text), vec![Act::Yield], done()]));
    let after = After::hangs(Duration::from_secs(9));
    let session = world.open(world.agent(&world.model(texts).after_a_cut(after)));
    play(&world, &session, "Count.").await;
    play(&world, &session, "Go on.").await;
}

/// The provider reports at its end. The first answer ends below the limit, and the second passes it.
pub(super) async fn limited(world: World) {
    let sentence = "A sentence that takes about eighty bytes, so that few of them pass the limit. ";
    let texts = [2, 12].map(|times| answer([vec![Act::text(sentence); times], done()]));
    let model = world.model(texts).metered(&Arc::<ScriptedMeter>::default());
    let limits = Limits::new().tokens(40);
    let session = world.open(world.agent(&model).limits(limits));
    play(&world, &session, "Say more.").await;
    play(&world, &session, "And more.").await;
}

pub(super) async fn metered(world: World) {
    let model = world.model(two_turns()).metered(&Arc::<ScriptedMeter>::default());
    ask(&world, world.agent(&model).tool(tools::quick("look", &world.tools)), "Look.").await;
}

/// The first figures of a cut call are rough, and better ones follow.
pub(super) async fn rough(world: World) {
    let text = answer([words("One two "), vec![Act::Yield], words("three "), done()]);
    let model = world.model([text]).metered(&Arc::new(ScriptedMeter::unprepared()));
    ask(&world, world.agent(&model), "Count.").await;
}
