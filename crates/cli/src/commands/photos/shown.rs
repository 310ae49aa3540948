//! Cameras and sparse points in a browser while the tool finds them.
//!
//! One thread makes the capture; a second one renders for the pages, with an engine of its own.

use crate::console::Console;
use crate::options::DeviceOptions;
use crate::viewing::{InitialView, splats_of_points, stage, title};
use dapple::BoxedEngine;
use dapple::contract::RenderSettings;
use dapple::glam::{DQuat, DVec3};
use dapple::live::Viewer;
use dapple::scene::{Camera, Error, Point, Progress, Result, Splats};
use dapple_photos::{Done, Options, Snapshot, frustum, make_watched};
use dapple_viewer::Stage;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Sizes of a camera and of a point on the page, in distances from the first view to its target.
const CAMERA_SIZE: f64 = 0.04;
const POINT_SIZE: f64 = 0.0012;

/// Share of the points that the first view frames; all cameras are in it.
const FRAMED: f64 = 0.8;

/// Distance of the first view, in radii of what it frames.
const FRAMED_FROM: f64 = 2.2;

/// Thickness of a camera's edges, in camera sizes.
const EDGE: f64 = 0.02;

/// Degree-0 coefficients of the edges: yellow.
const YELLOW: [f32; 3] = [1.6, 0.9, -1.4];

/// Reason that pages cannot edit.
const NO_EDITS: &str = "sparse points are not edited";

/// Longest wait for a request of a page.
const PATIENCE: Duration = Duration::from_millis(100);

/// Facts for the pages, from the thread that makes the capture.
#[derive(Default)]
struct News {
    /// Stage of the work: "finding features".
    work: String,
    /// True until the stage has been shown.
    is_new: bool,
    /// Newest cameras and points, until they have been shown.
    snapshot: Option<Snapshot>,
}

/// Progress that is also shown on the pages.
struct ShownProgress<'a> {
    console: &'a dyn Progress,
    news: &'a Mutex<News>,
}

impl Progress for ShownProgress<'_> {
    fn start(&self, what: &str, total: u64) {
        let mut news = locked(self.news);
        what.clone_into(&mut news.work);
        news.is_new = true;
        drop(news);
        self.console.start(what, total);
    }

    fn advance(&self, n: u64) {
        self.console.advance(n);
    }

    fn finish(&self) {
        self.console.finish();
    }

    fn should_stop(&self) -> bool {
        self.console.should_stop()
    }
}

/// Makes a capture and shows it in the viewer.
///
/// # Errors
/// Those of [`make_watched`].
pub fn make_shown(
    options: &Options,
    viewer: &Viewer,
    device: &DeviceOptions,
    console: &Console,
) -> Result<Done> {
    let news = Mutex::<News>::default();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pages = Pages {
                viewer,
                device,
                console,
                name: title(&options.out),
                engine: None,
                settings: RenderSettings::default(),
            };
            while !ended.load(Ordering::Acquire) {
                pages.serve(&news);
            }
            pages.serve(&news);
        });
        // Also at a panic: the scope waits for its threads.
        let _ended = Ended(&ended);
        let progress = console.progress();
        let progress = ShownProgress {
            console: &progress,
            news: &news,
        };
        let watch = |snapshot| locked(&news).snapshot = Some(snapshot);
        make_watched(options, &progress, Some(&watch))
    })
}

/// Sets a flag when it is dropped.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn locked(news: &Mutex<News>) -> MutexGuard<'_, News> {
    news.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Pages, and the engine that renders for them once there are poses.
struct Pages<'a> {
    viewer: &'a Viewer,
    device: &'a DeviceOptions,
    console: &'a Console,
    name: String,
    engine: Option<BoxedEngine>,
    settings: RenderSettings,
}

