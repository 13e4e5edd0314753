//! One fetch: follows redirects to a page, then reads it piece by piece.

use std::error::Error;
use std::future::Future;

use andon_runtime::{Cord, Progress, Returned, ToolError};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Client, Response, StatusCode};
use url::Url;

use super::names::Refused;
use super::text::{ContentType, IsText, look_like_text};
use super::{Fetcher, Rules};

/// How many redirects to follow.
const MAX_HOPS: usize = 10;

/// How many bytes of an error page to read.
const ERROR_BYTES: usize = 2048;

impl Fetcher {
    /// Fetches a page. When the cord is pulled it returns what had arrived.
    pub(super) async fn fetch(&self, url: &str, cord: &Cord, progress: &Progress) -> Returned {
        let url = Url::parse(url).map_err(|error| ToolError::new(format!("{url:?} is not a URL: {error}")))?;
        let client = self.client()?;
        let reached = unless_pulled(cord, reach(client, &self.rules, url.clone(), progress)).await;
        let Some(reached) = reached else {
            return Ok(format!("No data had arrived from {url}.").into());
        };
        reached?.read(self.max_bytes, cord, progress).await
    }
}

/// A page whose head has arrived.
struct Page {
    asked: Url,
    url: Url,
    response: Response,
    kind: ContentType,
}

/// Follows redirects until there is a page.
async fn reach(client: &Client, rules: &Rules, asked: Url, progress: &Progress) -> Result<Page, ToolError> {
    let mut url = asked.clone();
    for _ in 0..=MAX_HOPS {
        rules.check(&url).map_err(|refused| ToolError::new(format!("{url} was not fetched: {refused}.")))?;
        let request = client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(|error| could_not_reach(&url, &error))?;
        progress.show(&format!("{} {url}\n", response.status()));
        match next(&url, &response)? {
            Some(next) => url = next,
            None => {
                let kind = ContentType::new(header(response.headers(), &CONTENT_TYPE));
                return Ok(Page { asked, url, response, kind });
            }
        }
    }
    Err(ToolError::new(format!("{asked} was redirected more than {MAX_HOPS} times, last to {url}")))
}

/// Where a redirect leads; `None` if this is not a redirect.
fn next(url: &Url, response: &Response) -> Result<Option<Url>, ToolError> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    if !is_redirect {
        return Ok(None);
    }
    follow(url, header(response.headers(), &LOCATION)).map(Some)
}

fn follow(url: &Url, location: &str) -> Result<Url, ToolError> {
    let next = match url.join(location) {
        Ok(next) if !location.is_empty() => next,
        _ => return Err(ToolError::new(format!("{url} redirects to {location:?}, which is not a URL"))),
    };
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err(ToolError::new(format!(
            "{url} redirects to {next}, which is not encrypted, so it was not followed"
        )));
    }
    Ok(next)
}

impl Page {
    async fn read(mut self, max_bytes: usize, cord: &Cord, progress: &Progress) -> Returned {
        let status = self.response.status();
        let is_error = !status.is_success();
        self.check_encoding()?;
        if self.kind.is_text() == IsText::No {
            let what =
                if is_error { format!("{} answered {status} with", self.url) } else { format!("{} is", self.url) };
            return Err(ToolError::new(format!(
                "{what} {}, which is not text, and only text can be read",
                self.kind.essence
            )));
        }
        let body = self.body(if is_error { ERROR_BYTES.min(max_bytes) } else { max_bytes }, cord, progress).await?;
        if self.kind.is_text() == IsText::Maybe && !look_like_text(&body.bytes) {
            return Err(ToolError::new(format!("{} is not text, and only text can be read", self.url)));
        }
        let text = self.text(body);
        if is_error { Err(ToolError::new(format!("{} answered {status}:\n{text}", self.url))) } else { Ok(text.into()) }
    }

    /// A page that is compressed, although we asked for none, could be a small one that becomes large.
    fn check_encoding(&self) -> Result<(), ToolError> {
        match header(self.response.headers(), &CONTENT_ENCODING) {
            "" | "identity" => Ok(()),
            other => {
                let message = format!("{} was sent with the encoding {other}, which is not supported", self.url);
                Err(ToolError::new(message))
            }
        }
    }

    async fn body(&mut self, max_bytes: usize, cord: &Cord, progress: &Progress) -> Result<Body, ToolError> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut shown = 0;
        loop {
            let Some(piece) = unless_pulled(cord, self.response.chunk()).await else {
                return Ok(Body { bytes, end: End::Stopped });
            };
            match piece {
                Ok(Some(piece)) => {
                    let room = max_bytes - bytes.len();
                    bytes.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
                    if piece.len() > room {
                        return Ok(Body { bytes, end: End::TooLong });
                    }
                    // A page that comes byte by byte must not flood the feed.
                    if bytes.len() >= shown * 2 {
                        shown = bytes.len();
                        progress.show(&format!("{shown} bytes\n"));
                    }
                }
                Ok(None) => return Ok(Body { bytes, end: End::Whole }),
                Err(error) if bytes.is_empty() => return Err(could_not_reach(&self.url, &error)),
                Err(error) => return Ok(Body { bytes, end: End::Broken(in_words(&error)) }),
            }
        }
    }

    fn text(&self, body: Body) -> String {
        let Body { mut bytes, end } = body;
        if !matches!(end, End::Whole) {
            self.kind.leave_out_half_a_character(&mut bytes);
        }
        let length = bytes.len();
        let mut text = self.kind.text(bytes);
        if self.url != self.asked {
            text.insert_str(0, &format!("[this is {}]\n", self.url));
        }
        match end {
            End::Whole if length == 0 => text.push_str("[the page is empty]"),
            End::Whole => {}
            End::Stopped => text.push_str(&format!("\n[{length} bytes of {} had arrived]", self.url)),
            End::TooLong => text.push_str(&format!("\n[there is more: only the first {length} bytes were read]")),
            End::Broken(why) => text.push_str(&format!("\n[the page broke off after {length} bytes: {why}]")),
        }
        text
    }
}

/// What was read from a page.
struct Body {
    bytes: Vec<u8>,
    end: End,
}

/// Why no more was read.
enum End {
    Whole,
    TooLong,
    Stopped,
    Broken(String),
}

/// Waits for something, unless the cord is pulled first. Then it is dropped, and its connection closed.
async fn unless_pulled<T>(cord: &Cord, wait: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = cord.pulled() => None,
        value = wait => Some(value),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn could_not_reach(url: &Url, error: &reqwest::Error) -> ToolError {
    // The refusal of a name's address is the innermost error.
    ToolError::new(match causes(error).find_map(|cause| cause.downcast_ref::<Refused>()) {
        Some(refused) => format!("{url} was not fetched: {refused}."),
        None => format!("{url} could not be fetched: {}", in_words(error)),
    })
}

/// The innermost error: the outer ones only say that a request failed.
pub(super) fn in_words(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return "no connection within ten seconds".to_owned();
    }
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_from_https_to_http_is_not_followed() {
        let url = Url::parse("https://example.org/a/b").unwrap();
        let refused = follow(&url, "http://example.org/c").unwrap_err().to_string();
        let expected = "https://example.org/a/b redirects to http://example.org/c, which is not encrypted, so it was not \
                        followed";
        assert_eq!(refused, expected);
        assert_eq!(follow(&url, "c").unwrap().as_str(), "https://example.org/a/c");
        assert_eq!(follow(&url, "//other.org/c").unwrap().as_str(), "https://other.org/c");
        assert!(follow(&url, "").is_err());
    }
}
