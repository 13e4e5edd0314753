//! The attributes `#[tool]`, which turns a function into a tool, and `#[tools]`, which does that for methods. Their documentation is at
//! `andon::tool` and `andon::tools`.
//!
//! A function `fetch` becomes:
//!
//! 1. `fn fetch() -> &'static FnTool`, which is a tool: `andon` accepts any such function as one. It is a function and not a
//!    constant, because a `let fetch` or a parameter with that name could not shadow a constant.
//! 2. `fetch::direct`, the function as it was written, for unit tests.
//! 3. A private struct with a field for each argument, which serde fills from the call and schemars turns into the schema.
//!
//! With `#[tools]` before its impl block, a method stays as it is, and the type gets a method `tools` that makes all of its tools.
//!
//! `options.rs` reads the attribute's options, `function.rs` the function, and `expand.rs` generates the three; `methods.rs` is about the impl
//! block.

mod duration;
mod expand;
mod function;
mod methods;
mod options;

use proc_macro::TokenStream;

#[allow(missing_docs, reason = "documented where it is re-exported, as andon::tool, so that its examples are tested")]
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::tool(options.into(), function.into()).into()
}

#[allow(missing_docs, reason = "documented where it is re-exported, as andon::tools, so that its examples are tested")]
#[proc_macro_attribute]
pub fn tools(options: TokenStream, block: TokenStream) -> TokenStream {
    methods::tools(options.into(), block.into()).into()
}
