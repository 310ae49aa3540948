//! The sky of one photo.
//!
//! 1. The photo is reduced to [`EDGE`] pixels at its longer edge.
//! 2. The sky begins at the border of the photo where the rays rise, and grows over pixels that rise above the horizon,
//!    have nearly the colour of their neighbour, and are not warmer than grey.
//! 3. Pixels at its edge are excluded: they show other things too.
//! 4. A sky is sure if it is bright or blue: nearly white and lighter than the rest of the photo, or of more blue than red.
//! 5. Hardly any sparse points that were found in the photo are in it.

use dapple_base::quantiles;
use dapple_scene::{Photo, Rays, View};
use glam::{DVec2, DVec3};

/// Longer edge of a reduced photo, pixels.
const EDGE: u32 = 256;

/// Largest difference of neighbouring pixels in any channel, 0 to 255.
const SMOOTH: u8 = 14;

/// Largest excess of red over blue, 0 to 255: haze and sunsets are warmer, walls and ceilings too.
const WARM: i32 = 10;

/// Least sine of the elevation of a ray: 3 degrees below the horizon, as the up direction is not exact.
const HORIZON: f64 = -0.05;

/// Least luma of a pixel, as a part of the median luma of the sky: without treetops and shadows.
const AS_LIGHT: f64 = 0.65;

/// Fewest pixels of a connected part of the sky, as a part of the photo, and most of a hole in it, exclusive.
const LEAST_PART: f64 = 0.001;
const MOST_HOLE: f64 = 0.003;

/// Fewest pixels of the sky, as a part of the photo.
const LEAST_SHARE: f64 = 0.003;

/// Least median luma of a sky without colour, 0 to 255, and the part of all other pixels that are darker: clouds are
/// lighter than the ground, most walls and ceilings are not.
const WHITE: f64 = 215.0;
const DARKER: f64 = 0.9;

/// Least median luma of a blue sky, 0 to 255, and its least excess of blue over red.
const LIGHT: f64 = 90.0;
const BLUE: f64 = 20.0;

/// Most sparse points for a pixel of the sky, as a part of those for a pixel of the rest.
const POINTS: f64 = 0.15;

/// Which pixels of a reduced photo show the sky.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SkyMask {
    /// Width and height of the reduced photo, pixels.
    pub(crate) size: [usize; 2],
    /// True where the photo shows the sky, `[height, width]`.
    pub(crate) is_sky: Vec<bool>,
    /// Colours of the reduced photo, sRGB, `[height, width]`.
    pub(crate) colours: Vec<[u8; 3]>,
    /// World directions of the pixels, unit vectors; zero where no ray reaches, `[height, width]`.
    pub(crate) rays: Vec<DVec3>,
    /// True if the sky is blue.
    pub(crate) is_blue: bool,
    /// True if the sky is blue, or white and lighter than the rest of the photo.
    pub(crate) is_sure: bool,
}

impl SkyMask {
    /// Returns the places of the sky's pixels.
    pub(crate) fn pixels(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.is_sky.len()).filter(|&i| self.is_sky[i])
    }

    /// Returns the part of the photo that shows the sky.
    pub(crate) fn share(&self) -> f64 {
        self.pixels().count() as f64 / self.is_sky.len().max(1) as f64
    }
}

/// Returns the sky of a view; `None` if its photo shows none. `points` are the pixels at full size of the sparse points
/// that were found in the photo.
pub(crate) fn sky_of(view: &View, photo: &Photo, up: DVec3, points: &[DVec2]) -> Option<SkyMask> {
    if photo.alpha.is_some() {
        return None;
    }
    let longest = photo.width.max(photo.height).max(1);
    let edge = |full: u32| (full * EDGE.min(longest)).div_ceil(longest).max(1);
    let small = photo.reduced(edge(photo.width), edge(photo.height));
    let size = [small.width as usize, small.height as usize];
    let rays = rays(view, size);
    let colours = small.rgb.as_chunks::<3>().0.to_vec();
    let counts = |i: usize| small.mask.as_ref().is_none_or(|mask| mask[i] >= 128);
    let may_be: Vec<bool> = (0..colours.len())
        .map(|i| {
            let is_above = rays[i] != DVec3::ZERO && rays[i].dot(up) > HORIZON;
            counts(i) && is_above && is_cold(colours[i])
        })
        .collect();
    let grown = grow(size, &colours, &may_be, |i| rays[i].dot(up));
    let light = light_ones(&colours, &grown);
    let least = LEAST_PART * colours.len() as f64;
    // Small parts of anything else with the sky all around: clouds, birds.
    let others: Vec<bool> = light.iter().map(|is_sky| !is_sky).collect();
    let others = parts(size, &others, MOST_HOLE * colours.len() as f64);
    let whole: Vec<bool> = others.iter().map(|is_other| !is_other).collect();
    let mut mask = SkyMask {
        is_blue: false,
        is_sure: false,
        is_sky: parts(size, &shrink(size, &whole), least),
        size,
        colours,
        rays,
    };
    if mask.share() < LEAST_SHARE || !is_empty(&mask, [photo.width, photo.height], points) {
        return None;
    }
    let light = Light::of(&mask);
    mask.is_blue = light.is_blue();
    mask.is_sure = mask.is_blue || light.is_white();
    Some(mask)
}

