//! Call ids and tool names that every provider accepts.
//!
//! A model writes whatever name it likes, and an id may come from another provider. Both are mapped by their text
//! alone, so a call and its result always agree, and the same history gives the same bytes each time.

/// The longest tool name that every provider accepts.
const MAX_NAME: usize = 64;

/// Whether a text has only letters, digits, `_` and `-`, at least one of them and at most `max`.
fn is_plain(text: &str, max: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= max && text.chars().all(plain)
}

/// The id as a provider accepts it: unchanged if it is allowed, else a digest of all its bytes.
pub(super) fn wire_id(id: &str, max: usize) -> String {
    if is_plain(id, max) { id.to_owned() } else { format!("id_{:032x}", digest(id)) }
}

/// The id as Mistral accepts it: exactly nine letters and digits.
pub(super) fn nine(id: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let rests = std::iter::successors(Some(digest(id)), |rest| Some(rest / 62)).take(9);
    rests.filter_map(|rest| DIGITS.get(usize::try_from(rest % 62).ok()?)).map(|digit| char::from(*digit)).collect()
}

/// The name as a provider accepts it: characters that are not allowed become `_`.
pub(super) fn wire_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(plain).take(MAX_NAME).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// FNV-1a with 128 bits: two ids of one conversation do not collide, and a shortened id stays the same in every request.
fn digest(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_id_stays_itself_and_another_is_mapped_to_an_allowed_one_of_its_own() {
        assert_eq!(wire_id("toolu_01-A", 40), "toolu_01-A");
        let strange = ["call:1", "call.1", "kall é", &"x".repeat(41), &"x".repeat(256)].map(|id| wire_id(id, 40));
        for (place, id) in strange.iter().enumerate() {
            assert!(is_plain(id, 40), "{id}");
            assert_eq!(strange.iter().position(|other| other == id), Some(place), "{id} stands for two ids");
        }
    }

    #[test]
    fn an_id_of_nine_letters_stays_itself_and_every_other_one_becomes_nine_of_its_own() {
        assert_eq!(nine("aB3456789"), "aB3456789");
        let ids: Vec<String> = (0..10_000).map(|number| nine(&format!("call_{number}"))).collect();
        assert!(ids.iter().all(|id| id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric())));
        let different: std::collections::HashSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }

    #[test]
    fn a_name_that_a_model_made_up_becomes_an_allowed_one() {
        assert_eq!(wire_name("read_file"), "read_file");
        assert_eq!(wire_name("functions.read file"), "functions_read_file");
        assert_eq!(wire_name(""), "unnamed");
        assert_eq!(wire_name(&"é".repeat(100)), "_".repeat(64));
    }
}
