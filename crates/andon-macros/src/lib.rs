//! The attribute `#[tool]`: a function becomes a tool. It is documented where it is used, as `andon::tool`.
//!
//! What a function `fetch` becomes:
//!
//! 1. `fn fetch() -> &'static FnTool`, which is a tool: `andon` takes any such function for one. A function and not a
//!    constant, because a `let fetch` or a parameter of that name could not shadow a constant.
//! 2. `fetch::direct`, the function as it was written, for unit tests.
//! 3. A private struct with a field for each argument, from which serde reads the call and schemars makes the schema.
//!
//! `options.rs` reads what stands in the brackets, `function.rs` the function, `expand.rs` writes the three.

mod duration;
mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

#[allow(missing_docs, reason = "documented where it is re-exported, as andon::tool, so that its examples are tested")]
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    expand::tool(options.into(), function.into()).into()
}
