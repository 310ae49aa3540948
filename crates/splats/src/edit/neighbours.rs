//! The nearest others of each point: a balanced k-d tree without pointers.
//!
//! 1. Indices are halved about the median along the widest axis until [`LEAF`] are left, so any number of
//!    coincident points does no harm. A half's split is its middle element.
//! 2. A query goes down the nearer half first, and down the other where its plane is nearer than the farthest
//!    of the best so far.
//!
//! Equal distances are ordered by index, so the result does not depend on how work was cut.

use glam::DVec3;
use rayon::prelude::*;
use std::ops::Range;

/// Points that are compared one by one.
const LEAF: usize = 8;

/// Below this number of points, one thread builds both halves.
const PARALLEL: usize = 1 << 14;

/// The tree: indices of points, and at each half's middle the axis that it was split along.
struct Tree<'a> {
    points: &'a [DVec3],
    order: Vec<u32>,
    axes: Vec<u8>,
}

/// The `count` nearest others of each point, nearest first; fewer where there are not so many.
pub(super) fn neighbours(points: &[DVec3], count: usize) -> Vec<Vec<u32>> {
    let mut tree = Tree {
        points,
        order: (0..points.len() as u32).collect(),
        axes: vec![0; points.len()],
    };
    build(points, &mut tree.order, &mut tree.axes);
    let find = |i: usize| {
        let mut best = Vec::with_capacity(count + 1);
        tree.search(i as u32, 0..points.len(), count, &mut best);
        best.into_iter().map(|(_, j)| j).collect()
    };
    let all = (0..points.len()).into_par_iter().with_min_len(256);
    all.map(find).collect()
}

/// The axis along which these points spread most.
fn widest(points: &[DVec3], order: &[u32]) -> usize {
    let (low, high) = order
        .iter()
        .fold((DVec3::INFINITY, DVec3::NEG_INFINITY), |(low, high), &i| {
            (low.min(points[i as usize]), high.max(points[i as usize]))
        });
    let span = high - low;
    match (span.x >= span.y && span.x >= span.z, span.y >= span.z) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// Splits about the median, and so on with each half.
fn build(points: &[DVec3], order: &mut [u32], axes: &mut [u8]) {
    if order.len() <= LEAF {
        return;
    }
    let axis = widest(points, order);
    let middle = order.len() / 2;
    order.select_nth_unstable_by(middle, |&a, &b| {
        let (p, q) = (points[a as usize][axis], points[b as usize][axis]);
        p.total_cmp(&q).then(a.cmp(&b))
    });
    axes[middle] = axis as u8;
    let ((low, high), (low_axes, high_axes)) =
        (order.split_at_mut(middle), axes.split_at_mut(middle));
    // The middle itself is in neither half.
    let (high, high_axes) = (&mut high[1..], &mut high_axes[1..]);
    if low.len() < PARALLEL {
        build(points, low, low_axes);
        build(points, high, high_axes);
    } else {
        rayon::join(
            || build(points, low, low_axes),
            || build(points, high, high_axes),
        );
    }
}

impl Tree<'_> {
    /// Puts what is near point `i` among `range` of the order into `best`, nearest first.
    fn search(&self, i: u32, range: Range<usize>, count: usize, best: &mut Vec<(f64, u32)>) {
        if range.len() <= LEAF {
            for &j in &self.order[range] {
                self.offer(i, j, count, best);
            }
            return;
        }
        let middle = range.start + range.len() / 2;
        let (j, axis) = (self.order[middle], usize::from(self.axes[middle]));
        self.offer(i, j, count, best);
        let off = self.points[i as usize][axis] - self.points[j as usize][axis];
        let (low, high) = (range.start..middle, middle + 1..range.end);
        let (near, far) = if off < 0.0 { (low, high) } else { (high, low) };
        self.search(i, near, count, best);
        let is_full = best.len() == count;
        if !is_full
            || best
                .last()
                .is_none_or(|(farthest, _)| off * off <= *farthest)
        {
            self.search(i, far, count, best);
        }
    }

    /// Puts `j` among the best, if it is one of them.
    fn offer(&self, i: u32, j: u32, count: usize, best: &mut Vec<(f64, u32)>) {
        if i == j {
            return;
        }
        let distance = self.points[i as usize].distance_squared(self.points[j as usize]);
        let is_before = |&(d, k): &(f64, u32)| d.total_cmp(&distance).then(k.cmp(&j)).is_lt();
        let place = best.partition_point(is_before);
        if place < count {
            best.insert(place, (distance, j));
            best.truncate(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_those_that_comparing_all_finds() {
        let value = |i: usize, k: f64| ((i as f64 * k).sin() * 43_758.545).fract();
        let mut points: Vec<DVec3> = (0..500)
            .map(|i| DVec3::new(value(i, 1.3), value(i, 2.7), 0.1 * value(i, 5.1)))
            .collect();
        // Coincident ones, more than a leaf holds.
        points.extend([DVec3::splat(0.25); 30]);
        let found = neighbours(&points, 7);
        for (i, found) in found.iter().enumerate() {
            let mut all: Vec<(f64, u32)> = (0..points.len() as u32)
                .filter(|&j| j as usize != i)
                .map(|j| (points[i].distance_squared(points[j as usize]), j))
                .collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let wanted: Vec<u32> = all[..7].iter().map(|(_, j)| *j).collect();
            assert_eq!(*found, wanted, "{i}");
        }
        assert_eq!(neighbours(&points[..3], 7)[0].len(), 2);
        assert!(neighbours(&[], 7).is_empty());
    }
}
