//! The explorer: stops your agent at every point, and checks that nothing is lost.
//!
//! [`explore`] plays a script once, under a paused clock on one thread, and counts every poll and every seam. Then it plays the script
//! again for each of them and stops it exactly there, in each [`Mode`]. It checks Andon's promises and [your own](World::check) at the end,
//! Andon's at every seam too, and then continues the session.
//!
//! It cannot see threads; those need tests of their own.

mod alone;
mod checks;
mod director;
mod judge;
mod mode;
mod panics;
mod report;
mod script;
mod strays;
mod watched;
mod witness;
mod world;

pub use checks::{Aftermath, Finding};
pub use mode::Mode;
pub use report::{Place, Report, Violation};
pub use script::{Explore, Script, explore};
pub use world::World;
