//! Comparison of meshes with the truth, with photos and with sparse points.

mod align;
mod compare;
mod photos;
mod samples;
mod sparse;

pub use compare::{Comparison, Rules, Share, compare, extent};
pub use photos::{Fidelity, PhotoScore, picture, score_photos};
pub use samples::{samples, thinned};
pub use sparse::{
    CERTAIN, SparseDistance, SparsePoint, SparseScore, sparse_distances, sparse_score, to_triangle,
    vertex_errors,
};
