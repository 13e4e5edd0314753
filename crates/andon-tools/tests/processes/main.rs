//! Real processes and real signals: nothing that a tool started is left, whatever it does and whichever process is killed.
//!
//! This program is its own shim, and depending on its first argument also a host that tests kill.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says so by panicking"
)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused))]

#[cfg(target_os = "linux")]
mod agents;
#[cfg(target_os = "linux")]
mod deaths;
#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod leaks;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod roles;
#[cfg(target_os = "linux")]
mod runner;
#[cfg(target_os = "linux")]
mod starting;
#[cfg(target_os = "linux")]
mod stopping;
#[cfg(target_os = "linux")]
mod world;

#[cfg(target_os = "linux")]
fn main() {
    // Before `init`, because some roles are those of programs that never call it.
    roles::play_if_asked();
    andon_shim::init();
    let tests =
        [ends::ALL, stopping::ALL, output::ALL, starting::ALL, limits::ALL, deaths::ALL, agents::ALL, leaks::ALL];
    runner::run(&tests.concat());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("not tried: the proofs are read from /proc, which only Linux has");
}
