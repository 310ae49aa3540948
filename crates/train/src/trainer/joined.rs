//! Photos that joined the capture of a run: what its next part trains.
//!
//! 1. Gaussians are seen by a joined photo if the sum of their blend weights in it is at least one pixel.
//! 2. Blocks of [`BLOCK`] Gaussians along a Morton curve without a seen one are frozen: their bytes stay
//!    ([`OptimizerState::frozen`]).
//! 3. Sparse points in view of a joined photo, far from all Gaussians, become Gaussians: the part shows what no photo
//!    showed before. Density control then acts in the first half of the part; otherwise the number of Gaussians stays.
//! 4. Training photos of the part before whose image is at least 2 % of trained Gaussians are trained on too, so that
//!    their renders stay good: all of them, if at least nine tenths of the Gaussians are trained.

use crate::config::Joined;
use crate::views::Chosen;
use crate::{AppearanceModel, Checkpoint, Schedule, TrainConfig, contributions, init};
use dapple_base::NoProgress;
use dapple_device::BoxedEngine;
use dapple_engine::features::photometric::Photometric;
use dapple_engine::{AppearanceGrids, OptimizerState, PosedCamera, ViewState};
use dapple_scene::order::{append, gather, morton_order};
use dapple_scene::{Camera, Dataset, Error, ErrorKind, Point, Rays, Result, Splats, View};
use glam::DVec3;
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use std::collections::BTreeSet;
use std::ops::Range;

/// Gaussians that are frozen or trained together.
pub const BLOCK: usize = 256;

/// Least sum of the blend weights of a Gaussian that a photo sees, pixels.
const SEEN: f32 = 1.0;

/// Least share of an image that trained Gaussians make up, so that its photo is trained on.
const BESIDE: f64 = 0.02;

/// Least share of the sparse points in view that are new; fewer are points that the run before has given up.
const NEW_SHARE: f64 = 0.02;

/// Share of trained Gaussians from which all photos are trained on: finding out takes longer than their steps.
const MOST: f64 = 0.9;

/// A sparse point is new if the nearest Gaussian is farther than this number of distances to its neighbours.
const NEW_POINT: f64 = 3.0;

/// Counts of Gaussians in a part that photos joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// Gaussians that do not change.
    pub(super) frozen: usize,
    /// Gaussians at new sparse points.
    pub(super) added: usize,
}

/// Prepares the state and the configuration of a part for photos that joined. `config` has them without
/// [`Joined::beside`]. Replaces the splats of the engine.
///
/// # Errors
/// State that photos cannot join; the engine fails.
pub(super) fn join(
    (dataset, chosen): (&Dataset, &Chosen),
    ended: &mut Checkpoint,
    config: &mut TrainConfig,
    engine: &mut BoxedEngine,
    mut joined: Joined,
) -> Result<Touched> {
    refuse_state(&ended.config, &joined)?;
    let photos: BTreeSet<&str> = joined.photos().map(String::as_str).collect();
    let views = chosen.train.iter().map(|&i| &dataset.views[i]);
    let (own, others): (Vec<&View>, Vec<&View>) =
        views.partition(|view| photos.contains(view.name.as_str()));
    let cameras: Vec<Camera> = own.iter().map(|view| view.camera).collect();
    let is_trained = match config.antialias {
        // The 3D filters of all Gaussians depend on all photos.
        true => None,
        false => trained(ended, config, engine, &cameras)?,
    };
    let beside = match &is_trained {
        Some(trained) => showing(&others, (&ended.splats, trained), config, engine)?,
        None => vec![true; others.len()],
    };
    let beside = others.iter().zip(beside).filter(|(_, shows)| *shows);
    let beside = beside.map(|(view, _)| view.name.clone()).collect();
    joined.beside = beside;
    let sky = ended.splats.len() - ended.state.sky..ended.splats.len();
    let added = add_points((dataset, chosen), ended, config, &cameras)?;
    let mut trained = is_trained.unwrap_or_default();
    trained.resize(ended.splats.len(), true);
    let frozen = put_in_order(ended, &trained, sky);
    let half = (config.steps - ended.step) / 2;
    config.densify.stop = match added {
        0 => ended.step,
        _ => ended.step + half,
    };
    extend_views(ended, config, (dataset, chosen))?;
    // The best splats so far are of other photos.
    ended.watched.clear();
    ended.best = None;
    config.data.joined = std::mem::take(&mut config.data.joined).with(joined);
    Ok(Touched { frozen, added })
}

