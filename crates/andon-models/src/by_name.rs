//! A model by its name.

use std::sync::Arc;

use andon_runtime::Model;

use crate::names;
use crate::provider::{Builder, SetupError};

/// A model by its name, such as `anthropic/claude-sonnet-5`, with its key and address from the environment.
pub fn by_name(name: &str) -> Result<Arc<dyn Model>, SetupError> {
    #[cfg(feature = "bedrock")]
    if let Some(model) = bedrock(name) {
        return Ok(Arc::new(crate::bedrock::Bedrock::new(model, crate::settings::Settings::default())));
    }
    Ok(Arc::new(builder(name)?.build()?))
}

/// The Bedrock model that a name means, if it means one.
#[cfg(feature = "bedrock")]
fn bedrock(name: &str) -> Option<&str> {
    let (provider, model) = name.split_once('/')?;
    (provider.eq_ignore_ascii_case("bedrock") && !model.is_empty()).then_some(model)
}

/// A builder for a model by its name. Not for Bedrock, which is set up in another way.
pub fn builder(name: &str) -> Result<Builder, SetupError> {
    let (provider, model) = name.split_once('/').ok_or_else(|| SetupError::NoProvider { name: name.to_owned() })?;
    if let Some(facts) = names::find(provider) {
        return Ok(Builder::new(facts, model));
    }
    if provider.eq_ignore_ascii_case("bedrock") {
        return Err(SetupError::NotBuilt { provider: "bedrock", feature: "bedrock" });
    }
    Err(SetupError::UnknownProvider { name: provider.to_owned() })
}

#[cfg(test)]
#[path = "by_name/tests.rs"]
mod tests;
