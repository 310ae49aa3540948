//! Tensors, plans, layers and optimizers of `dapple-tensor` for Python.
//!
//! 1. [`owner`]: the device of tensors, and the process and lock under which it works.
//! 2. [`arguments`], [`arrays`], [`images`], [`indexing`]: arguments of Python, checked before `dapple-tensor` receives them.
//! 3. [`node`], [`methods`]: the class `Tensor`; one row for each operation. A mistake raises at the operation.
//! 4. [`plan`], [`layers`], [`optimizer`], [`files`]: the other classes and functions.

mod arguments;
mod arrays;
mod files;
mod images;
mod indexing;
mod layers;
mod leaves;
mod methods;
mod node;
mod optimizer;
mod owner;
mod plan;

pub use files::{load, save};
pub use layers::{PyLinear, PyLora};
pub use leaves::{cat, full, indices, normal, tensor, zeros};
pub use node::PyTensor;
pub use optimizer::{PyAdam, adamw};
pub use owner::{PyContext, context};
pub use plan::PyPlan;
