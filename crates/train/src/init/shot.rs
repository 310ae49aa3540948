//! Small copies of some photos, in which world points are looked up.

use dapple_base::quantiles;
use dapple_scene::{Camera, Dataset, Photo, Rays, Result};
use glam::{DVec2, DVec3};
use rayon::prelude::*;

/// Most photos that are used, spread evenly.
const SHOTS: usize = 100;

/// Longest edge of a copy, pixels.
const EDGE: u32 = 512;

/// Opacity of a pixel, 0 to 255, from which on it shows the scene.
const OPAQUE: u8 = 128;

/// A photo and its camera, reduced.
pub(super) struct Shot {
    pub(super) camera: Camera,
    photo: Photo,
    rays: Rays,
    /// Pixels that show only a plain background, if its colour is known.
    plain: Option<Vec<bool>>,
}

impl Shot {
    /// Copies of the views `train` of a capture.
    ///
    /// # Errors
    /// A photo that cannot be read.
    pub(super) fn read_all(dataset: &Dataset, train: &[usize]) -> Result<Vec<Self>> {
        let count = train.len().min(SHOTS);
        (0..count)
            .into_par_iter()
            .map(|i| {
                let view = &dataset.views[train[i * train.len() / count]];
                let photo = view.photo.read()?;
                let longest = photo.width.max(photo.height);
                let scaled = |edge: u32| (edge * EDGE).div_ceil(longest.max(1)).max(1);
                let photo = match longest > EDGE {
                    true => photo.reduced(scaled(photo.width), scaled(photo.height)),
                    false => photo.as_ref().clone(),
                };
                let camera = view.camera.resized(photo.width, photo.height);
                Ok(Self {
                    rays: Rays::new(&camera),
                    camera,
                    photo,
                    plain: None,
                })
            })
            .collect()
    }

    /// Marks the pixels of this colour that are connected to the photo's border.
    pub(super) fn mark_plain(&mut self, colour: [u8; 3], tolerance: u8) {
        let (width, height) = (self.photo.width as usize, self.photo.height as usize);
        let pixels = self.photo.rgb.as_chunks::<3>().0;
        let is_plain = |i: usize| {
            let apart = |c: usize| pixels[i][c].abs_diff(colour[c]);
            (0..3).all(|c| apart(c) <= tolerance)
        };
        let mut marked = vec![false; width * height];
        let mut open: Vec<usize> = (0..width * height)
            .filter(|&i| {
                let (x, y) = (i % width, i / width);
                x == 0 || y == 0 || x + 1 == width || y + 1 == height
            })
            .collect();
        while let Some(i) = open.pop() {
            if marked[i] || !is_plain(i) {
                continue;
            }
            marked[i] = true;
            let (x, y) = (i % width, i / width);
            open.extend((x > 0).then(|| i - 1));
            open.extend((x + 1 < width).then_some(i + 1));
            open.extend((y > 0).then(|| i - width));
            open.extend((y + 1 < height).then_some(i + width));
        }
        self.plain = Some(marked);
    }

    /// The pixel that shows a world point; `None` outside of the frame.
    pub(super) fn pixel(&self, point: DVec3) -> Option<usize> {
        let camera = &self.camera;
        let p = camera.camera_from_world.transform(point);
        let pixel = self.rays.pixel(p)?;
        let index = pixel.y as usize * camera.width as usize + pixel.x as usize;
        camera.frames(pixel).then_some(index)
    }

    /// Returns true if the pixel shows nothing: it is transparent, or plain background.
    pub(super) fn is_empty(&self, pixel: usize) -> bool {
        self.counts(pixel)
            && (self.photo.alpha.as_ref().is_some_and(|a| a[pixel] == 0)
                || self.plain.as_ref().is_some_and(|plain| plain[pixel]))
    }

    /// The colour of a pixel that shows the scene.
    pub(super) fn colour(&self, pixel: usize) -> Option<[u8; 3]> {
        let opaque = self.photo.alpha.as_ref().is_none_or(|a| a[pixel] >= OPAQUE);
        let shows = opaque && self.counts(pixel) && !self.is_empty(pixel);
        shows.then(|| self.photo.rgb.as_chunks::<3>().0[pixel])
    }

    fn counts(&self, pixel: usize) -> bool {
        self.photo.mask.as_ref().is_none_or(|m| m[pixel] >= OPAQUE)
    }

    /// Number of pixels.
    pub(super) fn pixels(&self) -> usize {
        self.photo.pixel_count()
    }

    /// The part of the pixels that is not empty.
    pub(super) fn filled(&self) -> f64 {
        let filled = (0..self.pixels()).filter(|&i| !self.is_empty(i)).count();
        filled as f64 / self.pixels().max(1) as f64
    }

    /// The direction in the world of the ray through a pixel's centre, with a depth of 1; `None`
    /// where the lens shows nothing.
    pub(super) fn ray(&self, pixel: usize) -> Option<DVec3> {
        let camera = &self.camera;
        let width = camera.width as usize;
        let at = DVec2::new((pixel % width) as f64, (pixel / width) as f64) + 0.5;
        Some(camera.camera_from_world.rotation.conjugate() * self.rays.ray(at)?)
    }
}

/// The median of the colours that photos show where they see a point, channel by channel; `None` where none
/// does.
pub(super) fn seen_colour(shots: &[Shot], point: DVec3) -> Option<[u8; 3]> {
    let colours = shots.iter().filter_map(|s| s.colour(s.pixel(point)?));
    let mut channels: [Vec<u8>; 3] = Default::default();
    for colour in colours {
        for (channel, value) in channels.iter_mut().zip(colour) {
            channel.push(value);
        }
    }
    let [r, g, b] = channels.map(quantiles::median);
    Some([r?, g?, b?])
}
