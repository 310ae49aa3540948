//! Results of a rendered view, row by row, on the engine's own threads: colours, bytes, counts.

use super::CpuEngine;
use crate::features::depth::kernels::untiled;
use crate::frame::{CameraF32, PLANES, tiled};
use crate::simd::{ROW, Row};
use crate::stages::{contributors, surface};
use dapple_engine::score::to_byte;
use dapple_engine::{
    BlendCounts, Contributors, DepthImage, RenderSettings, Rendered, RenderedBytes, SurfaceImage,
};
use rayon::prelude::*;

/// Returns the four planes of a row's pixels: red, green, blue and transmittance of an image.
fn row_of<'a>(
    image: &'a [Row],
    camera: &'a CameraF32,
    y: usize,
) -> impl Iterator<Item = [f32; PLANES]> + 'a {
    (0..camera.size[0] as usize).map(move |x| {
        let (row, lane) = tiled(camera, x, y);
        std::array::from_fn(|plane| image[row + plane * ROW].0[lane])
    })
}

impl CpuEngine {
    /// Returns the rendered image.
    pub(super) fn image(&self, camera: &CameraF32, depths: bool) -> Rendered {
        let [width, height] = camera.size.map(|v| v as usize);
        let mut rgb = vec![0.0; 3 * width * height];
        let mut alpha = vec![0.0; width * height];
        let image = &self.frame.image;
        self.pool.install(|| {
            let rows = rgb
                .par_chunks_mut(3 * width)
                .zip(alpha.par_chunks_mut(width));
            rows.enumerate().for_each(|(y, (rgb, alpha))| {
                let places = rgb.chunks_exact_mut(3).zip(alpha);
                for ((rgb, alpha), [r, g, b, rest]) in places.zip(row_of(image, camera, y)) {
                    rgb.copy_from_slice(&[r, g, b]);
                    *alpha = 1.0 - rest;
                }
            });
        });
        Rendered {
            width: camera.size[0],
            height: camera.size[1],
            rgb,
            alpha,
            depth: depths.then(|| DepthImage {
                blended: untiled(camera, &self.frame.depth.blended),
                median: untiled(camera, &self.frame.depth.median),
            }),
            surface: None,
            counts: self.frame.counts,
        }
    }

    /// Runs `surface` after the stages up to `blend`.
    pub(super) fn find_surface(&mut self, camera: &CameraF32, settings: &RenderSettings) {
        let filter_3d = self.model.filters(settings.antialias);
        let cap = settings.max_gaussians_per_tile;
        surface::run(&self.model.params, filter_3d, camera, cap, &mut self.frame);
    }

    /// Returns the surface that [`Self::find_surface`] has found.
    pub(super) fn surface(&self, camera: &CameraF32) -> SurfaceImage {
        let [width, height] = camera.size.map(|v| v as usize);
        let rows = &self.frame.surface.rows;
        let mut depth = vec![0.0; width * height];
        let mut normal = vec![[0.0; 3]; width * height];
        self.pool.install(|| {
            let lines = depth
                .par_chunks_mut(width)
                .zip(normal.par_chunks_mut(width));
            lines.enumerate().for_each(|(y, (depth, normal))| {
                let places = depth.iter_mut().zip(normal);
                for ((depth, normal), [z, a, b, c]) in places.zip(row_of(rows, camera, y)) {
                    *depth = z;
                    *normal = [a, b, c];
                }
            });
        });
        SurfaceImage { depth, normal }
    }

    /// Returns the rendered image as bytes.
    pub(super) fn image_bytes(&self, camera: &CameraF32) -> RenderedBytes {
        let [width, height] = camera.size.map(|v| v as usize);
        let mut rgba = vec![0; 4 * width * height];
        let image = &self.frame.image;
        self.pool.install(|| {
            let rows = rgba.par_chunks_mut(4 * width).enumerate();
            rows.for_each(|(y, row)| {
                let places = row.chunks_exact_mut(4);
                for (place, [r, g, b, rest]) in places.zip(row_of(image, camera, y)) {
                    place.copy_from_slice(&[r, g, b, 1.0 - rest].map(to_byte));
                }
            });
        });
        RenderedBytes {
            width: camera.size[0],
            height: camera.size[1],
            rgba,
            counts: self.frame.counts,
        }
    }

    /// Returns the numbers of blended Gaussians, if `blend` has counted them.
    pub(super) fn blended(&self, camera: &CameraF32) -> BlendCounts {
        let counts = untiled(camera, &self.frame.blended);
        BlendCounts {
            width: camera.size[0],
            height: camera.size[1],
            // Exact: a pixel blends fewer than 2^24, because each takes a share of its transmittance.
            blended: counts.into_iter().map(|count| count as u32).collect(),
            counts: self.frame.counts,
        }
    }

    /// Runs `contributors` after the stages up to `blend`.
    pub(super) fn find_contributors(
        &mut self,
        camera: &CameraF32,
        settings: &RenderSettings,
        most: usize,
    ) {
        let cap = settings.max_gaussians_per_tile;
        contributors::run(camera, cap, most, &mut self.frame);
    }

    /// Returns what [`Self::find_contributors`] has found.
    pub(super) fn contributors_of(&self, camera: &CameraF32, most: usize) -> Contributors {
        let [width, height] = camera.size.map(|v| v as usize);
        let mut gaussians = vec![0; width * height * most];
        let mut weights = vec![0.0; width * height * most];
        let found = &self.frame.contributions;
        self.pool.install(|| {
            let lines = gaussians
                .par_chunks_mut(width * most)
                .zip(weights.par_chunks_mut(width * most));
            lines.enumerate().for_each(|(y, (gaussians, weights))| {
                for x in 0..width {
                    let tile = y / ROW * camera.tiles[0] as usize + x / ROW;
                    let pixel = (tile * ROW + y % ROW) * ROW + x % ROW;
                    for k in 0..most {
                        let contribution = found[pixel * most + k];
                        gaussians[x * most + k] = contribution.gaussian;
                        weights[x * most + k] = contribution.weight;
                    }
                }
            });
        });
        Contributors {
            width: camera.size[0],
            height: camera.size[1],
            most,
            gaussians,
            weights,
            counts: self.frame.counts,
        }
    }
}
