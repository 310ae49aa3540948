//! Region of interest: a run spends its Gaussians and its loss on a part of the scene (`focus.region`).
//!
//! 1. [`settle`] replaces `auto` by a sphere ([`auto_region`]), and refuses a region that no first Gaussian is in or that
//!    no camera sees. From then on the configuration of the run contains the region.
//! 2. If the run starts from a part of the sparse points, that part has fewer of the points that few cameras show together
//!    with the region ([`thin`]). The first scales follow from the distances to neighbours, so that the Gaussians there
//!    are larger.
//! 3. In training photos, of the blocks of pixels whose rays miss the region the share `focus.outside` counts
//!    ([`RegionMask`]): the loss has no weights of pixels, and the mean over photos is the same.
//! 4. Rounds of density control multiply gradients and weights of Gaussians by the same shares, from `focus.gaussians`
//!    to 1 ([`density_focus`]).
//! 5. Held-out photos are scored whole, and again by the pixels whose rays meet the region.

use crate::TrainConfig;
use crate::config::FocusRegion;
use crate::evaluate::{FocusScores, Scoring, scores_inside};
use crate::random::{Purpose, generator, unit};
use dapple_base::quantiles;
use dapple_device::BoxedEngine;
use dapple_engine::focus::{FocusView, VIEWS, WHOLE};
use dapple_engine::{DensityFocus, RenderSettings};
use dapple_scene::edit::Region;
use dapple_scene::{
    Camera, Dataset, Error, PhotoSource, Point, Rays, RegionMask, Result, Splats, View, printable,
};
use glam::{DMat3, DVec2, DVec3, Vec3};

/// Radius of the automatic sphere, in median distances of the cameras to its centre: 29 degrees of a photo.
const AUTO_RADIUS: f64 = 0.25;

/// Weight of the sparse points' median in the automatic centre, relative to that of the optical axes: it sets the depth
/// if all cameras look in one direction.
const AUTO_PRIOR: f64 = 0.01;

/// Least share of the cameras that the automatic centre is in the photo of.
const AUTO_SEEN: f64 = 0.5;

/// Sparse points whose photos are counted for the automatic centre, at most.
const AUTO_POINTS: usize = 2000;

/// Replaces `auto` by a sphere, and checks the region. `first` are the splats that the run starts from; `None` for the
/// sparse points.
///
/// # Errors
/// A region that no first Gaussian is in or that no camera sees; cameras that do not look at one place.
pub(crate) fn settle(
    config: &mut TrainConfig,
    dataset: &Dataset,
    train: &[usize],
    first: Option<&Splats>,
) -> Result<()> {
    if !config.focus.region.is_on() {
        return Ok(());
    }
    let cameras: Vec<Camera> = train.iter().map(|&i| dataset.views[i].camera).collect();
    if config.focus.region == FocusRegion::Auto {
        config.focus.region = FocusRegion::Region(auto_region(&cameras, &dataset.points)?);
    }
    let Some(region) = config.focus.region.region() else {
        return Ok(());
    };
    let refused = |why: String| {
        Error::input(why).at(format!("focus.region = {region}")).hint(
            "name a region in the coordinates of the splats, as for `dapple edit --crop`: `dapple info` prints their \
             bounds; --focus auto takes the region that the cameras look at",
        )
    };
    region
        .check()
        .map_err(|error| refused(error.what().to_owned()))?;
    let sees = |camera: &Camera| RegionMask::new(camera, region).sees_region();
    if !cameras.iter().any(sees) {
        return Err(refused(
            "no training photo shows the region of interest".to_owned(),
        ));
    }
    let (inside, all) = counts(region, dataset, first);
    if inside == 0 && all > 0 {
        let kind = if first.is_some() {
            "Gaussians that the run starts from"
        } else {
            "sparse points"
        };
        return Err(refused(format!(
            "none of the {all} {kind} is in the region of interest"
        )));
    }
    Ok(())
}

