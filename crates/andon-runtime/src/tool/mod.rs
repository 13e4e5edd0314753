//! What a tool is declared as, what a call of it does, and what it returns.

mod output;
mod spec;
pub(crate) mod validator;
mod work;

use std::time::Duration;

pub use output::{AsJson, ToolError, ToolOutput};
pub(crate) use output::{bounded, bounded_remains};
pub use spec::{OnCancel, ToolSpec};
pub use work::Work;
pub(crate) use work::{Cleanup, Doing};

/// The result of a tool's work.
pub type Returned = Result<ToolOutput, ToolError>;

/// The default grace of a tool.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);
