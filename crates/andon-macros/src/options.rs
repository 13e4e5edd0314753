//! The options in `#[tool(..)]`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitInt, LitStr, Path, Token};

use crate::duration::milliseconds;

const NAMES: &str = "name, description, effect, grace, on_cancel, finish_within, timeout, needs_approval, blocking, \
                     max_output, cleanup, cleanup_within, compensation, compensation_within, crate";

/// How long a tool with `on_cancel = "finish"` may take by default.
const DEFAULT_FINISH: u64 = 30_000;

/// How long a compensation may take by default.
const DEFAULT_COMPENSATION: u64 = 10_000;

/// The options of a tool. Durations are in milliseconds.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    /// The variant of `andon::tool::Effect`.
    pub(crate) effect: Option<&'static str>,
    pub(crate) grace: Option<u64>,
    pub(crate) on_cancel: Option<OnCancel>,
    pub(crate) timeout: Option<u64>,
    pub(crate) needs_approval: bool,
    pub(crate) blocking: Option<Span>,
    pub(crate) max_output: Option<usize>,
    pub(crate) cleanup: Option<Path>,
    pub(crate) cleanup_within: Option<u64>,
    pub(crate) compensation: Option<Compensation>,
    pub(crate) crate_path: Option<Path>,
}

#[derive(Clone, Copy)]
pub(crate) enum OnCancel {
    Cooperate,
    Drop,
    Finish { within: u64 },
    Detach,
}

pub(crate) struct Compensation {
    pub(crate) function: Path,
    pub(crate) within: u64,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        let mut finish_within = None;
        let mut cleanup_within = None;
        let mut compensation = None;
        let mut compensation_within = None;
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            if seen.contains(&key) {
                return Err(Error::new(key.span(), format!("`{key}` is given twice")));
            }
            match key.to_string().as_str() {
                "name" => options.name = Some(name(value(input, &key, "a name in quotes")?)?),
                "description" => {
                    options.description = Some(description(value(input, &key, "what the tool does, in quotes")?)?);
                }
                "effect" => options.effect = Some(effect(&value(input, &key, EFFECTS)?)?),
                "grace" => options.grace = Some(duration(input, &key)?),
                "on_cancel" => options.on_cancel = Some(on_cancel(&value(input, &key, WAYS)?)?),
                "finish_within" => finish_within = Some((key.span(), some_time(input, &key)?)),
                "timeout" => options.timeout = Some(some_time(input, &key)?),
                "needs_approval" => options.needs_approval = switch(input, &key)?,
                "blocking" => options.blocking = switch(input, &key)?.then_some(key.span()),
                "max_output" => options.max_output = Some(bytes(&value(input, &key, "a number of bytes")?)?),
                "cleanup" => {
                    options.cleanup = Some(value(input, &key, "the path of an async fn that takes an Invocation")?);
                }
                "cleanup_within" => cleanup_within = Some((key.span(), some_time(input, &key)?)),
                "compensation" => {
                    compensation = Some(value(input, &key, "the path of an async fn that takes an Undo")?)
                }
                "compensation_within" => compensation_within = Some((key.span(), some_time(input, &key)?)),
                "crate" => options.crate_path = Some(value(input, &key, "the path of the andon crate")?),
                _ => {
                    return Err(Error::new(
                        key.span(),
                        format!("`{key}` is not an option of a tool: the options are {NAMES}"),
                    ));
                }
            }
            seen.push(key);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        options.let_finish(finish_within)?;
        options.clean_up_within(cleanup_within)?;
        options.compensation = compensated(compensation, compensation_within)?;
        Ok(options)
    }
}

impl Options {
    fn clean_up_within(&mut self, given: Option<(Span, u64)>) -> Result<(), Error> {
        if let (None, Some((span, _))) = (&self.cleanup, given) {
            let message = "`cleanup_within` works only with a cleanup: add cleanup = path::to::function";
            return Err(Error::new(span, message));
        }
        self.cleanup_within = given.map(|(_, within)| within);
        Ok(())
    }