/// Returns the number of first Gaussians in a region, and of all.
fn counts(region: Region, dataset: &Dataset, first: Option<&Splats>) -> (usize, usize) {
    let is_inside = |place: &[f32; 3]| region.contains(*place);
    match first {
        Some(splats) => {
            let inside = splats.means.iter().filter(|mean| is_inside(mean));
            (inside.count(), splats.len())
        }
        None => {
            let points = dataset.points.iter().filter(|point| is_finite(point));
            let inside = points.filter(|point| is_inside(&point.position));
            (inside.count(), dataset.points.len())
        }
    }
}

/// Returns a note on the region of a run that starts from the sparse points; `None` without a region or points.
pub(crate) fn note(config: &TrainConfig, dataset: &Dataset) -> Option<String> {
    let region = config.focus.region.region()?;
    let (inside, all) = counts(region, dataset, None);
    (all > 0)
        .then(|| format!("the region of interest {region} has {inside} of the {all} sparse points"))
}

fn is_finite(point: &Point) -> bool {
    point.position.iter().all(|v| v.is_finite())
}

/// Returns the sphere that the cameras look at. Its centre is the point nearest to all optical axes (least squares), or,
/// if less than half of the cameras have that point in their photos, the middle of the sparse points that most photos
/// show. Its radius is a quarter of the median distance to the cameras.
///
/// # Errors
/// Less than half of the cameras have one of these centres in their photos.
pub fn auto_region(cameras: &[Camera], points: &[Point]) -> Result<Region> {
    let refused = |why: &str| {
        Error::input(format!("--focus auto finds no region: {why}"))
            .at("focus.region = auto")
            .hint("name the region: --focus sphere:X,Y,Z,RADIUS, or --focus box:X,Y,Z,WIDTH,HEIGHT,DEPTH")
    };
    let finite: Vec<DVec3> = points
        .iter()
        .filter(|point| is_finite(point))
        .map(|point| Vec3::from(point.position).as_dvec3())
        .collect();
    let seen = |centre: &DVec3| {
        cameras
            .iter()
            .filter(|camera| sees(camera, *centre))
            .count()
    };
    let is_common = |centre: &DVec3| seen(centre) as f64 >= AUTO_SEEN * cameras.len() as f64;
    let nearest = nearest_to_axes(cameras, median(&finite));
    let Some(centre) = nearest
        .filter(is_common)
        .or_else(|| most_seen(&finite, seen).filter(is_common))
    else {
        return Err(refused(&match nearest {
            None => "the cameras look in one direction, and there are no sparse points".to_owned(),
            Some(nearest) => format!(
                "the cameras do not look at one place ({} of {} have the nearest point to all axes in their photos)",
                seen(&nearest),
                cameras.len()
            ),
        }));
    };
    let mut distances: Vec<f64> = cameras
        .iter()
        .map(|camera| camera.camera_from_world.centre().distance(centre))
        .collect();
    distances.sort_by(f64::total_cmp);
    let radius = AUTO_RADIUS * distances[distances.len() / 2];
    if !(radius.is_finite() && radius > 0.0) {
        return Err(refused("the cameras are at one place"));
    }
    Ok(readable(centre, radius))
}

/// Returns a sphere whose radius has three digits and whose centre is as exact, to be read in `config.toml`.
fn readable(centre: DVec3, radius: f64) -> Region {
    let step = 10_f64.powf(radius.log10().floor() - 2.0);
    let rounded = |v: f64| -> f64 {
        let steps = (v / step).round();
        format!("{:.9}", steps * step)
            .parse()
            .unwrap_or(steps * step)
    };
    Region::Sphere {
        centre: centre.to_array().map(rounded),
        radius: rounded(radius).max(step),
    }
}

