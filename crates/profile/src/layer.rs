//! [`Layer`]: records the spans of a program that already uses `tracing`.
//!
//! 1. A span is timed from each entry to the exit that belongs to it, on the thread that enters. A future that is
//!    polled five times makes five spans, which exclude the time between polls.
//! 2. Its field `phase`, a string in the format of [`Phase::from_name`], gives its phase, `step` its step. Without them
//!    it has [`Phase::Host`] and the step in which it occurs.
//!
//! ```
//! use dapple_profile::{Recorder, Synchronised, layer::Layer};
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! let recorder = Recorder::new();
//! let subscriber = tracing_subscriber::registry().with(Layer::new(recorder.clone()));
//! tracing::subscriber::with_default(subscriber, || {
//!     recorder.begin_window(Synchronised::host_only());
//!     tracing::info_span!("solve", phase = "forward").in_scope(|| {});
//!     recorder.end_step(0);
//!     recorder.end_window(Synchronised::host_only());
//! });
//! assert_eq!(recorder.finish()?.steps(), 1);
//! # Ok::<(), dapple_profile::Error>(())
//! ```

use crate::profile::Phase;
use crate::record::{Recorder, SpanGuard};
use std::cell::RefCell;
use std::fmt::Debug;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Records `tracing` spans into a [`Recorder`].
#[derive(Debug, Clone)]
pub struct Layer {
    recorder: Recorder,
}

impl Layer {
    /// Creates a layer that records into `recorder`.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }
}

/// Fields of a span.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    phase: Option<Phase>,
    step: Option<u64>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "phase" {
            self.phase = Phase::from_name(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "step" {
            self.step = Some(value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            self.record_u64(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // `phase = %value` and `phase = ?value` arrive here.
        if field.name() == "phase" {
            self.record_str(field, &format!("{value:?}").to_lowercase());
        }
    }
}

thread_local! {
    /// Spans that this thread is in. Each guard knows its recorder, so that layers may share this.
    static OPEN: RefCell<Vec<(Id, SpanGuard)>> = const { RefCell::new(Vec::new()) };
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !self.recorder.is_on() {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !self.recorder.is_on() {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let fields = span
            .extensions()
            .get::<Fields>()
            .copied()
            .unwrap_or_default();
        let phase = fields.phase.unwrap_or(Phase::Host);
        let mut guard = self.recorder.span(span.name(), phase);
        if let Some(step) = fields.step {
            guard = guard.step(step);
        }
        // The last entries of a thread that is being torn down are lost.
        let _ = OPEN.try_with(|open| open.borrow_mut().push((id.clone(), guard)));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let _ = OPEN.try_with(|open| {
            let mut open = open.borrow_mut();
            if let Some(at) = open.iter().rposition(|(known, _)| known == id) {
                open.remove(at);
            }
        });
    }
}
