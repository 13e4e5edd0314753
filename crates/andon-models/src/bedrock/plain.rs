//! The SDK's types as ours.

use std::error::Error;

use andon_runtime::ModelError;
use aws_sdk_bedrockruntime::config::http::HttpResponse;
use aws_sdk_bedrockruntime::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_bedrockruntime::types::{
    ContentBlockDelta, ContentBlockStart, ConverseStreamOutput, ReasoningContentBlockDelta, TokenUsage,
};

use crate::decode::bedrock::{Delta, Event, Tokens, error};

/// The event, if it matters here.
pub(super) fn event(event: ConverseStreamOutput) -> Option<Event> {
    match event {
        ConverseStreamOutput::ContentBlockStart(start) => match start.start? {
            ContentBlockStart::ToolUse(call) => {
                Some(Event::Call { block: start.content_block_index, id: call.tool_use_id, name: call.name })
            }
            _ => None,
        },
        ConverseStreamOutput::ContentBlockDelta(more) => {
            Some(Event::Delta { block: more.content_block_index, delta: delta(more.delta?)? })
        }
        ConverseStreamOutput::ContentBlockStop(stop) => Some(Event::BlockStop { block: stop.content_block_index }),
        ConverseStreamOutput::MessageStop(stop) => Some(Event::Stop(stop.stop_reason.as_str().to_owned())),
        ConverseStreamOutput::Metadata(metadata) => metadata.usage.as_ref().map(tokens).map(Event::Used),
        // The start says nothing, and other events are unknown.
        _ => None,
    }
}

fn delta(delta: ContentBlockDelta) -> Option<Delta> {
    match delta {
        ContentBlockDelta::Text(text) => Some(Delta::Text(text)),
        ContentBlockDelta::ToolUse(call) => Some(Delta::Input(call.input)),
        ContentBlockDelta::ReasoningContent(reasoning) => match reasoning {
            ReasoningContentBlockDelta::Text(text) => Some(Delta::Thinking(text)),
            ReasoningContentBlockDelta::Signature(more) => Some(Delta::Signature(more)),
            ReasoningContentBlockDelta::RedactedContent(bytes) => {
                Some(Delta::Redacted(aws_smithy_types::base64::encode(bytes)))
            }
            _ => None,
        },
        _ => None,
    }
}

fn tokens(usage: &TokenUsage) -> Tokens {
    // A negative number is not a figure.
    let number = |value: i32| u64::try_from(value).ok();
    Tokens {
        input: number(usage.input_tokens),
        output: number(usage.output_tokens),
        cache_read: usage.cache_read_input_tokens.and_then(number),
        cache_write: usage.cache_write_input_tokens.and_then(number),
    }
}

/// What went wrong, without the SDK's own words.
pub(super) fn problem<E: ProvideErrorMetadata, R>(problem: &SdkError<E, R>) -> ModelError {
    match problem {
        SdkError::ServiceError(_) => error(problem.code().unwrap_or_default(), problem.message().unwrap_or_default()),
        SdkError::TimeoutError(_) => ModelError::retryable("Amazon Bedrock did not answer in time"),
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            ModelError::fatal("the request to Amazon Bedrock could not be made: check AWS_REGION and the address")
        }
        SdkError::DispatchFailure(_) if is_before_sending(problem) => ModelError::fatal(
            "there are no credentials for Amazon Bedrock: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK",
        ),
        SdkError::DispatchFailure(_) => ModelError::retryable("the connection to Amazon Bedrock failed"),
        SdkError::ResponseError(_) => ModelError::retryable("the connection to Amazon Bedrock broke off"),
        _ => ModelError::fatal("the request to Amazon Bedrock could not be made: check AWS_REGION and the credentials"),
    }
}

/// Whether the service certainly did not work on a request that failed.
pub(super) fn never_begun<E>(problem: &SdkError<E, HttpResponse>) -> bool {
    match problem {
        SdkError::ConstructionFailure(_) => true,
        SdkError::DispatchFailure(failure) => match sent(problem) {
            Some(error) => error.is_connect(),
            None => failure.is_user() || is_before_sending(problem),
        },
        // A service that refuses a request has not worked on it.
        SdkError::ServiceError(refused) => (300..500).contains(&refused.raw().status().as_u16()),
        _ => false,
    }
}

/// Whether it failed before it reached the SDK's HTTP client, which is where the SDK looks for credentials.
fn is_before_sending<E, R>(problem: &SdkError<E, R>) -> bool {
    let SdkError::DispatchFailure(failure) = problem else { return false };
    !(failure.is_io() || failure.is_timeout()) && sent(problem).is_none()
}

/// The error of the SDK's HTTP client, if it is one.
fn sent<E, R>(problem: &SdkError<E, R>) -> Option<&hyper_util::client::legacy::Error> {
    let SdkError::DispatchFailure(failure) = problem else { return None };
    let first = failure.as_connector_error().and_then(Error::source);
    std::iter::successors(first, |&error| error.source()).find_map(|error| error.downcast_ref())
}
