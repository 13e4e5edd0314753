//! YAML as a tree whose nodes can be located in the text.
//!
//! The parser reports a location only with an error. So nodes are numbered in the order in which they are read, and [`locate`]
//! reads the text again and refuses the node with that number: the error then has its line.
//!
//! # Invariants
//!
//! 1. Reading a file costs no more than its limits, whatever its aliases expand to: nodes and bytes are counted as they are read.
//! 2. No error repeats a value of the file, which may be a secret. Keys are named.

pub(crate) mod fields;

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Visitor};
use serde_yaml_ng::{Deserializer, Error};

/// The largest file that is read, in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// How many keys and values a file may have, aliases expanded.
const MAX_NODES: u32 = 10_000;
/// How many brackets a file may open. The parser's time grows with the square of their nesting.
const MAX_BRACKETS: usize = 5_000;

/// The index of a key or a value in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeIndex(u32);

/// A value in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: NodeIndex,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Whole(u64),
    /// A number that is negative or not whole.
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping, which is unique in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) at: NodeIndex,
    pub(crate) text: String,
}

/// Why a text cannot be read, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadYaml {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) why: String,
}

/// To be written after the name of the file.
impl fmt::Display for BadYaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// What is wrong with a node.
pub(crate) type NodeError = (NodeIndex, String);

/// Parses a text and reads its tree. Every error has its line.
pub(crate) fn read<T>(text: &str, read: impl FnOnce(&Node) -> Result<T, NodeError>) -> Result<T, BadYaml> {
    read(&parse(text)?).map_err(|(at, why)| bad_node(text, at, why))
}

/// What is wrong with a node, with its line.
pub(crate) fn bad_node(text: &str, at: NodeIndex, why: String) -> BadYaml {
    let (line, column) = locate(text, at).unzip();
    BadYaml { line, column, why }
}

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Node, BadYaml> {
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_BRACKETS {
        let why = format!("the file has more than {MAX_BRACKETS} opening brackets: shorten it");
        return Err(BadYaml { line: None, column: None, why });
    }
    let reading = YamlParser::default();
    Reader { reading: &reading }.deserialize(Deserializer::from_str(text)).map_err(|error| bad(text, &error, &reading))
}

/// The line and column of a node in the text that it was read from, counted from 1.
fn locate(text: &str, place: NodeIndex) -> Option<(usize, usize)> {
    let reading = YamlParser { wanted: Some(place), ..YamlParser::default() };
    let found = Reader { reading: &reading }.deserialize(Deserializer::from_str(text)).err()?;
    found.location().map(|location| (location.line(), location.column()))
}

fn bad(text: &str, error: &Error, reading: &YamlParser) -> BadYaml {
    let location = error.location();
    let (line, column) = (location.as_ref().map(|at| at.line()), location.as_ref().map(|at| at.column()));
    if let Some(why) = reading.said.take() {
        return BadYaml { line, column, why };
    }
    let said = error.to_string();
    let said =
        [" at line ", " at position "].iter().fold(said.as_str(), |said, end| said.split(end).next().unwrap_or(said));
    if said.ends_with(A_KEY) {
        return BadYaml { line, column, why: "a key must be a word: put it into quotes".to_owned() };
    }
    if said.contains("more than one document") {
        let second = text.lines().enumerate().filter(|(_, line)| line.starts_with("---")).last();
        let why = "a second document begins here: a file must have only one".to_owned();
        return BadYaml { line: second.map(|(before, _)| before + 1), column: None, why };
    }
    let here = line.and_then(|line| text.lines().nth(line.saturating_sub(1))).unwrap_or_default();
    BadYaml { line, column, why: format!("this is not valid YAML ({said}): {}", advice(said, here)) }
}

