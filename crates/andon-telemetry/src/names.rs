//! Every name that spans use, in one place: the GenAI conventions of OpenTelemetry are still in development.
//!
//! Names that begin with `gen_ai.` and `error.` come from the conventions; those with `andon.` are ours, for what the conventions
//! do not name.

/// What is done: `invoke_agent`, `chat`, `execute_tool`.
pub const OPERATION: &str = "gen_ai.operation.name";
/// The model's provider, as far as its name says.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The agent's name.
pub const AGENT: &str = "gen_ai.agent.name";
/// The session.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// The model's name.
pub const MODEL: &str = "gen_ai.request.model";
/// The exact model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id for the request.
pub const REQUEST_ID: &str = "andon.request.id";
/// Why the model stopped writing: a list.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Seconds to the first piece of an answer.
pub const FIRST_PIECE: &str = "gen_ai.response.time_to_first_chunk";
/// All tokens that were read, including cached ones.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens read from the provider's cache.
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens written to the provider's cache.
pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// All tokens that were written.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The part of them that was thinking.
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
/// The tool's name.
pub const TOOL: &str = "gen_ai.tool.name";
/// The call's id.
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// The kind of tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// What went wrong, as a word from a small set.
pub const ERROR: &str = "error.type";

/// The run's id.
pub const RUN: &str = "andon.run.id";
/// How the run ended: `completed`, `cancelled`, `failed`, `lost`.
pub const OUTCOME: &str = "andon.outcome";
/// The run's stop reason, as in its outcome.
pub const STOP_REASON: &str = "andon.stop_reason";
/// Why the run was stopped.
pub const CANCEL_REASON: &str = "andon.cancel.reason";
/// The force of the request.
pub const CANCEL_FORCE: &str = "andon.cancel.force";
/// Who asked for the stop.
pub const CANCEL_BY: &str = "andon.cancel.by";
/// What the run was doing when the stop reached it.
pub const CANCEL_PHASE: &str = "andon.cancel.phase";
/// Microseconds from the request until the driver saw it.
pub const CANCEL_DELIVERED: &str = "andon.cancel.delivered_us";
/// Microseconds from the request until nothing was accepted or started any more.
pub const CANCEL_QUIET: &str = "andon.cancel.quiet_us";
/// Microseconds from the request until everything was at rest.
pub const CANCEL_SETTLED: &str = "andon.cancel.settled_us";
/// What may still be running after the run, by name: a list.
pub const LEAKED: &str = "andon.leaked";
/// The number of a model call in its run.
pub const MODEL_CALL: &str = "andon.model.call";
/// How a model call ended: `answered`, `cut`, `failed`, `lost`.
pub const MODEL_END: &str = "andon.model.end";
/// How the output tokens are known.
pub const PROVENANCE: &str = "andon.usage.provenance";
/// Output tokens that will be charged, where that is known.
pub const BILLED_OUTPUT: &str = "andon.usage.billed_output_tokens";
/// What became of a tool call, as in the receipt.
pub const VERDICT: &str = "andon.tool.verdict";
/// Why a call was not run.
pub const REFUSED: &str = "andon.tool.refused";
/// What kind of effect a tool can have.
pub const EFFECT: &str = "andon.tool.effect";
/// What a person, or the stop, decided.
pub const APPROVAL: &str = "andon.approval.verdict";
/// How long to wait before a failed call is retried, in milliseconds.
pub const DELAY: &str = "andon.backoff.delay_ms";
/// Where a hook was called.
pub const HOOK: &str = "andon.hook.point";
/// How the hook ended.
pub const HOOK_END: &str = "andon.hook.end";

