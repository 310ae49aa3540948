//! [`GpuClock`]: start times and durations of the spans of a command list on the device.
//!
//! 1. Each span, or each dispatch, is a pass between two timestamps (Apple's GPUs have none elsewhere). On devices that
//!    support it, two more timestamps enclose the whole list, for a check. The timestamps of a step go to one query set
//!    of a small ring buffer, are resolved into a buffer by the same submission, and are copied to the host like any
//!    [`Readback`]: no thread waits for them.
//! 2. A step that finds no free query set is encoded untimed and counted as skipped, so that timing never delays a
//!    step.
//! 3. An offset converts ticks to nanoseconds of the host's clock. Vulkan can read both clocks at one time (calibrated
//!    timestamps), but wgpu does not expose that. Instead a tiny dispatch is timed between two readings of the host's
//!    clock: the device's timestamps are between them, which bounds the offset from both sides. The intersection of
//!    several such samples is an interval; the offset is its middle, the uncertainty half its width.
//!
//! The clocks drift apart by some microseconds per second. Call [`GpuClock::calibrate`] every few seconds if positions
//! on the host's timeline matter. Durations do not depend on the offset.

use crate::parameters::Values;
use crate::{CommandList, Defines, Detail, Gpu, Groups, Kernel, Readback, ShaderSet};
use dapple_base::{Error, Result};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Samples of a calibration: more samples hardly narrow the interval.
const SAMPLES: usize = 16;

/// Shader of a sample: a pass without a dispatch has no timestamps on some devices.
const NOTHING: &str = "@compute @workgroup_size(1) fn nothing() {}";

/// Offset between the device's clock and the host's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibration {
    /// Error bound of times on the host's clock, ns, without the drift since the calibration.
    pub uncertainty_ns: f64,
    /// Time of the calibration, ns after [`GpuClock::origin`].
    pub taken_ns: i64,
    /// Host time of tick `base`, ns after the origin.
    #[serde(skip)]
    offset_ns: f64,
}

/// Time of a span, or of a dispatch, on the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpanTime {
    /// Name of the span.
    pub name: &'static str,
    /// Kernel of the dispatch, if dispatches were timed.
    pub kernel: Option<String>,
    /// Start, ns after [`GpuClock::origin`] on the host's clock.
    pub start_ns: i64,
    /// Duration, ns.
    pub duration_ns: u64,
}

/// The spans of one timed submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Name from the caller.
    pub tag: u64,
    /// Spans, or dispatches, in order.
    pub spans: Vec<SpanTime>,
    /// Start and duration of the whole list between timestamps of its own, ns, on devices that support it.
    pub whole: Option<(i64, u64)>,
    /// Spans without usable timestamps, which are omitted: counters that wrapped, passes that a driver dropped.
    pub missing: usize,
}

/// Times command lists on the device's clock.
#[derive(Debug)]
pub struct GpuClock {
    gpu: Gpu,
    origin: Instant,
    period_ns: f64,
    /// Tick that others are counted from: differences of ticks fit a float, ticks do not.
    base: u64,
    calibration: Calibration,
    probe: CommandList,
    /// True if there are timestamps outside of passes.
    around: bool,
    most_spans: usize,
    free: Vec<Queries>,
    pending: VecDeque<Pending>,
    skipped: u64,
}

#[derive(Debug)]
struct Queries {
    set: wgpu::QuerySet,
    resolved: Arc<crate::Pooled>,
}

