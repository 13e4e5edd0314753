//! The tokens that a run's model calls have used.

use andon_runtime::{Figure, Usage};
use serde::Serialize;
use utoipa::ToSchema;

/// The tokens of a row.
// Those that the provider charges for.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = BoardTokens)]
pub(crate) struct Tokens {
    /// Input tokens, including those read from or written to a cache.
    #[schema(value_type = FigureForm)]
    pub(crate) input: Figure,
    /// Output tokens.
    #[schema(value_type = FigureForm)]
    pub(crate) output: Figure,
}

/// A figure and how it is known, as in receipts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardFigure)]
pub(crate) struct FigureForm {
    /// The figure, if it is known.
    #[schema(required)]
    value: Option<u64>,
    /// How the figure is known.
    provenance: String,
    /// The lower bound.
    #[schema(required)]
    low: Option<u64>,
    /// The upper bound.
    #[schema(required)]
    high: Option<u64>,
}

impl Tokens {
    /// The tokens of no calls at all.
    pub(super) const NONE: Self = Self { input: Figure::reported(0), output: Figure::reported(0) };

    /// Unknown numbers of tokens.
    pub(super) const UNKNOWN: Self = Self { input: Figure::UNKNOWN, output: Figure::UNKNOWN };

    pub(super) fn of(billed: &Usage) -> Self {
        Self { input: billed.read(), output: billed.output }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { input: self.input.plus(other.input), output: self.output.plus(other.output) }
    }
}