/// What to do about a parser's error.
fn advice(said: &str, here: &str) -> &'static str {
    let indent = here.len() - here.trim_start().len();
    if here.get(..indent).is_some_and(|indent| indent.contains('\t')) {
        "there is a tab before the first word: indent with spaces"
    } else if said.contains("mapping values are not allowed") {
        "put text with a colon in it into quotes, and indent all keys of a mapping alike"
    } else if said.contains("cannot start any token") {
        "put text that begins with this character into quotes"
    } else if said.contains("control characters") {
        "remove the invisible character"
    } else if said.contains("recursion") || said.contains("repetition") {
        "write out what the aliases stand for"
    } else if said.contains("anchor") {
        "an alias (*name) needs an anchor (&name) before it"
    } else {
        "check the indentation, the quotes and the brackets of this line and the one before it"
    }
}

/// What is counted while a text is read.
#[derive(Default)]
struct YamlParser {
    nodes: Cell<u32>,
    bytes: Cell<usize>,
    /// The node to refuse, so that the parser says where it is.
    wanted: Option<NodeIndex>,
    /// Our own error: the parser would put a path around it.
    said: RefCell<Option<String>>,
}

impl YamlParser {
    fn refuse<T, E: serde::de::Error>(&self, why: impl Into<String>) -> Result<T, E> {
        *self.said.borrow_mut() = Some(why.into());
        Err(E::custom("refused"))
    }

    /// Counts a node. It is called within a visitor, so that an error has the location of that node.
    fn enter<E: serde::de::Error>(&self, bytes: usize) -> Result<NodeIndex, E> {
        let place = NodeIndex(self.nodes.get());
        self.nodes.set(place.0.saturating_add(1));
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.wanted == Some(place) {
            return Err(E::custom("found"));
        }
        if place.0 >= MAX_NODES || self.bytes.get() > MAX_BYTES {
            return self.refuse(format!(
                "with its aliases expanded, the file has more than {MAX_NODES} values or {MAX_BYTES} bytes: shorten it"
            ));
        }
        Ok(place)
    }
}

#[derive(Clone, Copy)]
struct Reader<'r> {
    reading: &'r YamlParser,
}

impl Reader<'_> {
    fn node<E: serde::de::Error>(self, value: Value) -> Result<Node, E> {
        let bytes = if let Value::Text(text) = &value { text.len() } else { 0 };
        Ok(Node { at: self.reading.enter(bytes)?, value })
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.node(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.node(Value::Whole(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.node(u64::try_from(value).map_or(Value::Number(value as f64), Value::Whole))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Node, E> {
        self.node(Value::Number(value as f64))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Node, E> {
        self.node(Value::Number(value as f64))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.node(Value::Number(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.node(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let at = self.reading.enter(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node { at, value: Value::List(list) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let at = self.reading.enter(0)?;
        let mut map: Vec<(Key, Node)> = Vec::new();
        while let Some(key) = entries.next_key_seed(KeyReader { reading: self.reading, earlier: &map })? {
            let value = entries.next_value_seed(self)?;
            map.push((key, value));
        }
        Ok(Node { at, value: Value::Map(map) })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        self.reading.enter::<A::Error>(0)?;
        self.reading.refuse("a tag (a word that begins with `!`) means nothing here: leave it out")
    }
}

/// What the parser expected if it complains about the type of a key.
const A_KEY: &str = "the name of a key";

struct KeyReader<'r> {
    reading: &'r YamlParser,
    earlier: &'r [(Key, Node)],
}

impl<'de> DeserializeSeed<'de> for KeyReader<'_> {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(A_KEY)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key, E> {
        let at = self.reading.enter(text.len())?;
        if self.earlier.iter().any(|(key, _)| key.text == text) {
            return self.reading.refuse(format!("duplicate key `{}`: remove one", cut(text)));
        }
        Ok(Key { at, text: text.to_owned() })
    }
}

/// A name on one line, cut to a length that fits in a sentence.
pub(crate) fn cut(name: &str) -> String {
    const LONGEST: usize = 60;
    let short: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests;
