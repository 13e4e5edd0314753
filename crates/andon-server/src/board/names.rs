//! The numbers that identify rows.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Maps the place of each row to a unique number. Two numbers do not reveal how many rows are between them.
#[derive(Debug, Default)]
pub(super) struct Names {
    keys: RandomState,
}

impl Names {
    /// Half of the bits of a number. All clients can represent integers of this size.
    const HALF: u32 = 26;

    pub(super) fn of(&self, place: u64) -> u64 {
        let mask = (1 << Self::HALF) - 1;
        let (mut left, mut right) = ((place >> Self::HALF) & mask, place & mask);
        // Four rounds of a Feistel network: each round is reversible, so no two places get the same number.
        for round in 0..4_u8 {
            (left, right) = (right, left ^ (self.keys.hash_one((round, right)) & mask));
        }
        (left << Self::HALF) | right
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_that_every_client_can_read() {
        let names = Names::default();
        let all: HashSet<u64> = (0..100_000).map(|place| names.of(place)).collect();
        assert_eq!(all.len(), 100_000);
        assert!(all.iter().all(|n| *n < 1 << 52));
        assert_ne!(names.of(1), names.of(0) + 1, "names tell nothing of how many there are");
    }
}
