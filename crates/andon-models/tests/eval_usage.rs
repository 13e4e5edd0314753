//! The evaluation on a made-up recording: what it prints, what it writes, and what it says about bad input.

#[path = "../examples/eval_usage/eval/mod.rs"]
mod eval;

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

/// A conversation of two calls with a tool, as the provider would have counted it.
fn recording(number: usize) -> [Value; 2] {
    let question = format!("What is {number} times 7?");
    let tools = [r#"{"name":"multiply","parameters":{"type":"object"}}"#];
    let arguments = format!("{{\"a\":{number},\"b\":7}}");
    let answer = format!(
        "The answer that the tool has found is {}, and that is what you get when you add {number} to itself again and again.",
        number * 7
    );
    let first = json!({
        "prov": "made-up", "model": "gpt-4o-test", "src": format!("talk {number}"), "inp": 60, "out": 17, "reas": 0,
        "srv": false, "think": false, "sys": "", "msgs": [question], "tools": tools, "nt": 1,
        "vis": format!("multiply{arguments}"), "stream": true, "nchunks": null, "cach": 0
    });
    let second = json!({
        "prov": "made-up", "model": "gpt-4o-test", "src": format!("talk {number}"), "inp": 60 + 17 + 1 + 7, "out": 28,
        "msgs": [question, format!("multiply {arguments}"), (number * 7).to_string()], "tools": tools, "vis": answer
    });
    [first, second]
}

fn recorded() -> String {
    let talks = (2..9).flat_map(recording);
    let thinker = json!({
        "prov": "made-up", "model": "o3-test", "src": "other", "inp": 20, "out": 500, "reas": 480, "think": true,
        "msgs": ["Why?"], "vis": "Because it is so."
    });
    talks.chain([thinker]).map(|call| format!("{call}\n")).collect()
}

fn run(data: &Path, predictions: Option<&Path>) -> anyhow::Result<String> {
    let mut arguments = vec!["--data".to_owned(), data.display().to_string()];
    if let Some(path) = predictions {
        arguments.extend(["--predictions".to_owned(), path.display().to_string()]);
    }
    let mut out = Vec::new();
    eval::run(&arguments, &mut out)?;
    Ok(String::from_utf8(out)?)
}

/// A line with `X` for each number, so that only its words are compared.
fn shape(line: &str) -> String {
    let number = |word: &str| word.trim_start_matches('-').parse::<f64>().is_ok() && !word.starts_with('+');
    line.split(' ').map(|word| if number(word) { "X" } else { word }).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_last_line_and_the_predictions_are_as_promised() {
    let folder = tempfile::tempdir().unwrap();
    let (data, predictions) = (folder.path().join("calls.jsonl"), folder.path().join("predictions.jsonl"));
    std::fs::write(&data, recorded()).unwrap();
    let out = run(&data, Some(&predictions)).unwrap();
    let last = out.lines().last().unwrap();
    assert_eq!(
        shape(last),
        "output median X % p90 X %, anchored input median X % p90 X %, aggregate bias X %, coverage X %",
        "{last}"
    );
    assert!(out.contains("made-up/o3-test"), "{out}");

    let written = std::fs::read_to_string(&predictions).unwrap();
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 15);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["line"], index + 1);
        assert!(line["output"]["reported"].is_u64());
    }
    // The first call of a conversation has no anchor, the second has one.
    assert_eq!(lines[12]["input"]["left_out"], "first_request");
    let near = &lines[13]["input"];
    assert_eq!(near["left_out"], Value::Null);
    assert!(near["value"].as_u64().unwrap().abs_diff(85) <= 1, "{near}");
    let text = &lines[13]["output"];
    assert_eq!((&text["left_out"], &lines[13]["published"]), (&Value::Null, &json!(true)));
    assert!(text["low"].as_u64() <= text["value"].as_u64() && text["value"].as_u64() <= text["high"].as_u64());
    let cuts = lines[13]["cuts"].as_array().unwrap();
    let shown: Vec<u64> = cuts.iter().map(|cut| cut["reported"].as_u64().unwrap()).collect();
    assert!(shown.len() == 9 && shown.is_sorted() && shown[8] < 28, "{shown:?}");
    assert!(cuts.iter().all(|cut| cut["value"].as_u64().unwrap().abs_diff(cut["reported"].as_u64().unwrap()) <= 2));
    assert_eq!((lines[12]["cuts"].as_array().unwrap().len(), &lines[12]["kind"]), (0, &json!("calls")));
    assert_eq!(lines[14]["output"]["value"], Value::Null);
    assert_eq!(lines[14]["hides_reasoning"], true);
}

