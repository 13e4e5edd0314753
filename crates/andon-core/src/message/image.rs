//! Images, and the check that something is one.

use serde::{Deserialize, Serialize};

/// An image, by reference. A `data:` URL contains the bytes, so they are stored wherever the message is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// Such as `image/png`.
    pub media_type: String,
    /// Where its bytes are: an `https:` or `data:` URL, or a name that the model's adapter can resolve.
    pub reference: String,
}

/// Why something is not accepted as an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ImageError {
    /// Its media type is not that of an image.
    #[error("`{0}` is not an image type: use image/png, image/jpeg, image/gif or image/webp")]
    NoImage(String),
    /// Its media type and its `data:` URL disagree.
    #[error("an image of type {said} has a data: URL of type `{held}`: they must be the same")]
    Mismatch {
        /// The image's media type.
        said: String,
        /// The media type in its `data:` URL.
        held: String,
    },
}

/// How many characters of a media type an error quotes at most.
const QUOTE: usize = 60;

impl Image {
    /// An image of this media type. Nothing is checked: that is what [`Image::check`] does.
    pub fn new(media_type: impl Into<String>, reference: impl Into<String>) -> Self {
        Self { media_type: media_type.into(), reference: reference.into() }
    }

    /// Checks its media type, and that of its `data:` URL if it has one. The bytes are not looked at.
    pub fn check(&self) -> Result<(), ImageError> {
        if !is_image(&self.media_type) {
            return Err(ImageError::NoImage(quote(&self.media_type)));
        }
        match data_type(&self.reference) {
            Some(held) if !held.eq_ignore_ascii_case(&self.media_type) => {
                Err(ImageError::Mismatch { said: self.media_type.clone(), held: quote(held) })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// `image/` and a name, without parameters.
fn is_image(media_type: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._".contains(letter))
    };
    media_type.split_once('/').is_some_and(|(kind, name)| kind.eq_ignore_ascii_case("image") && is_name(name))
}

/// The media type in a `data:` URL.
fn data_type(reference: &str) -> Option<&str> {
    let (scheme, rest) = reference.split_once(':')?;
    let head = rest.split(',').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("data").then(|| head.split(';').next().unwrap_or_default())
}

fn quote(media_type: &str) -> String {
    media_type.chars().take(QUOTE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(media_type: &str, reference: &str) -> Result<(), ImageError> {
        Image { media_type: media_type.into(), reference: reference.into() }.check()
    }

    #[test]
    fn what_is_an_image_by_its_media_type_and_its_url_is_accepted() {
        for (media_type, reference) in [
            ("image/png", "https://example.com/a.png"),
            ("image/svg+xml", "data:image/svg+xml;base64,AAAA"),
            ("image/PNG", "data:image/png;base64,AAAA"),
            ("image/webp", "a name of the adapter's"),
        ] {
            assert_eq!(check(media_type, reference), Ok(()), "{media_type} {reference}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_accepted() {
        for media_type in ["application/pdf", "image/", "image", "", "image/png;x=1", "text/html", "image/a,b"] {
            assert_eq!(check(media_type, "https://example.com/a"), Err(ImageError::NoImage(media_type.into())));
        }
        for (held, address) in [("application/pdf", "data:application/pdf;base64,AA"), ("", "DATA:,hello")] {
            let mismatch = ImageError::Mismatch { said: "image/png".into(), held: held.into() };
            assert_eq!(check("image/png", address), Err(mismatch));
        }
        let words = ImageError::NoImage("application/pdf".into()).to_string();
        assert!(words.starts_with("`application/pdf` is not an image type") && words.contains("image/png"), "{words}");
    }
}
