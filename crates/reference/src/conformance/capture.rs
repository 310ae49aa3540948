//! A real capture against the f64 reference: sizes, depths and density that no synthetic scene has.
//!
//! 1. Place Gaussians at some of the sparse points, as large as the distance to their neighbours,
//!    with opacity 0.1 and the points' colours. Rotations and the dependence on the view are random.
//!    0.1, the points' colours, random rotations, a random dependence on the view.
//! 2. Photos are reduced until the reference, which visits all Gaussians in every pixel, takes a
//!    second or two.
//! 3. The image, and every gradient of the training loss against the photo, are compared. Undecided
//!    pixels have no gradient: a Gaussian there is about to be skipped, or the pixel about to be
//!    finished. An engine in `f32` may decide otherwise there and is not wrong.

use super::decided::decided;
use super::engines::Make;
use crate as reference;
use crate::compare::{self, TOLERANCE};
use crate::scenes::Random;
use dapple_engine::{EngineExt, RenderSettings};
use dapple_scene::{Dataset, LoadOptions, NoProgress, SH_C0, Splats, View, load};

/// Longest side of a photo, pixels.
const LONGEST_SIDE: u32 = 80;
/// Maximum number of Gaussians.
const GAUSSIANS: usize = 2500;
/// Number of compared views, from all around.
const VIEWS: usize = 3;

/// Margin of decisions, in units of ln alpha: nearer to a threshold, `f32` may decide otherwise.
const MARGIN: f64 = 1e-4;

/// Checks on views of the capture `banana` that the image, each gradient tensor and the pose's are
/// within [`TOLERANCE`]. Without the capture, the check prints that it is skipped. The capture is in
/// the folder `DAPPLE_DATA`, or in `shared/data` next to the repository.
pub fn real_capture_matches_the_reference(make: Make<'_>) {
    let Some(folder) =
        dapple_scene::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), "banana")
    else {
        return;
    };
    let options = LoadOptions {
        max_resolution: Some(LONGEST_SIDE),
        ..LoadOptions::default()
    };
    let dataset = load(&folder, &options, &NoProgress).unwrap();
    let splats = gaussians(&dataset);
    let mut engine = make();
    engine.upload(&splats, None).unwrap();
    let mut failures = Vec::new();
    let every = dataset.views.len() / VIEWS;
    for view in dataset.views.iter().step_by(every).take(VIEWS) {
        let settings = RenderSettings {
            background: [0.1, 0.2, 0.3],
            ..RenderSettings::default()
        };
        let expected = reference::render(&splats, &view.camera, &settings).unwrap();
        let actual = engine.render(&view.camera, &settings).unwrap();
        assert!(actual.counts.visible > 200, "the view sees hardly anything");
        let mut errors = compare::compare_images(&actual, &expected);

        // The engine's input is f32, so the reference takes the same values.
        let all = reference::Gaussian::all(&splats);
        let decided = decided(&view.name, &all, &view.camera, &settings, MARGIN);
        let d_rgb = loss_gradient(&expected, view, settings.background, &decided);
        let widened: Vec<f64> = d_rgb.iter().map(|&v| f64::from(v)).collect();
        let expected =
            reference::gradients(&splats, &view.camera, &settings, &widened, None).unwrap();
        let actual = engine
            .gradients(&view.camera, &settings, &d_rgb, None)
            .unwrap();
        errors.extend(compare::compare_gradients(&actual, &expected));
        errors.push(("pose", compare::compare_pose(&actual, &expected)));
        for (what, error) in errors {
            println!("{:28} {what:10} {error:.2e}", view.name);
            if error > TOLERANCE {
                failures.push(format!("{} {what}: {error:.2e}", view.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns dL/dimage of the training loss, times the number of pixels: values near 1.
fn loss_gradient(
    image: &reference::Image,
    view: &View,
    background: [f32; 3],
    decided: &[bool],
) -> Vec<f32> {
    let photo = &*view.photo.read().unwrap();
    let (width, height) = (photo.width as usize, photo.height as usize);
    let target = reference::photo_target(photo, background);
    let mask = reference::photo_mask(photo);
    let (_, gradient) = reference::loss(&image.rgb, &target, width, height, mask.as_deref(), 0.2);
    let pixels = (width * height) as f64;
    let pairs = gradient.as_chunks::<3>().0.iter().zip(decided);
    pairs
        .flat_map(|(rgb, &sure)| rgb.map(|v| if sure { (v * pixels) as f32 } else { 0.0 }))
        .collect()
}

/// Creates the Gaussians of step 1.
fn gaussians(dataset: &Dataset) -> Splats {
    let every = dataset.points.len().div_ceil(GAUSSIANS);
    let points: Vec<_> = dataset.points.iter().step_by(every).collect();
    let random = &mut Random::new(17);
    let mut value = |most: f64| random.uniform(-most, most) as f32;
    let mut splats = Splats::empty(dapple_scene::MAX_SH_DEGREE);
    for point in &points {
        splats.means.push(point.position);
        splats.quats.push(std::array::from_fn(|_| value(1.0)));
        splats.opacities.push((0.1f32 / 0.9).ln());
        let colour = |v: u8| (f32::from(v) / 255.0 - 0.5) / SH_C0;
        splats.sh0.push(point.rgb.map(colour));
        // Between half and one and a half times the distance, along each axis.
        let distance = neighbour_distance(point.position, &points);
        let scale = |_| distance.max(1e-4).ln() + value(0.5);
        splats.scales.push(std::array::from_fn(scale));
        let rest = (0..splats.sh_rest_stride()).map(|_| value(0.05));
        splats.sh_rest.extend(rest);
    }
    splats
}

/// Returns the root mean square distance to the three nearest other points.
fn neighbour_distance(position: [f32; 3], points: &[&dapple_scene::Point]) -> f32 {
    let mut nearest = [f32::INFINITY; 3];
    for point in points {
        let square = |i: usize| (point.position[i] - position[i]).powi(2);
        let mut distance = square(0) + square(1) + square(2);
        if distance > 0.0 {
            for place in &mut nearest {
                if distance < *place {
                    std::mem::swap(place, &mut distance);
                }
            }
        }
    }
    (nearest.iter().sum::<f32>() / 3.0).sqrt()
}
