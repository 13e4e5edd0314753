//! How much an operation looked at, for tests that promise a bound: time depends on the machine, this does not.

#[cfg(test)]
thread_local! {
    static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many bytes, or texts, were looked at.
#[cfg(test)]
pub(crate) fn done(amount: usize) {
    DONE.with(|done| done.set(done.get() + amount));
}

/// So many bytes, or texts, were looked at.
#[cfg(not(test))]
pub(crate) const fn done(_amount: usize) {}

/// What was looked at since this was last asked.
#[cfg(test)]
pub(crate) fn take() -> usize {
    DONE.with(std::cell::Cell::take)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::super::{Asked, Book, Reported, Written};
    use super::take;

    const REPORTED: Reported = Reported { input: Some(1000), output: Some(20), reasoning: Some(0) };

    /// What a cut call's input takes in a conversation of so many messages, of which the last two are new, and what the
    /// same takes without an anchor.
    fn cost(model: &str, messages: usize) -> [usize; 2] {
        let book = Book::new();
        let message = "The river of the quiet machine stops when asked. ".repeat(160);
        let messages: Vec<Cow<'_, str>> = vec![Cow::Borrowed(message.as_str()); messages];
        let asked = Asked { system: Some("Be brief."), messages: &messages, tools: &[], images: 0 };
        let before = Asked { messages: &messages[..messages.len() - 2], ..asked };
        take();
        let anchor = book.anchor(&before, &Written::default(), &REPORTED).unwrap();
        book.input(model, &asked, Some(&anchor));
        let anchored = take();
        book.input(model, &asked, None);
        [anchored, take()]
    }

    #[test]
    fn a_long_history_costs_no_more_than_a_bounded_part_of_it() {
        for model in ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"] {
            let [anchored, cold] = cost(model, 200);
            let [anchored_long, cold_long] = cost(model, 20_000);
            // Hashes of both, and the two new messages.
            assert!(anchored <= 2 * 64 * 1100 + 2 * 8_000, "{model}: {anchored}");
            assert!(anchored_long <= anchored + anchored / 10, "{model}: {anchored_long} after {anchored}");
            assert!(cold <= 52 * 1024 && cold_long <= 52 * 1024, "{model}: {cold} and {cold_long}");
        }
    }
}
