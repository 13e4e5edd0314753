//! Generates the tool from a function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, FnArg, LitStr, Path, ReturnType, Signature, parse_quote};

use crate::function::{Argument, Default, Function, Parameter};
use crate::options::{OnCancel, Options, is_name};

/// The tool; or an error, with a placeholder for the tool so that this is the only error.
pub(crate) fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(function) {
        Ok(function) => function,
        Err(error) => return error.to_compile_error(),
    };
    expand(options, &function).unwrap_or_else(|error| {
        let error = error.to_compile_error();
        let (visibility, name) = (&function.visibility, &function.signature.ident);
        quote! {
            #error
            #[allow(missing_docs, dead_code)]
            #visibility fn #name() -> &'static ::andon::__private::FnTool { loop {} }
        }
    })
}

fn expand(options: TokenStream, function: &Function) -> Result<TokenStream, Error> {
    let options: Options = syn::parse2(options)?;
    function.check(options.blocking)?;
    let andon = options.crate_path.clone().unwrap_or_else(|| parse_quote!(::andon));
    let name = &function.signature.ident;
    let cleanup = options.cleanup.as_ref().map(ToTokens::to_token_stream);
    let callee = Callee { path: &quote!(#name::direct), first: &[], cleanup };
    let Parts { arguments, spec, call } = Parts::new(&options, function, callee, &andon)?;
    let compensation = options.compensation.as_ref().map(|compensation| {
        let (undo, within) = (&compensation.function, milliseconds(compensation.within));
        quote! { .compensation(#within, #undo) }
    });
    let direct = direct(function);
    let Function { docs, visibility, .. } = function;
    Ok(quote! {
        #(#docs)*
        #visibility fn #name() -> &'static #andon::__private::FnTool {
            #arguments
            static __ANDON_TOOL: ::std::sync::LazyLock<#andon::__private::FnTool> = ::std::sync::LazyLock::new(|| {
                #andon::__private::FnTool::from_spec(#spec, #call) #compensation
            });
            &__ANDON_TOOL
        }
        #direct
    })
}

/// What a tool is generated from, whether it is a function or a method.
pub(crate) struct Parts {
    /// The struct of its arguments, and what that needs.
    pub(crate) arguments: TokenStream,
    /// The expression of its spec.
    pub(crate) spec: TokenStream,
    /// The closure that turns a call into work.
    pub(crate) call: TokenStream,
}

/// What a tool calls.
pub(crate) struct Callee<'a> {
    pub(crate) path: &'a TokenStream,
    /// The values before the arguments.
    pub(crate) first: &'a [TokenStream],
    /// The closure that cleans up, if there is one.
    pub(crate) cleanup: Option<TokenStream>,
}

impl Parts {
    pub(crate) fn new(options: &Options, function: &Function, callee: Callee<'_>, andon: &Path) -> Result<Self, Error> {
        let parameters = function.parameters()?;
        let spec = spec(options, function, andon)?;
        let arguments = arguments(&parameters, andon);
        Ok(Self { arguments, spec, call: call(function, callee, &parameters, andon) })
    }
}

/// The function as it was written, as `direct` of a type with the tool's name: functions and types have separate namespaces.
fn direct(function: &Function) -> TokenStream {
    let Function { attributes, visibility, signature, body, .. } = function;
    let name = &signature.ident;
    let mut signature = signature.clone();
    signature.ident = Ident::new("direct", name.span());
    clear(&mut signature);
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        impl #name {
            /// What the tool does, without a run: for unit tests.
            #(#attributes)*
            #visibility #signature #body
        }
    }
}

/// Removes what is said about the arguments, and is meant for the model alone.
pub(crate) fn clear(signature: &mut Signature) {
    for input in &mut signature.inputs {
        if let FnArg::Typed(typed) = input {
            typed.attrs.clear();
        }
    }
}

