//! Access control: keys, tokens and tickets, whom they belong to, and what each route requires.

pub(crate) mod auth;
pub(crate) mod builder;
pub(crate) mod gate;
pub(crate) mod keys;
pub(crate) mod limiter;
pub(crate) mod oidc;
pub(crate) mod principal;
pub(crate) mod scopes;
pub(crate) mod secret;
pub(crate) mod table;
pub(crate) mod tickets;
