//! The function under `#[tool]`: which arguments come from the model, which from the runtime, and what is refused.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, Meta, Pat, PatIdent, PatType, Safety, Signature, Token, Type,
    Visibility,
};

/// A function. Its body is not parsed: the compiler reports mistakes in it.
pub(crate) struct Function {
    pub(crate) docs: Vec<Attribute>,
    /// All attributes but the docs.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let signature = input.parse().map_err(|error: Error| {
            let is_function = error.to_string().contains("expected `fn`");
            if is_function { Error::new(error.span(), "#[tool] belongs before a function") } else { error }
        })?;
        Ok(Self::of(&attributes, visibility, signature, input.parse()?))
    }
}

impl Function {
    /// A function of these parts.
    pub(crate) fn of(
        attributes: &[Attribute],
        visibility: Visibility,
        signature: Signature,
        body: TokenStream,
    ) -> Self {
        let (docs, attributes) = attributes.iter().cloned().partition(is_doc);
        Self { docs, attributes, visibility, signature, body }
    }

    /// The tool's description, from its doc comment.
    pub(crate) fn description(&self) -> Result<String, Error> {
        let text = text_of(&self.docs)?;
        if text.is_empty() {
            let message = "the model needs to know what this tool does: write a doc comment (/// ..) above the function, \
                           or description = \"..\" in #[tool(..)]";
            return Err(Error::new(self.signature.ident.span(), message));
        }
        Ok(text)
    }

    /// Refuses functions that cannot be tools, and says what to write instead.
    pub(crate) fn check(&self, blocking: Option<Span>) -> Result<(), Error> {
        let signature = &self.signature;
        let at = |span: Span, message: &str| Err(Error::new(span, message));
        if !matches!(signature.safety, Safety::Default) {
            return at(signature.safety.span(), "a tool cannot be unsafe: the model may call it with anything");
        }
        if let Some(abi) = &signature.abi {
            return at(abi.span(), "a tool cannot be extern: write a plain fn that calls it");
        }
        if let Some(constness) = &signature.constness {
            return at(constness.span(), "a tool cannot be a const fn: leave `const` out");
        }
        if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
            let span = signature.generics.span();
            return at(span, "a tool cannot be generic: the schema of its arguments needs types, so write them out");
        }
        if let Some(variadic) = &signature.variadic {
            return at(variadic.span(), "a tool has a fixed number of arguments: take a Vec<..> instead");
        }
        match (&signature.asyncness, blocking) {
            (None, None) => {
                let message = "a plain fn may block its thread: write #[tool(blocking)], or make it an async fn";
                at(signature.fn_token.span(), message)
            }
            (Some(_), Some(span)) => {
                at(span, "an async fn does not block its thread: leave `blocking` out, or make it a plain fn")
            }
            (Some(_), None) | (None, Some(_)) => Ok(()),
        }
    }

    pub(crate) fn parameters(&self) -> Result<Vec<Parameter>, Error> {
        self.signature.inputs.iter().map(Parameter::read).collect()
    }
}

/// A parameter of the function.
pub(crate) enum Parameter {
    /// This expression: it comes from the runtime, and the model does not know about it.
    Injected(TokenStream),
    /// It comes from the model.
    Argument(Box<Argument>),
}

/// What comes from the model.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) of_type: Type,
    /// Doc comments, and attributes for serde and schemars.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) default: Option<Default>,
}

/// The value of an argument that the model leaves out.
pub(crate) enum Default {
    OfType,
    Expression(Expr),
}

impl Parameter {
    fn read(input: &FnArg) -> Result<Self, Error> {
        let typed = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message = "a method becomes a tool only if its impl block has #[andon::tools]: add it there";
                return Err(Error::new(receiver.self_token.span(), message));
            }
        };
        let name = name_of(typed)?;
        match injected(&typed.ty) {
            Some(injected) => match typed.attrs.iter().find(|attribute| !is_doc(attribute)) {
                Some(attribute) => {
                    let message =
                        format!("`{name}` comes from the runtime, not from the model: leave this attribute out");
                    Err(Error::new(attribute.span(), message))
                }
                None => Ok(Self::Injected(injected)),
            },
            None => Argument::read(name, typed).map(|argument| Self::Argument(Box::new(argument))),
        }
    }
}

