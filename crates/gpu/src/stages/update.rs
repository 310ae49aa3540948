//! `update`: from slots to new parameters; `gradients`: the same, written out instead.

use crate::layout::groups;
use crate::optics::Optics;
use crate::{Buffers, Context};
use dapple_engine::StepSettings;
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// What both begin with: `splat_gradients` from `slots`; see `shaders/slot_sums.wgsl`.
#[derive(Debug, Clone)]
struct SlotSums {
    kernel: Kernel,
}

impl SlotSums {
    fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            kernel: context.kernel("slot_sums", "slot_sums")?,
        })
    }

    fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.kernel)?;
        recording.dispatch(bound, buffers.groups(groups::SLOT_SUMS)?);
        Ok(())
    }
}

/// The stage `update`; see `shaders/update.wgsl`.
#[derive(Debug, Clone)]
pub struct Update {
    sums: SlotSums,
    absolute_sums: Option<Kernel>,
    update: Kernel,
}

/// Which permutation of a step's kernels: what views through a lens, and runs other than the default, ask
/// for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// With regularisers and noise, see [`dapple_engine::Extras`].
    pub extras: bool,
    /// With density statistics of absolute gradients.
    pub absolute: bool,
    /// How Gaussians come onto the image.
    pub optics: Optics,
    /// With pose refinement around `update`, whose kernel stays the same.
    pub poses: bool,
    /// With the photo's appearance: no matter for `blend_backward` and `update`.
    pub appearance: bool,
}

impl Mode {
    /// That of the step's second half, which knows of no appearance.
    pub fn of_back(self) -> Self {
        Self {
            appearance: false,
            ..self
        }
    }

    /// How many there are.
    pub const COUNT: usize = 16 * Optics::COUNT;

    /// What these settings ask for, on a view whose lens distorts or does not.
    pub fn of(settings: &StepSettings, lens: bool) -> Self {
        Self {
            extras: !settings.extras.are_off(),
            absolute: settings.accumulate_density && settings.extras.absolute_density,
            optics: Optics {
                lens,
                antialias: settings.render.antialias,
            },
            poses: !settings.pose_rates.are_off(),
            appearance: settings.appearance.is_some(),
        }
    }

    /// Its number, below [`Self::COUNT`]; 0 is the default.
    pub fn index(self) -> usize {
        usize::from(self.extras)
            + 2 * usize::from(self.absolute)
            + 4 * self.optics.index()
            + 4 * Optics::COUNT * usize::from(self.appearance)
            + 8 * Optics::COUNT * usize::from(self.poses)
    }

    /// The mode whose kernels of `blend_backward` and `update` this one uses.
    #[must_use]
    pub fn without_poses(self) -> Self {
        Self {
            poses: false,
            ..self
        }
    }
}

impl Update {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, mode: Mode) -> Result<Self> {
        let defines = context.defines.clone().flag("EXTRAS", mode.extras);
        let defines = mode.optics.define(defines.flag("ABSOLUTE", mode.absolute));
        let (gpu, shaders) = (&context.gpu, &context.shaders);
        let absolute_sums = || context.kernel("absolute_sums", "absolute_sums");
        Ok(Self {
            sums: SlotSums::new(context)?,
            absolute_sums: mode.absolute.then(absolute_sums).transpose()?,
            update: Kernel::new(gpu, shaders, "update", "update", &defines)?,
        })
    }

    /// Records the stage. Reads `slots` and what the stages before left of visible
    /// Gaussians; changes
    /// parameters, moments and, with [`crate::layout::FLAG_DENSITY`], `stats`.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        self.record_sums(context, buffers, recording)?;
        self.record_step(context, buffers, recording)
    }

    /// The first half of [`Self::record`]: sums of slots.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record_sums(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("update");
        self.sums.record(context, buffers, recording)?;
        if let Some(kernel) = &self.absolute_sums {
            let bound = buffers.bind(&context.gpu, kernel)?;
            recording.dispatch(bound, buffers.groups(groups::VISIBLE)?);
        }
        Ok(())
    }

    /// The second half: what changes parameters.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record_step(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        let bound = buffers.bind(&context.gpu, &self.update)?;
        recording.dispatch(bound, buffers.groups(groups::UPDATE)?);
        Ok(())
    }
}

/// `update` without a step; see `shaders/gradients.wgsl`.
#[derive(Debug, Clone)]
pub struct Gradients {
    sums: SlotSums,
    gradients: Kernel,
}

impl Gradients {
    /// Compiles its kernels.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn new(context: &Context, optics: Optics) -> Result<Self> {
        Ok(Self {
            sums: SlotSums::new(context)?,
            gradients: context.optical_kernel("gradients", "gradients", optics)?,
        })
    }

    /// Records it. Writes `gradient_geometry` `[14, capacity]`, `gradient_sh`
    /// `[(K - 1) * 3, capacity]`, `gradient_means2d` `[2, capacity]` and, six floats for every 256
    /// Gaussians, `gradient_pose`.
    ///
    /// # Errors
    /// A buffer that is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
    ) -> Result<()> {
        recording.span("gradients");
        self.sums.record(context, buffers, recording)?;
        let bound = buffers.bind(&context.gpu, &self.gradients)?;
        recording.dispatch(bound, buffers.groups(groups::GAUSSIANS)?);
        Ok(())
    }
}