/// Returns the directions of a reduced photo's pixels.
fn rays(view: &View, [width, height]: [usize; 2]) -> Vec<DVec3> {
    let camera = view.camera.resized(width as u32, height as u32);
    let (rays, pose) = (Rays::new(&camera), camera.camera_from_world);
    let world_from_camera = pose.rotation_matrix().transpose();
    let ray = |i: usize| {
        let pixel = DVec2::new((i % width) as f64 + 0.5, (i / width) as f64 + 0.5);
        let ray = rays.ray(pixel).and_then(DVec3::try_normalize);
        ray.map_or(DVec3::ZERO, |ray| world_from_camera * ray)
    };
    (0..width * height).map(ray).collect()
}

fn is_cold([r, _, b]: [u8; 3]) -> bool {
    i32::from(r) - i32::from(b) <= WARM
}

/// Returns the pixels that are connected to the upper border.
fn grow(
    [width, height]: [usize; 2],
    colours: &[[u8; 3]],
    may_be: &[bool],
    rise: impl Fn(usize) -> f64,
) -> Vec<bool> {
    let mut is_sky = vec![false; colours.len()];
    let (right, below) = (width - 1, height - 1);
    // The pixel at the border is higher than its neighbour within.
    let is_upper = |i: usize| {
        let (x, y) = (i % width, i / width);
        let inner = (x.clamp(1, right.max(2) - 1)).min(right)
            + y.clamp(1, below.max(2) - 1).min(below) * width;
        inner != i && rise(i) > rise(inner)
    };
    let is_border =
        |i: &usize| [0, right].contains(&(i % width)) || [0, below].contains(&(i / width));
    let mut open: Vec<usize> = (0..colours.len())
        .filter(|i| is_border(i) && may_be[*i] && is_upper(*i))
        .collect();
    open.iter().for_each(|&i| is_sky[i] = true);
    while let Some(i) = open.pop() {
        for j in neighbours(i, [width, height]) {
            let is_smooth = (0..3).all(|c| colours[i][c].abs_diff(colours[j][c]) <= SMOOTH);
            if !is_sky[j] && may_be[j] && is_smooth {
                is_sky[j] = true;
                open.push(j);
            }
        }
    }
    is_sky
}

/// Returns the pixels whose neighbours in the photo are all among them.
fn shrink([width, height]: [usize; 2], grown: &[bool]) -> Vec<bool> {
    let around = |v: usize, end: usize| v.saturating_sub(1)..(v + 2).min(end);
    (0..grown.len())
        .map(|i| {
            let (x, y) = (i % width, i / width);
            around(y, height).all(|y| around(x, width).all(|x| grown[y * width + x]))
        })
        .collect()
}

/// Returns the pixels that are not much darker than the median of them.
fn light_ones(colours: &[[u8; 3]], grown: &[bool]) -> Vec<bool> {
    let of = |i: usize| luma(colours[i]);
    let lumas = (0..grown.len()).filter(|&i| grown[i]).map(of);
    let least = AS_LIGHT * quantile(lumas.collect(), 0.5);
    (0..grown.len())
        .map(|i| grown[i] && of(i) >= least)
        .collect()
}

/// Returns the pixels of all connected parts with at least this number of pixels.
fn parts(size: [usize; 2], of: &[bool], least: f64) -> Vec<bool> {
    let mut left = of.to_vec();
    let mut kept = vec![false; of.len()];
    for first in 0..of.len() {
        if !left[first] {
            continue;
        }
        let mut part = vec![first];
        left[first] = false;
        let mut done = 0;
        while let Some(&i) = part.get(done) {
            done += 1;
            for j in neighbours(i, size) {
                if std::mem::take(&mut left[j]) {
                    part.push(j);
                }
            }
        }
        if part.len() as f64 >= least {
            part.into_iter().for_each(|i| kept[i] = true);
        }
    }
    kept
}

/// Returns the neighbours of a pixel to the left, right, top and bottom.
fn neighbours(i: usize, [width, height]: [usize; 2]) -> impl Iterator<Item = usize> {
    let (x, y) = (i % width, i / width);
    let near = [
        (x > 0).then(|| i - 1),
        (x + 1 < width).then(|| i + 1),
        (y > 0).then(|| i - width),
        (y + 1 < height).then(|| i + width),
    ];
    near.into_iter().flatten()
}

/// Returns the value below which this part of the values is; 0 without values.
fn quantile(values: Vec<f64>, part: f64) -> f64 {
    quantiles::quantile(values, part).unwrap_or_default()
}

fn luma([r, g, b]: [u8; 3]) -> f64 {
    0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
}

/// How light a sky is.
struct Light {
    /// Median luma of the sky, 0 to 255.
    sky: f64,
    /// Luma below which most other pixels of the photo are, 0 to 255.
    others: f64,
    /// Median excess of blue over red in the sky.
    blue: f64,
}

