//! How types grow without breaking their users.
//!
//! # Invariants
//!
//! 1. A struct that may get another field is `#[non_exhaustive]`: other crates make it with `new` and the methods that `with!`
//!    writes, and name in a pattern the fields that they want, and `..`.
//! 2. An enum that may get another variant is non-exhaustive for whoever uses it, and not for us: under `cfg(andon_whole)`, which
//!    every linted build of this workspace sets, it is an ordinary enum, and the `_` arms that our other crates have for it are
//!    gone. So a new variant breaks our build wherever somebody has to decide about it.
//!
//! An enum whose variants are all that there can be says so with a reason in `docs/decisions/0040-growth-breaks-nobody.md`.

use std::sync::Arc;

/// What can be given for a text that may be left out: a text, or an `Option` of one.
pub trait OrNone<T> {
    /// The text, if there is one.
    fn or_none(self) -> Option<T>;
}

macro_rules! or_none {
    ($($from:ty => $to:ty),+ $(,)?) => {$(
        impl OrNone<$to> for $from {
            fn or_none(self) -> Option<$to> {
                Some(self.into())
            }
        }

        impl OrNone<$to> for Option<$from> {
            fn or_none(self) -> Option<$to> {
                self.map(Into::into)
            }
        }
    )+};
}

or_none!(&str => String, String => String, &String => String, &str => Arc<str>, String => Arc<str>, Arc<str> => Arc<str>);

/// Writes a method for each named field: `value.field(x)` is the same value with another `field`. `into` takes what can be made
/// into the field's type, such as `3` for an `Option<u32>`, and `text` a text or an `Option` of one.
#[doc(hidden)]
#[macro_export]
macro_rules! with {
    ($type:ident<$life:lifetime>: $($rest:tt)+) => {
        impl<$life> $type<$life> {
            $crate::with!(@ $($rest)+);
        }
    };
    ($type:ident: $($rest:tt)+) => {
        impl $type {
            $crate::with!(@ $($rest)+);
        }
    };
    (@ $field:ident: into $of:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("The same, with this `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$of>) -> Self {
            self.$field = $field.into();
            self
        }
        $crate::with!(@ $($($rest)*)?);
    };
    (@ $field:ident: text $of:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("The same, with this `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: impl $crate::growth::OrNone<$of>) -> Self {
            self.$field = $field.or_none();
            self
        }
        $crate::with!(@ $($($rest)*)?);
    };
    (@ $field:ident: $of:ty $(, $($rest:tt)*)?) => {
        #[doc = concat!("The same, with this `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(mut self, $field: $of) -> Self {
            self.$field = $field;
            self
        }
        $crate::with!(@ $($($rest)*)?);
    };
    (@) => {};
}
