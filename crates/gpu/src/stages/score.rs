//! `score`: how far a render is from its photo, and what of that is shown. See `shaders/score.wgsl`.

use crate::layout::groups;
use crate::{Buffers, Context};
use dapple_runtime::{Kernel, Recording};
use dapple_scene::Result;

/// Where the photo lies that is compared with; shaders name it `photo`.
pub const PHOTO: &str = "score_photo";

/// Four floats a tile: squared error, absolute error, lost similarity, 0.
pub const PARTIALS: &str = "score_partials";

/// Two pictures, each of [`picture_words`].
pub const PICTURES: &str = "score_pictures";

/// Words of a picture of so many pixels, three bytes each.
pub fn picture_words(pixels: u64) -> u64 {
    3 * pixels.div_ceil(4)
}

/// The kernels of `score`.
#[derive(Debug, Clone)]
pub struct Score {
    sums: Kernel,
    pictures: Kernel,
}

impl Score {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// The driver refuses one.
    pub fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            sums: context.kernel("score", "sums")?,
            pictures: context.kernel("score", "pictures")?,
        })
    }

    /// Appends the span `score`: from `image` and the photo of the present view to the sums by tile, and
    /// to pictures where they are asked for.
    ///
    /// # Errors
    /// A buffer is missing.
    pub fn record(
        &self,
        context: &Context,
        buffers: &Buffers,
        recording: &mut Recording,
        pictures: bool,
    ) -> Result<()> {
        recording.span("score");
        let kernels = [Some(&self.sums), pictures.then_some(&self.pictures)];
        for kernel in kernels.into_iter().flatten() {
            let photo = [("photo", buffers.get(PHOTO)?)];
            let bound = buffers.bind_with(&context.gpu, kernel, &photo)?;
            recording.dispatch(bound, buffers.groups(groups::PIXELS)?);
        }
        Ok(())
    }
}
