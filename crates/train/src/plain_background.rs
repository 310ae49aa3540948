//! Opaque photos of an object on a plain background: its colour, found at the photos' borders.
//!
//! Splats fill a white background with white Gaussians at any depth, and a run over black never gets rid of
//! them. Over the same colour nothing has to be learnt there.
//!
//! 1. Each of some photos has one colour at nearly all of its border, and all have the same.
//! 2. Photos with alpha have no background, and what masks hide does not count.
//! 3. Where sparse points are seen on that colour it is part of the scene: a wall, an overcast sky.

use crate::TrainConfig;
use crate::views::choose_views;
use dapple_scene::{Camera, Dataset, Photo, Point, Result};
use glam::DVec3;

/// Photos that are looked at, at most; spread evenly.
const LOOKED_AT: usize = 32;

/// Sparse points that are looked up, at most.
const POINTS: usize = 1024;

/// A channel may differ by so much from the background's colour, of 0 to 255: JPEG's noise.
pub(crate) const TOLERANCE: u8 = 6;

/// Part of a photo's border that has the colour, at least, and of all photos' borders together.
const BORDER_OF_ONE: f64 = 0.6;
const BORDER_OF_ALL: f64 = 0.9;

/// Part of the places of sparse points in photos that may have the colour: objects have it too.
const POINTS_ON_IT: f64 = 0.5;

/// A plain background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainBackground {
    /// Its colour, sRGB.
    pub colour: [u8; 3],
    /// True if sparse points are seen on that colour, so that it belongs to the scene.
    pub has_points: bool,
}

impl PlainBackground {
    /// Finds the plain background of the photos that a run trains on; `None` where there is none, and where
    /// no photo is left to train on.
    ///
    /// # Errors
    /// A photo that cannot be read.
    pub fn of(dataset: &Dataset, config: &TrainConfig) -> Result<Option<Self>> {
        let Ok((train, _)) = choose_views(dataset, config) else {
            return Ok(None);
        };
        let Some(colour) = colour(dataset, &train)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            colour,
            has_points: has_points(dataset, &train, colour)?,
        }))
    }

    /// The colour as `--background` takes it, and as people say it.
    pub fn name(&self) -> String {
        match self.colour {
            [255, 255, 255] => "white".to_owned(),
            [0, 0, 0] => "black".to_owned(),
            colour => {
                let part = |value: u8| format!("{:.3}", f64::from(value) / 255.0);
                colour.map(part).join(",")
            }
        }
    }
}

fn looked_at(train: &[usize]) -> impl Iterator<Item = usize> + '_ {
    let count = train.len().min(LOOKED_AT);
    (0..count).map(move |i| train[i * train.len() / count])
}

/// The colour at the borders of the photos; `None` where they have none in common.
pub(crate) fn colour(dataset: &Dataset, train: &[usize]) -> Result<Option<[u8; 3]>> {
    let mut found: Option<[u8; 3]> = None;
    let (mut plain, mut all) = (0, 0);
    for index in looked_at(train) {
        let source = &dataset.views[index].photo;
        if source.has_alpha() {
            return Ok(None);
        }
        let border = border(source.read()?.as_ref());
        if border.is_empty() {
            continue;
        }
        let colour = found.unwrap_or_else(|| median(&border));
        let same = border.iter().filter(|&&p| is_near(p, colour)).count();
        // Ordinary captures end here, with the first photo.
        if (same as f64) < BORDER_OF_ONE * border.len() as f64 {
            return Ok(None);
        }
        found = Some(colour);
        plain += same;
        all += border.len();
    }
    let enough = plain as f64 >= BORDER_OF_ALL * f64::from(u32::try_from(all).unwrap_or(u32::MAX));
    Ok(found.filter(|_| enough))
}

fn is_near(pixel: [u8; 3], colour: [u8; 3]) -> bool {
    let mut channels = pixel.iter().zip(colour);
    channels.all(|(&a, b)| a.abs_diff(b) <= TOLERANCE)
}

/// The outermost pixels of a photo that count.
fn border(photo: &Photo) -> Vec<[u8; 3]> {
    let (width, height) = (photo.width as usize, photo.height as usize);
    let pixels = photo.rgb.as_chunks::<3>().0;
    let rows = (0..width).chain((width * height).saturating_sub(width)..width * height);
    let columns = (0..height).flat_map(|y| [y * width, y * width + width - 1]);
    let counts = |&i: &usize| photo.mask.as_ref().is_none_or(|mask| mask[i] >= 128);
    rows.chain(columns).filter(counts).map(|i| pixels[i]).collect()
}

fn median(pixels: &[[u8; 3]]) -> [u8; 3] {
    std::array::from_fn(|channel| {
        let mut values: Vec<u8> = pixels.iter().map(|pixel| pixel[channel]).collect();
        let middle = values.len() / 2;
        *values.select_nth_unstable(middle).1
    })
}

/// Returns true if sparse points are seen on this colour.
fn has_points(dataset: &Dataset, train: &[usize], colour: [u8; 3]) -> Result<bool> {
    let every = dataset.points.len().div_ceil(POINTS).max(1);
    let points: Vec<&Point> = dataset.points.iter().step_by(every).collect();
    let (mut on_it, mut seen) = (0usize, 0usize);
    for index in looked_at(train).take(if points.is_empty() { 0 } else { LOOKED_AT }) {
        let view = &dataset.views[index];
        let photo = view.photo.read()?;
        let pixels = photo.rgb.as_chunks::<3>().0;
        for point in &points {
            let world = DVec3::from(point.position.map(f64::from));
            if let Some(pixel) = pinhole_pixel(&view.camera, world) {
                seen += 1;
                on_it += usize::from(is_near(pixels[pixel], colour));
            }
        }
    }
    Ok(on_it as f64 > POINTS_ON_IT * seen as f64)
}

/// The pixel that shows a world point, the lens left out: it moves none from an object onto its background.
fn pinhole_pixel(camera: &Camera, world: DVec3) -> Option<usize> {
    let seen = camera.camera_from_world.transform(world);
    let at = camera.project_pinhole(seen)?;
    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
    let inside = (0.0..width).contains(&at.x) && (0.0..height).contains(&at.y);
    inside.then(|| at.y as usize * camera.width as usize + at.x as usize)
}
