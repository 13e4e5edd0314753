//! A tool made from a closure: with typed arguments, or with a schema written by hand.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use andon_core::event::{Effect, Remains};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::{Described, Read};
use super::macro_support::ToolReturn;
use super::{Invocation, Tool, Undo};
use crate::lanes::BoxFuture;
use crate::tool::{OnCancel, Returned, ToolError, ToolSpec, Work};

/// Starts a tool with this name, and this description for the model. Add its options, and finally what it does.
///
/// ```
/// use andon::{Agent, Practice, schemars, serde, tool};
/// use andon::tool::Effect;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// # #[serde(crate = "andon::serde")]
/// struct Add {
///     /// The first number.
///     a: i64,
///     b: i64,
/// }
///
/// let add = tool("add", "Adds two numbers.").effect(Effect::ReadOnly).run(|add: Add| async move {
///     let sum = add.a.checked_add(add.b).ok_or("the sum is too large")?;
///     Ok(sum.to_string())
/// });
/// let agent = Agent::builder().model(Practice::new()).tool(add).build()?;
/// # let _ = agent;
/// # Ok::<(), andon::agent::BuildError>(())
/// ```
///
/// The closure takes one struct with a field for each argument, which implements `serde`'s `Deserialize` and the `JsonSchema` of
/// `schemars` 1; `()` if there are no arguments. The schema is made from it: doc comments describe the arguments, and the model may leave out an
/// `Option` and a field with `#[serde(default)]`. Arguments that do not fit never reach the closure, and neither do
/// arguments that the struct does not have (by the names in the schema, so not by an `alias`), unless its schema allows others, as that of a flattened map does:
/// the model is told what is wrong with them. A type from which no schema of an object can be made is an error when the agent is built.
///
/// All calls share what the closure captures:
///
/// ```
/// # use andon::{schemars, serde};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let calls = Arc::new(AtomicU64::new(0));
/// let counted = Arc::clone(&calls);
/// let next = andon::tool("next", "Gives the next number.").run(move |(): ()| {
///     let counted = Arc::clone(&counted);
///     async move { Ok(counted.fetch_add(1, Ordering::SeqCst).to_string()) }
/// });
/// # let _ = next;
/// ```
///
/// Several tools that share something are shorter as methods: see [`#[tools]`](macro@crate::tools). A function that needs nothing
/// becomes a tool with [`#[tool]`](macro@crate::tool).
pub fn tool(name: impl Into<String>, description: impl Into<String>) -> ToolBuilder {
    ToolBuilder { spec: Arc::new(ToolSpec::new(name, description, Value::Null)), undo: None, cleanup: None }
}

/// A tool with a name and options, but without the code that it runs. Made by [`tool`](fn@crate::tool).
#[must_use = "this is not a tool yet: call .run(..)"]
pub struct ToolBuilder {
    spec: Arc<ToolSpec>,
    undo: Option<Box<UndoFn>>,
    cleanup: Option<Arc<CleanupFn>>,
}

impl ToolBuilder {
    /// Ends whatever a call has started outside its future, such as a remote job. It is called once for each call that has begun, when that has ended
    /// in any way: it returned, it panicked, or its future was dropped. The call is closed when this is done; what it could not end it returns, and
    /// the receipt names it. See [`Work::cleanup`].
    pub fn cleanup<F, R>(mut self, cleanup: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Remains> + Send + 'static,
    {
        self.cleanup = Some(Arc::new(move |call| Box::pin(cleanup(call))));
        self
    }

    /// Runs this async closure with the arguments of a call. What it returns in `Ok` is whatever a [`#[tool]`](macro@crate::tool) may
    /// return; [`ToolError`] is made from any error and from text.
    pub fn run<A, T, F, R>(self, run: F) -> FnTool
    where
        A: DeserializeOwned + JsonSchema + 'static,
        T: ToolReturn,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        self.run_with(move |arguments, _| run(arguments))
    }

