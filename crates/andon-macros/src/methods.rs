//! `#[tools]`: the methods of an impl block that have `#[tool]` become tools that share the value.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Meta, Path, ReceiverKind, Signature, Type,
    parse_quote,
};

use crate::expand::{Callee, Parts, clear, milliseconds};
use crate::function::Function;
use crate::options::{Options, value};

/// The method that gives the tools.
const GIVES_THEM: &str = "tools";

/// The impl block as it was written, and one with the method that gives the tools; or errors, with a placeholder for that method so that
/// they are the only ones.
pub(crate) fn tools(options: TokenStream, block: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(block.clone()) {
        Ok(block) => block,
        Err(error) => {
            let message = "#[tools] belongs before an impl block, such as `impl Files { .. }`";
            let error = if is_impl(&block) { error } else { Error::new(error.span(), message) };
            return error.to_compile_error();
        }
    };
    let andon = syn::parse2(options).map(|Crate(path)| path);
    let methods = take_methods(&mut block);
    let made = andon.and_then(|andon| Ok((expand(&block, &methods, &andon)?, andon)));
    let (pushes, andon, errors) = match made {
        Ok((pushes, andon)) => (pushes, andon, None),
        Err(error) => (Vec::new(), parse_quote!(::andon), Some(error.to_compile_error())),
    };
    let (of_impl, _, clause) = block.generics.split_for_impl();
    let of_type = &block.self_ty;
    // An impl of a trait cannot have one more method, and neither needs a placeholder.
    let added = block.trait_.is_none().then(|| {
        quote! {
            impl #of_impl #of_type #clause {
                /// Its methods that are tools, which share it.
                #[allow(unreachable_pub, clippy::vec_init_then_push)]
                pub fn tools(self: &::std::sync::Arc<Self>) -> ::std::vec::Vec<#andon::__private::FnTool>
                where
                    Self: ::core::marker::Send + ::core::marker::Sync + 'static,
                {
                    #[allow(unused_mut)]
                    let mut tools = ::std::vec::Vec::new();
                    #(#pushes)*
                    tools
                }
            }
        }
    });
    quote! { #errors #block #added }
}

fn is_impl(block: &TokenStream) -> bool {
    block.clone().into_iter().any(|token| matches!(token, proc_macro2::TokenTree::Ident(word) if word == "impl"))
}

/// The options of `#[tools]`: where the andon crate is.
struct Crate(Path);

impl Parse for Crate {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        if input.is_empty() {
            return Ok(Self(parse_quote!(::andon)));
        }
        let key = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        if key != "crate" {
            let message = format!("`{key}` is not an option of #[tools]: write it in the #[tool(..)] of each method");
            return Err(Error::new(key.span(), message));
        }
        Ok(Self(value(input, &key, "the path of the andon crate")?))
    }
}

/// A method with `#[tool]`.
struct Method {
    attribute: Attribute,
    function: Function,
    /// `&self`, if it has it.
    receiver: Option<FnArg>,
}

/// Takes the methods with `#[tool]` out, and leaves them in the block without all that only the macro understands.
fn take_methods(block: &mut ItemImpl) -> Vec<Method> {
    let mut methods = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(at) = method.attrs.iter().position(is_tool) else { continue };
        let attribute = method.attrs.remove(at);
        methods.push(Method::new(attribute, method));
        clear(&mut method.sig);
    }
    methods
}

fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

impl Method {
    fn new(attribute: Attribute, method: &ImplItemFn) -> Self {
        let mut signature: Signature = method.sig.clone();
        let (receivers, inputs): (Vec<_>, Vec<_>) =
            signature.inputs.into_iter().partition(|input| matches!(input, FnArg::Receiver(_)));
        signature.inputs = inputs.into_iter().collect();
        let function = Function::of(&method.attrs, method.vis.clone(), signature, method.block.to_token_stream());
        Self { attribute, function, receiver: receivers.into_iter().next() }
    }

    fn options(&self) -> Result<Options, Error> {
        match &self.attribute.meta {
            Meta::Path(_) => syn::parse2(TokenStream::new()),
            Meta::List(list) => syn::parse2(list.tokens.clone()),
            Meta::NameValue(pair) => Err(Error::new(pair.span(), "write #[tool] or #[tool(..)]")),
        }
    }

