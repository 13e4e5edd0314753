//! What operators see: figures, spans and logs of runs.
//!
//! All of it comes from the runs' own events, through an [observer](andon_runtime::Observer) of what is shown. Nothing here can
//! delay a run, and nothing is known here that is not on record.
//!
//! ```
//! use andon_runtime::Runtime;
//! use andon_telemetry::{Figures, Logs};
//!
//! let figures = Figures::new();
//! let runtime = Runtime::builder().observer(figures.clone()).observer(Logs).build();
//! assert!(figures.render(&runtime).contains("andon_runs"));
//! ```

mod figures;
mod logs;
pub mod names;
#[cfg(feature = "otlp")]
mod otlp;
mod past;
pub mod span;

pub use figures::{Figures, Now};
pub use logs::Logs;
#[cfg(feature = "otlp")]
pub use otlp::{Collector, Traces, TracesError};
