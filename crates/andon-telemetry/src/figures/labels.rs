//! Names as labels: no more than an operator can look at.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;

/// How many names a label has before the others become `other`.
const MOST: usize = 100;
/// How many bytes a name may have.
const LONGEST: usize = 100;
/// What all other names become.
const OTHER: &str = "other";

/// The names that a label has used.
#[derive(Debug, Default)]
pub(super) struct Names(RwLock<HashSet<Arc<str>>>);

impl Names {
    /// The name, or `other` if there are too many.
    pub(super) fn bounded(&self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.read().get(name) {
            return Arc::clone(known);
        }
        let mut names = self.0.write();
        if names.len() >= MOST || name.len() > LONGEST {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name));
        name
    }

    /// The name, if the label has used it, or `other`.
    pub(super) fn if_known(&self, name: &str) -> Arc<str> {
        self.0.read().get(name).map_or_else(|| OTHER.into(), Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_no_more_names_than_can_be_looked_at() {
        let names = Names::default();
        let had: HashSet<Arc<str>> = (0..1000).map(|number| names.bounded(&format!("tool {number}"))).collect();
        assert_eq!(had.len(), MOST + 1);
        assert_eq!((&*names.bounded("tool 7"), &*names.bounded("tool 777")), ("tool 7", OTHER));
        assert_eq!((&*names.if_known("tool 7"), &*names.if_known("new")), ("tool 7", OTHER));
        assert_eq!(&*Names::default().bounded(&"x".repeat(101)), OTHER);
    }
}
