//! Names that are easily confused: `Ada` and `ada`, `practise` and `practice`.

/// Names that are longer than this are ids that no person types.
const LONGEST: usize = 64;

/// How far apart two names are, if they are so near that one may be meant by the other.
pub(crate) fn distance(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return Some(0);
    }
    if one.len().max(other.len()) > LONGEST {
        return None;
    }
    let letters = |name: &str| name.to_lowercase().chars().collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    let allowed = match one.len().max(other.len()) {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    let steps = steps(&one, &other);
    // Names that differ in their case alone are two names.
    (steps <= allowed).then_some(steps.max(1))
}

/// How many letters have to be put in, left out, changed, or swapped with the one behind.
fn steps(one: &[char], other: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, another) in other.iter().enumerate() {
            let at = |line: &[usize], place: usize| line.get(place).copied().unwrap_or(usize::MAX - 1);
            let changed = at(&last, column) + usize::from(letter != another);
            let one_more = at(&last, column + 1).min(at(&next, column)) + 1;
            let is_swapped =
                row > 0 && column > 0 && one.get(row - 1) == Some(another) && other.get(column - 1) == Some(letter);
            let swapped = if is_swapped { at(&before_last, column - 1) + 1 } else { usize::MAX };
            next.push(changed.min(one_more).min(swapped));
        }
        before_last = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_near_and_another_name_is_not() {
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
