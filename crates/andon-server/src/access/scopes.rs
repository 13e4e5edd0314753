//! Scopes: what a key or token allows.

use std::fmt;
use std::str::FromStr;

/// One thing that a key or token may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Scope {
    /// Start runs, decide on approvals, change and delete sessions.
    RunCreate,
    /// See runs and sessions, and read feeds.
    RunRead,
    /// Stop runs.
    RunCancel,
    /// Act for every user of the key's own tenant.
    Impersonate,
    /// Read the metrics of the whole server.
    Metrics,
    /// Operate the server: all tenants, the line, the keys, and everything above.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 6] =
        [Self::RunCreate, Self::RunRead, Self::RunCancel, Self::Impersonate, Self::Metrics, Self::Admin];

    /// The name of the scope in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunCreate => "run:create",
            Self::RunRead => "run:read",
            Self::RunCancel => "run:cancel",
            Self::Impersonate => "impersonate",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope {0:?}: choose from run:create, run:read, run:cancel, impersonate, metrics and admin")]
pub struct NoSuchScope(pub String);

impl FromStr for Scope {
    type Err = NoSuchScope;

    fn from_str(text: &str) -> Result<Self, NoSuchScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| NoSuchScope(text.to_owned()))
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope: admin includes all the others.
    pub const ALL: Self = Self(0b11_1111);

    /// Whether the set contains this scope. Admin includes every scope.
    pub fn allows(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// This set with one more scope.
    pub(crate) fn and(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the scopes in the set.
    pub fn words(self) -> Vec<&'static str> {
        Scope::ALL.into_iter().filter(|scope| self.0 & scope.bit() != 0).map(Scope::as_str).collect()
    }

    /// Parses scope names; the error names the first that is not a scope.
    pub fn read<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, NoSuchScope> {
        words.into_iter().map(Scope::from_str).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_allows_all_and_no_other_allows_anything_but_itself() {
        for scope in Scope::ALL {
            let alone = Scopes::from_iter([scope]);
            for other in Scope::ALL {
                assert_eq!(alone.allows(other), scope == other || scope == Scope::Admin, "{scope} {other}");
            }
            assert_eq!(Scopes::read(alone.words()), Ok(alone));
        }
        assert!(Scopes::ALL.words().len() == 6 && Scopes::default().is_empty());
        assert_eq!(Scopes::read(["run:read", "Admin"]), Err(NoSuchScope("Admin".to_owned())));
    }
}
