//! What the code that `#[tool]` writes stands on.

use std::fmt::Display;
use std::sync::Arc;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{FnTool, Invocation, Tool, Undo};
use crate::lanes::BoxFuture;
use crate::tool::{Json, Returned, ToolError, ToolOutput, ToolSpec, Work};

pub use {schemars, serde};

/// Makes a tool of a function.
///
/// ```
/// use andon::{Agent, Cord, Practice, ToolError, tool};
///
/// #[tool(grace = "2s", effect = "read_only")]
/// /// Waits for a parcel.
/// async fn wait_for(
///     /// The number on the receipt.
///     parcel: u64,
///     /// How many minutes to wait at most.
///     minutes: Option<u32>,
///     cord: Cord,
/// ) -> Result<String, ToolError> {
///     let patience = std::time::Duration::from_secs(60) * minutes.unwrap_or(5);
///     tokio::select! {
///         () = cord.pulled() => Ok(format!("Parcel {parcel} had not come yet.")),
///         () = tokio::time::sleep(patience) => Err(ToolError::new(format!("parcel {parcel} did not come"))),
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::new()).tool(wait_for).build()?;
/// # let _ = agent;
/// # Ok(())
/// # }
/// ```
///
/// The doc comment is the description that the model reads. It may stand above or below `#[tool]`.
///
/// # Arguments
///
/// Each parameter is an argument that the model says, by its name. Its type has `serde`'s `Deserialize` and the `JsonSchema`
/// of `schemars` 1, and is owned: `String`, not `&str`. Its doc comment is its description. An `Option` may be left out. So may
/// an argument with `#[tool(default)]` or `#[tool(default = 20)]`. `#[serde(..)]` and `#[schemars(..)]` are handed on, for a
/// `rename` or a `range`.
///
/// The schema is always an object with one property for each argument, also when there is one argument and that is a struct:
/// `async fn move_to(place: Place)` is called with `{"place": {..}}`. Arguments that do not fit the schema never reach the
/// function, and neither do ones that were not asked for. The model is told why.
///
/// Parameters of these types are no arguments. The runtime hands them in, and the model does not know of them. They are known
/// by the last word of their type, so `andon::Cord` is one too:
///
/// | Type | Is |
/// |---|---|
/// | [`Cord`](crate::Cord) | the run's cord as this call sees it: watch it, and return what you have |
/// | [`Progress`](crate::Progress) | shows in the run's feed what the call is doing |
/// | [`SessionState`](crate::SessionState) | the session's state |
/// | [`EffectId`](crate::EffectId) | the key under which the effect happens at most once |
/// | [`Invocation`](crate::Invocation) | all of the call |
///
/// # What it returns
///
/// A `String`, a `&str`, a `serde_json::Value`, a [`ToolOutput`](crate::ToolOutput), nothing, or [`Json`](crate::Json) around
/// any value that serde can write; or a `Result` of one of these. The error is told to the model as it is displayed, so a
/// `String` will do, and so will a [`ToolError`](crate::ToolError), which `?` makes of any error.
///
/// # What it says of itself
///
/// | Write | To say | Unless you do |
/// |---|---|---|
/// | `name = "fetch-page"` | what the model calls it | the function's name |
/// | `description = ".."` | what it does | the doc comment |
/// | `effect = "read_only"` | that it changes nothing; or `"idempotent"`, or `"effect"` | `"effect"` |
/// | `grace = "2s"` | how long it may take to stop by itself | two seconds |
/// | `on_cancel = "cooperate"` | what a pull does to it; or `"drop"`, `"finish"`, `"detach"`: see [`OnCancel`](crate::OnCancel) | `"cooperate"` |
/// | `finish_within = "5s"` | how long it may finish, with `on_cancel = "finish"` | 30 seconds |
/// | `timeout = "30s"` | how long one call may take | there is no limit |
/// | `needs_approval` | that a person says yes before each call | nobody is asked |
/// | `max_output = 65536` | how many bytes of its result are kept | a mebibyte |
/// | `blocking` | that it is a plain `fn` which may block: it runs on a thread of its own | it is an `async fn` |
/// | `compensation = undo_it` | the `async fn(Undo) -> Returned` that undoes a call | there is none |
/// | `compensation_within = "20s"` | how long that may take | 10 seconds |
/// | `crate = my::andon` | where andon is found | `::andon` |
///
/// A duration is a number and a unit, `ms`, `s`, `m` or `h`, or several: `"1m30s"`. A mistake in any of this is found while
/// the program is compiled.
///
/// # In tests
///
/// `wait_for` is now a value that stands for the tool; it can be handed to many agents. The function as it was written is
/// `wait_for::direct`:
///
/// ```
/// # use andon::tool;
/// /// Adds.
/// #[tool(blocking, effect = "read_only")]
/// fn add(a: i64, b: i64) -> Result<String, &'static str> {
///     a.checked_add(b).map(|sum| sum.to_string()).ok_or("too large")
/// }
///
/// assert_eq!(add::direct(1, 2), Ok("3".to_owned()));
/// ```
///
/// # What it cannot be
///
/// A method, a generic function, one that is unsafe or extern, or one whose future cannot go to another thread. A tool that
/// needs something of its own, such as a connection, is a [`FnTool`](crate::FnTool) around a closure that has it.
///
/// ```compile_fail
/// /// A plain function may block its thread, and has to say so.
/// #[andon::tool]
/// fn sum(numbers: Vec<i64>) -> String {
///     numbers.iter().sum::<i64>().to_string()
/// }
/// ```
///
/// ```compile_fail,E0277
/// struct Opaque;
///
/// /// The model cannot be told what is returned.
/// #[andon::tool]
/// async fn opaque() -> Opaque {
///     Opaque
/// }
/// ```
pub use andon_macros::tool;

