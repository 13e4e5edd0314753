//! Which values are the same, and which number is greater: by their value, however they are written. 1 and 1.0 are the same.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Number, Value};

/// A value that is equal to others by JSON Schema's rules.
#[derive(Clone, Copy)]
pub(super) struct Same<'a>(pub(super) &'a Value);

impl PartialEq for Same<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Value::Number(one), Value::Number(other)) => order(one, other) == Some(Ordering::Equal),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Same(one) == Same(other))
            }
            (Value::Object(one), Value::Object(other)) => {
                let is_there =
                    |(name, one): (&String, _)| other.get(name).is_some_and(|other| Same(one) == Same(other));
                one.len() == other.len() && one.iter().all(is_there)
            }
            (one, other) => one == other,
        }
    }
}

impl Eq for Same<'_> {}

impl Hash for Same<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Value::Null => {}
            Value::Bool(bool) => bool.hash(state),
            // Numbers that are equal are the same float, whatever was lost.
            Value::Number(number) => number.as_f64().map(|float| (float + 0.0).to_bits()).hash(state),
            Value::String(text) => text.hash(state),
            Value::Array(items) => items.iter().for_each(|item| Same(item).hash(state)),
            // The order of the fields means nothing.
            Value::Object(fields) => fields.iter().map(digest).fold(0, u64::wrapping_add).hash(state),
        }
    }
}

fn digest((name, value): (&String, &Value)) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, Same(value)).hash(&mut hasher);
    hasher.finish()
}

/// Which of two numbers is greater, exactly.
pub(super) fn order(one: &Number, other: &Number) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(one), None) => order_mixed(one, other.as_f64()?),
        (None, Some(other)) => order_mixed(other, one.as_f64()?).map(Ordering::reverse),
        (None, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares a number that was read as 64 bits with a float.
fn order_mixed(whole: i128, float: f64) -> Option<Ordering> {
    // A float that is out of range becomes the nearest integer in range, which is far from all of 64 bits.
    let floor = float.floor();
    match whole.cmp(&(floor as i128)) {
        Ordering::Equal => floor.partial_cmp(&float),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn order_of(one: &Value, other: &Value) -> Option<Ordering> {
        order(one.as_number().unwrap(), other.as_number().unwrap())
    }

    #[test]
    fn numbers_are_compared_by_their_value_and_not_by_what_a_float_can_hold() {
        let rising = [
            json!(-1e300),
            json!(i64::MIN),
            json!(-1.5),
            json!(-1),
            json!(0),
            json!(0.5),
            json!(1),
            json!(9_007_199_254_740_992.0),
            json!(9_007_199_254_740_993_u64),
            json!(u64::MAX),
            json!(1e300),
        ];
        for (place, one) in rising.iter().enumerate() {
            for (other_place, other) in rising.iter().enumerate() {
                assert_eq!(order_of(one, other), Some(place.cmp(&other_place)), "{one} and {other}");
            }
        }
        assert_eq!(order_of(&json!(1), &json!(1.0)), Some(Ordering::Equal));
        assert_eq!(order_of(&json!(0), &json!(-0.0)), Some(Ordering::Equal));
    }

    #[test]
    fn values_are_the_same_however_their_numbers_are_written_and_their_fields_are_ordered() {
        let values = [json!([1, {"a": 0, "b": 2}]), json!([1.0, {"b": 2.0, "a": -0.0}]), json!([1, {"a": 0}])];
        let different: HashSet<Same<'_>> = values.iter().map(Same).collect();
        assert_eq!(different.len(), 2);
        assert!(Same(&json!("1")) != Same(&json!(1)));
        assert!(Same(&json!(true)) != Same(&json!(1)));
    }
}
