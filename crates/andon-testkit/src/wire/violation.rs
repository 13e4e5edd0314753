//! What is wrong with a request, and where.

use std::fmt;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The place in the request, such as `messages[2].content[0].text`.
    pub path: String,
    /// The rule that is broken there.
    pub rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.rule)
    }
}

/// Collects all violations of one request, so that a failed test shows them together.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn add(&mut self, path: impl Into<String>, rule: impl Into<String>) {
        self.0.push(Violation { path: path.into(), rule: rule.into() });
    }

    /// Adds a violation unless the rule holds.
    pub(super) fn require(&mut self, holds: bool, path: &str, rule: &str) {
        if !holds {
            self.add(path, rule);
        }
    }

    pub(super) fn into_result(self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// What was found, each with whose rule is broken.
pub(super) fn violations_of(who: &str, checked: Result<(), Vec<Violation>>) -> Vec<String> {
    let violations = checked.err().unwrap_or_default();
    violations.iter().map(|violation| format!("{who}: {violation}")).collect()
}
