//! Processes whose whole tree is stopped.
