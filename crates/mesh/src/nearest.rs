//! Nearest point of a set: a k-d tree that splits the widest side, so that points in a plane are no special case.

use glam::Vec3;

/// Points of a leaf.
const LEAF: usize = 12;

/// Index of points.
#[derive(Debug, Default)]
pub struct Nearest {
    /// Points and their indices, in the order of the tree: the middle of a range splits it.
    points: Vec<(Vec3, u32)>,
    /// Axis of the split at each middle.
    axes: Vec<u8>,
}

impl Nearest {
    /// Indexes points.
    pub fn new(points: &[Vec3]) -> Self {
        let mut found = Self {
            points: points.iter().zip(0..).map(|(&p, i)| (p, i)).collect(),
            axes: vec![0; points.len()],
        };
        split(&mut found.points, &mut found.axes);
        found
    }

    /// Returns the nearest point as its index and its distance; `None` without points.
    pub fn find(&self, place: Vec3) -> Option<(usize, f32)> {
        let mut best = (f32::INFINITY, u32::MAX);
        self.search(place, 0, self.points.len(), &mut best);
        (best.1 != u32::MAX).then(|| (best.1 as usize, best.0.sqrt()))
    }

    fn search(&self, place: Vec3, start: usize, end: usize, best: &mut (f32, u32)) {
        let mut visit = |(p, i): (Vec3, u32)| {
            let found = (place.distance_squared(p), i);
            if found < *best {
                *best = found;
            }
        };
        if end - start <= LEAF {
            self.points[start..end].iter().copied().for_each(visit);
            return;
        }
        let middle = start.midpoint(end);
        visit(self.points[middle]);
        let axis = usize::from(self.axes[middle]);
        let aside = place[axis] - self.points[middle].0[axis];
        let sides = [(start, middle), (middle + 1, end)];
        let (near, far) = if aside < 0.0 {
            (sides[0], sides[1])
        } else {
            (sides[1], sides[0])
        };
        self.search(place, near.0, near.1, best);
        if aside * aside <= best.0 {
            self.search(place, far.0, far.1, best);
        }
    }
}

/// Sorts a range around its middle along its widest side, then both halves.
fn split(points: &mut [(Vec3, u32)], axes: &mut [u8]) {
    if points.len() <= LEAF {
        return;
    }
    let first = points[0].0;
    let fold = |(low, high): (Vec3, Vec3), (p, _): &(Vec3, u32)| (low.min(*p), high.max(*p));
    let (low, high) = points.iter().fold((first, first), fold);
    let size = high - low;
    let axis = (0..3).fold(0, |axis, k| if size[k] > size[axis] { k } else { axis });
    let middle = points.len() / 2;
    points.select_nth_unstable_by(middle, |a, b| {
        a.0[axis].total_cmp(&b.0[axis]).then(a.1.cmp(&b.1))
    });
    axes[middle] = axis as u8;
    let (left, right) = points.split_at_mut(middle);
    let (left_axes, right_axes) = axes.split_at_mut(middle);
    rayon::join(
        || split(left, left_axes),
        || split(&mut right[1..], &mut right_axes[1..]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_points_in_a_plane_is_found() {
        let points: Vec<Vec3> = (0..500)
            .map(|i| Vec3::new((i * 37 % 101) as f32, (i * 53 % 97) as f32, 0.0))
            .collect();
        let tree = Nearest::new(&points);
        for i in 0..50 {
            let place = Vec3::new(i as f32 * 2.1, 60.0 - i as f32, 3.0);
            let least = points
                .iter()
                .map(|p| p.distance(place))
                .fold(f32::INFINITY, f32::min);
            let (found, distance) = tree.find(place).unwrap();
            assert!((distance - least).abs() < 1e-4);
            assert!((points[found].distance(place) - least).abs() < 1e-4);
        }
        assert!(Nearest::new(&[]).find(Vec3::ZERO).is_none());
        assert_eq!(
            Nearest::new(&[Vec3::ONE; 100]).find(Vec3::ONE),
            Some((0, 0.0))
        );
    }
}