/// Returns the point nearest to all optical axes; `None` if all are parallel and there is no `middle` of the points.
fn nearest_to_axes(cameras: &[Camera], middle: Option<DVec3>) -> Option<DVec3> {
    let prior = middle.map_or(0.0, |_| AUTO_PRIOR);
    let mut matrix = DMat3::from_diagonal(DVec3::splat(prior));
    let mut sum = prior * middle.unwrap_or_default();
    let share = 1.0 / cameras.len().max(1) as f64;
    for camera in cameras.iter().filter(|camera| camera.lens.is_perspective()) {
        let pose = camera.camera_from_world;
        let axis = pose.rotation_matrix().transpose() * DVec3::Z;
        let outer = DMat3::from_cols(axis * axis.x, axis * axis.y, axis * axis.z);
        let across = DMat3::IDENTITY - outer;
        matrix += across * share;
        sum += across * pose.centre() * share;
    }
    (matrix.determinant().abs() >= 1e-9).then(|| matrix.inverse() * sum)
}

/// Returns the median of the points that are in most photos: in nine tenths of the largest number of them.
fn most_seen(points: &[DVec3], seen: impl Fn(&DVec3) -> usize) -> Option<DVec3> {
    let every = points.len().div_ceil(AUTO_POINTS).max(1);
    let counted: Vec<(usize, DVec3)> = points
        .iter()
        .step_by(every)
        .map(|point| (seen(point), *point))
        .collect();
    let most = counted.iter().map(|(count, _)| *count).max()?;
    let common = counted
        .into_iter()
        .filter(|(count, _)| 10 * count >= 9 * most);
    median(&common.map(|(_, point)| point).collect::<Vec<_>>())
}

/// Returns true if a point is in the photo of a camera.
fn sees(camera: &Camera, point: DVec3) -> bool {
    let rays = Rays::new(camera);
    let pixel = rays.pixel(camera.camera_from_world.transform(point));
    pixel.is_some_and(|pixel| {
        let size = DVec2::new(camera.width.into(), camera.height.into());
        pixel.cmpge(DVec2::ZERO).all() && pixel.cmple(size).all()
    })
}

/// Returns the median of points, by coordinate; `None` without one.
fn median(points: &[DVec3]) -> Option<DVec3> {
    let coordinate = |k: usize| quantiles::median(points.iter().map(|point| point[k]).collect());
    Some(DVec3::new(coordinate(0)?, coordinate(1)?, coordinate(2)?))
}

/// Removes points if there are more than `wanted`, down to that number: a point is kept with a probability in
/// proportion to the share of a Gaussian at its place ([`DensityFocus::share`]). The seed says where the draw starts.
pub(crate) fn thin(
    points: Vec<Point>,
    wanted: usize,
    config: &TrainConfig,
    views: &[FocusView; VIEWS],
) -> Vec<Point> {
    let Some(focus) = density_focus(config, views).filter(|_| points.len() > wanted) else {
        return points;
    };
    let shares: Vec<u32> = points
        .iter()
        .map(|point| focus.share(point.position).max(1))
        .collect();
    let scale = scale_of(&shares, wanted);
    // Systematic sampling: as many as wanted, not only on average.
    let mut place = f64::from(unit(&mut generator(config.seed, Purpose::Focus, 0)));
    let mut is_kept = |share: u32| {
        let before = place.floor();
        place += (scale * share as f64).min(1.0);
        place.floor() > before
    };
    let kept = points.into_iter().zip(shares);
    let kept = kept.filter(|(_, share)| is_kept(*share));
    kept.map(|(point, _)| point).collect()
}

