//! The graph: tensors and the functions that create them. No function here computes values.

pub(crate) mod autograd;
pub(crate) mod display;
pub(crate) mod element;
pub(crate) mod layout;
pub(crate) mod norms;
pub(crate) mod operations;
pub(crate) mod operators;
pub(crate) mod problem;
pub(crate) mod products;
pub(crate) mod reductions;
pub(crate) mod tensor;
pub(crate) mod views;
pub(crate) mod windows;