#[test]
fn a_prediction_does_not_depend_on_the_calls_own_figures() {
    let folder = tempfile::tempdir().unwrap();
    let last = |change: fn(&mut Value)| {
        let mut calls: Vec<Value> = (2..9).flat_map(recording).collect();
        change(calls.last_mut().unwrap());
        let (data, predictions) = (folder.path().join("calls.jsonl"), folder.path().join("predictions.jsonl"));
        std::fs::write(&data, calls.iter().map(|call| format!("{call}\n")).collect::<String>()).unwrap();
        run(&data, Some(&predictions)).unwrap();
        let written = std::fs::read_to_string(&predictions).unwrap();
        let line: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
        ["value", "low", "high"].map(|part| (line["output"][part].clone(), line["input"][part].clone()))
    };
    let as_it_was = last(|_| ());
    let otherwise = last(|call| {
        call["inp"] = json!(9_999);
        call["out"] = json!(7_777);
        call["reas"] = json!(5_555);
    });
    assert_eq!(as_it_was, otherwise);
}

#[test]
fn a_packed_file_says_the_same_as_a_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.gz"));
    std::fs::write(&plain, recorded()).unwrap();
    let mut encoder =
        flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    encoder.write_all(recorded().as_bytes()).unwrap();
    encoder.finish().unwrap();
    assert_eq!(run(&plain, None).unwrap(), run(&packed, None).unwrap());
}

#[test]
fn bad_input_is_named_by_file_and_line_with_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("calls.jsonl");
    let said = |content: &str| {
        std::fs::write(&data, content).unwrap();
        format!("{:#}", run(&data, None).unwrap_err())
    };
    let good = recording(2)[0].to_string();
    let error = said(&format!("{good}\n{{\"prov\":\"x\"}}\n"));
    assert!(error.contains("calls.jsonl, line 2") && error.contains("missing field `model`"), "{error}");
    let error = said(&format!("{good}\n{good}\nnot json\n"));
    assert!(error.contains("calls.jsonl, line 3") && error.contains("--help"), "{error}");
    assert!(said("\n\n").contains("holds no calls"));
    let missing = format!("{:#}", run(&folder.path().join("none.jsonl"), None).unwrap_err());
    assert!(missing.contains("none.jsonl") && missing.contains("--data"), "{missing}");
    let named = format!("{:#}", run(&folder.path().join("calls.csv"), None).unwrap_err());
    assert!(named.contains("calls.csv"), "{named}");
    assert!(format!("{:#}", eval::run(&[], &mut Vec::new()).unwrap_err()).contains("--data FILE"));
}

/// What is printed for these calls.
fn printed(calls: &[Value]) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("calls.jsonl");
    std::fs::write(&data, calls.iter().map(|call| format!("{call}\n")).collect::<String>())?;
    run(&data, None)
}

