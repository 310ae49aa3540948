//! Time budgets: the best splats for a given training time.
//!
//! 1. [`calibrate()`] times some steps on the device, at two image sizes and two numbers of Gaussians. The times give a
//!    [`CostModel`].
//! 2. [`plan()`] chooses steps, resolution and the Gaussian cap, so that the run takes the given time by the model,
//!    with the smallest expected loss of quality.
//! 3. [`StepRateController`] measures the step rate during the run, more often towards the end. If the rest would not
//!    end in time, the run gets more or fewer steps ([`Change::StepRate`]). All schedules run through their
//!    remaining part in these steps, so that learning rates always reach their final values.
//!
//! Plan and step rates depend on measured times and are recorded in the configuration: a run with this
//! configuration has the same bytes, on any machine.
//!
//! [`Change::StepRate`]: crate::Change::StepRate

mod calibrate;
mod cost;
mod keep;
mod pacer;
mod plan;

pub use calibrate::calibrate;
pub use cost::{CostModel, Timed};
pub(crate) use keep::StepRateHook;
pub use pacer::{Now, StepRateController};
pub use plan::{Plan, PlanRequest, SHORT_GROW_GRADIENT, plan};