    /// As [`run`](Self::run), for a closure that also takes the call: its cord, to watch it, its [progress](Invocation::progress), the session's
    /// [state](Invocation::state), its [effect id](Invocation::effect_id).
    ///
    /// ```
    /// # use andon::{schemars, serde};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # #[serde(crate = "andon::serde")]
    /// # struct Wait { seconds: u64 }
    /// let wait = andon::tool("wait", "Waits.").run_with(|wait: Wait, call| async move {
    ///     tokio::select! {
    ///         () = call.cord.pulled() => Ok("It was told to stop waiting."),
    ///         () = tokio::time::sleep(std::time::Duration::from_secs(wait.seconds)) => Ok("It has waited."),
    ///     }
    /// });
    /// # let _ = wait;
    /// ```
    pub fn run_with<A, T, F, R>(self, run: F) -> FnTool
    where
        A: DeserializeOwned + JsonSchema + 'static,
        T: ToolReturn,
        F: Fn(A, Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        let run = Arc::new(run);
        self.finish::<A>(move |call, reader| {
            let run = Arc::clone(&run);
            // All that is the user's happens in the task: the arguments' own code, too, may take a while or panic.
            Work::task(async move {
                let arguments = reader.read(&call)?;
                let running = run(arguments, call);
                running.await?.returned()
            })
        })
    }

    /// Runs this closure, which may block, on a separate thread. A thread cannot be killed, so one that takes long looks at
    /// its cord: `call.cord.is_pulled()`.
    pub fn run_blocking<A, T, F>(self, run: F) -> FnTool
    where
        A: DeserializeOwned + JsonSchema + 'static,
        T: ToolReturn,
        F: Fn(A, Invocation) -> Result<T, ToolError> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        self.finish::<A>(move |call, reader| {
            let run = Arc::clone(&run);
            Work::blocking(move || run(reader.read(&call)?, call)?.returned())
        })
    }

    fn finish<A: DeserializeOwned + JsonSchema + 'static>(
        self,
        work: impl Fn(Invocation, Reader<A>) -> Work + Send + Sync + 'static,
    ) -> FnTool {
        let Described { schema, flaw, read } = Described::<A>::new();
        let Self { spec, undo, cleanup } = self.with(|spec| (spec.schema, spec.flaw) = (schema, flaw));
        let work = move |call: Invocation| match cleanup.clone() {
            Some(cleanup) => cleaned(call, move |call| cleanup(call), |call, begun| work(call, Reader { read, begun })),
            None => work(call, Reader { read, begun: Begun::default() }),
        };
        FnTool { spec, work: Box::new(work), undo }
    }
}

/// Reads the arguments of one call, which begins by that.
struct Reader<A> {
    read: Read<A>,
    begun: Begun,
}

impl<A> Reader<A> {
    fn read(self, call: &Invocation) -> Result<A, ToolError> {
        let arguments = (self.read)(call)?;
        self.begun.set();
        Ok(arguments)
    }
}

/// Whether a call has begun: its arguments could be read.
#[derive(Debug, Clone, Default)]
pub struct Begun(Arc<AtomicBool>);

impl Begun {
    /// It has.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Work with a cleanup, which is called only if the call has begun: what never began has started nothing.
pub fn cleaned<R>(
    call: Invocation,
    cleanup: impl FnOnce(Invocation) -> R + Send + 'static,
    work: impl FnOnce(Invocation, Begun) -> Work,
) -> Work
where
    R: Future<Output = Remains> + Send + 'static,
{
    let (begun, own) = (Begun::default(), call.clone());
    let has_begun = Arc::clone(&begun.0);
    work(call, begun).cleanup(move || async move {
        if has_begun.load(Ordering::SeqCst) { cleanup(own).await } else { Remains::NONE }
    })
}

/// A tool made from a closure.
///
/// [`tool`](fn@crate::tool) makes one whose arguments are typed. With a schema that is known only when the program runs:
///
/// ```
/// use andon_runtime::{FnTool, Effect};
/// use serde_json::json;
///
/// let shout = FnTool::new("shout", "Says it louder.", json!({
///     "type": "object",
///     "properties": { "text": { "type": "string" } },
///     "required": ["text"],
/// }), |call| async move {
///     let text = call.input["text"].as_str().unwrap_or_default().to_uppercase();
///     Ok(text.into())
/// }).effect(Effect::ReadOnly);
/// # let _ = shout;
/// ```
#[must_use = "a tool does nothing until an agent has it"]
pub struct FnTool {
    spec: Arc<ToolSpec>,
    work: Box<WorkFn>,
    undo: Option<Box<UndoFn>>,
}

type WorkFn = dyn Fn(Invocation) -> Work + Send + Sync;
type CleanupFn = dyn Fn(Invocation) -> BoxFuture<Remains> + Send + Sync;
type UndoFn = dyn Fn(Undo) -> BoxFuture<Returned> + Send + Sync;

impl FnTool {
    /// A tool with this name that runs the async closure.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, schema: Value, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Returned> + Send + 'static,
    {
        Self::from_spec(ToolSpec::new(name, description, schema), move |call| Work::task(run(call)))
    }