#[derive(Debug)]
struct Pending {
    tag: u64,
    names: Vec<(&'static str, Option<String>)>,
    queries: Queries,
    ticks: Readback<u64>,
}

impl GpuClock {
    /// Creates a clock for command lists of up to `most_spans` spans, with up to `in_flight` submissions in flight.
    /// Calibrates, so it waits for the device. `None` if the device has no timestamps; [`Gpu::report`] lists the
    /// missing feature.
    ///
    /// # Errors
    /// A lost device, no memory, more spans than a query set holds (2048).
    pub fn new(gpu: &Gpu, most_spans: usize, in_flight: usize) -> Result<Option<Self>> {
        if !gpu
            .device()
            .features()
            .contains(wgpu::Features::TIMESTAMP_QUERY)
        {
            return Ok(None);
        }
        let most_spans = most_spans.max(1);
        if 2 * (most_spans + 1) > wgpu::QUERY_SET_MAX_QUERIES as usize {
            return Err(Error::internal(format!(
                "{most_spans} spans are too many to be timed"
            )));
        }
        let shaders = ShaderSet::new(&[("nothing", NOTHING)]);
        let kernel = Kernel::new(gpu, &shaders, "nothing", "nothing", &Defines::new())?;
        let mut probe = CommandList::new();
        probe.span("probe");
        probe.dispatch(kernel.bind(gpu, &[])?, Groups::Direct([1, 1, 1]));
        let free = (0..in_flight.max(1)).map(|_| Queries::new(gpu, most_spans + 1));
        let free = free.collect::<Result<_>>()?;
        let mut clock = Self {
            gpu: gpu.clone(),
            origin: Instant::now(),
            period_ns: f64::from(gpu.queue().get_timestamp_period()),
            base: 0,
            calibration: Calibration {
                uncertainty_ns: f64::INFINITY,
                taken_ns: 0,
                offset_ns: 0.0,
            },
            probe,
            around: gpu
                .device()
                .features()
                .contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            most_spans,
            free,
            pending: VecDeque::new(),
            skipped: 0,
        };
        Ok(clock.calibrate()?.map(|_| clock))
    }

    /// Returns the host time that all `_ns` positions count from.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// Returns the current calibration.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// Returns the number of submissions that were not timed because too many were in flight.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Measures the offset between the clocks again. Waits for the device some ten times. `None` if the timestamps are
    /// unusable; the last calibration then remains.
    ///
    /// # Errors
    /// A lost device.
    pub fn calibrate(&mut self) -> Result<Option<Calibration>> {
        self.gpu.wait()?;
        let queries = Queries::new(&self.gpu, 1)?;
        let mut samples = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            let mut encoder = self.gpu.encoder();
            self.probe.encode_timed_with(
                &mut encoder,
                Values::default(),
                &queries.set,
                Detail::Spans,
            );
            let mut ticks = queries.read(&self.gpu, &mut encoder, 1)?;
            let before = self.host_ns();
            self.gpu.submit(encoder);
            self.gpu.wait()?;
            let after = self.host_ns();
            if let Some(&[begin, end]) = ticks.take()?.as_deref()
                && begin != 0
                && end >= begin
            {
                samples.push(Sample {
                    before,
                    begin,
                    end,
                    after,
                });
            }
        }
        let Some(first) = samples.first() else {
            return Ok(None);
        };
        let base = first.begin;
        let Some((offset_ns, uncertainty_ns)) = offset(&samples, base, self.period_ns) else {
            return Ok(None);
        };
        self.base = base;
        self.calibration = Calibration {
            uncertainty_ns,
            taken_ns: self.host_ns() as i64,
            offset_ns,
        };
        Ok(Some(self.calibration))
    }

    /// Encodes a command list, timed under the name `tag`. Returns true if the list is timed. The list is not timed if
    /// too many submissions are in flight, or if it has more spans than the clock was made for.
    ///
    /// # Errors
    /// No memory, a lost device.
    pub fn encode(
        &mut self,
        recording: &CommandList,
        encoder: &mut wgpu::CommandEncoder,
        immediates: &[u8],
        tag: u64,
        detail: Detail,
    ) -> Result<bool> {
        let values = Values::immediates(immediates);
        self.encode_with(recording, encoder, values, (tag, detail))
    }

