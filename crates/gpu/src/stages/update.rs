//! `update`: from slots to new parameters; `gradients`: the same, written out instead.

use crate::layout::groups;
use crate::optics::Optics;
use crate::{Buffers, Context};
use dapple_engine::{LossTerm, StepSettings};
use dapple_runtime::{Defines, Kernel, Recording};
use dapple_scene::Result;

/// What both begin with: `splat_gradients` from `slots`, see `shaders/slot_sums.wgsl`, and
/// `extra_gradients` from `extra_slots`, see `shaders/extra_sums.wgsl`.
#[derive(Debug, Clone)]
struct SlotSums {
    kernel: Kernel,
    extra: Option<Kernel>,
}

impl SlotSums {
    fn new(context: &Context, mode: Mode) -> Result<Self> {
        let defines = mode.define(context.defines.clone());
        let (gpu, shaders) = (&context.gpu, &context.shaders);
        let extra = || Kernel::new(gpu, shaders, "extra_sums", "extra_sums", &defines);
        Ok(Self {
            kernel: context.kernel("slot_sums", "slot_sums")?,
            extra: (mode.extra_floats() > 0).then(extra).transpose()?,
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
        if let Some(kernel) = &self.extra {
            let bound = buffers.bind(&context.gpu, kernel)?;
            recording.dispatch(bound, buffers.groups(groups::VISIBLE)?);
        }
        Ok(())
    }
}

/// The stage `update`; see `shaders/update.wgsl`.
#[derive(Debug, Clone)]
pub struct Update {
    sums: SlotSums,
    update: Kernel,
}

/// Which permutation of a step's kernels: what views through a lens, and runs other than the default, ask
/// for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// With regularisers and noise, see [`StepSettings::adds_to_update`].
    pub extras: bool,
    /// With density statistics of absolute gradients.
    pub absolute: bool,
    /// With a loss that looks at depths.
    pub depth: bool,
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
    pub const COUNT: usize = 32 * Optics::COUNT;

    /// What these settings ask for, on a view whose lens distorts or does not, and whose depths are
    /// known or not.
    pub fn of(settings: &StepSettings, lens: bool, knows_depths: bool) -> Self {
        Self {
            extras: settings.adds_to_update(),
            absolute: settings.accumulate_density && settings.extras.absolute_density,
            depth: settings.losses[LossTerm::Depth] > 0.0 && knows_depths,
            optics: Optics {
                lens,
                antialias: settings.render.antialias,
            },
            poses: !settings.pose_rates.are_off(),
            appearance: settings.appearance.is_some(),
        }
    }

    /// That of gradients which are written out, by depths too or not.
    pub fn of_gradients(depth: bool, optics: Optics) -> Self {
        Self {
            depth,
            optics,
            ..Self::default()
        }
    }

    /// What it makes of `blend_backward`.
    #[must_use]
    pub fn without_extras(self) -> Self {
        Self {
            extras: false,
            ..self
        }
    }

    /// Numbers of an instance beside its slot's: see `shaders/shared/extra_slots.wgsl`.
    pub fn extra_floats(self) -> u32 {
        2 * u32::from(self.absolute) + u32::from(self.depth)
    }

    /// The flags of this permutation, added to others.
    pub fn define(self, defines: Defines) -> Defines {
        defines
            .flag("EXTRAS", self.extras)
            .flag("ABSOLUTE", self.absolute)
            .flag("DEPTH", self.depth)
            .flag("EXTRA_SLOTS", self.extra_floats() > 0)
    }

    /// Compiles entry point `entry` of `shaders/<name>.wgsl` in this permutation.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn kernel(self, context: &Context, name: &str, entry: &str) -> Result<Kernel> {
        let defines = self.optics.define(self.define(context.defines.clone()));
        Kernel::new(&context.gpu, &context.shaders, name, entry, &defines)
    }

    /// Its number, below [`Self::COUNT`]; 0 is the default.
    pub fn index(self) -> usize {
        let flags = [
            self.extras,
            self.absolute,
            self.depth,
            self.appearance,
            self.poses,
        ];
        let bits = flags
            .iter()
            .rev()
            .fold(0, |bits, &flag| 2 * bits + usize::from(flag));
        bits + 32 * self.optics.index()
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
        Ok(Self {
            sums: SlotSums::new(context, mode)?,
            update: mode.kernel(context, "update", "update")?,
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
    pub fn new(context: &Context, mode: Mode) -> Result<Self> {
        Ok(Self {
            sums: SlotSums::new(context, mode)?,
            gradients: mode.kernel(context, "gradients", "gradients")?,
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
