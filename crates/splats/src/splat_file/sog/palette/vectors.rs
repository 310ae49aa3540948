//! Vectors that a palette approximates.

/// Vectors, `[N, dim]`, and their weights.
#[derive(Clone, Copy)]
pub(in super::super) struct Vectors<'a> {
    pub values: &'a [f32],
    pub dim: usize,
    pub weights: &'a [f32],
}

impl<'a> Vectors<'a> {
    pub(super) fn row(&self, row: u32) -> &'a [f32] {
        &self.values[row as usize * self.dim..][..self.dim]
    }

    /// Computes a vector's squared distance from a centre.
    pub(super) fn distance(&self, row: u32, centre: &[f32]) -> f32 {
        let pairs = self.row(row).iter().zip(centre);
        pairs.map(|(a, b)| (a - b) * (a - b)).sum()
    }
}
