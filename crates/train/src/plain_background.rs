//! Opaque photos of an object on a plain background: its colour, found at the photos' borders.
//!
//! Over a black background, splats fill a white background of photos with white Gaussians at any depth, and the run
//! never removes them. Over the same colour no such Gaussians are needed.
//!
//! 1. Each of some photos has one colour at nearly all of its border, and all have the same colour.
//! 2. Photos with alpha have no background, and masked pixels do not count.
//! 3. If sparse points are seen on that colour, the colour is part of the scene: a wall, an overcast sky.

use crate::TrainConfig;
use crate::config::Background;
use crate::views::choose_views;
use dapple_base::quantiles;
use dapple_scene::{Camera, Dataset, Photo, Point, Result};
use glam::DVec3;

/// Most photos that are tested, spread evenly.
const LOOKED_AT: usize = 32;

/// Most sparse points that are tested.
const POINTS: usize = 1024;

/// Largest difference of a channel from the background's colour, of 0 to 255: JPEG noise.
pub(crate) const TOLERANCE: u8 = 6;

/// Smallest part of a photo's border with the colour, and of all photos' borders together.
const BORDER_OF_ONE: f64 = 0.6;
const BORDER_OF_ALL: f64 = 0.9;

/// Largest part of the projections of sparse points with the colour: objects can have it too.
const POINTS_ON_IT: f64 = 0.5;

/// A plain background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainBackground {
    /// Colour of the background, sRGB.
    pub colour: [u8; 3],
    /// True if sparse points are seen on that colour, so that it belongs to the scene.
    pub has_points: bool,
}

