//! Scores: compares a render with its photo on the GPU. See `shaders/score.wgsl`.
//!
//! 1. The photo is copied up into a separate buffer, which the next photo reuses.
//! 2. The view is rendered like a picture; then the kernels of `score` run over the render.
//! 3. Sums by tile are copied down, and bytes of pictures if they are requested: 6 a pixel, where a render has 16. The
//!    host adds the tiles up.

use super::GpuEngine;
use crate::layout;
use crate::messages::render_immediates;
use crate::passes::Bits;
use crate::photos::{pack, packed_bytes};
use crate::plans::Plan;
use crate::stages::score::{PARTIALS, PHOTO, PICTURES, picture_words};
use crate::views::counted;
use dapple_engine::{Pictures, PosedCamera, RenderSettings, ScoreAsks, ScoredView};
use dapple_scene::{Camera, Photo, Result};

/// Comparison whose photo is on the device.
pub(super) struct PreparedScore {
    /// Camera of the photo.
    pub(super) camera: PosedCamera,
    /// Bits of the render.
    pub(super) bits: Bits,
    /// Pixels and windows that count.
    counted: [u32; 2],
    is_masked: bool,
}

impl GpuEngine {
    /// Renders and compares; waits for the result. `None` where the photo has another size than the camera, or has no
    /// whole window of SSIM.
    pub(super) fn scored(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        let Some(view) = self.prepare_score((camera, settings), photo, asks)? else {
            return Ok(None);
        };
        let state = self.forward(&view.camera, settings, view.bits)?;
        self.compared(&view, settings, &state).map(Some)
    }

    /// Copies the photo up, and sizes the buffers. `None` for a photo that [`Self::scored`] refuses.
    pub(super) fn prepare_score(
        &mut self,
        (camera, settings): (&Camera, &RenderSettings),
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<PreparedScore>> {
        let camera = PosedCamera::new(camera)?;
        if camera.size != [photo.width, photo.height] {
            return Ok(None);
        }
        let (pixels, windows) = counted(&camera, Some(photo));
        if pixels == 0 || windows == 0 {
            return Ok(None);
        }
        self.settle()?;
        self.fit_image(&camera)?;
        let bits = Bits::IMAGE_ONLY | Bits::SCORE | Bits::when(asks.pictures, Bits::PICTURES);
        self.fit(bits | Bits::of_render(settings, camera.model))?;
        self.bring(photo)?;
        Ok(Some(PreparedScore {
            camera,
            bits,
            counted: [pixels, windows],
            is_masked: photo.mask.is_some(),
        }))
    }

    /// Compares the render that ran last with the photo.
    pub(super) fn compared(
        &mut self,
        view: &PreparedScore,
        settings: &RenderSettings,
        state: &layout::State,
    ) -> Result<ScoredView> {
        let PreparedScore { camera, bits, .. } = view;
        let [pixels, windows] = view.counted;
        let has_pictures = bits.has(Bits::PICTURES);
        let mut immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        if view.is_masked {
            immediates.flags |= layout::FLAG_MASK;
        }
        let recording = self.recording(Plan::Score, *bits, 0)?;
        let gpu = &self.context.gpu;
        let mut encoder = gpu.encoder();
        recording.encode(&mut encoder, bytemuck::bytes_of(&immediates));
        let tiles = camera.tile_count();
        let mut partials =
            gpu.begin_read::<[f32; 4]>(&mut encoder, self.buffers.get(PARTIALS)?, 0, tiles)?;
        let bytes = 3 * camera.pixel_count();
        let offsets = [0, 4 * picture_words(camera.pixel_count() as u64)];
        let mut shown = Vec::new();
        for offset in offsets.into_iter().filter(|_| has_pictures) {
            let buffer = self.buffers.get(PICTURES)?;
            shown.push(gpu.begin_read::<u8>(&mut encoder, buffer, offset, bytes)?);
        }
        gpu.submit(encoder);
        gpu.wait()?;
        let mut sums = [0.0f64; 3];
        for partial in partials.finish()? {
            for (sum, value) in sums.iter_mut().zip(partial) {
                *sum += f64::from(value);
            }
        }
        let shown: Vec<Vec<u8>> = shown
            .into_iter()
            .map(|mut bytes| bytes.finish())
            .collect::<Result<_>>()?;
        let windows = 3 * u64::from(windows);
        Ok(ScoredView {
            counts: super::pictures::counts_of(state, camera),
            values: 3 * u64::from(pixels),
            squared_error: sums[0],
            absolute_error: sums[1],
            windows,
            similarity: windows as f64 - sums[2],
            pictures: <[Vec<u8>; 2]>::try_from(shown)
                .ok()
                .map(|[rendered, errors]| Pictures {
                    width: camera.size[0],
                    height: camera.size[1],
                    rendered,
                    errors,
                }),
        })
    }

    /// Copies a photo up, after all commands submitted before.
    fn bring(&self, photo: &Photo) -> Result<()> {
        let bytes = packed_bytes(photo.pixel_count() as u64, photo.mask.is_some());
        let buffer = self.buffers.get(PHOTO)?;
        let mut upload = self.context.gpu.begin_upload(buffer, 0, bytes)?;
        pack(photo, &mut |words| upload.put(words));
        upload.finish();
        Ok(())
    }
}
