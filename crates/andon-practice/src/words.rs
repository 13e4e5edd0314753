//! Words: counting them, streaming them, and the sentences that answers are made of.

use andon_core::message::{Content, Part};
use andon_runtime::ModelRequest;

/// A text's words in lower case, without punctuation. A `_` is part of a word.
pub(super) fn plain(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// A text in tokens: each word with the space after it. Joined, they are the text, byte for byte.
pub(super) fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(|c: char| !c.is_whitespace())?;
        let space = rest.get(word..)?.find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        let next = rest.get(space..)?.find(|c: char| !c.is_whitespace()).map_or(rest.len(), |length| space + length);
        let (chunk, after) = rest.split_at_checked(next)?;
        rest = after;
        Some(chunk)
    })
}

/// Arguments in tokens: JSON split after punctuation and spaces, so that a call can be cut in the middle.
pub(super) fn json_chunks(json: &str) -> impl Iterator<Item = &str> {
    json.split_inclusive([',', ':', ' '])
}

/// How many tokens the model is sent.
pub(super) fn count_prompt(request: &ModelRequest) -> u64 {
    let instructions = request.instructions.as_deref().map_or(0, count);
    let tools = request
        .tools
        .iter()
        .map(|tool| 1 + count(&tool.description) + json_chunks(&tool.schema.to_string()).count() as u64);
    let prompt = request.prompt();
    let parts = prompt.iter().flat_map(|message| &message.parts).map(count_part);
    instructions + tools.sum::<u64>() + parts.sum::<u64>()
}

fn count(text: &str) -> u64 {
    chunks(text).count() as u64
}

fn count_part(part: &Part) -> u64 {
    match part {
        Part::Text { text } | Part::Thinking { text, .. } => count(text),
        Part::Image(_) => 1,
        Part::ToolCall(call) => 1 + json_chunks(&call.arguments).count() as u64,
        Part::ToolResult(result) => result.content.iter().map(|content| count(&self::content(content))).sum(),
        #[cfg(not(andon_whole))]
        _ => 1,
    }
}

/// What a tool returned, in words.
pub(super) fn content(content: &Content) -> String {
    match content {
        Content::Text { text } => text.trim().to_owned(),
        Content::Image(_) => "an image".to_owned(),
        #[cfg(not(andon_whole))]
        _ => "something".to_owned(),
    }
}

/// A few paragraphs for any prompt.
pub(super) fn answer(prompt: &str, chance: &mut fastrand::Rng) -> String {
    let opening = pick(&OPENINGS, chance).replace("{}", &shortened(prompt));
    let [first, second] = two(&BODIES, chance);
    let closing = pick(&CLOSINGS, chance);
    format!("{opening}\n\n{first}\n\n{second}\n\n{closing}")
}

/// An answer to a prompt that wants tools, from a model that has none.
pub(super) fn without_tools(prompt: &str, chance: &mut fastrand::Rng) -> String {
    format!("You asked for tools, but I have none.\n\n{}", answer(prompt, chance))
}

/// The words before calls of these tools.
pub(super) fn announce(tools: &[&str], chance: &mut fastrand::Rng) -> String {
    let names: Vec<String> = tools.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(" and ");
    let together = if tools.len() > 1 { " at the same time" } else { "" };
    let opening =
        pick(&["I am a practice model, but the tools are real.", "Even a practice model can call tools."], chance);
    format!("{opening} I am calling {names}{together}.")
}

/// Thinking that takes several seconds.
pub(super) fn thought(prompt: &str, chance: &mut fastrand::Rng) -> String {
    let mut lines = THOUGHTS;
    chance.shuffle(&mut lines);
    let prompt = shortened(prompt);
    format!(
        "They said “{prompt}”, and want me to think about it first. {} That is enough. Now I answer.",
        lines.join(" ")
    )
}

/// The beginning of a prompt, on one line, to quote it.
fn shortened(prompt: &str) -> String {
    const LONGEST: usize = 60;
    let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

fn pick<'a>(choices: &[&'a str], chance: &mut fastrand::Rng) -> &'a str {
    chance.choice(choices).copied().unwrap_or_default()
}