    fn let_finish(&mut self, given: Option<(Span, u64)>) -> Result<(), Error> {
        match (&mut self.on_cancel, given) {
            (Some(OnCancel::Finish { within }), Some((_, given))) => *within = given,
            (_, Some((span, _))) => {
                let message = "`finish_within` works only with on_cancel = \"finish\": add that";
                return Err(Error::new(span, message));
            }
            (_, None) => {}
        }
        Ok(())
    }
}

fn compensated(function: Option<Path>, within: Option<(Span, u64)>) -> Result<Option<Compensation>, Error> {
    match (function, within) {
        (Some(function), within) => {
            let within = within.map_or(DEFAULT_COMPENSATION, |(_, within)| within);
            Ok(Some(Compensation { function, within }))
        }
        (None, Some((span, _))) => Err(Error::new(
            span,
            "`compensation_within` works only with a compensation: add compensation = path::to::function",
        )),
        (None, None) => Ok(None),
    }
}

const EFFECTS: &str = "\"read_only\", \"idempotent\" or \"effect\"";

fn effect(literal: &LitStr) -> Result<&'static str, Error> {
    match literal.value().as_str() {
        "read_only" => Ok("ReadOnly"),
        "idempotent" => Ok("Idempotent"),
        "effect" => Ok("Effect"),
        other => Err(Error::new(literal.span(), format!("{other:?} is not a kind of effect: write {EFFECTS}"))),
    }
}

const WAYS: &str = "\"cooperate\", \"drop\", \"finish\" or \"detach\"";

fn on_cancel(literal: &LitStr) -> Result<OnCancel, Error> {
    match literal.value().as_str() {
        "cooperate" => Ok(OnCancel::Cooperate),
        "drop" => Ok(OnCancel::Drop),
        "finish" => Ok(OnCancel::Finish { within: DEFAULT_FINISH }),
        "detach" => Ok(OnCancel::Detach),
        other => Err(Error::new(literal.span(), format!("{other:?} is not a way to be cancelled: write {WAYS}"))),
    }
}

/// The same rule as for every tool, checked at compile time.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)
}

fn name(literal: LitStr) -> Result<LitStr, Error> {
    if is_name(&literal.value()) {
        return Ok(literal);
    }
    let message = format!("{:?} cannot be a tool's name: use 1 to 64 letters, digits, '_' and '-'", literal.value());
    Err(Error::new(literal.span(), message))
}

fn description(literal: LitStr) -> Result<LitStr, Error> {
    if literal.value().trim().is_empty() {
        return Err(Error::new(literal.span(), "the description is empty: tell the model what this tool does"));
    }
    Ok(literal)
}

fn bytes(literal: &LitInt) -> Result<usize, Error> {
    let bytes = literal.base10_parse()?;
    if bytes == 0 {
        return Err(Error::new(literal.span(), "`max_output` must be more than 0"));
    }
    Ok(bytes)
}

fn duration(input: ParseStream<'_>, key: &Ident) -> Result<u64, Error> {
    milliseconds(&value(input, key, "a duration in quotes, such as \"2s\"")?)
}

/// A duration that cannot be zero.
fn some_time(input: ParseStream<'_>, key: &Ident) -> Result<u64, Error> {
    let literal: LitStr = value(input, key, "a duration in quotes, such as \"30s\"")?;
    match milliseconds(&literal)? {
        0 => Err(Error::new(literal.span(), format!("`{key}` must be more than zero"))),
        milliseconds => Ok(milliseconds),
    }
}

/// The value after `key =`.
pub(crate) fn value<T: Parse>(input: ParseStream<'_>, key: &Ident, what: &str) -> Result<T, Error> {
    if !input.peek(Token![=]) {
        return Err(Error::new(key.span(), format!("`{key}` needs a value: write {key} = .. with {what}")));
    }
    input.parse::<Token![=]>()?;
    let span = input.span();
    input.parse().map_err(|_| Error::new(span, format!("`{key}` takes {what}")))
}

/// An option without a value.
fn switch(input: ParseStream<'_>, key: &Ident) -> Result<bool, Error> {
    if input.peek(Token![=]) {
        return Err(Error::new(key.span(), format!("`{key}` takes no value: write only `{key}`, or leave it out")));
    }
    Ok(true)
}