impl Light {
    fn of(mask: &SkyMask) -> Self {
        let lumas = |wanted: bool| {
            let pixels = mask.colours.iter().zip(&mask.is_sky);
            let of = pixels.filter(move |(_, is_sky)| **is_sky == wanted);
            of.map(|(colour, _)| luma(*colour)).collect()
        };
        let blue = mask.pixels().map(|i| {
            let [r, _, b] = mask.colours[i].map(f64::from);
            b - r
        });
        Self {
            sky: quantile(lumas(true), 0.5),
            others: quantile(lumas(false), DARKER),
            blue: quantile(blue.collect(), 0.5),
        }
    }

    fn is_blue(&self) -> bool {
        self.sky >= LIGHT && self.blue >= BLUE
    }

    fn is_white(&self) -> bool {
        self.sky >= WHITE && self.sky > self.others
    }
}

/// Returns true if hardly any sparse point is in the sky.
fn is_empty(mask: &SkyMask, full: [u32; 2], points: &[DVec2]) -> bool {
    let [width, height] = mask.size;
    let place = |point: &DVec2| {
        let x = point.x * width as f64 / f64::from(full[0]);
        let y = point.y * height as f64 / f64::from(full[1]);
        (y as usize).min(height - 1) * width + (x as usize).min(width - 1)
    };
    let inside = points.iter().filter(|point| mask.is_sky[place(point)]);
    let (inside, all) = (inside.count() as f64, points.len() as f64);
    let share = mask.share();
    share < 1.0 && inside * (1.0 - share) <= POINTS * (all - inside) * share
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use dapple_scene::{Camera, Pose};

    const SIZE: u32 = 200;

    /// A photo towards +z with up = -y: `above` the horizon at half of its height, ground below, and a dark tower in front.
    fn photo(above: impl Fn(u32, u32) -> [u8; 3]) -> (View, Photo) {
        let pixel = |i: u32| {
            let (x, y) = (i % SIZE, i / SIZE);
            match (y < SIZE / 2, (80..110).contains(&x) && y > 40) {
                (_, true) => [40, 42, 38],
                (true, false) => above(x, y),
                (false, false) => [90 + (i * 7 % 40) as u8, 100, 60],
            }
        };
        let rgb = (0..SIZE * SIZE).flat_map(pixel).collect();
        let photo = Photo::from_rgb(SIZE, SIZE, rgb);
        let camera = Camera::pinhole(SIZE, SIZE, 150.0, Pose::IDENTITY);
        (View::new("a.png", camera, photo.clone()), photo)
    }

    fn found(above: impl Fn(u32, u32) -> [u8; 3], points: &[DVec2]) -> Option<SkyMask> {
        let (view, photo) = photo(above);
        sky_of(&view, &photo, DVec3::NEG_Y, points)
    }

    fn blue(_: u32, y: u32) -> [u8; 3] {
        [110 + (y / 2) as u8, 150 + (y / 2) as u8, 220]
    }

    #[test]
    fn the_sky_ends_at_the_ground_and_at_the_tower() {
        let mask = found(blue, &[]).unwrap();
        assert!(mask.is_blue && mask.is_sure);
        let [width, height] = mask.size;
        assert_eq!([width, height], [SIZE as usize; 2]);
        for i in 0..width * height {
            let (x, y) = (i % width, i / width);
            let is_tower = (79..=110).contains(&x) && y >= 40;
            // One pixel at its edge is excluded.
            let (inside, outside) = (
                y < 98 && !is_tower,
                y >= 100 || ((80..110).contains(&x) && y > 40),
            );
            assert!(!inside || mask.is_sky[i], "{x}, {y} is sky");
            assert!(!outside || !mask.is_sky[i], "{x}, {y} is no sky");
        }
        let white = found(|_, _| [244, 245, 247], &[]).unwrap();
        assert!(white.is_sure && !white.is_blue && white.share() > 0.3);
    }

    #[test]
    fn walls_ceilings_and_trees_are_no_sky() {
        // Warm; grey; rough; below the horizon.
        assert!(found(|_, _| [230, 220, 200], &[]).is_none());
        assert!(!found(|_, _| [150, 152, 154], &[]).unwrap().is_sure);
        let rough = |x: u32, y: u32| [20 + 180 * ((x / 2 + y / 2) % 2) as u8, 150, 220];
        assert!(found(rough, &[]).is_none_or(|mask| mask.share() < 0.02));
        let (view, photo) = photo(blue);
        let below = sky_of(&view, &photo, DVec3::Y, &[]);
        assert!(below.is_none_or(|mask| !mask.is_sure));
        // Points of the capture are in it as often as elsewhere.
        let points: Vec<DVec2> = (0..400)
            .map(|i| {
                DVec2::new(
                    f64::from(i % 20) * 10.0 + 5.0,
                    f64::from(i / 20) * 10.0 + 5.0,
                )
            })
            .collect();
        assert!(found(blue, &points).is_none());
        let below: Vec<DVec2> = points.into_iter().filter(|point| point.y > 100.0).collect();
        assert!(found(blue, &below).is_some());
    }
}