/// Refuses state of Gaussians or photos that cannot be extended.
fn refuse_state(before: &TrainConfig, joined: &Joined) -> Result<()> {
    let what = if before.poses.refine {
        "join a run with refined poses"
    } else if before.appearance.has_mlp() {
        "join a run with an appearance MLP"
    } else if before.appearance.model != AppearanceModel::None && !joined.removed.is_empty() {
        "leave a run with learned appearance"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("photos cannot {what} yet"))
        .hint("start another run from its splats: `dapple train CAPTURE --from RUN -o OUT`"))
}

/// Returns which Gaussians the part trains, by blocks; `None` for all of them.
fn trained(
    ended: &Checkpoint,
    config: &TrainConfig,
    engine: &mut BoxedEngine,
    cameras: &[Camera],
) -> Result<Option<Vec<bool>>> {
    let settings = Schedule::new(config.clone(), 1.0).render_settings();
    let seen = contributions::contributions(
        engine.as_mut(),
        &ended.splats,
        cameras,
        &settings,
        &NoProgress,
    );
    let seen = match seen {
        // An engine without gradients: ranks.
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
        seen => seen?,
    };
    let mut trained = vec![false; seen.len()];
    for block in morton_order(&ended.splats.means).chunks(BLOCK) {
        let is_seen = block.iter().any(|&i| seen[i] >= SEEN);
        block.iter().for_each(|&i| trained[i] = is_seen);
    }
    Ok(trained.contains(&false).then_some(trained))
}

/// Returns which views show trained Gaussians in a part of their image.
fn showing(
    views: &[&View],
    (splats, trained): (&Splats, &[bool]),
    config: &TrainConfig,
    engine: &mut BoxedEngine,
) -> Result<Vec<bool>> {
    let count = trained.iter().filter(|trained| **trained).count();
    if count as f64 >= MOST * trained.len() as f64 {
        return Ok(vec![true; views.len()]);
    }
    let settings = Schedule::new(config.clone(), 1.0).render_settings();
    // Shares of an image do not need its pixels.
    let least = |edge: u32| (edge / 4).max(1);
    let small = |view: &&View| {
        let camera = &view.camera;
        camera.resized(least(camera.width), least(camera.height))
    };
    let cameras: Vec<Camera> = views.iter().map(small).collect();
    let shares = contributions::shares(engine.as_mut(), splats, trained, &cameras, &settings)?;
    Ok(shares.into_iter().map(|share| share >= BESIDE).collect())
}

/// Puts the trained Gaussians first, then those of `sky` among them, and those that are not trained last. Returns the
/// number of the last.
fn put_in_order(ended: &mut Checkpoint, trained: &[bool], sky: Range<usize>) -> usize {
    let place = |i: usize| match (trained[i], sky.contains(&i)) {
        (false, _) => 2,
        (true, is_sky) => u8::from(is_sky),
    };
    let those = |wanted: u8| (0..trained.len()).filter(move |&i| place(i) == wanted);
    let order: Vec<usize> = (0..3).flat_map(&those).collect();
    ended.splats = gather(&ended.splats, &order);
    ended.state.reorder(&order);
    ended.state.sky = those(1).count();
    ended.state.frozen = those(2).count();
    ended.state.frozen
}

