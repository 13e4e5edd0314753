//! What a look at the folder of agents has changed, in words for the log.

use crate::show::plain;

/// What a look at the folder of agents has changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Apps that are served now and were not before.
    pub(crate) loaded: Vec<String>,
    /// Apps that have a new agent. Runs in progress go on with the one they began with.
    pub(crate) changed: Vec<String>,
    /// Apps that are gone.
    pub(crate) removed: Vec<String>,
    /// Apps that are gone from the folder, in whose place the agent is served again that was there before.
    pub(crate) back: Vec<String>,
    /// Files that cannot be used.
    pub(crate) refused: Vec<Refused>,
    /// What an operator should know besides.
    pub(crate) notes: Vec<String>,
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The app.
    pub(crate) app: String,
    /// The file with its line, what is wrong, and what to change.
    pub(crate) why: String,
    /// What is served until the file is mended.
    pub(crate) meanwhile: Meanwhile,
}

/// What is served in place of a file that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Nothing.
    Nothing,
    /// An earlier version of it.
    Earlier,
    /// The agent of this name that comes with the program.
    BuiltIn,
}

impl Report {
    /// Puts all in the order of names, whichever came first.
    pub(super) fn sort(&mut self) {
        self.loaded.sort();
        self.changed.sort();
        self.refused.sort_by(|one, other| one.app.cmp(&other.app));
        self.notes.sort();
    }

    /// Whether nothing is worth a word.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there are apps that were not there before. Runs that a dead process left waiting for them can be taken up.
    pub(crate) fn has_new_apps(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// All of it, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let serve = |verb: &str, apps: &[String]| (!apps.is_empty()).then(|| format!("{verb} {}", apps.join(", ")));
        let mut lines: Vec<String> = Vec::new();
        lines.extend(serve("serving", &self.loaded));
        lines.extend(serve("serving what has changed:", &self.changed));
        lines.extend(serve("no longer serving", &self.removed));
        for app in &self.back {
            lines.push(format!("no longer serving {app} of the folder: the one that comes with the program is served"));
        }
        for refused in &self.refused {
            let so = match refused.meanwhile {
                Meanwhile::Nothing => "it is not served",
                Meanwhile::Earlier => "the earlier version is served on",
                Meanwhile::BuiltIn => "the one that comes with the program is served",
            };
            lines.push(format!("{}; until then {so}", refused.why));
        }
        lines.extend(self.notes.iter().cloned());
        lines.iter().map(|line| plain(&line.replace('\n', " "))).collect()
    }
}