    /// What is passed for `self`.
    fn shared(&self) -> Result<Vec<TokenStream>, Error> {
        let receiver = match &self.receiver {
            Some(FnArg::Receiver(receiver)) => receiver,
            Some(FnArg::Typed(_)) | None => return Ok(Vec::new()),
        };
        let is_arc = |of_type: &Type| {
            let last = match of_type {
                Type::Path(path) => path.path.segments.last(),
                _ => None,
            };
            last.is_some_and(|last| last.ident == "Arc")
        };
        match &receiver.kind {
            ReceiverKind::Reference(_, _, None) => Ok(vec![quote!(&this)]),
            ReceiverKind::Typed(_, of_type) if is_arc(of_type) => Ok(vec![quote!(::std::sync::Arc::clone(&this))]),
            ReceiverKind::Reference(_, _, Some(_)) => {
                let message =
                    "calls run at the same time, so a tool must take `&self`: put what it changes behind a lock";
                Err(Error::new(receiver.span(), message))
            }
            _ => Err(Error::new(receiver.span(), "all calls share the value, so a tool must take `&self`")),
        }
    }

    /// The statement that adds the tool to the list.
    fn push(&self, andon: &Path) -> Result<TokenStream, Error> {
        let options = self.options()?;
        self.function.check(options.blocking)?;
        let name = &self.function.signature.ident;
        if name == GIVES_THEM {
            let message =
                "`tools` is the method that #[tools] adds: rename this one, and write name = \"tools\" in #[tool(..)]";
            return Err(Error::new(name.span(), message));
        }
        let andon = options.crate_path.as_ref().unwrap_or(andon);
        let cleanup = options.cleanup.as_ref().map(|end| match is_own(end) {
            false => end.to_token_stream(),
            true => quote! {{
                let this = ::std::sync::Arc::clone(&this);
                move |call| async move { #end(&this, call).await }
            }},
        });
        let callee = Callee { path: &quote!(Self::#name), first: &self.shared()?, cleanup };
        let Parts { arguments, spec, call } = Parts::new(&options, &self.function, callee, andon)?;
        let compensation = options.compensation.as_ref().map(|compensation| {
            let (undo, within) = (&compensation.function, milliseconds(compensation.within));
            if !is_own(undo) {
                return quote! { .compensation(#within, #undo) };
            }
            quote! {
                .compensation(#within, {
                    let this = ::std::sync::Arc::clone(self);
                    move |undo| {
                        let this = ::std::sync::Arc::clone(&this);
                        async move { #undo(&this, undo).await }
                    }
                })
            }
        });
        let cfgs = self.function.attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
        Ok(quote! {
            #(#cfgs)*
            tools.push({
                #arguments
                #[allow(unused_variables)]
                let this = ::std::sync::Arc::clone(self);
                #andon::__private::FnTool::from_spec(#spec, move |invocation| {
                    #[allow(unused_variables)]
                    let this = ::std::sync::Arc::clone(&this);
                    (#call)(invocation)
                }) #compensation
            });
        })
    }
}

/// Whether this is a method of the same type.
fn is_own(path: &Path) -> bool {
    path.segments.first().is_some_and(|first| first.ident == "Self")
}

fn expand(block: &ItemImpl, methods: &[Method], andon: &Path) -> Result<Vec<TokenStream>, Error> {
    if let Some((of_trait, _)) = &block.trait_ {
        let message = "#[tools] belongs before an impl block of the type's own: tools are not methods of a trait";
        return Err(Error::new(of_trait.span(), message));
    }
    if methods.is_empty() {
        return Err(Error::new(
            Span::call_site(),
            "none of these methods has #[tool]: write it before those that are tools",
        ));
    }
    let mut pushes = Vec::new();
    let mut errors: Option<Error> = None;
    for method in methods {
        match (method.push(andon), &mut errors) {
            (Ok(push), _) => pushes.push(push),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), None) => errors = Some(error),
        }
    }
    errors.map_or(Ok(pushes), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of an impl block with these contents.
    fn expanded(options: &str, methods: &str) -> String {
        tools(options.parse().unwrap(), format!("impl Files {{ {methods} }}").parse().unwrap()).to_string()
    }

    /// The messages of the errors in it.
    fn errors(options: &str, block: &str) -> Vec<String> {
        let expanded = tools(options.parse().unwrap(), block.parse().unwrap()).to_string();
        let texts = expanded.split("compile_error ! { \"").skip(1);
        texts.map(|text| text.split("\" }").next().unwrap().replace("\\\"", "\"")).collect()
    }

    fn method_errors(methods: &str) -> Vec<String> {
        errors("", &format!("impl Files {{ {methods} }}"))
    }

    #[test]
    fn a_method_stays_as_it_is_and_only_what_is_for_the_model_is_taken_out() {
        let method = "/// Reads. #[tool(effect = \"read_only\")] pub async fn read(&self, #[tool(default)] path: String) {} fn other(&self) {}";
        let expanded = expanded("", &method.replace("Reads. ", "Reads.\n"));
        let own = "pub async fn read (& self , path : String) { } fn other (& self) { }";
        assert!(expanded.contains(own), "{expanded}");
        assert!(!expanded.contains("tool (") && !expanded.contains("compile_error"), "{expanded}");
    }

    #[test]
    fn a_method_that_cannot_be_shared_is_refused_with_what_to_write() {
        let error = |receiver: &str| method_errors(&format!("/// A.\n#[tool] async fn a({receiver}) {{}}"));
        let expected = "calls run at the same time, so a tool must take `&self`: put what it changes behind a lock";
        assert_eq!(error("&mut self"), [expected]);
        let expected = "all calls share the value, so a tool must take `&self`";
        assert_eq!(error("self"), [expected]);
        assert_eq!(error("self: Box<Self>"), [expected]);
        assert_eq!(error("self: Arc<Self>"), Vec::<String>::new());
        assert_eq!(error("number: u8"), Vec::<String>::new());
        let expected = "an argument cannot have the type `Self`: write the type's name";
        assert_eq!(error("&self, other: Self"), [expected]);
        let expected =
            "`tools` is the method that #[tools] adds: rename this one, and write name = \"tools\" in #[tool(..)]";
        assert_eq!(method_errors("/// A.\n#[tool] async fn tools(&self) {}"), [expected]);
    }

    #[test]
    fn every_method_that_is_refused_is_named_at_once() {
        let expected = [
            "a plain fn may block its thread: write #[tool(blocking)], or make it an async fn",
            "`retries` is not an option of a tool: the options are name, description, effect, grace, on_cancel, finish_within, \
             timeout, needs_approval, blocking, max_output, cleanup, cleanup_within, compensation, compensation_within, crate",
        ];
        let methods = "/// A.\n#[tool] fn a(&self) {} /// B.\n#[tool] async fn b(&self) {} /// C.\n#[tool(retries = 3)] async fn c(&self) {}";
        assert_eq!(method_errors(methods), expected);
    }

    #[test]
    fn a_block_that_has_no_tools_is_refused_with_the_reason() {
        let expected = "#[tools] belongs before an impl block, such as `impl Files { .. }`";
        assert_eq!(errors("", "struct Files;"), [expected]);
        let expected = "#[tools] belongs before an impl block of the type's own: tools are not methods of a trait";
        assert_eq!(errors("", "impl Reads for Files { /// A.\n#[tool] async fn a(&self) {} }"), [expected]);
        let expected = "none of these methods has #[tool]: write it before those that are tools";
        assert_eq!(method_errors("fn a(&self) {}"), [expected]);
        let expected = "`grace` is not an option of #[tools]: write it in the #[tool(..)] of each method";
        assert_eq!(errors("grace = \"2s\"", "impl Files { /// A.\n#[tool] async fn a(&self) {} }"), [expected]);
    }

    #[test]
    fn a_bad_block_still_gives_its_tools_so_that_there_is_only_one_error() {
        let expanded = expanded("", "/// A.\n#[tool] async fn a(&mut self) {}");
        assert!(expanded.contains("pub fn tools (self : & :: std :: sync :: Arc < Self >)"), "{expanded}");
    }
}
