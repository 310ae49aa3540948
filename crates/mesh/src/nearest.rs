//! Nearest point of a set.

use glam::Vec3;
use kiddo::{ImmutableKdTree, SquaredEuclidean};

/// Index of points.
pub struct Nearest(Option<ImmutableKdTree<f32, 3>>);

impl Nearest {
    /// Indexes points. They are finite.
    pub fn new(points: &[Vec3]) -> Self {
        let points: Vec<[f32; 3]> = points.iter().map(Vec3::to_array).collect();
        if points.is_empty() {
            return Self(None);
        }
        Self(ImmutableKdTree::new_from_slice(&points).ok())
    }

    /// Returns the nearest point as its index and its distance; `None` without points.
    pub fn find(&self, place: Vec3) -> Option<(usize, f32)> {
        let tree = self.0.as_ref()?;
        let found = tree
            .query(&place.to_array())
            .nearest_one::<SquaredEuclidean<f32>>()
            .execute();
        Some((found.item as usize, found.distance.sqrt()))
    }
}
