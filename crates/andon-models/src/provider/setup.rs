//! Why a model cannot be set up.

use crate::names::{known, nearest};

/// Why a model cannot be set up, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum SetupError {
    /// A name without a provider.
    #[error("{name:?} names no provider: write provider/model, such as anthropic/claude-sonnet-5{}", list())]
    NoProvider {
        /// What was asked for.
        name: String,
    },
    /// An unknown provider.
    #[error("there is no provider {name:?}{}{}", did_you_mean(name), list())]
    UnknownProvider {
        /// What was asked for.
        name: String,
    },
    /// A provider that this program was built without.
    #[error(
        "{provider} is not in this build: build it with the feature `{feature}` (cargo build --features {feature})"
    )]
    NotBuilt {
        /// The provider.
        provider: &'static str,
        /// What turns it on.
        feature: &'static str,
    },
    /// The model's name is missing.
    #[error("the model's name is missing: write {provider}/MODEL")]
    NoModel {
        /// The provider.
        provider: &'static str,
    },
    /// There is no key.
    #[error("{provider} needs a key: set {variable}")]
    MissingKey {
        /// The provider.
        provider: &'static str,
        /// The environment variable to set.
        variable: &'static str,
    },
    /// A key that cannot be sent.
    #[error("the key in {variable} has characters that a key cannot have; was something copied along with it?")]
    BadKey {
        /// Where the key is kept.
        variable: &'static str,
    },
    /// There is no address.
    #[error("{provider} needs an address: set {variable}")]
    MissingAddress {
        /// The provider.
        provider: &'static str,
        /// The environment variable to set.
        variable: &'static str,
    },
    /// An address that cannot be used.
    #[error("the base address of {provider}{} cannot be used: {wrong}", shown(address))]
    BadAddress {
        /// The provider.
        provider: &'static str,
        /// The address, if it can be shown.
        address: Option<String>,
        /// What is wrong with it.
        wrong: String,
    },
    /// A header that cannot be sent.
    #[error("the header {name:?} cannot be sent: its name or its value has characters that a header cannot have")]
    BadHeader {
        /// Its name.
        name: String,
    },
}

fn did_you_mean(name: &str) -> String {
    nearest(name).map_or_else(String::new, |nearest| format!(": did you mean {nearest:?}?"))
}

fn list() -> String {
    let names: Vec<&str> = known().collect();
    format!(" (known: {})", names.join(", "))
}

fn shown(address: &Option<String>) -> String {
    address.as_ref().map_or_else(String::new, |address| format!(", {address:?},"))
}