    /// [`Self::encode`], with parameters too.
    ///
    /// # Errors
    /// See [`Self::encode`] for the errors.
    pub fn encode_with(
        &mut self,
        recording: &CommandList,
        encoder: &mut wgpu::CommandEncoder,
        values: Values<'_>,
        (tag, detail): (u64, Detail),
    ) -> Result<bool> {
        let names: Vec<_> = match detail {
            // An empty span has no pass.
            Detail::Spans => recording
                .span_sizes()
                .filter(|&(_, dispatches)| dispatches > 0)
                .map(|(span, _)| (span, None))
                .collect(),
            Detail::Dispatches => recording
                .dispatch_names()
                .map(|(span, kernel)| (span, Some(kernel.to_owned())))
                .collect(),
        };
        let fits = !names.is_empty() && names.len() <= self.most_spans;
        let Some(queries) = fits.then(|| self.free.pop()).flatten() else {
            recording.encode_with(encoder, values);
            self.skipped += 1;
            return Ok(false);
        };
        let end = 2 * names.len() as u32;
        if self.around {
            encoder.write_timestamp(&queries.set, end);
        }
        recording.encode_timed_with(encoder, values, &queries.set, detail);
        if self.around {
            encoder.write_timestamp(&queries.set, end + 1);
        }
        let pairs = names.len() + usize::from(self.around);
        let ticks = queries.read(&self.gpu, encoder, pairs)?;
        self.pending.push_back(Pending {
            tag,
            names,
            queries,
            ticks,
        });
        Ok(true)
    }

    /// Calls [`Self::encode`] and submits.
    ///
    /// # Errors
    /// See [`Self::encode`] for the errors.
    pub fn submit(
        &mut self,
        recording: &CommandList,
        immediates: &[u8],
        tag: u64,
        detail: Detail,
    ) -> Result<bool> {
        self.submit_with(recording, Values::immediates(immediates), tag, detail)
    }

    /// [`Self::submit`], with parameters too.
    ///
    /// # Errors
    /// See [`Self::encode`] for the errors.
    pub fn submit_with(
        &mut self,
        recording: &CommandList,
        values: Values<'_>,
        tag: u64,
        detail: Detail,
    ) -> Result<bool> {
        let mut encoder = self.gpu.encoder();
        let timed = self.encode_with(recording, &mut encoder, values, (tag, detail))?;
        self.gpu.submit(encoder);
        Ok(timed)
    }

    /// Returns the timings that have arrived, in order; does not wait.
    ///
    /// # Errors
    /// A lost device; an encoder that was timed and then dropped instead of submitted.
    pub fn poll(&mut self) -> Result<Vec<Timing>> {
        let mut arrived = Vec::new();
        while let Some(front) = self.pending.front_mut() {
            let Some(ticks) = front.ticks.take().transpose() else {
                break;
            };
            if let Some(Pending {
                tag,
                names,
                queries,
                ..
            }) = self.pending.pop_front()
            {
                self.free.push(queries);
                arrived.push(self.timing(tag, names, &ticks?));
            }
        }
        Ok(arrived)
    }