impl PlainBackground {
    /// Finds the plain background of the photos that a run trains on. `None` if there is none, or if no photo is left
    /// to train on.
    ///
    /// # Errors
    /// A photo cannot be read.
    pub fn find_in(dataset: &Dataset, config: &TrainConfig) -> Result<Option<Self>> {
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

    /// Sets the background of a run to the plain background of its photos, if it is black and no sparse points are seen on
    /// that background. Returns a plain background that is not black.
    ///
    /// # Errors
    /// A photo cannot be read.
    pub fn set_in(config: &mut TrainConfig, dataset: &Dataset) -> Result<Option<Self>> {
        if config.background != Background::BLACK {
            return Ok(None);
        }
        let found = Self::find_in(dataset, config)?;
        let found = found.filter(|plain| plain.colour != [0; 3]);
        if let Some(plain) = found.filter(|plain| !plain.has_points) {
            let colour = plain.colour.map(|v| f64::from(v) / 255.0);
            config.background = Background::Colour(colour);
        }
        Ok(found)
    }

    /// Returns the colour as an argument of `--background`, and in words.
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

/// Returns the colour at the borders of the photos; `None` if they share none.
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
        // Ordinary captures end here, at the first photo.
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

/// Returns the outermost pixels of a photo that count.
fn border(photo: &Photo) -> Vec<[u8; 3]> {
    let (width, height) = (photo.width as usize, photo.height as usize);
    let pixels = photo.rgb.as_chunks::<3>().0;
    let rows = (0..width).chain((width * height).saturating_sub(width)..width * height);
    let columns = (0..height).flat_map(|y| [y * width, y * width + width - 1]);
    let counts = |&i: &usize| photo.mask.as_ref().is_none_or(|mask| mask[i] >= 128);
    rows.chain(columns)
        .filter(counts)
        .map(|i| pixels[i])
        .collect()
}

fn median(pixels: &[[u8; 3]]) -> [u8; 3] {
    std::array::from_fn(|channel| {
        let values = pixels.iter().map(|pixel| pixel[channel]).collect();
        quantiles::median(values).unwrap_or_default()
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
                on_it += usize::from(pixels.get(pixel).is_some_and(|&p| is_near(p, colour)));
            }
        }
    }
    Ok(on_it as f64 > POINTS_ON_IT * seen as f64)
}

/// Returns the pixel that shows a world point. Ignores the lens, which does not move a point from an object onto its
/// background.
fn pinhole_pixel(camera: &Camera, world: DVec3) -> Option<usize> {
    let seen = camera.camera_from_world.transform(world);
    let at = camera.project_pinhole(seen)?;
    let (width, height) = (f64::from(camera.width), f64::from(camera.height));
    let inside = (0.0..width).contains(&at.x) && (0.0..height).contains(&at.y);
    inside.then(|| at.y as usize * camera.width as usize + at.x as usize)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use dapple_scene::{Pose, View};

    const SIZE: u32 = 32;

    /// Photos of a square in the middle over the colours that `around` gives by photo and pixel.
    fn photos(around: impl Fn(usize, usize) -> [u8; 3]) -> Dataset {
        let view = |i: usize| {
            let pixel = |p: usize| {
                let inside = |v: usize| (10..22).contains(&v);
                match inside(p % SIZE as usize) && inside(p / SIZE as usize) {
                    true => [(p * 3) as u8, 90, 30],
                    false => around(i, p),
                }
            };
            let rgb = (0..(SIZE * SIZE) as usize).flat_map(pixel).collect();
            let eye = DVec3::new((i as f64).cos(), 0.2, (i as f64).sin()) * 4.0;
            let pose = Pose::look_at(eye, DVec3::ZERO, DVec3::Y);
            let camera = Camera::pinhole(SIZE, SIZE, 40.0, pose);
            View::new(format!("{i}.png"), camera, Photo::from_rgb(SIZE, SIZE, rgb))
        };
        Dataset {
            views: (0..9).map(view).collect(),
            ..Dataset::default()
        }
    }

    fn found(dataset: &Dataset) -> Option<PlainBackground> {
        PlainBackground::find_in(dataset, &TrainConfig::default()).unwrap()
    }

    fn points(spread: f32) -> Vec<Point> {
        let place = |i: usize| {
            let at = |k: usize| spread * ((i * k % 17) as f32 / 8.0 - 1.0);
            Point {
                position: [at(3), at(5), at(7)],
                rgb: [1, 2, 3],
            }
        };
        (0..200).map(place).collect()
    }

    #[test]
    fn one_colour_at_all_borders_is_the_background() {
        let white = found(&photos(|_, _| [255; 3])).unwrap();
        assert_eq!((white.colour, white.has_points), ([255; 3], false));
        assert_eq!(white.name(), "white");
        // Noise of a JPEG.
        let noisy = found(&photos(|i, p| [(118 + (p * 7 + i) % 5) as u8; 3]));
        assert_eq!(noisy.unwrap().colour, [120; 3]);
        assert_eq!(noisy.unwrap().name(), "0.471,0.471,0.471");
        // A table at the lower border of one photo in nine.
        let table = |i: usize, p: usize| {
            let below = i == 3 && p / SIZE as usize > 24;
            if below { [60, 50, 40] } else { [255; 3] }
        };
        assert!(found(&photos(table)).is_some());
    }

    #[test]
    fn other_borders_are_no_plain_background() {
        // Another colour in each photo; a gradient; white above and a floor below in all; a few white photos.
        assert!(found(&photos(|i, _| [(i * 25) as u8; 3])).is_none());
        assert!(found(&photos(|_, p| [(p % SIZE as usize * 8) as u8; 3])).is_none());
        let floor = |_, p: usize| if p < 512 { [255; 3] } else { [80; 3] };
        assert!(found(&photos(floor)).is_none());
        assert!(found(&photos(|i, _| if i < 6 { [255; 3] } else { [9; 3] })).is_none());
    }

    #[test]
    fn alpha_and_masks_leave_no_background() {
        let mut dataset = photos(|_, _| [255; 3]);
        let change = |dataset: &mut Dataset, change: fn(&mut Photo)| {
            for view in &mut dataset.views {
                let mut photo = view.photo.read().unwrap().as_ref().clone();
                change(&mut photo);
                view.photo = photo.into();
            }
        };
        let mut masked = dataset.clone();
        change(&mut masked, |photo| {
            photo.mask = Some(vec![0; photo.pixel_count()])
        });
        assert!(found(&masked).is_none());
        change(&mut dataset, |photo| {
            photo.alpha = Some(vec![255; photo.pixel_count()])
        });
        assert!(found(&dataset).is_none());
    }

    #[test]
    fn points_that_are_seen_on_the_colour_make_it_part_of_the_scene() {
        let with = |spread| {
            let dataset = Dataset {
                points: points(spread),
                ..photos(|_, _| [255; 3])
            };
            found(&dataset).unwrap().has_points
        };
        assert!(!with(0.4));
        assert!(with(3.0));
    }
}
