//! Several engines as one. Each *rank* has an engine that holds a part of the Gaussians, a range of their indices.
//!
//! - [`RanksEngine`]: an [`Engine`](dapple_engine::Engine) over the ranks of this process. Training does not know that
//!   there are several.
//! - [`Link`]: bytes between ranks. [`threads`] joins ranks of one process.
//! - [`serve`]: a rank of another process. The first process trains with [`RanksEngine::lead`] and sends commands to
//!   the others.
//!
//! A step on a view ([`dapple_engine::sharded`]): every rank projects its own Gaussians and sends the visible ones to
//! the rank of the view, which renders the whole view, compares it with its photo and returns the sums of gradients.
//! With several views per step ([`dapple_engine::Batch`]) the views of a step are on different ranks at the same time.
//! Gradients of views are added in the order of the views.
//!
//! Only bytes and whole numbers travel; no sum of floats depends on the number of ranks. Results have the same bits for
//! any number of ranks of one kind of engine.

mod command;
mod engine;
mod instruments;
mod link;
mod parts;
mod rank;
mod relocation;
mod round;
mod sharing;
mod wire;

pub use command::serve;
pub use dapple_engine::instruments::RankTimes;
pub use engine::RanksEngine;
#[cfg(feature = "mpi")]
pub use link::MpiLink;
pub use link::{Link, threads};
