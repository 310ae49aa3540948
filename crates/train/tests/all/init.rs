//! The first Gaussians.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_scene::{Camera, Dataset, Photo, Point, Pose, View};
use dapple_train::TrainConfig;
use dapple_train::init::{from_points, initial_splats};
use glam::DVec3;

fn point(x: f32, y: f32, z: f32) -> Point {
    Point {
        position: [x, y, z],
        rgb: [255, 0, 128],
    }
}

fn ring(points: Vec<Point>) -> Dataset {
    let view = |i: usize| {
        let angle = i as f64;
        let eye = DVec3::new(5.0 + 4.0 * angle.cos(), 1.0, 4.0 * angle.sin());
        View::new(
            format!("{i:02}.png"),
            Camera::pinhole(
                16,
                12,
                16.0,
                Pose::look_at(eye, DVec3::new(5.0, 0.0, 0.0), DVec3::Y),
            ),
            Photo::from_rgb(16, 12, vec![100; 16 * 12 * 3]),
        )
    };
    Dataset {
        views: (0..8).map(view).collect(),
        points,
        ..Dataset::default()
    }
}

#[test]
fn scales_are_the_distance_to_three_neighbours() {
    let points = [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 2.0, 0.0),
        (0.0, 0.0, 3.0),
        (50.0, 0.0, 0.0),
    ]
    .map(|(x, y, z)| point(x, y, z));
    let splats = from_points(&points, 10.0, 2, 0).unwrap();
    let expected = ((1.0 + 4.0 + 9.0) / 3.0f64).sqrt().ln() as f32;
    assert!((splats.scales[0][0] - expected).abs() < 1e-6);
    assert_eq!(splats.scales[0], [splats.scales[0][0]; 3]);
    assert!((splats.opacities[0] - (0.1f32 / 0.9).ln()).abs() < 1e-6);
    assert!((0.5 + dapple_scene::SH_C0 * splats.sh0[0][0] - 1.0).abs() < 1e-6);
    assert_eq!(splats.sh_rest.len(), 5 * 8 * 3);
    for quat in &splats.quats {
        let length: f32 = quat.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
}

