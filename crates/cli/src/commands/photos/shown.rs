//! Cameras and sparse points in a browser while the tool finds them.
//!
//! One thread makes the capture; a second one renders for the pages, with an engine of its own.

use crate::console::Console;
use crate::options::DeviceOptions;
use crate::viewing::{InitialView, stage, title};
use dapple::BoxedEngine;
use dapple::contract::RenderSettings;
use dapple::glam::{DQuat, DVec3};
use dapple::live::Viewer;
use dapple::scene::{Camera, Error, Progress, Result, SH_C0, Splats};
use dapple_photos::{Done, Options, Snapshot, frustum, make_watched};
use dapple_viewer::Stage;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

/// Sizes of a camera and of a point on the page, in distances from the first view to its target.
const CAMERA_SIZE: f64 = 0.04;
const POINT_SIZE: f64 = 0.0012;

/// Distance of the first view, in radii of what it frames.
const FRAMED_FROM: f64 = 2.2;

/// Thickness of a camera's edges, in camera sizes.
const EDGE: f64 = 0.02;

/// Degree-0 coefficients of the edges: yellow.
const YELLOW: [f32; 3] = [1.6, 0.9, -1.4];

/// Logit of the opacity of points and edges.
const OPAQUE: f32 = 4.0;

/// Reason that pages cannot edit.
const NO_EDITS: &str = "sparse points are not edited";

/// Longest wait for a request of a page.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fact for the pages, from the thread that makes the capture.
enum News {
    /// Stage of the work: "finding features".
    Work(String),
    /// Newest cameras and points.
    Poses(Snapshot),
}

/// Progress that is also shown on the pages.
struct ShownProgress<'a> {
    console: &'a dyn Progress,
    news: Sender<News>,
}

impl Progress for ShownProgress<'_> {
    fn start(&self, what: &str, total: u64) {
        let _ = self.news.send(News::Work(what.to_owned()));
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
    std::thread::scope(|scope| {
        // The pages end when the senders are dropped, also at a panic.
        let (news, received) = channel();
        scope.spawn(|| {
            let pages = Pages {
                viewer,
                device,
                console,
                name: title(&options.out),
                work: String::new(),
                engine: None,
                settings: RenderSettings::default(),
            };
            pages.serve(received);
        });
        let progress = console.progress();
        let progress = ShownProgress {
            console: &progress,
            news: news.clone(),
        };
        let watch = move |snapshot| {
            let _ = news.send(News::Poses(snapshot));
        };
        make_watched(options, &progress, Some(&watch))
    })
}

/// Pages, and the engine that renders for them once there are poses.
struct Pages<'a> {
    viewer: &'a Viewer,
    device: &'a DeviceOptions,
    console: &'a Console,
    name: String,
    work: String,
    engine: Option<BoxedEngine>,
    settings: RenderSettings,
}

impl Pages<'_> {
    /// Shows the news and answers pages until the senders are dropped and all news are shown.
    fn serve(mut self, news: Receiver<News>) {
        loop {
            match news.try_recv() {
                Ok(News::Work(work)) => self.show_work(work),
                Ok(News::Poses(snapshot)) => {
                    if let Err(error) = self.show(&snapshot) {
                        let note = format!("note: cameras and points could not be shown: {error}");
                        self.console.detail(&note);
                    }
                }
                Err(TryRecvError::Empty) => self.answer(PATIENCE),
                // The last picture for pages that wait.
                Err(TryRecvError::Disconnected) => return self.answer(PATIENCE),
            }
        }
    }

    fn show_work(&mut self, work: String) {
        self.work = work;
        if self.engine.is_none() {
            self.viewer.show(Stage {
                device: self.work.clone(),
                edits: Err(NO_EDITS.to_owned()),
                ..Stage::titled(self.name.clone())
            });
        }
    }

    /// Answers one page, if one asks in this time.
    fn answer(&mut self, patience: Duration) {
        let Some(request) = self.viewer.next(patience) else {
            return;
        };
        let picture = match &mut self.engine {
            Some(engine) => request.picture(engine.as_mut(), &self.settings),
            None => Err(Error::input(format!(
                "no photo has a pose yet: {}",
                self.work
            ))),
        };
        self.viewer.answer(&request, picture);
    }

    fn show(&mut self, snapshot: &Snapshot) -> Result<()> {
        let Some(ring) = InitialView::of_cameras(&snapshot.cameras, None) else {
            return Ok(());
        };
        let (centre, radius) = snapshot.bounds();
        let view = InitialView {
            centre,
            distance: FRAMED_FROM * radius,
            ..ring
        };
        let splats = splats_of(snapshot, view.distance);
        let engine = match &mut self.engine {
            Some(engine) => engine,
            none => none.insert(self.device.opener()(false)?.into_engine()),
        };
        engine.upload(&splats, None)?;
        self.settings = RenderSettings {
            sh_degree: 0,
            near: (0.01 * view.distance) as f32,
            ..RenderSettings::default()
        };
        let device = format!(
            "{} points and {} cameras; {}",
            snapshot.points.len(),
            snapshot.cameras.len(),
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

/// Returns points and cameras as Gaussians to look at from a distance.
fn splats_of(snapshot: &Snapshot, distance: f64) -> Splats {
    let mut splats = Splats::default();
    for point in &snapshot.points {
        let place = DVec3::from(point.position.map(f64::from));
        let rgb = point.rgb.map(|v| (f32::from(v) / 255.0 - 0.5) / SH_C0);
        let size = DVec3::splat(POINT_SIZE * distance);
        add_gaussian(&mut splats, place, size, DQuat::IDENTITY, rgb);
    }
    for camera in &snapshot.cameras {
        add_camera(&mut splats, camera, CAMERA_SIZE * distance);
    }
    splats
}

/// Adds the edges of a camera as thin Gaussians.
fn add_camera(splats: &mut Splats, camera: &Camera, size: f64) {
    let (centre, corners) = frustum(camera, size);
    for (at, &corner) in corners.iter().enumerate() {
        let next = corners[(at + 1) % corners.len()];
        for (from, to) in [(centre, corner), (corner, next)] {
            let along = to - from;
            let turn = DQuat::from_rotation_arc(DVec3::X, along.normalize_or(DVec3::X));
            // A Gaussian is visible to about two standard deviations on each side.
            let sizes = DVec3::new(along.length() / 4.0, EDGE * size, EDGE * size);
            add_gaussian(splats, 0.5 * (from + to), sizes, turn, YELLOW);
        }
    }
}

fn add_gaussian(splats: &mut Splats, mean: DVec3, sizes: DVec3, turn: DQuat, sh0: [f32; 3]) {
    let numbers = |values: DVec3| values.to_array().map(|v| v as f32);
    splats.means.push(numbers(mean));
    splats
        .scales
        .push(numbers(sizes.max(DVec3::splat(1e-12)).map(f64::ln)));
    let quat = [turn.w, turn.x, turn.y, turn.z];
    splats.quats.push(quat.map(|v| v as f32));
    splats.opacities.push(OPAQUE);
    splats.sh0.push(sh0);
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
