//! Surface: extraction from the signed distances, cleaning, simplification.

mod cells;
mod clean;
mod extract;
mod place;
mod region;
mod simplify;
mod window;

pub use clean::{Cleaned, drop_unseen, drop_unsupported, fill_holes};
pub use extract::extract;
pub use simplify::simplify;
