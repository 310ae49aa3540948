//! Surface: extraction from the signed distances, cleaning, simplification.

mod cells;
mod extract;

pub use extract::extract;
