//! Names that are easily confused, such as `Ada` and `ada`, or `practise` and `practice`.

/// Longer names are ids that nobody types.
const LONGEST: usize = 64;

/// How far apart two names are; `None` if one is unlikely to be a typo for the other.
pub(crate) fn distance(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return Some(0);
    }
    if one.len().max(other.len()) > LONGEST {
        return None;
    }
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let allowed = match one.chars().count().max(other.chars().count()) {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let steps = strsim::osa_distance(&one, &other);
    // Names that differ only in case are still different names.
    (steps <= allowed).then_some(steps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_similar_and_another_name_is_not() {
        let near =
            [("ada", "ada", 0), ("Ada", "ada", 1), ("practise", "practice", 1), ("shpo", "shop", 1), ("", "", 0)];
        for (one, other, apart) in near {
            assert_eq!((distance(one, other), distance(other, one)), (Some(apart), Some(apart)), "{one} {other}");
        }
        let long = "x".repeat(LONGEST + 1);
        for (one, other) in [("ada", "bob"), ("s1", "s2"), ("ada", "adele"), ("", "ada"), (&long, &long.to_uppercase())]
        {
            assert_eq!(distance(one, other), None, "{one} {other}");
        }
        assert_eq!(distance("S", "s"), Some(1));
    }
}