fn spec(options: &Options, function: &Function, andon: &Path) -> Result<TokenStream, Error> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => own_name(&function.signature.ident)?,
    };
    let description = match &options.description {
        Some(description) => description.value(),
        None => function.description()?,
    };
    let mut set = TokenStream::new();
    if let Some(effect) = options.effect {
        let variant = Ident::new(effect, Span::call_site());
        set.extend(quote! { spec.effect = #andon::__private::Effect::#variant; });
    }
    if let Some(grace) = options.grace.map(milliseconds) {
        set.extend(quote! { spec.grace = #grace; });
    }
    if let Some(on_cancel) = options.on_cancel {
        let variant = match on_cancel {
            OnCancel::Cooperate => quote!(Cooperate),
            OnCancel::Drop => quote!(Drop),
            OnCancel::Detach => quote!(Detach),
            OnCancel::Finish { within } => {
                let within = milliseconds(within);
                quote!(Finish { within: #within })
            }
        };
        set.extend(quote! { spec.on_cancel = #andon::__private::OnCancel::#variant; });
    }
    if let Some(timeout) = options.timeout.map(milliseconds) {
        set.extend(quote! { spec.timeout = ::core::option::Option::Some(#timeout); });
    }
    if options.needs_approval {
        set.extend(quote! { spec.needs_approval = true; });
    }
    if let Some(within) = options.cleanup_within.map(milliseconds) {
        set.extend(quote! { spec.cleanup = #within; });
    }
    if let Some(bytes) = options.max_output {
        set.extend(quote! { spec.max_output = #bytes; });
    }
    Ok(quote! {{
        #[allow(unused_mut)]
        let mut spec = #andon::__private::spec::<__AndonArguments>(#name, #description);
        #set
        spec
    }})
}

fn own_name(ident: &Ident) -> Result<LitStr, Error> {
    let name = ident.unraw().to_string();
    if is_name(&name) {
        return Ok(LitStr::new(&name, ident.span()));
    }
    let message = "a tool's name has 1 to 64 letters, digits, '_' and '-': write name = \"..\" in #[tool(..)]";
    Err(Error::new(ident.span(), message))
}

pub(crate) fn milliseconds(milliseconds: u64) -> TokenStream {
    quote! { ::core::time::Duration::from_millis(#milliseconds) }
}

/// The struct that serde reads the arguments into. It is inside a function, so its odd name only avoids the types of the
/// arguments.
fn arguments(parameters: &[Parameter], andon: &Path) -> TokenStream {
    let (serde_path, schemars_path) = (path_text(andon, "serde"), path_text(andon, "schemars"));
    let mut fields = TokenStream::new();
    let mut defaults = TokenStream::new();
    for (number, argument) in parameters.iter().enumerate().filter_map(|(number, parameter)| match parameter {
        Parameter::Argument(argument) => Some((number, argument)),
        Parameter::Injected(_) => None,
    }) {
        let Argument { name, of_type, attributes, default } = &**argument;
        let default = match default {
            None => None,
            Some(Default::OfType) => Some(quote! { #[serde(default)] }),
            Some(Default::Expression(expression)) => {
                let function = format_ident!("__andon_default_{number}");
                defaults.extend(quote! {
                    fn #function() -> #of_type { #expression }
                });
                let function = function.to_string();
                Some(quote! { #[serde(default = #function)] })
            }
        };
        fields.extend(quote! { #(#attributes)* #default #name: #of_type, });
    }
    quote! {
        #defaults
        #[derive(#andon::__private::serde::Deserialize, #andon::__private::schemars::JsonSchema)]
        #[serde(crate = #serde_path, deny_unknown_fields)]
        #[schemars(crate = #schemars_path)]
        struct __AndonArguments { #fields }
    }
}

fn path_text(andon: &Path, of: &str) -> String {
    let andon = andon.to_token_stream().to_string().replace(' ', "");
    format!("{andon}::__private::{of}")
}

/// The closure that turns a call into work.
fn call(function: &Function, callee: Callee<'_>, parameters: &[Parameter], andon: &Path) -> TokenStream {
    let Callee { path, first, cleanup } = callee;
    let name = &function.signature.ident;
    let arguments = parameters.iter().map(|parameter| match parameter {
        Parameter::Argument(argument) => {
            let name = &argument.name;
            quote! { arguments.#name }
        }
        Parameter::Injected(expression) => expression.clone(),
    });
    // An error about the future or the returned value points at the function.
    let span = return_span(function);
    let here = name.span().resolved_at(Span::call_site());
    let values = first.iter().cloned().chain(arguments);
    let values = quote! { #(#values),* };
    let begins = cleanup.is_some().then(|| quote! { begun.set(); });
    let read = quote! {
        #[allow(unused_variables)]
        let arguments: __AndonArguments = #andon::__private::arguments(&invocation)?;
        #begins
    };
    let returned = quote_spanned! { span => #andon::__private::returned(returned) };
    let work = if function.signature.asyncness.is_some() {
        quote_spanned! { here =>
            #andon::__private::Work::task(async move {
                #read
                let returned = #path(#values).await;
                #returned
            })
        }
    } else {
        quote_spanned! { here =>
            #andon::__private::Work::blocking(move || {
                #read
                let returned = #path(#values);
                #returned
            })
        }
    };
    match cleanup {
        None => quote! { |invocation: #andon::__private::Invocation| #work },
        Some(cleanup) => quote! {
            |invocation: #andon::__private::Invocation| #andon::__private::cleaned(
                invocation,
                #cleanup,
                |invocation: #andon::__private::Invocation, begun: #andon::__private::Begun| #work,
            )
        },
    }
}

/// The span of the function's return type.
fn return_span(function: &Function) -> Span {
    let span = match &function.signature.output {
        ReturnType::Default => function.signature.ident.span(),
        ReturnType::Type(_, of_type) => of_type.span(),
    };
    // Only the location: names in the generated code resolve there.
    span.resolved_at(Span::call_site())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a function.
    fn error(options: &str, function: &str) -> String {
        let function = syn::parse_str::<Function>(function);
        let expanded = function.and_then(|function| expand(options.parse()?, &function));
        expanded.map(|tool| format!("nothing, it became {tool}")).unwrap_err().to_string()
    }

    /// The error for the options of a function that is fine.
    fn options_error(options: &str) -> String {
        error(options, "/// Fetches.\nasync fn fetch(url: String) {}")
    }

    #[test]
    fn an_unknown_option_or_value_is_refused_with_the_known_ones() {
        let expected = "`retries` is not an option of a tool: the options are name, description, effect, grace, on_cancel, \
                        finish_within, timeout, needs_approval, blocking, max_output, cleanup, cleanup_within, \
                        compensation, compensation_within, crate";
        assert_eq!(options_error("retries = 3"), expected);
        let expected = "\"pure\" is not a kind of effect: write \"read_only\", \"idempotent\" or \"effect\"";
        assert_eq!(options_error("effect = \"pure\""), expected);
        let expected = "\"kill\" is not a way to be cancelled: write \"cooperate\", \"drop\", \"finish\" or \"detach\"";
        assert_eq!(options_error("on_cancel = \"kill\""), expected);
    }

    #[test]
    fn a_bad_value_is_refused_with_what_to_write() {
        let expected = "\"sec\" is not a unit: write a number and a unit, such as \"500ms\", \"2s\", \"10m\", \"1h\" or \
                        \"1m30s\"";
        assert_eq!(options_error("grace = \"2sec\""), expected);
        assert_eq!(options_error("grace = 2"), "`grace` takes a duration in quotes, such as \"2s\"");
        assert_eq!(
            options_error("grace"),
            "`grace` needs a value: write grace = .. with a duration in quotes, such as \"2s\""
        );
        assert_eq!(options_error("timeout = \"0s\""), "`timeout` must be more than zero");
        assert_eq!(options_error("max_output = \"1k\""), "`max_output` takes a number of bytes");
        assert_eq!(options_error("max_output = 0"), "`max_output` must be more than 0");
        let expected = "the description is empty: tell the model what this tool does";
        assert_eq!(options_error("description = \" \""), expected);
        assert_eq!(options_error("grace = \"1s\", grace = \"2s\""), "`grace` is given twice");
        let expected = "`needs_approval` takes no value: write only `needs_approval`, or leave it out";
        assert_eq!(options_error("needs_approval = true"), expected);
        let expected = "\"über\" cannot be a tool's name: use 1 to 64 letters, digits, '_' and '-'";
        assert_eq!(options_error("name = \"über\""), expected);
    }

    #[test]
    fn an_option_that_needs_another_asks_for_it() {
        let expected = "`finish_within` works only with on_cancel = \"finish\": add that";
        assert_eq!(options_error("finish_within = \"5s\""), expected);
        assert_eq!(options_error("finish_within = \"5s\", on_cancel = \"drop\""), expected);
        let expected = "`cleanup_within` works only with a cleanup: add cleanup = path::to::function";
        assert_eq!(options_error("cleanup_within = \"5s\""), expected);
        let expected = "`compensation_within` works only with a compensation: add compensation = path::to::function";
        assert_eq!(options_error("compensation_within = \"5s\""), expected);
    }

    #[test]
    fn a_function_that_may_block_must_say_so() {
        let expected = "a plain fn may block its thread: write #[tool(blocking)], or make it an async fn";
        assert_eq!(error("", "/// A.\nfn a() {}"), expected);
        let expected = "an async fn does not block its thread: leave `blocking` out, or make it a plain fn";
        assert_eq!(options_error("blocking"), expected);
    }

    #[test]
    fn a_tool_without_a_description_is_refused_with_where_to_write_one() {
        let expected = "the model needs to know what this tool does: write a doc comment (/// ..) above the function, or \
                        description = \"..\" in #[tool(..)]";
        assert_eq!(error("", "async fn a() {}"), expected);
        assert_eq!(error("", "/// \nasync fn a() {}"), expected);
        let expected = "the model is sent this text, so it must be here: write it out";
        assert_eq!(error("", "#[doc = include_str!(\"a.md\")]\nasync fn a() {}"), expected);
    }

    #[test]
    fn a_function_that_cannot_be_a_tool_is_refused_with_the_reason() {
        let error = |function: &str| error("", &format!("/// A.\n{function}"));
        let expected = "a tool cannot be generic: the schema of its arguments needs types, so write them out";
        assert_eq!(error("async fn a<T>(t: T) {}"), expected);
        let expected = "a method becomes a tool only if its impl block has #[andon::tools]: add it there";
        assert_eq!(error("async fn a(&self) {}"), expected);
        assert_eq!(error("async unsafe fn a() {}"), "a tool cannot be unsafe: the model may call it with anything");
        assert_eq!(error("async extern \"C\" fn a() {}"), "a tool cannot be extern: write a plain fn that calls it");
        assert_eq!(error("const fn a() {}"), "a tool cannot be a const fn: leave `const` out");
        assert_eq!(error("struct A;"), "#[tool] belongs before a function");
        let expected = "a tool's name has 1 to 64 letters, digits, '_' and '-': write name = \"..\" in #[tool(..)]";
        assert_eq!(error("async fn größe() {}"), expected);
    }

    #[test]
    fn a_bad_argument_is_refused_with_what_to_write() {
        let error = |inputs: &str| error("", &format!("/// A.\nasync fn a({inputs}) {{}}"));
        let expected = "an argument needs a name for the model: write `name: Type`, and destructure it in the body";
        assert_eq!(error("(x, y): (u8, u8)"), expected);
        assert_eq!(error("_: u8"), expected);
        assert_eq!(error("url: &str"), "a tool owns its arguments: write String");
        assert_eq!(error("urls: &[String]"), "a tool owns its arguments: write Vec<..>");
        assert_eq!(error("cord: &Cord"), "a tool owns its arguments: write the type without `&`");
        let expected = "the schema of an argument needs a type: write one instead of `impl ..`";
        assert_eq!(error("url: impl ToString"), expected);
        let expected = "an argument takes a doc comment, #[tool(default = ..)], #[serde(..)] and #[schemars(..)]";
        assert_eq!(error("#[cfg(unix)] url: String"), expected);
        let expected = "an argument takes `default` or `default = ..`, and nothing else";
        assert_eq!(error("#[tool(min = 1)] number: u8"), expected);
        let expected = "`cord` comes from the runtime, not from the model: leave this attribute out";
        assert_eq!(error("#[tool(default)] cord: Cord"), expected);
    }

    #[test]
    fn a_bad_function_still_exists_so_that_there_is_only_one_error() {
        let function = "/// A.\npub(crate) async fn a(url: &str) {}".parse().unwrap();
        let expanded = tool(TokenStream::new(), function).to_string();
        assert!(expanded.contains("compile_error"), "{expanded}");
        assert!(expanded.contains("pub (crate) fn a () -> & 'static :: andon :: __private :: FnTool"), "{expanded}");
    }

    #[test]
    fn a_body_that_does_not_parse_is_left_to_the_compiler() {
        let function = "/// A.\nasync fn a() { let x = ; }".parse().unwrap();
        let expanded = tool(TokenStream::new(), function).to_string();
        assert!(!expanded.contains("compile_error") && expanded.contains("let x = ;"), "{expanded}");
    }
}
