//! What a model is asked besides the conversation, and how a hook may change a request.
//!
//! # Invariants
//!
//! 1. A [`RequestChange`] says how a request differs from what the agent would have sent. Applied to the same conversation it gives
//!    the same request, in this process and in a later one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::History;
use crate::message::Message;

/// Settings of one model call. A setting that is left out keeps the model's own value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelSettings {
    /// How many tokens the answer may have, thinking included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u32>,
    /// How random the answer is: a finite number, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// How long the model may think before it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Texts at which the model stops. If there are none, those of the model's own settings apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

crate::with!(ModelSettings: max_output: into Option<u32>, temperature: into Option<f32>, thinking: into Option<Thinking>, stop: Vec<String>);

// A temperature is checked to be a number before it is recorded.
impl Eq for ModelSettings {}

impl ModelSettings {
    /// Nothing set yet: `ModelSettings::new().max_output(100)` has one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that a model can be called with them. `Err` says what is wrong, and what to do.
    pub fn check(&self) -> Result<(), String> {
        if let Some(temperature) = self.temperature.filter(|temperature| !temperature.is_finite() || *temperature < 0.0)
        {
            return Err(format!("the temperature is {temperature}: use 0 or more"));
        }
        if self.max_output == Some(0) {
            return Err("max_output is 0: raise it, or leave it out".to_owned());
        }
        if self.thinking == Some(Thinking::Tokens(0)) {
            return Err("the thinking budget is 0 tokens: use Thinking::Off, or raise it".to_owned());
        }
        if self.stop.iter().any(String::is_empty) {
            return Err("a stop text is empty, which matches everywhere: remove it".to_owned());
        }
        Ok(())
    }
}

/// How long a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Thinking {
    /// Not at all, where the provider allows it.
    Off,
    /// A little.
    Low,
    /// A moderate amount.
    Medium,
    /// A lot.
    High,
    /// At most this many tokens, where the provider takes a number.
    Tokens(u32),
}

/// Whether a model may call tools, or must.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "choice")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It calls none.
    None,
    /// It calls at least one.
    Required,
    /// It calls this one.
    Tool {
        /// The tool's name.
        name: String,
    },
}

impl ToolChoice {
    /// The tool with this name must be called.
    pub fn tool(name: impl Into<String>) -> Self {
        Self::Tool { name: name.into() }
    }

    /// Whether the model decides.
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// How a request differs from what the agent would have sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestChange {
    /// The instructions, if they differ. An empty text means that there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
    /// The messages that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Box<MessagesChange>>,
    /// The names of the tools that the model may ask for, if they are not all of the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Arc<[String]>>,
    /// The settings.
    #[serde(default, skip_serializing_if = "ModelSettings::is_default")]
    pub settings: ModelSettings,
    /// Whether the model may call tools, or must.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
}

crate::with!(RequestChange: instructions: text Arc<str>, messages: Option<Box<MessagesChange>>, tools: Option<Arc<[String]>>,
    settings: ModelSettings, tool_choice: ToolChoice);

impl RequestChange {
    /// The request as the agent would have sent it.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Messages of a conversation that are replaced in one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessagesChange {
    /// How many messages stay at the beginning.
    pub from: usize,
    /// How many are left out after those.
    pub without: usize,
    /// What is there instead. The rest of the conversation follows.
    pub with: Vec<Arc<Message>>,
}

impl MessagesChange {
    /// The first `from` messages stay, the `without` after them are left out, and these come instead.
    pub fn new(from: usize, without: usize, with: Vec<Arc<Message>>) -> Self {
        Self { from, without, with }
    }

    /// How one list of messages becomes another; `None` if they are the same.
    pub fn between(before: &History, after: &History) -> Option<Self> {
        let is_same = |(one, other): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(one, other) || one == other;
        let from = before.iter().zip(after.iter()).take_while(is_same).count();
        let most = before.len().min(after.len()) - from;
        let at_end = before.iter().rev().zip(after.iter().rev()).take(most).take_while(is_same).count();
        let without = before.len() - from - at_end;
        let with: Vec<_> = after.iter().skip(from).take(after.len() - from - at_end).cloned().collect();
        (without > 0 || !with.is_empty()).then_some(Self { from, without, with })
    }

    /// The changed messages; `None` if the conversation is not the one that was changed.
    pub fn apply(&self, before: &History) -> Option<History> {
        let rest = self.from.checked_add(self.without).filter(|rest| *rest <= before.len())?;
        let kept = before.iter().take(self.from).chain(&self.with).chain(before.iter().skip(rest));
        Some(kept.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(texts: &[&str]) -> History {
        texts.iter().map(|text| Arc::new(Message::user(*text))).collect()
    }

    #[test]
    fn a_change_of_messages_applied_to_the_same_conversation_gives_the_same_request() {
        let before = history(&["a", "b", "c"]);
        for after in
            [&["a", "b", "c", "d"][..], &["x", "a", "b", "c"], &["a", "c"], &["s"], &["a", "x", "y", "c"], &["c"]]
        {
            let after = history(after);
            let change = MessagesChange::between(&before, &after).unwrap();
            assert_eq!(change.apply(&before), Some(after));
        }
        assert_eq!(MessagesChange::between(&before, &before), None);
        let doubled = history(&["a", "a"]);
        let once = MessagesChange::between(&doubled, &history(&["a"])).unwrap();
        assert_eq!(once.apply(&doubled), Some(history(&["a"])));
        assert_eq!(once.apply(&History::new()), None, "another conversation");
    }

    #[test]
    fn a_change_records_only_the_messages_that_differ() {
        let change = MessagesChange::between(&history(&["a", "b"]), &history(&["a", "note", "b"])).unwrap();
        let expected = MessagesChange { from: 1, without: 0, with: vec![Arc::new(Message::user("note"))] };
        assert_eq!(change, expected);
    }

    #[test]
    fn what_is_as_usual_says_so_and_is_not_written() {
        assert_eq!(
            [ModelSettings::new(), ModelSettings::new().max_output(1)].map(|some| some.is_default()),
            [true, false]
        );
        let choices = [ToolChoice::Auto, ToolChoice::None, ToolChoice::tool("look")];
        assert_eq!(choices.each_ref().map(ToolChoice::is_auto), [true, false, false]);
        assert!(matches!(&choices[2], ToolChoice::Tool { name } if name == "look"));
    }

    #[test]
    fn settings_that_no_model_takes_are_refused() {
        let refused = |settings: ModelSettings| settings.check().unwrap_err();
        for bad in [f32::NAN, f32::INFINITY, -0.5] {
            assert!(refused(ModelSettings::new().temperature(bad)).contains("use 0 or more"), "{bad}");
        }
        for good in [0.0, 0.5, 2.0] {
            assert_eq!(ModelSettings::new().temperature(good).check(), Ok(()), "{good}");
        }
        assert!(refused(ModelSettings { max_output: Some(0), ..Default::default() }).contains("max_output"));
        assert!(
            refused(ModelSettings { stop: vec!["END".into(), "".into()], ..Default::default() }).contains("stop text")
        );
        let no_thinking = ModelSettings { thinking: Some(Thinking::Tokens(0)), ..Default::default() };
        assert!(refused(no_thinking).contains("use Thinking::Off"));
        let (thinking, stop) = (Some(Thinking::Tokens(1)), vec!["END".into()]);
        assert_eq!(ModelSettings { temperature: Some(0.2), thinking, stop, ..Default::default() }.check(), Ok(()));
    }
}
