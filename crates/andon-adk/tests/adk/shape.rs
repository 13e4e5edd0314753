//! The shape of ADK's events.

use serde_json::{Value, json};

/// ADK's fields, in its order. An event has only these, in this order.
const FIELDS: [&str; 16] = [
    "content",
    "partial",
    "turnComplete",
    "finishReason",
    "errorCode",
    "errorMessage",
    "interrupted",
    "customMetadata",
    "usageMetadata",
    "invocationId",
    "author",
    "actions",
    "nodeInfo",
    "longRunningToolIds",
    "id",
    "timestamp",
];

/// The names of an event's fields.
pub(crate) fn keys(event: &Value) -> Vec<&str> {
    event.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Checks that an event has ADK's shape.
pub(crate) fn assert_shape(event: &Value) {
    for key in keys(event) {
        assert!(FIELDS.contains(&key), "ADK has no {key}: {event}");
        assert!(!event[key].is_null(), "{key} is null: {event}");
    }
    for key in ["invocationId", "author", "actions", "nodeInfo", "id", "timestamp"] {
        assert!(!event[key].is_null(), "{key} is missing: {event}");
    }
    let actions = ["stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations"];
    assert_eq!(event["actions"].as_object().unwrap().len(), actions.len(), "{event}");
    assert!(actions.iter().all(|name| event["actions"][name].is_object()), "{event}");
    assert_eq!(event["id"].as_str().unwrap().len(), 36);
    assert!(event["timestamp"].is_f64());
    if let Some(parts) = event["content"]["parts"].as_array() {
        assert!(!parts.is_empty(), "{event}");
    }
    assert!(event["content"].is_null() || [json!("user"), json!("model")].contains(&event["content"]["role"]));
}

/// Checks that a serialized event has its fields in ADK's order.
pub(crate) fn assert_order(written: &str) {
    // The last occurrence of each name: earlier ones may be inside another field.
    let places: Vec<usize> = FIELDS.iter().filter_map(|name| written.rfind(&format!("\"{name}\":"))).collect();
    assert!(places.is_sorted(), "{written}");
}