    fn timing(
        &self,
        tag: u64,
        names: Vec<(&'static str, Option<String>)>,
        ticks: &[u64],
    ) -> Timing {
        let count = names.len();
        let mut pairs = ticks.as_chunks::<2>().0.iter().map(|pair| self.place(pair));
        let spans: Vec<_> = names
            .into_iter()
            .zip(pairs.by_ref())
            .filter_map(|((name, kernel), place)| {
                let (start_ns, duration_ns) = place?;
                Some(SpanTime {
                    name,
                    kernel,
                    start_ns,
                    duration_ns,
                })
            })
            .collect();
        Timing {
            tag,
            missing: count - spans.len(),
            spans,
            whole: pairs.next().flatten(),
        }
    }

    /// Returns start and duration, ns, of the interval between two ticks; `None` if the ticks are unusable.
    fn place(&self, &[begin, end]: &[u64; 2]) -> Option<(i64, u64)> {
        let taken = end.checked_sub(begin).filter(|_| begin != 0)?;
        let start = ns_since(self.base, begin, self.period_ns) + self.calibration.offset_ns;
        Some((start as i64, (taken as f64 * self.period_ns) as u64))
    }

    fn host_ns(&self) -> f64 {
        self.origin.elapsed().as_nanos() as f64
    }
}

impl Queries {
    fn new(gpu: &Gpu, spans: usize) -> Result<Self> {
        let count = 2 * spans as u32;
        let set = gpu.device().create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("clock"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let bytes = u64::from(count) * u64::from(wgpu::QUERY_SIZE);
        let resolved = gpu.buffer_with("clock", bytes, usage)?;
        Ok(Self { set, resolved })
    }

    /// Records the copy of the timestamps of the first `spans` spans to the host.
    fn read(
        &self,
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        spans: usize,
    ) -> Result<Readback<u64>> {
        encoder.resolve_query_set(&self.set, 0..2 * spans as u32, &self.resolved, 0);
        gpu.begin_read(encoder, &self.resolved, 0, 2 * spans)
    }
}

/// A dispatch on both clocks: submitted after `before`, done by `after` (ns); ticks.
#[derive(Debug, Clone, Copy)]
struct Sample {
    before: f64,
    begin: u64,
    end: u64,
    after: f64,
}

/// Returns the nanoseconds between two ticks.
fn ns_since(base: u64, tick: u64, period_ns: f64) -> f64 {
    tick.wrapping_sub(base) as i64 as f64 * period_ns
}

/// Returns the host time of tick `base` in ns, and its error bound. `None` without samples.
fn offset(samples: &[Sample], base: u64, period_ns: f64) -> Option<(f64, f64)> {
    // Host time of an event - device time of the event: at least, at most.
    let bounds = samples.iter().map(|s| {
        let least = s.before - ns_since(base, s.begin, period_ns);
        let most = s.after - ns_since(base, s.end, period_ns);
        (least, most)
    });
    let shared = bounds.clone().reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
    // Clocks that drifted or stepped within the samples have no common interval: then the tightest sample counts.
    let (least, most) = if shared.0 <= shared.1 {
        shared
    } else {
        bounds.min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))?
    };
    Some(((least + most) / 2.0, (most - least).abs() / 2.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Returns a sample of a device whose tick `t` happens at host time `2 * (t - 1000) + 500`.
    fn sample(before: f64, begin: u64, end: u64, after: f64) -> Sample {
        Sample {
            before,
            begin,
            end,
            after,
        }
    }

    #[test]
    fn samples_bound_the_offset_from_both_sides() {
        // Tick 1000 happens at 500: 100 after `before`, 10 (end: 1005) before `after`.
        let late = sample(400.0, 1000, 1005, 520.0);
        // Tick 1100 happens at 700: 20 after `before`, 200 before `after`.
        let early = sample(680.0, 1100, 1105, 910.0);
        let (host, off) = offset(&[late, early], 1000, 2.0).unwrap();
        // At least 680 - 200, at most 520 - 10.
        assert_eq!((host, off), (495.0, 15.0));
        assert!((host - 500.0).abs() <= off);
    }

    #[test]
    fn samples_that_contradict_leave_the_tightest() {
        let tight = sample(490.0, 1000, 1000, 510.0);
        let stepped = sample(10_000.0, 1000, 1000, 10_100.0);
        assert_eq!(offset(&[stepped, tight], 1000, 2.0), Some((500.0, 10.0)));
        assert_eq!(offset(&[], 0, 1.0), None);
    }

    #[test]
    fn ticks_before_the_base_and_large_ticks_keep_their_distance() {
        let base = u64::MAX - 5;
        assert_eq!(ns_since(base, base - 3, 2.0), -6.0);
        assert_eq!(ns_since(base, base.wrapping_add(8), 2.0), 16.0);
    }
}
