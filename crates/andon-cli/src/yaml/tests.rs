//! Parsing, locating nodes, and bad texts.

use super::*;

fn place_of(text: &str, pick: impl Fn(&Node) -> NodeIndex) -> Option<(usize, usize)> {
    locate(text, pick(&parse(text).unwrap()))
}

fn entries(node: &Node) -> &[(Key, Node)] {
    let Value::Map(entries) = &node.value else { panic!("no mapping: {node:?}") };
    entries
}

fn refused(text: &str) -> (Option<usize>, String) {
    let bad = parse(text).unwrap_err();
    (bad.line, bad.why)
}

#[test]
fn every_key_and_value_can_be_located() {
    let text = "# a comment\nname: shop\n\ntools:\n  - name: shell\n    args: {folder: files}\n  - name: http_get\n";
    assert_eq!(place_of(text, |root| entries(root)[0].0.at), Some((2, 1)));
    assert_eq!(place_of(text, |root| entries(root)[0].1.at), Some((2, 7)));
    let tools = |root: &Node| {
        let Value::List(tools) = entries(root)[1].1.value.clone() else { panic!("no list") };
        tools
    };
    assert_eq!(place_of(text, |root| tools(root)[0].at), Some((5, 5)));
    assert_eq!(place_of(text, |root| tools(root)[1].at), Some((7, 5)));
    assert_eq!(place_of(text, |root| entries(&entries(&tools(root)[0])[1].1)[0].0.at), Some((6, 12)));
}

#[test]
fn bad_yaml_is_refused_with_its_line_and_what_to_do() {
    let cases = [
        ("name: a\n\tmodel: b\n", 2, "there is a tab before the first word: indent with spaces"),
        ("name: a\nmodel: @b\n", 2, "into quotes"),
        ("name: a\ninstruction: this: that\n", 2, "with a colon in it"),
        ("name: a\ntools: [b\n", 3, "brackets"),
        ("name: a\nmodel: b\nname: c\n", 3, "duplicate key `name`: remove one"),
        ("name: a\nlimits:\n  turns: 1\n  turns: 2\n", 4, "duplicate key `turns`"),
        ("name: a\n---\nname: b\n", 2, "a file must have only one"),
        ("name: !secret hush\n", 1, "a tag"),
        ("1: a\n", 1, "a key must be a word"),
        ("? [a, b]\n: c\n", 1, "a key must be a word"),
        ("name: *gone\n", 1, "needs an anchor"),
    ];
    for (text, line, words) in cases {
        let (at, why) = refused(text);
        assert!(at == Some(line) && why.contains(words), "{text:?}: {at:?}: {why}");
        assert!(!why.contains("hush"), "{why}");
    }
}

#[test]
fn aliases_that_expand_without_end_are_refused_cheaply() {
    let doubled =
        (1..40).fold("a0: &a0 [x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1));
    assert!(refused(&doubled).1.contains("shorten it"), "{:?}", refused(&doubled));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 5_000].join(", "));
    assert!(refused(&long).1.contains("shorten it"), "{:?}", refused(&long));
    let itself = "a: &a [*a]\n";
    assert!(refused(itself).1.contains("aliases"), "{:?}", refused(itself));
}

#[test]
fn a_deep_text_and_a_long_one_are_refused() {
    for text in ["[".repeat(5_000), "{a: ".repeat(5_000), "- ".repeat(5_000), "- a\n".repeat(20_000)] {
        assert!(parse(&text).is_err());
    }
}

#[test]
fn too_many_brackets_are_refused_before_parsing() {
    for piece in ["[", "{a: ", "[#]\n"] {
        let (line, why) = refused(&piece.repeat(MAX_BYTES / piece.len()));
        assert!(line.is_none() && why.contains("shorten it"), "{piece}: {why}");
    }
    let many = format!("a: >\n  {}\n", "{x} [y] ".repeat(2_000));
    assert!(parse(&many).is_ok(), "brackets in text are not nesting");
}

#[test]
fn aliases_of_an_ordinary_size_are_followed() {
    let root = parse("a: &a [1, -2, 0.5, true, null]\nb: *a\n").unwrap();
    let values = |node: &Node| {
        let Value::List(items) = &node.value else { panic!("no list") };
        items.iter().map(|item| item.value.clone()).collect::<Vec<_>>()
    };
    let expected = [Value::Whole(1), Value::Number(-2.0), Value::Number(0.5), Value::Bool(true), Value::Null];
    assert_eq!(values(&entries(&root)[0].1), expected);
    assert_eq!(values(&entries(&root)[1].1), expected);
}
