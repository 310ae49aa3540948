//! Comparison of meshes with the truth, with photos and with sparse points.

mod align;
mod compare;
mod photos;
mod samples;

pub use compare::{Comparison, Rules, Share, compare, extent};
pub use photos::{PhotoScore, SparsePoint, picture, score_photos, sparse_distance, to_triangle};
pub use samples::{samples, thinned};
