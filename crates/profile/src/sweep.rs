//! Gives every nanosecond of the window to exactly one owner.
//!
//! 1. Beginnings and ends of device spans, of the driving thread's spans, of gaps and of steps cut
//!    the window into slices; parts beyond the window are cut off.
//! 2. A slice in which the device runs belongs to the device span that began last: overlapping
//!    spans are counted once, and inner spans have priority.
//! 3. Otherwise, between two spans of one submission, it is a gap.
//! 4. Otherwise it belongs to the driving thread's innermost span, and otherwise it has no owner.
//!
//! Slices are disjoint and cover the window, so that any grouping of them adds up to wall time.

use crate::recording::{HostSpan, Span};
use std::collections::BTreeSet;

/// Owner of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Index of a device span.
    Device(usize),
    /// The device is between two spans of one submission.
    Gap,
    /// Index of a host span.
    Host(usize),
    /// No span covers it.
    Nobody,
}

/// A part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub from: i64,
    pub to: i64,
    pub owner: Owner,
    /// The driving thread's innermost span, regardless of the owner.
    pub host: Option<usize>,
}

impl Slice {
    pub fn ns(&self) -> f64 {
        (self.to - self.from) as f64
    }
}

/// Time between a device span's end and the next one's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub from: i64,
    pub to: i64,
    /// True if both spans belong to one submission.
    pub inside: bool,
}

/// Returns the gaps between each device span and the next that begins; no length where they touch
/// or overlap.
pub(crate) fn gaps(device: &[Span]) -> Vec<Gap> {
    let mut order: Vec<&Span> = device.iter().collect();
    order.sort_by_key(|span| (span.start_ns, span.end_ns()));
    let mut gaps = Vec::with_capacity(order.len());
    let mut spans = order.into_iter();
    let Some(mut last) = spans.next() else {
        return gaps;
    };
    for span in spans {
        let from = last.end_ns();
        gaps.push(Gap {
            from,
            to: span.start_ns.max(from),
            inside: one_submission(last, span),
        });
        if span.end_ns() >= from {
            last = span;
        }
    }
    gaps
}

fn one_submission(a: &Span, b: &Span) -> bool {
    match (a.submission, b.submission) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.step.is_some() && a.step == b.step,
        _ => false,
    }
}

/// An item that opens or closes at a point in time.
#[derive(Debug, Clone, Copy)]
enum Edge {
    Device(usize, bool),
    Host(usize, bool),
    Gap(bool),
    Step,
}

/// Returns slices of the window `[begin, end)`, in order. `host` are the driving thread's spans,
/// `cuts` other times to cut at.
pub(crate) fn sweep(
    [begin, end]: [i64; 2],
    device: &[Span],
    host: &[HostSpan],
    gaps: &[Gap],
    cuts: impl Iterator<Item = i64>,
) -> Vec<Slice> {
    let mut edges = Vec::with_capacity(2 * (device.len() + host.len() + gaps.len()));
    let mut add = |from: i64, to: i64, edge: &dyn Fn(bool) -> Edge| {
        let (from, to) = (from.clamp(begin, end), to.clamp(begin, end));
        if from < to {
            edges.push((from, edge(true)));
            edges.push((to, edge(false)));
        }
    };
    for (i, span) in device.iter().enumerate() {
        add(span.start_ns, span.end_ns(), &|opens| {
            Edge::Device(i, opens)
        });
    }
    for (i, span) in host.iter().enumerate() {
        add(span.start_ns, span.end_ns(), &|opens| Edge::Host(i, opens));
    }
    for gap in gaps.iter().filter(|gap| gap.inside) {
        add(gap.from, gap.to, &Edge::Gap);
    }
    edges.extend(cuts.map(|at| (at.clamp(begin, end), Edge::Step)));
    edges.push((end, Edge::Step));
    edges.sort_by_key(|&(at, _)| at);

    // Spans that are open, the innermost last.
    let mut running = BTreeSet::new();
    let mut inside = BTreeSet::new();
    let mut open_gaps = 0_usize;
    let mut slices = Vec::with_capacity(edges.len());
    let mut from = begin;
    for (at, edge) in edges {
        if at > from {
            let host = inside.last().map(|&(_, _, i)| i);
            let owner = match (running.last(), host) {
                (Some(&(_, i)), _) => Owner::Device(i),
                _ if open_gaps > 0 => Owner::Gap,
                (None, Some(i)) => Owner::Host(i),
                (None, None) => Owner::Nobody,
            };
            slices.push(Slice {
                from,
                to: at,
                owner,
                host,
            });
            from = at;
        }
        match edge {
            Edge::Device(i, opens) => toggle(&mut running, (device[i].start_ns, i), opens),
            Edge::Host(i, opens) => {
                toggle(&mut inside, (host[i].start_ns, host[i].depth, i), opens);
            }
            Edge::Gap(true) => open_gaps += 1,
            Edge::Gap(false) => open_gaps -= 1,
            Edge::Step => {}
        }
    }
    slices
}

