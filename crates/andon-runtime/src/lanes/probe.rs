//! A seam for test kits: a place where a test can step in, synchronously, between any two things that happen.
//!
//! Polls alone are not enough to stop a run at every point: forty pieces that are ready are one poll. So the runtime
//! names the places where the order of things matters, and calls the probe there, never while it holds a lock.

use std::sync::Arc;

/// Called each time a run passes a seam.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "only tests can have a probe"))]
pub trait Probe: Send + Sync + 'static {
    /// A run has reached this seam. The probe may pull cords, drop handles or panic.
    fn hit(&self, seam: &'static str);
}

/// How often each of the three things that a pull forbids has passed the gate. Counted under the run's lock, because nobody outside
/// can tell when a call that begins now had passed it.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GateCounts {
    /// Pieces accepted.
    pub pieces: u64,
    /// Tools started.
    pub tools: u64,
    /// Models called.
    pub models: u64,
}

/// The probe that a runtime was built with, if any.
#[derive(Clone, Default)]
pub(crate) struct Probes(pub(crate) Option<Arc<dyn Probe>>);

impl Probes {
    pub(crate) fn hit(&self, seam: &'static str) {
        if let Some(probe) = &self.0 {
            probe.hit(seam);
        }
    }
}