#[test]
fn coinciding_lost_and_lone_points_stay_finite() {
    let mut points = vec![point(1.0, 2.0, 3.0); 500];
    points.push(point(1e30, 0.0, 0.0));
    for points in [&points[..], &points[..1], &points[..2], &[]] {
        let splats = from_points(points, 1.0, 0, 0).unwrap();
        assert_eq!(splats.len(), points.len());
        assert!(splats.scales.iter().flatten().all(|v| v.is_finite()));
    }
    let mut broken = ring(vec![
        point(f32::NAN, 0.0, 0.0),
        point(0.0, 1.0, f32::INFINITY),
    ]);
    let config = TrainConfig::default();
    assert!(initial_splats(&broken, &[0, 1], 1.0, &config).is_err());
    broken.points.push(point(0.0, 0.0, 0.0));
    assert_eq!(
        initial_splats(&broken, &[0, 1], 1.0, &config)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_start_is_capped_by_a_seeded_sample() {
    let points = (0..1000).map(|i| point(i as f32, 0.0, 0.0)).collect();
    let dataset = ring(points);
    let with = |seed, initial_gaussians, max_gaussians| {
        let config = TrainConfig {
            seed,
            initial_gaussians,
            max_gaussians,
            ..TrainConfig::default()
        };
        initial_splats(&dataset, &[0, 1], 1.0, &config).unwrap()
    };
    let sampled = with(1, 100, 0);
    assert_eq!(sampled.len(), 100);
    assert_eq!(sampled, with(1, 100, 0));
    assert_ne!(sampled.means, with(2, 100, 0).means);
    let xs: Vec<f32> = sampled.means.iter().map(|m| m[0]).collect();
    assert!(xs.windows(2).all(|w| w[0] < w[1]), "distinct and in order");
    assert!(xs[50] > 300.0 && xs[50] < 700.0, "spread over all points");
    assert_eq!(with(1, 0, 50).len(), 50);
}

#[test]
fn without_points_the_watched_box_is_filled() {
    let dataset = ring(Vec::new());
    let config = TrainConfig {
        initial_gaussians: 2000,
        ..TrainConfig::default()
    };
    let all: Vec<usize> = (0..8).collect();
    let splats = initial_splats(&dataset, &all, 4.4, &config).unwrap();
    assert_eq!(splats.len(), 2000);
    let mean = |axis: usize| splats.means.iter().map(|m| m[axis]).sum::<f32>() / 2000.0;
    assert!((mean(0) - 5.0).abs() < 0.2 && mean(1).abs() < 0.2 && mean(2).abs() < 0.2);
    // A capture that should have points is refused, unless random ones are requested.
    let broken = Dataset {
        missing_points: Some("sparse/0/points3D.bin".into()),
        ..dataset
    };
    let error = initial_splats(&broken, &all, 4.4, &config).unwrap_err();
    assert_eq!(error.place(), Some("sparse/0/points3D.bin"));
    assert!(
        error
            .hint_text()
            .is_some_and(|hint| hint.contains("random"))
    );
    let asked = TrainConfig {
        random_start: true,
        ..config
    };
    let again = initial_splats(&broken, &all, 4.4, &asked).unwrap();
    assert_eq!(again, splats);
    // 4.12 away, half of 12 pixels at focal length 16: 1.55.
    let widest = splats.means.iter().map(|m| m[1].abs()).fold(0.0, f32::max);
    assert!((1.4..1.6).contains(&widest), "{widest}");
}

/// The colour of the ball in [`ball`]'s photos.
const BALL: [u8; 3] = [200, 120, 40];

/// 24 photos of a ball of radius 1 at the origin from a distance of 4; `behind` is the colour around it, `None`
/// is alpha.
fn ball(behind: Option<[u8; 3]>) -> Dataset {
    let size = 96u32;
    let view = |i: usize| {
        let (angle, up) = (i as f64 * 2.4, (i as f64 + 0.5) / 12.0 - 1.0);
        let out = (1.0 - up * up).sqrt();
        let eye = 4.0 * DVec3::new(out * angle.cos(), up, out * angle.sin());
        let camera = Camera::pinhole(size, size, 120.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
        let hits = |pixel: u32| {
            let (x, y) = (f64::from(pixel % size) + 0.5, f64::from(pixel / size) + 0.5);
            let ray = DVec3::new((x - 48.0) / 120.0, (y - 48.0) / 120.0, 1.0).normalize();
            let along = ray.z * 4.0;
            along * along - 15.0 >= 0.0
        };
        let pixels: Vec<bool> = (0..size * size).map(hits).collect();
        let rgb = pixels.iter().flat_map(|&hit| match (hit, behind) {
            (true, _) => BALL,
            (false, Some(colour)) => colour,
            (false, None) => [0; 3],
        });
        let mut photo = Photo::from_rgb(size, size, rgb.collect());
        if behind.is_none() {
            let alpha = |&hit: &bool| if hit { 255 } else { 0 };
            photo.alpha = Some(pixels.iter().map(alpha).collect());
        }
        View::new(format!("{i:02}.png"), camera, photo)
    };
    Dataset {
        views: (0..24).map(view).collect(),
        ..Dataset::default()
    }
}

fn start(dataset: &Dataset, initial_gaussians: usize) -> dapple_scene::Splats {
    let all: Vec<usize> = (0..dataset.views.len()).collect();
    let config = TrainConfig {
        initial_gaussians,
        ..TrainConfig::default()
    };
    initial_splats(dataset, &all, dataset.extent(&all), &config).unwrap()
}

fn colours(splats: &dapple_scene::Splats) -> Vec<[u8; 3]> {
    let value = |v: f32| (255.0 * (0.5 + dapple_scene::SH_C0 * v)).round() as u8;
    splats.sh0.iter().map(|sh| sh.map(value)).collect()
}

fn length(mean: &[f32; 3]) -> f32 {
    mean.iter().map(|v| v * v).sum::<f32>().sqrt()
}

#[test]
fn alpha_and_a_plain_background_leave_points_out_and_colour_the_others() {
    for behind in [None, Some([255; 3]), Some([0, 0, 0])] {
        let splats = start(&ball(behind), 0);
        // One for ten pixels of the ball.
        assert!((4000..8000).contains(&splats.len()), "{}", splats.len());
        let farthest = splats.means.iter().map(length).fold(0.0, f32::max);
        assert!((0.9..1.2).contains(&farthest), "{behind:?}: {farthest}");
        let right = colours(&splats).iter().filter(|&&c| c == BALL).count();
        assert!(right * 100 > splats.len() * 97, "{behind:?}: {right}");
    }
    // The named number.
    assert_eq!(start(&ball(None), 4000).len(), 4000);
}

#[test]
fn opaque_photos_start_along_their_rays() {
    let mut dataset = ball(Some([255; 3]));
    // Borders of several colours are no plain background.
    for (i, view) in dataset.views.iter_mut().enumerate() {
        let mut photo = view.photo.read().unwrap().as_ref().clone();
        for (p, pixel) in photo.rgb.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            if *pixel == [255; 3] {
                *pixel = [(p * 7 + i) as u8, (p * 13) as u8, (p * 31) as u8];
            }
        }
        view.photo = photo.into();
    }
    let splats = start(&dataset, 0);
    // One for 30 pixels: 24 photos of 96 x 96.
    assert_eq!(splats.len(), 24 * 96 * 96 / 30);
    // Photos agree only on the ball: points of its colour are where it is.
    let pairs = colours(&splats).into_iter().zip(&splats.means);
    let of_ball: Vec<f32> = pairs
        .filter(|(colour, _)| *colour == BALL)
        .map(|(_, mean)| length(mean))
        .collect();
    let near = of_ball.iter().filter(|&&l| l < 1.3).count();
    assert!(
        of_ball.len() > 800 && near * 3 > of_ball.len() * 2,
        "{near}"
    );
}

#[test]
fn the_start_of_small_photos_has_bounds() {
    // 8 photos of 16 x 12 pixels, of one colour: nothing is carved.
    assert_eq!(start(&ring(Vec::new()), 0).len(), 1000);
}

#[test]
fn cameras_that_look_outwards_start_along_their_rays() {
    let view = |i: usize| {
        let angle = i as f64 * std::f64::consts::TAU / 12.0;
        let ahead = DVec3::new(angle.cos(), 0.0, angle.sin());
        let pose = Pose::look_at(2.0 * ahead, 5.0 * ahead, DVec3::Y);
        let rgb = (0..64 * 48 * 3).map(|v| (v * 5 + 40 * i) as u8).collect();
        let camera = Camera::pinhole(64, 48, 40.0, pose);
        View::new(format!("{i:02}.png"), camera, Photo::from_rgb(64, 48, rgb))
    };
    let dataset = Dataset {
        views: (0..12).map(view).collect(),
        ..Dataset::default()
    };
    let splats = start(&dataset, 3000);
    assert_eq!(splats.len(), 3000);
    let mut distances: Vec<f32> = splats.means.iter().map(length).collect();
    distances.sort_by(f32::total_cmp);
    // Cameras are 2 from the middle, the extent is 2.2: depths of 0.66 to 26.
    assert!(distances[0] > 2.6 && distances[2999] > 20.0);
    assert!(
        (3.0..16.0).contains(&distances[1500]),
        "{}",
        distances[1500]
    );
    for mean in &splats.means {
        let world = DVec3::from(mean.map(f64::from));
        let sees = |view: &View| {
            let seen = view.camera.camera_from_world.transform(world);
            let at = view.camera.project_pinhole(seen);
            at.is_some_and(|p| (-0.1..64.1).contains(&p.x) && (-0.1..48.1).contains(&p.y))
        };
        assert!(dataset.views.iter().any(sees), "{world}");
    }
}

#[test]
fn a_random_start_does_not_depend_on_threads() {
    let dataset = ball(None);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| start(&dataset, 0))
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn points_without_recorded_colours_take_those_of_the_photos() {
    let points = |black: usize| -> Vec<Point> {
        let place = |i: usize| {
            let angle = i as f32;
            Point {
                position: [angle.cos(), 0.0, angle.sin()].map(|v| 0.6 * v),
                rgb: if i < black { [0; 3] } else { [9, 8, 7] },
            }
        };
        let mut points: Vec<Point> = (0..100).map(place).collect();
        // Behind every camera's frame.
        points[0].position = [900.0, 900.0, 900.0];
        points
    };
    let with = |black| {
        let dataset = Dataset {
            points: points(black),
            ..ball(None)
        };
        colours(&start(&dataset, 0))
    };
    let all = with(100);
    assert!(all[0] == [128; 3] && all[1..].iter().all(|&c| c == BALL));
    let most = with(90);
    assert!(most[1..90].iter().all(|&c| c == BALL));
    assert!(most[90..].iter().all(|&c| c == [9, 8, 7]));
    // Some black points are black things.
    assert!(with(40)[..40].iter().all(|&c| c == [0; 3]));
}