fn two<'a>(choices: &[&'a str], chance: &mut fastrand::Rng) -> [&'a str; 2] {
    let mut places: Vec<&str> = choices.to_vec();
    chance.shuffle(&mut places);
    let mut places = places.into_iter();
    [places.next().unwrap_or_default(), places.next().unwrap_or_default()]
}

const OPENINGS: [&str; 4] = [
    "You said: “{}”. I am a practice model, so I understand none of it, but I answer at the pace of a real one.",
    "“{}” is a fine thing to ask. Sadly I am only a practice model: the words come from a list, and the pauses too.",
    "Thank you for “{}”. I should say at once that I am a practice model: there is no network behind me, and no bill.",
    "I read “{}” and looked for a few words that I know. That is all a practice model does before it writes.",
];

const BODIES: [&str; 6] = [
    "What is real is everything around me. The run that you started has a journal, a feed and a cord. Each word that \
     you see was accepted under a lock, shown to you, and will be written down. If you pull the cord in the middle of \
     this sentence, the sentence stays as it is, marked as cut, and the next prompt works at once.",
    "Try to stop me at an awkward moment. In the middle of a word would be good. While I think is better. While a tool \
     runs beside another that has just finished is best, because then the finished result must be kept and the other \
     one must be accounted for. Afterwards look at the receipt: it says who asked, why, how long it took, and what \
     became of each call.",
    "Some things are worth watching while this text comes:\n\n\
     - The stop does not wait for me. I may be silent for half a minute, and it still takes a moment.\n\
     - The tokens are counted as far as they came. What nobody knows is called unknown, and never zero.\n\
     - The conversation stays valid. Every call has its result.",
    "On a factory floor the cord hangs above the line where everybody can reach it. Nobody has to ask permission, and \
     nobody is blamed for pulling it. The line stops with nothing half-made, people look at what went wrong, and then \
     it goes on. That is the whole idea, and it turns out to be a good one for programs, too.",
    "A program that can be stopped well is a program that people dare to start. You can let it try things, because you \
     can always say that this is enough. It is the same with cars: the better the brakes, the faster you can drive.",
    "There are several ways to end this answer. You can let it finish, which is the dullest. You can press \
     Ctrl-C, which is graceful, and press it again, which is not. You can give the run a deadline or a token limit \
     before it starts. They all work the same way and differ only in the reason that the receipt gives.",
];

const CLOSINGS: [&str; 4] = [
    "That is all from me. Ask for a long story if you want more time to find the cord.",
    "If this was too short to stop, say “think about it”, or “both”, or “wait”.",
    "And that was the end of it. This run completes, unless you were faster.",
    "I could go on, but the list of sentences is short. Try a tool next: it takes its arguments from your words.",
];

const THOUGHTS: [&str; 12] = [
    "Thinking is streamed like an answer, but people see it dimmed.",
    "If I am stopped now, my thinking has no signature, and must not be sent back to a provider as if it were whole.",
    "If I finish, it is signed, and may be sent back with the answer that follows.",
    "What should I say about the prompt itself? I do not understand it, and it is honest to say so.",
    "Perhaps I should count something, but counting is what the tool is for.",
    "A person may be watching these words and wondering how long this takes. About six seconds, all told.",
    "The cord can be pulled at each of these words, and it makes no difference which.",
    "Thinking costs tokens, too. They are counted as output, and shown separately.",
    "I might answer in two paragraphs, or in four. Four has a better rhythm.",
    "There was something about brakes and fast cars. It may do as an example.",
    "Whoever stops me here gets a receipt that says that the model was cut, and how soon.",
    "None of this is random: with the same seed I would think the same again.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_one_word_each_and_join_to_the_text() {
        for text in ["one two", " one\n\ntwo  three\n", "så gör\tvi", ""] {
            assert_eq!(chunks(text).collect::<String>(), text);
            assert_eq!(chunks(text).count(), text.split_whitespace().count());
        }
        let json = r#"{"a":1,"b":"x y"}"#;
        assert_eq!(json_chunks(json).collect::<String>(), json);
    }
}