#[test]
fn every_figure_either_counts_or_is_left_out_for_one_reason() {
    let mut calls: Vec<Value> = (2..9).flat_map(recording).collect();
    calls[3]["think"] = json!(true);
    calls[5]["srv"] = json!(true);
    calls[7]["vis"] = json!("");
    calls[9]["out"] = json!(3);
    calls[11]["msgs"] = calls[10]["msgs"].clone();
    calls[13]["sys"] = json!("Be brief.");
    let out = printed(&calls).unwrap();
    let left = |figure: &str| -> Vec<(usize, String)> {
        let lines = out.lines().filter_map(|line| line.strip_prefix(&format!("left out, {figure}:")));
        let parts = lines.map(|line| line.trim().split_once("  ").unwrap());
        parts.map(|(count, why)| (count.parse().unwrap(), why.to_owned())).collect()
    };
    let said = out.lines().find(|line| line.contains("Of 14 calls")).unwrap();
    let counted: Vec<usize> = said.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    // Of the texts among them, five were cut in nine places, and each call has a whole answer.
    let all = |figure: &str| left(figure).iter().map(|(count, _)| count).sum::<usize>();
    assert_eq!(counted[1..], [14 + 4 * 9 - all("output"), 14 - all("input")], "{out}");
    for why in [
        "the provider ran its own tools",
        "with reasoning",
        "nothing is visible",
        "under 20 tokens",
        "tool calls, not text",
    ] {
        assert!(left("output").iter().any(|(_, said)| said == why), "{why}: {out}");
    }
    for why in [
        "the first request of a conversation",
        "the same request again",
        "with other instructions or tools than the request before it",
        "with reasoning",
    ] {
        assert!(left("input").iter().any(|(_, said)| said == why), "{why}: {out}");
    }
}

#[test]
fn random_halves_are_replayed_where_there_are_enough_calls() {
    let calls: Vec<Value> = (2..60).flat_map(recording).collect();
    let out = printed(&calls).unwrap();
    assert!(out.contains("10 random halves") && !printed(&calls[..20]).unwrap().contains("random halves"), "{out}");
    assert_eq!(out, printed(&calls).unwrap(), "the same halves each time");
}

#[test]
fn where_nothing_counts_the_last_line_has_zeros_and_the_lines_above_say_so() {
    let [first, _] = recording(2);
    let out = printed(&[first]).unwrap();
    assert_eq!(
        out.lines().last().unwrap(),
        "output median 0.00 % p90 0.00 %, anchored input median 0.00 % p90 0.00 %, aggregate bias 0.00 %, coverage 0.00 %"
    );
    assert!(out.contains("no output counts") && out.contains("no input counts"), "{out}");
    // The tables have the model all the same, with its one call.
    let row = out.lines().find(|line| line.starts_with("made-up/gpt-4o-test")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some("1"), "{row}");
}

#[test]
fn an_impossible_number_of_tool_calls_is_refused_by_its_line() {
    let [first, second] = recording(2);
    let mut absurd = first.clone();
    absurd["nt"] = json!(1_000_000_000_000_u64);
    let error = format!("{:#}", printed(&[first, second, absurd]).unwrap_err());
    assert!(error.contains("line 3") && error.contains("`nt` is 1000000000000"), "{error}");
}

#[test]
fn a_null_counts_as_missing_and_a_whole_float_is_a_number() {
    let [first, mut second] = recording(2);
    let plain = printed(&[first.clone(), second.clone()]).unwrap();
    for field in ["reas", "srv", "think", "sys", "nt"] {
        second[field] = Value::Null;
    }
    second["inp"] = json!(85.0);
    second["out"] = json!(28.0);
    assert_eq!(printed(&[first.clone(), second.clone()]).unwrap(), plain);
    second["tools"] = Value::Null;
    second["vis"] = Value::Null;
    assert!(printed(&[first.clone(), second.clone()]).is_ok());
    for wrong in [json!(28.5), json!(-1), json!("28"), Value::Null] {
        second["out"] = wrong.clone();
        let error = format!("{:#}", printed(&[first.clone(), second.clone()]).unwrap_err());
        assert!(error.contains("line 2"), "{wrong}: {error}");
    }
}

#[test]
fn a_plain_text_with_the_name_of_a_packed_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("calls.jsonl.gz");
    for content in [recorded().as_str(), "", "x"] {
        std::fs::write(&data, content).unwrap();
        let error = format!("{:#}", run(&data, None).unwrap_err());
        assert!(error.contains("calls.jsonl.gz is not gzip"), "{error}");
    }
}
