//! Scores: a render compared with its photo where both are. See `shaders/score.wgsl`.
//!
//! 1. The photo goes up into a buffer of its own, which the next one takes over.
//! 2. The view is rendered as for a picture; then the kernels of `score` run over what is there.
//! 3. Sums by tile come down, and with them bytes of pictures where they are asked for: 6 a pixel, where a
//!    render has 16. The host adds the tiles up.

use super::{GpuEngine, not_recorded};
use crate::layout;
use crate::messages::render_immediates;
use crate::photos::{pack, packed_bytes};
use crate::stages::score::{PARTIALS, PHOTO, PICTURES, picture_words};
use crate::views::counted;
use dapple_engine::{Pictures, PosedCamera, RenderSettings, ScoreAsks, ScoredView};
use dapple_scene::{Camera, Photo, Result};

/// Bytes of [`PARTIALS`] for a tile.
const PARTIAL_BYTES: u64 = size_of::<[f32; 4]>() as u64;

impl GpuEngine {
    /// Renders and compares; waits for it. `None` where the photo has another size than the camera, or
    /// leaves no window of SSIM.
    pub(super) fn scored(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        photo: &Photo,
        asks: ScoreAsks,
    ) -> Result<Option<ScoredView>> {
        let camera = PosedCamera::new(camera)?;
        if camera.size != [photo.width, photo.height] {
            return Ok(None);
        }
        let (pixels, windows) = counted(&camera, Some(photo));
        if pixels == 0 || windows == 0 {
            return Ok(None);
        }
        self.settle()?;
        self.fit_score(&camera, asks)?;
        self.bring(photo)?;
        let state = self.forward(&camera, settings, true, false)?;
        let mut immediates = render_immediates(settings, self.sh_degree, self.default_cap);
        if photo.mask.is_some() {
            immediates.flags |= layout::FLAG_MASK;
        }
        let Some(recordings) = &mut self.recordings else {
            return Err(not_recorded());
        };
        let recording = recordings.score(
            &self.context,
            &mut self.stages,
            &self.buffers,
            asks.pictures,
        )?;
        let gpu = &self.context.gpu;
        let mut encoder = gpu.encoder();
        recording.encode(&mut encoder, bytemuck::bytes_of(&immediates));
        let tiles = camera.tile_count();
        let mut partials =
            gpu.begin_read::<[f32; 4]>(&mut encoder, self.buffers.get(PARTIALS)?, 0, tiles)?;
        let bytes = 3 * camera.pixel_count();
        let offsets = [0, 4 * picture_words(camera.pixel_count() as u64)];
        let mut shown = Vec::new();
        for offset in offsets.into_iter().filter(|_| asks.pictures) {
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
        Ok(Some(ScoredView {
            counts: super::pictures::counts_of(&state, &camera),
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
        }))
    }

    /// Makes room for what scoring leaves of a camera's image.
    fn fit_score(&mut self, camera: &PosedCamera, asks: ScoreAsks) -> Result<()> {
        let pixels = camera.pixel_count() as u64;
        let pictures = match asks.pictures {
            true => 2 * 4 * picture_words(pixels),
            false => 0,
        };
        self.fit_buffer(PHOTO, packed_bytes(pixels, true))?;
        self.fit_buffer(PARTIALS, camera.tile_count() as u64 * PARTIAL_BYTES)?;
        self.fit_buffer(PICTURES, pictures)
    }

    /// Makes a buffer of scoring, or makes it anew where it is too small.
    fn fit_buffer(&mut self, name: &'static str, bytes: u64) -> Result<()> {
        let has = self.buffers.get(name).map_or(0, |buffer| buffer.size());
        if has < bytes {
            let buffer = self.context.gpu.buffer(name, bytes)?;
            self.buffers.set(name, buffer);
            if let Some(recordings) = &mut self.recordings {
                recordings.forget_scores();
            }
        }
        Ok(())
    }

    /// Copies a photo up, after all that was submitted.
    fn bring(&self, photo: &Photo) -> Result<()> {
        let bytes = packed_bytes(photo.pixel_count() as u64, photo.mask.is_some());
        let buffer = self.buffers.get(PHOTO)?;
        let mut upload = self.context.gpu.begin_upload(buffer, 0, bytes)?;
        pack(photo, &mut |words| upload.put(words));
        upload.finish();
        Ok(())
    }
}
