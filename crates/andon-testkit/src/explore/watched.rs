//! Models and tools of the script, each inside one of ours that makes its polls seams and counts what it leaves.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use andon_runtime::{
    Answer, BoxFuture, FollowUp, Invocation, Meter, Model, ModelError, ModelRequest, Pending, Piece, Probe, Rendering,
    Returned, Tool, ToolSpec, Undo, Usage, Work,
};

use super::director::Director;
use super::strays::Strays;
use crate::tools::{Alive, ToolLog};

/// How often models were called, and how many of their answers are open.
#[derive(Default)]
pub(super) struct ModelCalls {
    calls: AtomicUsize,
    open: AtomicUsize,
}

impl ModelCalls {
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn begin(self: &Arc<Self>) -> OpenAnswer {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_add(1, Ordering::SeqCst);
        OpenAnswer(Arc::clone(self))
    }
}

/// An answer that is open until this is dropped.
struct OpenAnswer(Arc<ModelCalls>);

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A model whose every poll is a seam.
pub(super) struct WatchedModel {
    pub(super) model: Arc<dyn Model>,
    pub(super) director: Arc<Director>,
}

// Here and below: a method that is not forwarded would be answered by its default, and nobody would notice.
#[deny(clippy::missing_trait_methods)]
impl Model for WatchedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let open = self.director.model_calls.begin();
        let answer = self.model.call(request);
        Box::new(WatchedAnswer { answer, open, director: Arc::clone(&self.director) })
    }

    fn meter(&self) -> Option<Arc<dyn Meter>> {
        self.model.meter()
    }

    fn rendering(&self, request: &ModelRequest) -> Option<Rendering> {
        self.model.rendering(request)
    }
}

struct WatchedAnswer {
    answer: Box<dyn Answer>,
    open: OpenAnswer,
    director: Arc<Director>,
}

#[deny(clippy::missing_trait_methods)]
impl Answer for WatchedAnswer {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        self.director.hit("model: poll");
        self.answer.poll_piece(cx)
    }

    fn usage_so_far(&self) -> Usage {
        let usage = self.answer.usage_so_far();
        if is_made_up(&usage) {
            self.director
                .broken("P4: the model says that a request had 0 tokens: what it does not know yet is unknown");
        }
        usage
    }

    fn model(&self) -> Option<&str> {
        self.answer.model()
    }

    fn request_id(&self) -> Option<&str> {
        self.answer.request_id()
    }

    fn is_changed(&self) -> bool {
        self.answer.is_changed()
    }

    fn cut(self: Box<Self>) -> Option<FollowUp> {
        let Self { answer, open, .. } = *self;
        let FollowUp { what, within, work, finish, .. } = answer.cut()?;
        // Draining holds the connection; looking up and counting have closed it.
        let open = (what == Pending::Draining).then_some(open);
        let work = Box::pin(async move {
            let learned = work.await;
            drop(open);
            learned
        });
        let follow_up = FollowUp::new(what, within, work);
        Some(match finish {
            Some(finish) => follow_up.finish(finish),
            None => follow_up,
        })
    }
}

/// Whether a figure is written as 0 that cannot be 0: every request has something in it.
fn is_made_up(usage: &Usage) -> bool {
    let cached = usage.cache_read.value.unwrap_or(0).max(usage.cache_write.value.unwrap_or(0));
    usage.input.value == Some(0) && cached == 0
}

/// A tool whose calls are logged, and whose tasks are counted.
pub(super) struct WatchedTool {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) log: ToolLog,
    pub(super) strays: Arc<Strays>,
}

#[deny(clippy::missing_trait_methods)]
impl Tool for WatchedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.tool.spec()
    }

    fn call(&self, invocation: Invocation) -> Work {
        let alive = self.log.begin(&invocation);
        let call = self.strays.add(&invocation, self.tool.spec());
        let work = self.strays.during(call, || self.tool.call(invocation));
        let strays = Arc::clone(&self.strays);
        work.inside(|future| Box::pin(WatchedWork { future: Some(future), call, strays, _alive: alive }))
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        self.tool.compensate(undo)
    }
}

struct WatchedWork {
    future: Option<BoxFuture<Returned>>,
    call: usize,
    strays: Arc<Strays>,
    _alive: Alive,
}

impl Future for WatchedWork {
    type Output = Returned;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Returned> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Pending };
        this.strays.during(this.call, || future.as_mut().poll(cx))
    }
}

impl Drop for WatchedWork {
    fn drop(&mut self) {
        let future = self.future.take();
        self.strays.during(self.call, || drop(future));
    }
}
