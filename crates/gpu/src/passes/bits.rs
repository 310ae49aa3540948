//! [`Bits`]: the differences between permutations of a step. A pass declares the bits that it understands. Commands
//! that differ only in other bits share its kernels and command lists.

use crate::layout;
use dapple_engine::{CameraModel, RenderSettings, StepSettings};
use dapple_runtime::Defines;
use dapple_scene::Panorama;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// A set of bits; the default, none, is a plain step on a pinhole's view.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bits(u32);

/// Declares the bits: the order gives the position of each, and its name is the flag of its shaders.
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
    /// Regularisers and noise.
    EXTRAS,
    /// Density statistics of absolute gradients.
    ABSOLUTE,
    /// Depths: a loss with a depth term, or a render with a depth image.
    DEPTH,
    /// A lens that distorts.
    LENS,
    /// An image that is a ring: its left and right edges meet.
    RING,
    /// The projection of an equirectangular panorama.
    EQUIRECT,
    /// The projection of a cylindrical panorama.
    CYLINDER,
    /// A loss of the planes of Gaussians: a second blend.
    NORMALS,
    /// A loss with a term of matching photos.
    MATCHING,
    /// The filters against aliasing.
    ANTIALIAS,
    /// Pose refinement around `update`, whose kernel stays the same.
    POSES,
    /// The photo's bilateral grid around `loss`.
    APPEARANCE,
    /// The photometric model of the photo around `loss`.
    PHOTOMETRIC,
    /// The photo's appearance MLP.
    MLP,
    /// A loss of crops.
    CROPS,
    /// A render without a backward pass.
    IMAGE_ONLY,
    /// Gradients are written out.
    GRADIENTS,
    /// The engine holds a part of the model.
    SHARDED,
    /// A step of a batch of several.
    BATCH,
    /// A step of a batch that is not its last.
    BATCH_OPEN,
    /// A render is compared with its photo.
    SCORE,
    /// The compared images are also returned as pictures.
    PICTURES,
    /// Density control relocates and adds, instead of cloning and splitting.
    RELOCATE,
    /// Gaussians are put into Morton order.
    REORDER,
    /// A render is rounded to bytes.
    BYTES,
    /// Pixels of a render count the Gaussians that they blend.
    COUNTS,
    /// A render with the surface of each pixel.
    SURFACE,
    /// A render with the Gaussians that each pixel shows most.
    CONTRIBUTORS,
    /// A render of chosen tiles.
    CHOSEN_TILES,
    /// A render of several views.
    FRAMES,
}

impl Bits {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Bits of camera models; none of them is a pinhole.
    pub const CAMERA: Self = Self::LENS
        .with(Self::RING)
        .with(Self::EQUIRECT)
        .with(Self::CYLINDER);

    /// Features that correct the image before `loss`, which then compares the tensor `corrected`.
    pub const CORRECTED: Self = Self::APPEARANCE.with(Self::PHOTOMETRIC);

    /// Returns these bits and `more`; like `|`, for constants.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Returns these bits without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns `bits` if `on`, else none.
    #[must_use]
    pub const fn when(on: bool, bits: Self) -> Self {
        if on { bits } else { Self::NONE }
    }

    /// Returns true if all of `others` are among these.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns true if some of `others` are among these.
    pub const fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the bits of these settings on a view of this camera model, without those of features.
    pub fn of_step(settings: &StepSettings, model: CameraModel) -> Self {
        let absolute = settings.accumulate_density && settings.absolute_density;
        Self::of_render(&settings.render, model)
            | Self::when(absolute, Self::ABSOLUTE)
            | Self::when(!settings.batch.is_single(), Self::BATCH)
            | Self::when(!settings.batch.is_last(), Self::BATCH_OPEN)
    }

    /// Returns the bits of the projection of a render.
    pub fn of_render(settings: &RenderSettings, model: CameraModel) -> Self {
        Self::of_camera(model) | Self::when(settings.antialias, Self::ANTIALIAS)
    }

    /// Returns the bits of a camera model.
    pub const fn of_camera(model: CameraModel) -> Self {
        match model {
            CameraModel::Pinhole => Self::NONE,
            CameraModel::Lens => Self::LENS,
            CameraModel::Panorama(Panorama::Equirectangular) => Self::RING.with(Self::EQUIRECT),
            CameraModel::Panorama(Panorama::Cylindrical) => Self::RING.with(Self::CYLINDER),
        }
    }

    /// Returns the numbers of an instance in addition to those of its gradient slot: see
    /// `shaders/shared/extra_slots.wgsl`.
    pub const fn extra_floats(self) -> u32 {
        2 * self.has(Self::ABSOLUTE) as u32 + self.has(Self::DEPTH) as u32
    }

    /// Adds the definitions with which shaders of this permutation are compiled.
    pub fn define(self, defines: Defines) -> Defines {
        let flags = Self::ALL
            .iter()
            .filter(|(bit, _)| *bit != Self::ANTIALIAS && self.has(*bit));
        let defines = flags.fold(defines, |defines, (_, name)| defines.flag(name, true));
        let is_pinhole = !self.meets(Self::CAMERA);
        let defines = defines
            .flag("EXTRA_SLOTS", self.extra_floats() > 0)
            .flag("PINHOLE", is_pinhole);
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