fn toggle<T: Ord>(set: &mut BTreeSet<T>, key: T, opens: bool) {
    if opens {
        set.insert(key);
    } else {
        set.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Phase;

    fn host(start_ns: i64, duration_ns: u64, depth: u32) -> HostSpan {
        HostSpan {
            name: "host".into(),
            phase: Phase::Host,
            thread: 0,
            depth,
            start_ns,
            duration_ns,
            step: None,
        }
    }

    fn owners(slices: &[Slice]) -> Vec<(i64, i64, Owner)> {
        slices.iter().map(|s| (s.from, s.to, s.owner)).collect()
    }

    #[test]
    fn every_nanosecond_has_one_owner() {
        // Overlap 30..40, a gap inside step 1 at 60..65, idle 80..100 in front of step 2.
        let device = [
            Span::new("a", 20, 20).step(1),
            Span::new("b", 30, 30).step(1),
            Span::new("c", 65, 15).step(1),
            Span::new("d", 100, 10).step(2),
        ];
        let hosts = [host(0, 90, 0), host(85, 3, 1)];
        let slices = sweep(
            [0, 120],
            &device,
            &hosts,
            &gaps(&device),
            std::iter::empty(),
        );
        assert_eq!(
            owners(&slices),
            [
                (0, 20, Owner::Host(0)),
                (20, 30, Owner::Device(0)),
                (30, 40, Owner::Device(1)),
                (40, 60, Owner::Device(1)),
                (60, 65, Owner::Gap),
                (65, 80, Owner::Device(2)),
                (80, 85, Owner::Host(0)),
                (85, 88, Owner::Host(1)),
                (88, 90, Owner::Host(0)),
                (90, 100, Owner::Nobody),
                (100, 110, Owner::Device(3)),
                (110, 120, Owner::Nobody),
            ]
        );
    }

    #[test]
    fn what_reaches_beyond_the_window_is_cut_off() {
        let device = [Span::new("a", -50, 60), Span::new("b", 90, 60)];
        let slices = sweep([0, 100], &device, &[], &gaps(&device), [50].into_iter());
        assert_eq!(
            owners(&slices),
            [
                (0, 10, Owner::Device(0)),
                (10, 50, Owner::Nobody),
                (50, 90, Owner::Nobody),
                (90, 100, Owner::Device(1)),
            ]
        );
    }

    #[test]
    fn a_span_inside_another_ends_no_gap() {
        let device = [
            Span::new("long", 0, 100).submission(7),
            Span::new("inner", 10, 5).submission(7),
            Span::new("after", 110, 5).submission(7),
            Span::new("other", 120, 5).submission(8),
        ];
        let found: Vec<_> = gaps(&device)
            .iter()
            .map(|g| (g.from, g.to, g.inside))
            .collect();
        assert_eq!(
            found,
            [(100, 100, true), (100, 110, true), (115, 120, false)]
        );
    }

    #[test]
    fn spans_that_begin_together_nest_by_depth() {
        let hosts = [host(0, 5, 1), host(0, 10, 0)];
        let slices = sweep([0, 10], &[], &hosts, &[], std::iter::empty());
        assert_eq!(
            owners(&slices),
            [(0, 5, Owner::Host(0)), (5, 10, Owner::Host(1))]
        );
    }
}
