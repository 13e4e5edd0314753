//! An image as a request can carry it.

use andon_runtime::core::message::Image;

/// Where an image's bytes are, from a provider's point of view.
pub(super) enum Source<'a> {
    /// In the reference itself, as base64.
    Inline(&'a str),
    /// At an address that the provider can fetch.
    Address(&'a str),
    /// In a place that the provider cannot reach.
    Elsewhere,
}

/// Where the image's bytes are.
pub(super) fn source(image: &Image) -> Source<'_> {
    let reference = image.reference.as_str();
    let inline = reference.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((_, base64)) => Source::Inline(base64),
        None if reference.starts_with("https:") => Source::Address(reference),
        None => Source::Elsewhere,
    }
}

/// The text that replaces an image where a request cannot carry one.
pub(super) fn in_words(image: &Image) -> String {
    format!("[image of type {}]", image.media_type)
}