impl Pages<'_> {
    /// Shows the news, and answers one page.
    fn serve(&mut self, news: &Mutex<News>) {
        let (work, is_new, snapshot) = {
            let mut news = locked(news);
            let is_new = std::mem::take(&mut news.is_new);
            (news.work.clone(), is_new, news.snapshot.take())
        };
        if let Some(snapshot) = snapshot {
            if let Err(error) = self.show(&snapshot) {
                let note = format!("note: cameras and points could not be shown: {error}");
                self.console.detail(&note);
            }
        } else if is_new && self.engine.is_none() {
            self.viewer.show(Stage {
                device: work.clone(),
                edits: Err(NO_EDITS.to_owned()),
                ..Stage::titled(self.name.clone())
            });
        }
        let Some(request) = self.viewer.next(PATIENCE) else {
            return;
        };
        let picture = match &mut self.engine {
            Some(engine) => request.picture(engine.as_mut(), &self.settings),
            None => Err(Error::input(format!("no photo has a pose yet: {work}"))),
        };
        self.viewer.answer(&request, picture);
    }

    fn show(&mut self, snapshot: &Snapshot) -> Result<()> {
        let cameras: Vec<Camera> = snapshot.cameras.iter().map(|named| named.1).collect();
        let finite = |point: &&Point| point.position.iter().all(|v| v.is_finite());
        let points: Vec<_> = snapshot.points.iter().filter(finite).copied().collect();
        let Some(ring) = InitialView::of_cameras(&cameras, None) else {
            return Ok(());
        };
        let view = first_view(&ring, &cameras, &points);
        let mut splats = splats_of_points(&points, view.distance)?;
        // Not their distances: far points would hide everything.
        let size = (POINT_SIZE * view.distance).ln() as f32;
        splats.scales.fill([size; 3]);
        let points = splats.len();
        for camera in &cameras {
            add_camera(&mut splats, camera, CAMERA_SIZE * view.distance);
        }
        if self.engine.is_none() {
            self.engine = Some(self.device.opener()(false)?.into_engine());
        }
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        engine.upload(&splats, None)?;
        self.settings = RenderSettings {
            sh_degree: 0,
            near: (0.01 * view.distance) as f32,
            ..RenderSettings::default()
        };
        let device = format!(
            "{points} points and {} cameras; {}",
            cameras.len(),
            engine.description()
        );
        // Pages begin with a new view when the title changes, as the frame does.
        let title = match snapshot.is_final {
            true => self.name.clone(),
            false => format!("{}, poses so far", self.name),
        };
        // Cameras are drawn, not listed: a page that looks through one would see the edges of its neighbours.
        self.viewer.show(Stage {
            edits: Err(NO_EDITS.to_owned()),
            ..stage(title, device, splats.len() as u64, &view)
        });
        self.viewer.changed();
        Ok(())
    }
}

/// Returns the view that frames all cameras and most points.
fn first_view(ring: &InitialView, cameras: &[Camera], points: &[Point]) -> InitialView {
    let centres = cameras
        .iter()
        .map(|camera| camera.camera_from_world.centre());
    let centres: Vec<DVec3> = centres.collect();
    let places: Vec<DVec3> = points
        .iter()
        .map(|point| DVec3::from(point.position.map(f64::from)))
        .collect();
    let median = |k: usize, of: &[DVec3]| {
        let mut values: Vec<f64> = of.iter().map(|place| place[k]).collect();
        values.sort_by(f64::total_cmp);
        values
            .get(values.len() / 2)
            .copied()
            .unwrap_or(ring.centre[k])
    };
    let middle = |of: &[DVec3]| DVec3::new(median(0, of), median(1, of), median(2, of));
    let centre = 0.5 * (middle(&centres) + middle(&places));
    let mut away: Vec<f64> = places.iter().map(|place| place.distance(centre)).collect();
    away.sort_by(f64::total_cmp);
    let most = away.get((away.len() as f64 * FRAMED) as usize).copied();
    let radius = centres
        .iter()
        .map(|eye| eye.distance(centre))
        .fold(most.unwrap_or(0.0), f64::max);
    InitialView {
        centre,
        distance: FRAMED_FROM * radius.max(1e-6),
        ..*ring
    }
}

/// Adds the edges of a camera as thin Gaussians.
fn add_camera(splats: &mut Splats, camera: &Camera, size: f64) {
    let (centre, corners) = frustum(camera, size);
    for (at, &corner) in corners.iter().enumerate() {
        add_edge(splats, centre, corner, EDGE * size);
        add_edge(
            splats,
            corner,
            corners[(at + 1) % corners.len()],
            EDGE * size,
        );
    }
}

fn add_edge(splats: &mut Splats, from: DVec3, to: DVec3, thickness: f64) {
    let along = to - from;
    let turn = DQuat::from_rotation_arc(DVec3::X, along.normalize_or(DVec3::X));
    let middle = 0.5 * (from + to);
    // A Gaussian is visible to about two standard deviations on each side.
    let [length, thin] = [along.length() / 4.0, thickness].map(|s| s.max(1e-12).ln() as f32);
    splats.means.push(middle.to_array().map(|v| v as f32));
    splats.scales.push([length, thin, thin]);
    splats
        .quats
        .push([turn.w, turn.x, turn.y, turn.z].map(|v| v as f32));
    splats.opacities.push(4.0);
    splats.sh0.push(YELLOW);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_a_camera_lead_from_its_centre_to_its_image() {
        let camera = Camera::pinhole(40, 20, 20.0, dapple::scene::Pose::IDENTITY);
        let mut splats = Splats::default();
        add_camera(&mut splats, &camera, 2.0);
        assert!(splats.check_lengths().is_ok());
        assert_eq!(splats.len(), 8);
        // The first edge ends at the upper left corner, 2 in front: (-2, -1, 2).
        assert_eq!(splats.means[0], [-1.0, -0.5, 1.0]);
        let [w, x, y, z] = splats.quats[0].map(f64::from);
        let along = DQuat::from_xyzw(x, y, z, w) * DVec3::X;
        assert!(along.distance(DVec3::new(-2.0, -1.0, 2.0) / 3.0) < 1e-6);
        assert!((splats.scales[0][0].exp() - 0.75).abs() < 1e-6);
    }
}