/// Returns the factor by which shares become probabilities, at most 1, with the sum `wanted`.
fn scale_of(shares: &[u32], wanted: usize) -> f64 {
    let mut counts = [0.0; WHOLE as usize + 1];
    for share in shares {
        counts[*share as usize] += 1.0;
    }
    let expected = |scale: f64| -> f64 {
        let kept = counts.iter().enumerate();
        kept.map(|(share, count)| count * (scale * share as f64).min(1.0))
            .sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match expected(middle) < wanted as f64 {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Returns the region for rounds of density control; `None` without one, or if Gaussians outside count as much.
pub(crate) fn density_focus(
    config: &TrainConfig,
    views: &[FocusView; VIEWS],
) -> Option<DensityFocus> {
    let region = config.focus.region.region()?;
    let outside = (config.focus.gaussians * f64::from(WHOLE)).round() as u32;
    let (map, centre, is_box) = region.to_unit();
    let offset = -(map * centre);
    let row = |k: usize| {
        let row = map.row(k);
        [row.x as f32, row.y as f32, row.z as f32, offset[k] as f32]
    };
    (outside < WHOLE).then(|| DensityFocus {
        rows: [row(0), row(1), row(2)],
        is_box,
        outside,
        views: *views,
    })
}

/// Returns the cameras by which Gaussians count: the training cameras, or [`VIEWS`] of them at equal distances in their
/// order.
pub(crate) fn views(dataset: &Dataset, train: &[usize]) -> [FocusView; VIEWS] {
    let count = train.len().min(VIEWS);
    std::array::from_fn(|k| match k < count {
        true => view_of(&dataset.views[train[k * train.len() / count]].camera),
        false => FocusView::NONE,
    })
}

/// Returns the cone of a camera that contains its photo; all directions if a corner has no ray.
fn view_of(camera: &Camera) -> FocusView {
    let pose = camera.camera_from_world;
    let axis = pose.rotation_matrix().transpose() * DVec3::Z;
    let rays = Rays::new(camera);
    let size = DVec2::new(camera.width.into(), camera.height.into());
    let corners = [DVec2::ZERO, DVec2::X, DVec2::Y, DVec2::ONE].map(|corner| corner * size);
    let cosine = |corner: DVec2| rays.ray(corner).map_or(-1.0, |ray| ray.normalize().z);
    let least = match camera.lens.is_perspective() {
        true => corners.map(cosine).into_iter().fold(1.0, f64::min),
        false => -1.0,
    };
    FocusView {
        centre: pose.centre().as_vec3().to_array(),
        axis: axis.as_vec3().to_array(),
        least_cosine: least as f32,
    }
}

/// Returns the photo for training: a share of the blocks outside the region counts.
pub(crate) fn train_photo(
    config: &TrainConfig,
    name: &str,
    camera: &Camera,
    photo: PhotoSource,
) -> PhotoSource {
    match config.focus.region.region() {
        Some(region) if config.focus.outside < 1.0 => {
            let mask = RegionMask::new(camera, region);
            photo.masked(mask.with_outside(config.focus.outside, key_of(name)))
        }
        _ => photo,
    }
}

/// Returns a key of a name (FNV-1a).
fn key_of(name: &str) -> u64 {
    let next = |key: u64, byte: u8| (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, next)
}

/// Scores views by the pixels whose rays meet a region, with the engine's current splats. `None` if the region is in no
/// view.
///
/// # Errors
/// See [`crate::evaluate()`].
pub fn evaluate_focus(
    engine: &mut BoxedEngine,
    views: &[&View],
    settings: &RenderSettings,
    region: Region,
) -> Result<Option<FocusScores>> {
    let masks = views
        .iter()
        .map(|view| RegionMask::new(&view.camera, region));
    let (mut inside, mut all) = (0, 0);
    let masked: Vec<View> = views
        .iter()
        .zip(masks)
        .filter_map(|(view, mask)| {
            let pixels = mask.inside();
            let count = pixels.iter().filter(|is_inside| **is_inside).count();
            (inside, all) = (inside + count, all + pixels.len());
            let photo = view.photo.clone().masked(mask);
            (count > 0).then(|| View {
                photo,
                ..(*view).clone()
            })
        })
        .collect();
    let masked: Vec<&View> = masked.iter().collect();
    let images = scores_inside(engine, &masked, settings, &Scoring::default())?;
    let pixels = inside as f64 / all.max(1) as f64;
    Ok(FocusScores::new(region, pixels, images))
}

impl std::fmt::Display for FocusScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PSNR {:.2} dB, SSIM {:.4} in {} ({:.0} % of the pixels, {} photos)",
            self.psnr,
            self.ssim,
            printable(&self.region),
            100.0 * self.pixels,
            self.images.len()
        )
    }
}