/// Appends Gaussians at sparse points that the cameras see and no Gaussian is near to. Returns their number.
fn add_points(
    (dataset, chosen): (&Dataset, &Chosen),
    ended: &mut Checkpoint,
    config: &TrainConfig,
    cameras: &[Camera],
) -> Result<usize> {
    let free = config.gaussian_budget().saturating_sub(ended.splats.len());
    let mut points = new_points(&dataset.points, &ended.splats, cameras)?;
    points.truncate(free);
    if points.is_empty() {
        return Ok(0);
    }
    let new = init::first_splats(&points, chosen.extent, config)?;
    let added = new.len();
    let mut fresh = OptimizerState::untrained(&new, ViewState::default());
    if !ended.state.filter_3d.is_empty() {
        fresh.filter_3d = vec![0.0; added];
    }
    append(&mut ended.splats, new);
    ended.state.append(fresh);
    Ok(added)
}

/// Returns the points that a camera sees and that are far from all Gaussians.
fn new_points(points: &[Point], splats: &Splats, cameras: &[Camera]) -> Result<Vec<Point>> {
    let all: Vec<(&Camera, Rays)> = cameras.iter().map(|each| (each, Rays::new(each))).collect();
    let is_in_view = |point: &&Point| {
        let place = DVec3::from(point.position.map(f64::from));
        place.is_finite()
            && all
                .iter()
                .any(|(camera, rays)| is_in_frame(place, camera, rays))
    };
    let seen: Vec<Point> = points.iter().filter(is_in_view).copied().collect();
    let means: Vec<[f32; 3]> = seen.iter().map(|point| point.position).collect();
    let spacings = init::neighbour_distances(&means)?;
    let centres = splats.means.iter().map(|mean| mean.map(f64::from));
    let centres: Vec<[f64; 3]> = centres
        .filter(|c| c.iter().all(|v| v.is_finite()))
        .collect();
    let tree: ImmutableKdTree<f64, 3> = ImmutableKdTree::new_from_slice(&centres)
        .map_err(|e| Error::internal(format!("the Gaussians cannot be indexed: {e:?}")))?;
    let is_new = |point: &Point, spacing: f64| {
        let place = point.position.map(f64::from);
        let nearest = tree
            .query(&place)
            .nearest_one::<SquaredEuclidean<f64>>()
            .execute();
        nearest.distance.sqrt() > NEW_POINT * spacing
    };
    let all = seen.len() as f64;
    let pairs = seen.into_iter().zip(spacings);
    let new = pairs.filter(|(point, spacing)| is_new(point, *spacing));
    let new: Vec<Point> = new.map(|(point, _)| point).collect();
    Ok(match new.len() as f64 >= NEW_SHARE * all {
        true => new,
        false => Vec::new(),
    })
}

fn is_in_frame(place: DVec3, camera: &Camera, rays: &Rays) -> bool {
    let pixel = rays.pixel(camera.camera_from_world.transform(place));
    pixel.is_some_and(|pixel| camera.frames(pixel))
}

/// Extends the learned appearance by that of the photos that joined, which changes nothing yet.
fn extend_views(
    ended: &mut Checkpoint,
    config: &TrainConfig,
    (dataset, chosen): (&Dataset, &Chosen),
) -> Result<()> {
    let views = &mut ended.state.views;
    let photos = chosen.train.len();
    if views.appearance.seen.len() < photos && !views.appearance.seen.is_empty() {
        let mut all = AppearanceGrids::identity(config.appearance.grid, photos);
        let old = std::mem::take(&mut views.appearance);
        for (all, old) in [
            (&mut all.coefficients, old.coefficients),
            (&mut all.first_moments, old.first_moments),
            (&mut all.second_moments, old.second_moments),
        ] {
            all[..old.len()].copy_from_slice(&old);
        }
        all.seen[..old.seen.len()].copy_from_slice(&old.seen);
        views.appearance = all;
    }
    if views.photometric != Photometric::default() {
        let cameras = chosen.train.iter();
        let cameras = cameras.map(|&i| PosedCamera::new(&dataset.views[i].camera));
        let cameras = cameras.collect::<Result<Vec<_>>>()?;
        views.photometric.extend_to(&cameras);
    }
    Ok(())
}
