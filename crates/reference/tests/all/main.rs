//! Integration tests of this crate, as one program: linking is most of the cost of a further
//! program.

mod compare;
mod only_for_tests;
mod reference_gradients;
mod reference_lenses;
mod reference_loss;
mod reference_panoramas;
mod reference_render;
mod reference_strategy;
mod reference_surface;
mod reference_tiles;