impl Argument {
    fn read(name: Ident, typed: &PatType) -> Result<Self, Error> {
        check_type(&typed.ty)?;
        let mut default = None;
        let mut attributes = Vec::new();
        for attribute in &typed.attrs {
            if is_doc(attribute) {
                // An unreadable one is refused here, and not later by the derive.
                text_of(std::slice::from_ref(attribute))?;
                attributes.push(attribute.clone());
            } else if attribute.path().is_ident("serde") || attribute.path().is_ident("schemars") {
                attributes.push(attribute.clone());
            } else if attribute.path().is_ident("tool") {
                default = Some(attribute.parse_args_with(read_default)?);
            } else {
                let message =
                    "an argument takes a doc comment, #[tool(default = ..)], #[serde(..)] and #[schemars(..)]";
                return Err(Error::new(attribute.span(), message));
            }
        }
        Ok(Self { name, of_type: (*typed.ty).clone(), attributes, default })
    }
}

fn read_default(input: ParseStream<'_>) -> Result<Default, Error> {
    let key = input.call(Ident::parse_any)?;
    if key != "default" {
        return Err(Error::new(key.span(), "an argument takes `default` or `default = ..`, and nothing else"));
    }
    let default = match input.parse::<Option<Token![=]>>()? {
        Some(_) => Default::Expression(input.parse()?),
        None => Default::OfType,
    };
    if input.is_empty() { Ok(default) } else { Err(input.error("nothing may follow the default")) }
}

fn name_of(typed: &PatType) -> Result<Ident, Error> {
    match &*typed.pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Ok(ident.clone()),
        other => {
            let message = "an argument needs a name for the model: write `name: Type`, and destructure it in the body";
            Err(Error::new(other.span(), message))
        }
    }
}

fn check_type(of_type: &Type) -> Result<(), Error> {
    match of_type {
        Type::Reference(reference) => {
            let instead = match &*reference.elem {
                Type::Path(path) if path.path.is_ident("str") => "String",
                Type::Slice(_) => "Vec<..>",
                _ => "the type without `&`",
            };
            Err(Error::new(of_type.span(), format!("a tool owns its arguments: write {instead}")))
        }
        Type::Path(path) if path.path.segments.first().is_some_and(|first| first.ident == "Self") => {
            Err(Error::new(of_type.span(), "an argument cannot have the type `Self`: write the type's name"))
        }
        Type::ImplTrait(_) => {
            Err(Error::new(of_type.span(), "the schema of an argument needs a type: write one instead of `impl ..`"))
        }
        _ => Ok(()),
    }
}

/// What comes from the runtime, recognized by the last word of its type.
fn injected(of_type: &Type) -> Option<TokenStream> {
    let Type::Path(path) = of_type else { return None };
    match path.path.segments.last()?.ident.to_string().as_str() {
        "Cord" => Some(quote! { invocation.cord.clone() }),
        "Progress" => Some(quote! { invocation.progress.clone() }),
        "SessionState" => Some(quote! { invocation.state.clone() }),
        "EffectId" => Some(quote! { invocation.effect_id() }),
        "Invocation" => Some(quote! { invocation.clone() }),
        _ => None,
    }
}

fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") && matches!(attribute.meta, Meta::NameValue(_))
}

/// A doc comment as plain text.
fn text_of(docs: &[Attribute]) -> Result<String, Error> {
    let mut lines = Vec::new();
    for doc in docs {
        let Meta::NameValue(pair) = &doc.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) = &pair.value else {
            let message = "the model is sent this text, so it must be here: write it out";
            return Err(Error::new_spanned(pair.value.to_token_stream(), message));
        };
        let text = literal.value();
        // A block comment is one literal of many lines.
        lines.extend(text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()));
        if text.is_empty() {
            lines.push(String::new());
        }
    }
    Ok(lines.join("\n").trim().to_owned())
}
