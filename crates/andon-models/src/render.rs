//! From a stored history to a request's body that its provider accepts: pure, one module a provider.
