//! The best splats that a given time of training brings.
//!
//! 1. [`calibrate()`]: some steps are timed on the device, at two image sizes and two numbers of
//!    Gaussians; they give a [`CostModel`].
//! 2. [`plan()`]: steps, resolution and the most Gaussians are chosen such that the model fills the time
//!    and the least is expected to be lost.
//! 3. [`Pacer`]: while the run goes on, its real pace is looked at ever more often towards the end. Where
//!    the rest would not end in time, it is given more or fewer steps ([`TrainConfig::pace`]): all
//!    schedules run through what is left of them in those, so that learning rates always end where they
//!    should.
//!
//! Plan and changes of pace depend on the clock and are kept in the configuration: a run that is given it
//! back has the same bytes, on any machine's clock.
//!
//! [`TrainConfig::pace`]: crate::TrainConfig::pace

mod calibrate;
mod cost;
mod keep;
mod pacer;
mod plan;

pub use calibrate::calibrate;
pub use cost::{CostModel, Timed};
pub(crate) use keep::Pacing;
pub use pacer::{Now, Pacer};
pub use plan::{Plan, Wish, plan};
