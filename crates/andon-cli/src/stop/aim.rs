//! What a stop or a hold was aimed at, in words. One that reached nothing says so, and says what is still in progress.

use andon_runtime::core::id::LOCAL;

use crate::client::KeySource;
use crate::client::calls::Selector;
use crate::client::forms::{Aim, Asker};
use crate::paste::quoted;
use crate::print::plain;

/// The text after the list of stopped runs, or instead of it if there are none.
pub(super) fn text(aim: &Aim, reached: bool, given: Option<KeySource>) -> String {
    let looked_for = plain(&aim.looked_for);
    // Somebody who cannot reach every run does not know whether others are in progress.
    let is_all = aim.others == 0 && !aim.asked_by.as_ref().is_some_and(is_somebody);
    let found = match (reached, aim.known) {
        (true, _) => format!("Looked for {looked_for}."),
        (false, false) => format!("Nothing was stopped: looked for {looked_for}, but found none on record."),
        (false, true) if is_all => format!("Nothing was running: looked for {looked_for}."),
        (false, true) => format!("Nothing was stopped: looked for {looked_for}, but found none in progress."),
    };
    format!("{found} {}", rest(aim, given))
}

/// The text about a hold without a cancel: a warning if its name may be mistyped.
pub(super) fn of_hold(aim: &Aim, given: Option<KeySource>) -> String {
    if aim.known {
        return asked(aim, given);
    }
    let looked_for = plain(&aim.looked_for);
    format!("The hold is on {looked_for}, and no such run is on record. {}", rest(aim, given))
}

/// What is still in progress, what may have been meant, and who asked.
fn rest(aim: &Aim, given: Option<KeySource>) -> String {
    format!("{}{}\n{}", others(aim), meant(aim), asked(aim, given))
}

/// How many other runs are in progress, as far as this key can tell.
fn others(aim: &Aim) -> String {
    let in_reach = if aim.asked_by.as_ref().is_some_and(is_somebody) { " that you can reach" } else { "" };
    match aim.others {
        0 => format!("No other run{in_reach} was in progress."),
        1 => format!("1 other run{in_reach} is still in progress."),
        many => format!("{many} other runs{in_reach} are still in progress."),
    }
}

/// Whether the asker is anyone but the owner of the machine.
fn is_somebody(asker: &Asker) -> bool {
    asker.key.is_some() || asker.name != LOCAL
}

/// What may have been meant, as flags to type.
fn meant(aim: &Aim) -> String {
    let Some(Selector { tenant, app, user, session }) = &aim.did_you_mean else { return String::new() };
    let flags = [("--tenant", tenant), ("--app", app), ("--user", user), ("--session", session)];
    let flags = flags.into_iter().filter_map(|(flag, name)| Some(format!("{flag} {}", quoted(&plain(name.as_ref()?)))));
    format!(" Did you mean {}?", flags.collect::<Vec<_>>().join(" "))
}

/// Which of the user's keys was used, and what it can reach.
fn asked(aim: &Aim, given: Option<KeySource>) -> String {
    let (Some(given), Some(asker)) = (given, aim.asked_by.as_ref().filter(|asker| is_somebody(asker))) else {
        return String::new();
    };
    let (name, reach, source) = (plain(&asker.name), plain(&asker.reach), given.source);
    let who = match &asker.key {
        Some(id) => format!("key {} of {name} (from {source})", plain(id)),
        None => format!("a token of {name} (from {source})"),
    };
    let way_out = given.way_out().map_or_else(String::new, |way_out| format!("; {way_out}"));
    format!("This used {who}, which can reach {reach}{way_out}.\n")
}

/// A selector in words, for use without a server.
pub(super) fn words(which: &Selector) -> String {
    let Selector { tenant, app, user, session } = which;
    let names = [("in the session", session), ("of the user", user), ("of the app", app), ("of the tenant", tenant)];
    let names = names.into_iter().filter_map(|(word, name)| Some(format!(" {word} {}", name.as_ref()?)));
    match names.collect::<String>() {
        none if none.is_empty() => "everything".to_owned(),
        names => format!("all runs{names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aim(known: bool, others: usize) -> Aim {
        Aim { looked_for: "all runs of the user ada".to_owned(), known, others, ..Aim::default() }
    }

    #[test]
    fn the_text_says_what_was_looked_for_and_what_goes_on() {
        let looked_for = "looked for all runs of the user ada";
        let words = [
            (true, true, 0, "Looked for all runs of the user ada. No other run was in progress.\n".to_owned()),
            (true, true, 2, "Looked for all runs of the user ada. 2 other runs are still in progress.\n".to_owned()),
            (false, true, 0, format!("Nothing was running: {looked_for}. No other run was in progress.\n")),
            (
                false,
                true,
                1,
                format!(
                    "Nothing was stopped: {looked_for}, but found none in progress. 1 other run is still in progress.\n"
                ),
            ),
            (
                false,
                false,
                1,
                format!(
                    "Nothing was stopped: {looked_for}, but found none on record. 1 other run is still in progress.\n"
                ),
            ),
        ];
        for (reached, known, others, expected) in words {
            assert_eq!(text(&aim(known, others), reached, None), expected);
        }
    }

    #[test]
    fn the_users_key_is_named_with_its_reach_and_how_to_use_the_owners() {
        let given = |hides_owner_key| Some(KeySource { source: "ANDON_KEY", hides_owner_key });
        let asker = Asker { name: "me".to_owned(), key: Some("4f1c".to_owned()), reach: "all of me's runs".to_owned() };
        let mine = Aim { asked_by: Some(asker), ..aim(true, 0) };
        let said = text(&mine, false, given(false));
        assert!(said.starts_with("Nothing was stopped: "), "what others run is not known: {said}");
        assert!(said.contains("No other run that you can reach was in progress."), "{said}");
        assert!(said.ends_with("\nThis used key 4f1c of me (from ANDON_KEY), which can reach all of me's runs.\n"));
        let said = text(&mine, true, given(true));
        assert!(said.contains("can reach all of me's runs; without ANDON_KEY, the owner's key"), "{said}");
        assert!(!text(&mine, true, None).contains("This used"), "nobody gave one");
        let owner = Asker { name: LOCAL.to_owned(), ..Asker::default() };
        let all = Aim { asked_by: Some(owner), ..aim(true, 0) };
        assert!(!text(&all, true, given(true)).contains("This used"), "the server did not ask for it");
    }

    #[test]
    fn a_near_miss_is_suggested_as_flags() {
        let near = Selector { user: Some("ada l".to_owned()), tenant: Some("south".to_owned()), ..Selector::default() };
        let miss = Aim { did_you_mean: Some(near), ..aim(false, 1) };
        assert!(
            text(&miss, false, None).ends_with("is still in progress. Did you mean --tenant south --user 'ada l'?\n")
        );
        assert!(of_hold(&miss, None).starts_with("The hold is on all runs of the user ada, and no such run"));
        assert_eq!(of_hold(&aim(true, 1), None), "");
    }
}