/// A function under `#[tool]` is a tool: this is what it becomes.
#[diagnostic::do_not_recommend]
impl<F> Tool for F
where
    F: Fn() -> &'static FnTool + Send + Sync + 'static,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        self().spec()
    }

    fn call(&self, invocation: Invocation) -> Work {
        self().call(invocation)
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        self().compensate(undo)
    }
}

/// The schema of a tool's arguments: one object, with nothing in it that only its maker needs.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        // Not every provider follows references.
        settings.inline_subschemas = true;
    });
    let mut schema =
        settings.with_transform(RecursiveTransform(drop_number_format)).into_generator().into_root_schema_for::<T>();
    // It is the name of a struct that nobody has written.
    schema.remove("title");
    // A tool without arguments has an empty list of them, which some providers insist on.
    schema.ensure_object().entry("properties").or_insert_with(|| Map::new().into());
    schema.to_value()
}

/// `uint32` and the like are words of Rust's: a strict provider refuses the schema for them.
fn drop_number_format(schema: &mut Schema) {
    let is_number = |format: &str| {
        let digits = format.trim_start_matches("uint").trim_start_matches("int");
        matches!(format, "float" | "double" | "int" | "uint") || (digits != format && digits.parse::<u8>().is_ok())
    };
    if schema.get("format").and_then(Value::as_str).is_some_and(is_number) {
        schema.remove("format");
    }
}

/// The arguments of a call. They fit the schema; what that cannot say, serde refuses, and the model is told.
pub fn arguments<T: DeserializeOwned>(invocation: &Invocation) -> Result<T, ToolError> {
    T::deserialize(&invocation.input).map_err(|error| ToolError(format!("The arguments do not fit: {error}.")))
}

/// What a tool's function may return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "the model could not be told this",
    note = "return a String, a &str, a serde_json::Value, an andon::ToolOutput, nothing, or andon::Json(..) around any value \
            that serde can write; or a Result of one of these with an error that can be displayed"
)]
pub trait ToolReturn {
    /// As the runtime takes it.
    fn returned(self) -> Returned;
}

#[diagnostic::do_not_recommend]
impl<T: Into<ToolOutput>> ToolReturn for T {
    fn returned(self) -> Returned {
        Ok(self.into())
    }
}

impl<T: Serialize> ToolReturn for Json<T> {
    fn returned(self) -> Returned {
        self.output()
    }
}

/// An error is told to the model as it is displayed, so a `String` will do.
impl<T: ToolReturn, E: Display> ToolReturn for Result<T, E> {
    fn returned(self) -> Returned {
        match self {
            Ok(output) => output.returned(),
            Err(error) => Err(ToolError(error.to_string())),
        }
    }
}

/// What a tool's function has returned.
pub fn returned(value: impl ToolReturn) -> Returned {
    value.returned()
}