/// The event of a request to stop.
pub const CANCEL_EVENT: &str = "andon.cancel";
/// The event of a request to stop one call.
pub const CALL_CANCEL_EVENT: &str = "andon.call_cancel";
/// The event of a call that begins to wait for an approval.
pub const APPROVAL_REQUESTED_EVENT: &str = "andon.approval.requested";
/// The event of a person's decision.
pub const APPROVAL_RESOLVED_EVENT: &str = "andon.approval.resolved";
/// The event of a wait before a call is retried.
pub const BACKOFF_EVENT: &str = "andon.backoff";
/// The event of the instant from which nothing was accepted or started.
pub const QUIET_EVENT: &str = "andon.quiet";
/// The event of a hook that did not simply let the run go on.
pub const HOOK_EVENT: &str = "andon.hook";

/// The tool's name in a span's name, if the model made it up.
pub const OTHER_TOOL: &str = "other";

/// A model's provider, as far as its name says, and the model's name there.
///
/// For `openai/gpt-5` these are `openai` and `gpt-5`. A name without a known provider stays whole.
pub fn provider(model: &str) -> (Option<&str>, &str) {
    if let Some((prefix, rest)) = model.split_once('/').filter(|(_, rest)| !rest.is_empty()) {
        let is_meant = |(own, _): &&(&str, &str)| own.eq_ignore_ascii_case(prefix);
        if let Some((_, name)) = PROVIDERS.iter().find(is_meant) {
            return (Some(name), rest);
        }
    }
    // Names of open weights say nothing about who serves them.
    let family = FAMILIES.iter().find(|(prefix, _)| model.starts_with(prefix));
    (family.map(|(_, name)| *name).filter(|name| !name.is_empty()), model)
}

/// Prefixes of models' names, and the provider in the conventions' words, or in ours where they have none.
const PROVIDERS: [(&str, &str); 24] = [
    ("openai", "openai"),
    ("openai-responses", "openai"),
    ("anthropic", "anthropic"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
    ("google", "gcp.gemini"),
    ("bedrock", "aws.bedrock"),
    ("azure", "azure.ai.openai"),
    ("azure-openai", "azure.ai.openai"),
    ("deepseek", "deepseek"),
    ("groq", "groq"),
    ("mistral", "mistral_ai"),
    ("mistralai", "mistral_ai"),
    ("xai", "x_ai"),
    ("grok", "x_ai"),
    ("openrouter", "openrouter"),
    ("ollama", "ollama"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("llamacpp", "llamacpp"),
    ("llama.cpp", "llamacpp"),
    ("llama-cpp", "llamacpp"),
    ("compatible", "compatible"),
    ("openai-compatible", "compatible"),
];

/// The beginnings of models' own names, and the provider.
const FAMILIES: [(&str, &str); 15] = [
    ("gpt-oss", ""),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gcp.gemini"),
    ("grok-", "x_ai"),
    ("mistral-", "mistral_ai"),
    ("deepseek-", "deepseek"),
    ("anthropic.", "aws.bedrock"),
    ("us.anthropic.", "aws.bedrock"),
    ("amazon.", "aws.bedrock"),
    ("practice", "andon"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_is_split_into_its_provider_and_its_name_there() {
        let cases = [
            ("openai/gpt-5", Some("openai"), "gpt-5"),
            ("openai-responses/o4", Some("openai"), "o4"),
            ("Anthropic/claude-sonnet-5", Some("anthropic"), "claude-sonnet-5"),
            ("google/gemini-3", Some("gcp.gemini"), "gemini-3"),
            ("bedrock/us.anthropic.claude", Some("aws.bedrock"), "us.anthropic.claude"),
            ("openrouter/meta/llama-4", Some("openrouter"), "meta/llama-4"),
            ("openai-compatible/qwen", Some("compatible"), "qwen"),
            ("claude-opus-5", Some("anthropic"), "claude-opus-5"),
            ("gpt-oss-20b", None, "gpt-oss-20b"),
            ("meta/llama-4", None, "meta/llama-4"),
            ("openai/", None, "openai/"),
            ("practice", Some("andon"), "practice"),
        ];
        for (model, who, name) in cases {
            assert_eq!(provider(model), (who, name), "{model}");
        }
    }
}