    /// A tool with this name that runs the closure, which may block: it runs on a separate thread.
    pub fn blocking<F>(name: impl Into<String>, description: impl Into<String>, schema: Value, run: F) -> Self
    where
        F: Fn(Invocation) -> Returned + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        Self::from_spec(ToolSpec::new(name, description, schema), move |call| {
            let run = Arc::clone(&run);
            Work::blocking(move || run(call))
        })
    }

    /// A tool with this spec.
    pub fn from_spec(spec: ToolSpec, work: impl Fn(Invocation) -> Work + Send + Sync + 'static) -> Self {
        Self { spec: Arc::new(spec), work: Box::new(work), undo: None }
    }
}

/// The options of a tool, finished or not.
macro_rules! options {
    ($of:ident) => {
        impl $of {
            /// What kind of effect it can have. By default it is assumed to change the world.
            pub fn effect(self, effect: Effect) -> Self {
                self.with(|spec| spec.effect = effect)
            }

            /// How long it may take to stop by itself; two seconds by default.
            pub fn grace(self, grace: Duration) -> Self {
                self.with(|spec| spec.grace = grace)
            }

            /// What a pull does to it; by default it is told and has its grace.
            pub fn on_cancel(self, on_cancel: OnCancel) -> Self {
                self.with(|spec| spec.on_cancel = on_cancel)
            }

            /// How long one call may take. After that the call alone is stopped, and the model is told.
            pub fn timeout(self, timeout: Duration) -> Self {
                self.with(|spec| spec.timeout = Some(timeout))
            }

            /// A person must approve each call.
            pub fn needs_approval(self) -> Self {
                self.with(|spec| spec.needs_approval = true)
            }

            /// How long the cleanup of its work may take, if it has one; two seconds by default. See [`Work::cleanup`].
            pub fn cleanup_within(self, cleanup: Duration) -> Self {
                self.with(|spec| spec.cleanup = cleanup)
            }

            /// How many bytes of its result are kept; a mebibyte by default.
            pub fn max_output(self, bytes: usize) -> Self {
                self.with(|spec| spec.max_output = bytes)
            }

            /// Undoes a call, within this time. It runs only when somebody asks for it with
            /// [`Agent::compensate`](crate::Agent::compensate).
            pub fn compensation<F, R>(mut self, within: Duration, undo: F) -> Self
            where
                F: Fn(Undo) -> R + Send + Sync + 'static,
                R: Future<Output = Returned> + Send + 'static,
            {
                self.undo = Some(Box::new(move |call| Box::pin(undo(call))));
                self.with(|spec| spec.compensation = Some(within))
            }

            fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
                change(Arc::make_mut(&mut self.spec));
                self
            }
        }

        impl fmt::Debug for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($of)).field("spec", &self.spec).finish_non_exhaustive()
            }
        }
    };
}

options!(ToolBuilder);
options!(FnTool);

impl Tool for FnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        (self.work)(invocation)
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        match &self.undo {
            Some(compensation) => compensation(undo),
            None => super::tool::no_compensation(&undo),
        }
    }
}
