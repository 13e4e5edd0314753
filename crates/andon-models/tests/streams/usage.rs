//! What a provider's usage is worth: a zero, an odd value and a field that nobody sent are no figures.

use andon_models::decode::anthropic::Anthropic;
use andon_models::decode::bedrock::{Bedrock, Event, Tokens};
use andon_models::decode::gemini::Gemini;
use andon_models::decode::ollama::Ollama;
use andon_models::decode::openai_chat::OpenAiChat;
use andon_models::decode::openai_responses::OpenAiResponses;
use andon_runtime::core::usage::{Figure, Usage};

use crate::play::*;

/// How a provider reports, and a decoder for it.
struct Provider {
    name: &'static str,
    decoder: fn() -> Box<dyn Decode>,
    /// A frame with this usage in it.
    frame: fn(&str) -> String,
    /// A usage with this input and this output.
    usage: fn(&str, &str) -> String,
}

const PROVIDERS: [Provider; 5] = [
    Provider {
        name: "chat",
        decoder: || Box::new(OpenAiChat::default()),
        frame: |usage| format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{usage}}}"#),
        usage: |input, output| format!(r#"{{"prompt_tokens":{input},"completion_tokens":{output}}}"#),
    },
    Provider {
        name: "responses",
        decoder: || Box::new(OpenAiResponses::default()),
        frame: |usage| format!(r#"{{"type":"response.in_progress","response":{{"id":"r","usage":{usage}}}}}"#),
        usage: |input, output| format!(r#"{{"input_tokens":{input},"output_tokens":{output}}}"#),
    },
    Provider {
        name: "anthropic",
        decoder: || Box::new(Anthropic::default()),
        frame: |usage| format!(r#"{{"type":"message_delta","delta":{{}},"usage":{usage}}}"#),
        usage: |input, output| format!(r#"{{"input_tokens":{input},"output_tokens":{output}}}"#),
    },
    Provider {
        name: "gemini",
        decoder: || Box::new(Gemini::default()),
        frame: |usage| format!(r#"{{"responseId":"r","usageMetadata":{usage}}}"#),
        usage: |input, output| format!(r#"{{"promptTokenCount":{input},"candidatesTokenCount":{output}}}"#),
    },
    Provider {
        name: "ollama",
        decoder: || Box::new(Ollama::default()),
        frame: |usage| usage.to_owned(),
        usage: |input, output| format!(r#"{{"prompt_eval_count":{input},"eval_count":{output}}}"#),
    },
];

impl Provider {
    /// What is known after these reports: input and output.
    fn known(&self, reports: &[(&str, &str)]) -> [Option<u64>; 2] {
        let reports: Vec<String> = reports.iter().map(|(input, output)| (self.usage)(input, output)).collect();
        let usage = self.after(reports.iter().map(String::as_str));
        [usage.input.value, usage.output.value]
    }

    fn after<'a>(&self, reports: impl IntoIterator<Item = &'a str>) -> Usage {
        let mut decoder = (self.decoder)();
        for report in reports {
            let frame = (self.frame)(report);
            let taken = decoder.frame(Frame { event: "", data: &frame }, &mut VecDeque::new());
            taken.unwrap_or_else(|error| panic!("{}: {frame}: {error}", self.name));
        }
        decoder.usage()
    }
}

#[test]
fn a_zero_neither_replaces_nor_stands_for_what_was_counted() {
    for provider in PROVIDERS {
        assert_eq!(provider.known(&[("1234", "56"), ("0", "0")]), [Some(1234), Some(56)], "{}", provider.name);
        assert_eq!(provider.after([&*(provider.usage)("0", "0")]), Usage::UNKNOWN, "{}", provider.name);
        assert_eq!(provider.known(&[("0", "56")]), [None, Some(56)], "{}", provider.name);
    }
}

#[test]
fn an_input_of_zero_may_be_right_where_the_rest_was_cached() {
    let start = |usage: Value| json!({"type": "message_start", "message": {"usage": usage}});
    let cached = json!({"input_tokens": 0, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0});
    let (said, ..) = play(Anthropic::default(), &[("message_start", start(cached))]);
    assert_eq!(numbers(said[0].usage), [Some(0), Some(900), Some(0), None, None]);
    let empty = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0});
    let (said, ..) = play(Anthropic::default(), &[("message_start", start(empty))]);
    assert_eq!(said[0].usage, Usage::UNKNOWN);
}

#[test]
fn what_is_no_number_of_tokens_is_no_figure_and_spoils_nothing() {
    for provider in PROVIDERS {
        for odd in ["-1", "0.5", "\"x\"", "null", "[1]", "{}", "true", "18446744073709551615", "1e999"] {
            let known = provider.known(&[("12", odd), (odd, "3"), (odd, odd)]);
            assert_eq!(known, [Some(12), Some(3)], "{}: {odd}", provider.name);
        }
    }
}

#[test]
fn whatever_stands_in_the_place_of_a_usage_is_no_usage() {
    for provider in PROVIDERS.iter().filter(|provider| provider.name != "ollama") {
        for odd in ["[1, 2]", "\"12\"", "12", "true", "null"] {
            assert_eq!(provider.after([odd]), Usage::UNKNOWN, "{}: {odd}", provider.name);
        }
        // A duplicate key: the last one counts.
        let twice = (provider.usage)("11", "2").replace('{', &(provider.usage)("1", "1").replace('}', ","));
        assert_eq!(provider.after([&*twice]).input.value, Some(11), "{}: {twice}", provider.name);
    }
}

#[test]
fn a_later_report_counts_also_where_it_is_smaller_or_comes_again() {
    for provider in PROVIDERS {
        assert_eq!(provider.known(&[("169", "9"), ("79", "4")]), [Some(79), Some(4)], "{}", provider.name);
        assert_eq!(provider.known(&[("79", "4"), ("79", "4")]), [Some(79), Some(4)], "{}", provider.name);
    }
}

#[test]
fn what_nobody_mentioned_is_unknown() {
    for provider in PROVIDERS {
        let usage = provider.after([&*(provider.usage)("12", "3")]);
        // Google leaves out what is zero.
        let unsaid = if provider.name == "gemini" { Some(0) } else { None };
        assert_eq!(numbers(usage), [Some(12), unsaid, None, Some(3), unsaid], "{}", provider.name);
    }
    let (mut bedrock, tokens) = (Bedrock::default(), Tokens { input: Some(12), output: Some(3), ..Tokens::default() });
    bedrock.event(Event::Used(tokens), &mut VecDeque::new()).unwrap();
    assert_eq!(numbers(bedrock.usage()), [Some(12), None, None, Some(3), None]);
    bedrock.event(Event::Used(Tokens { input: Some(0), output: Some(0), ..tokens }), &mut VecDeque::new()).unwrap();
    assert_eq!(numbers(bedrock.usage()), [Some(12), None, None, Some(3), None]);
}

#[test]
fn a_part_that_is_more_than_its_whole_is_unknown() {
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 10}});
    let usage = PROVIDERS[0].after([&*usage.to_string()]);
    assert_eq!((usage.input.value, usage.output.value), (Some(50), Some(9)));
    assert_eq!((usage.cache_read, usage.reasoning), (Figure::UNKNOWN, Figure::UNKNOWN));
}
