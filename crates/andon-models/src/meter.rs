//! The meter: the best figure there is for what a model call used.
