//! What makes one permutation of a step differ from another. A pass names the bits that it understands, and
//! shares kernels and recordings between all commands that differ in others alone.

use crate::layout;
use dapple_engine::{LossTerm, RenderSettings, StepSettings};
use dapple_runtime::Defines;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// A set of bits; the default, none, is a plain step on a pinhole's view.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bits(u32);

/// The list of bits: each has a place of its own by its order, and its name is its shaders' flag.
macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the constants")]
        enum Place { $($name),+ }

        impl Bits {
            $($(#[$doc])* pub const $name: Self = Self(1 << Place::$name as u32);)+

            /// Every bit, with its name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name))),+];
        }
    };
}

bits! {
    /// With regularisers and noise, see [`dapple_engine::Extras`].
    EXTRAS,
    /// With density statistics of absolute gradients.
    ABSOLUTE,
    /// With depths: a loss that looks at them, or a render that is asked for them.
    DEPTH,
    /// Through a lens that distorts.
    LENS,
    /// Through the filters against aliasing.
    ANTIALIAS,
    /// With pose refinement around `update`, whose kernel stays the same.
    POSES,
    /// With the photo's appearance around `loss`.
    APPEARANCE,
    /// Through the photo's look.
    LOOK,
    /// With a loss of crops.
    CROPS,
    /// A render that nothing goes back from.
    IMAGE_ONLY,
    /// Gradients are written out.
    GRADIENTS,
    /// A render is compared with its photo.
    SCORE,
    /// What is compared is also shown.
    PICTURES,
    /// Density control relocates and adds, in place of cloning and splitting.
    RELOCATE,
    /// Gaussians are put into Morton order.
    REORDER,
    /// A render is rounded to bytes.
    BYTES,
    /// Pixels of a render count what they blend.
    COUNTS,
}

impl Bits {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// These and `more`; as `|`, where constants are made.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// These, less `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// `bits` if `on`.
    #[must_use]
    pub const fn when(on: bool, bits: Self) -> Self {
        if on { bits } else { Self::NONE }
    }

    /// Whether all of `others` are among these.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether some of `others` are among these.
    pub const fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// What these settings ask for, on a view whose lens distorts or does not, and whose depths are known
    /// or not.
    pub fn of_step(settings: &StepSettings, lens: bool, knows_depths: bool) -> Self {
        let absolute = settings.accumulate_density && settings.extras.absolute_density;
        let depth = settings.losses[LossTerm::Depth] > 0.0 && knows_depths;
        Self::of_render(&settings.render, lens)
            | Self::when(settings.adds_to_update(), Self::EXTRAS)
            | Self::when(absolute, Self::ABSOLUTE)
            | Self::when(depth, Self::DEPTH)
            | Self::when(!settings.pose_rates.are_off(), Self::POSES)
            | Self::when(settings.appearance.is_some(), Self::APPEARANCE)
            | Self::when(settings.look.is_some(), Self::LOOK)
            | Self::when(settings.losses[LossTerm::Perceptual] != 0.0, Self::CROPS)
    }

    /// How a render brings Gaussians onto the image.
    pub fn of_render(settings: &RenderSettings, lens: bool) -> Self {
        Self::when(lens, Self::LENS) | Self::when(settings.antialias, Self::ANTIALIAS)
    }

    /// Numbers of an instance beside its slot's: see `shaders/shared/extra_slots.wgsl`.
    pub const fn extra_floats(self) -> u32 {
        2 * self.has(Self::ABSOLUTE) as u32 + self.has(Self::DEPTH) as u32
    }

    /// What shaders of this permutation are compiled with.
    pub fn define(self, defines: Defines) -> Defines {
        let flags = Self::ALL
            .iter()
            .filter(|(bit, _)| *bit != Self::ANTIALIAS && self.has(*bit));
        let defines = flags.fold(defines, |defines, (_, name)| defines.flag(name, true));
        let defines = defines.flag("EXTRA_SLOTS", self.extra_floats() > 0);
        layout::antialias(defines, self.has(Self::ANTIALIAS))
    }
}

impl BitOr for Bits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Bits {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Bits {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::ALL.iter().filter(|(bit, _)| self.has(*bit));
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}
