//! What a scan of the folder of agents has changed, in words.

use crate::print::plain;

/// What a scan of the folder of agents has changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Apps that are newly served.
    pub(crate) loaded: Vec<String>,
    /// Apps that have a new agent. Runs in progress keep the one they started with.
    pub(crate) changed: Vec<String>,
    /// Apps that are gone.
    pub(crate) removed: Vec<String>,
    /// Apps that are gone from the folder, so that the built-in agent is served again.
    pub(crate) back: Vec<String>,
    /// Files that cannot be used.
    pub(crate) refused: Vec<Refused>,
    /// What else an operator should know.
    pub(crate) notes: Vec<String>,
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The app.
    pub(crate) app: String,
    /// The file with its line, what is wrong, and what to change.
    pub(crate) why: String,
    /// What is served until the file is fixed.
    pub(crate) meanwhile: Meanwhile,
}

/// What is served in place of a file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Nothing.
    Nothing,
    /// An earlier version of it.
    Earlier,
    /// The built-in agent of the same name.
    BuiltIn,
}

impl Report {
    /// Sorts everything by name.
    pub(super) fn sort(&mut self) {
        self.loaded.sort();
        self.changed.sort();
        self.refused.sort_by(|one, other| one.app.cmp(&other.app));
        self.notes.sort();
    }

    /// Whether there is nothing to report.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there are new apps. Runs that a dead process left waiting for them can be recovered.
    pub(crate) fn has_new_apps(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// The report as lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let serve = |verb: &str, apps: &[String]| (!apps.is_empty()).then(|| format!("{verb} {}", apps.join(", ")));
        let mut lines: Vec<String> = Vec::new();
        lines.extend(serve("serving", &self.loaded));
        lines.extend(serve("serving the new version of", &self.changed));
        lines.extend(serve("no longer serving", &self.removed));
        for app in &self.back {
            lines.push(format!("no longer serving {app} from the folder: the built-in agent is served instead"));
        }
        for refused in &self.refused {
            let so = match refused.meanwhile {
                Meanwhile::Nothing => "it is not served",
                Meanwhile::Earlier => "the earlier version is served",
                Meanwhile::BuiltIn => "the built-in agent is served",
            };
            lines.push(format!("{}; until this is fixed, {so}", refused.why));
        }
        lines.extend(self.notes.iter().cloned());
        lines.iter().map(|line| plain(&line.replace('\n', " "))).collect()
    }
}
