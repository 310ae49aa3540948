//! LPIPS by tensors, on the CPU and on a GPU, compared with the CPU version.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::gpu;
use crate::lpips_weights;

use dapple_tensor::Context;
use dapple_train::evaluate::Lpips;
use lpips_weights::{ALEX, Row, VGG, file, random};

fn contexts() -> Vec<Context> {
    let gpu = gpu::open().map(|gpu| Context::gpu(&gpu));
    std::iter::once(Context::cpu()).chain(gpu).collect()
}

/// Shading, edges, texture, black and white; and an image like a blurred, shifted, darker render of it.
fn pictures(width: usize, height: usize) -> (Vec<f32>, Vec<f32>) {
    let value = |x: f32, y: f32, c: usize| {
        let shade = 0.5 + 0.3 * (x * 0.05 + c as f32).sin() * (y * 0.08).cos();
        let edge = f32::from((x / 9.0).floor() as i32 % 3 == 0 && y > 11.0);
        let texture = 0.15 * (x * 2.1 + y * 1.3).sin();
        (shade + texture - 0.5 * edge * (c as f32 - 1.0)).clamp(0.0, 1.0)
    };
    let picture = |of: &dyn Fn(f32, f32, usize) -> f32| {
        let pixels = (0..height * width).map(|i| ((i % width) as f32, (i / width) as f32));
        pixels
            .flat_map(|(x, y)| [0, 1, 2].map(|c| of(x, y, c)))
            .collect::<Vec<f32>>()
    };
    let render = picture(&|x, y, c| {
        let blurred = (value(x - 0.7, y, c) + value(x + 1.0, y + 0.5, c)) / 2.0;
        0.95 * blurred
    });
    (render, picture(&value))
}

const SIZES: [(&[Row], bool, usize, usize); 6] = [
    (ALEX, true, 39, 47),
    (ALEX, false, 31, 31),
    (ALEX, false, 131, 67),
    (ALEX, false, 64, 96),
    (VGG, false, 19, 16),
    (VGG, false, 37, 50),
];

#[test]
fn tensors_say_what_the_processor_says() {
    for context in contexts() {
        for (rows, own, width, height) in SIZES {
            let lpips = Lpips::parse(&file(&random(rows, own))).unwrap();
            let mut device = lpips.on(&context).unwrap();
            let (a, b) = pictures(width, height);
            // Half hidden; a hole; so much that the last layers' places are all centred in it.
            let mask = |shows: &dyn Fn(usize, usize) -> bool| -> Vec<u8> {
                let value = |i: usize| if shows(i % width, i / width) { 255 } else { 0 };
                (0..width * height).map(value).collect()
            };
            let masks = [
                None,
                Some(mask(&|x, _| x >= width / 2)),
                // The shares of earlier masks are not reused.
                None,
                Some(mask(&|x, y| x < 12 || y > 20)),
                Some(mask(&|x, y| x + y == 0)),
            ];
            // VGG takes long in software: its larger pictures have fewer masks.
            let is_slow = rows == VGG && width > 19;
            let count = if is_slow { 3 } else { masks.len() };
            let mut without = Vec::new();
            for mask in &masks[..count] {
                let mask = mask.as_deref();
                let expected = lpips.distance(&a, &b, width, height, mask).unwrap();
                let actual = device.distance(&a, &b, width, height, mask).unwrap();
                println!("{context:?} {width}x{height}: {actual} {expected}");
                let most = 1e-4 * expected.min(1.0);
                assert!((actual - expected).abs() <= most, "{actual} {expected}");
                let again = device.distance(&a, &b, width, height, mask).unwrap();
                assert_eq!(again.to_bits(), actual.to_bits());
                if mask.is_none() {
                    assert!(actual > 1e-3);
                    without.push(actual.to_bits());
                }
            }
            assert_eq!(without[0], without[1]);
            let equal = device.distance(&b, &b, width, height, None).unwrap();
            assert_eq!(equal, 0.0);
        }
    }
}

#[test]
fn one_network_takes_pictures_of_many_sizes() {
    let lpips = Lpips::parse(&file(&random(ALEX, false))).unwrap();
    for context in contexts() {
        let mut device = lpips.on(&context).unwrap();
        let sizes = [(35, 64), (64, 35), (35, 64)];
        let distances = sizes.map(|(width, height)| {
            let (a, b) = pictures(width, height);
            let actual = device.distance(&a, &b, width, height, None).unwrap();
            let expected = lpips.distance(&a, &b, width, height, None).unwrap();
            assert!((actual - expected).abs() <= 1e-4, "{actual} {expected}");
            actual.to_bits()
        });
        assert_eq!(distances[0], distances[2]);
        let (a, b) = pictures(12, 40);
        let small = device.distance(&a, &b, 12, 40, None).unwrap_err();
        assert!(small.to_string().contains("12 x 40"), "{small}");
    }
}

/// No device binds 4 GiB.
#[test]
fn pictures_that_do_not_fit_a_binding_are_refused_before_anything_is_made() {
    let Some(gpu) = gpu::open() else {
        return;
    };
    let of = |rows: &[Row]| {
        let lpips = Lpips::parse(&file(&random(rows, false))).unwrap();
        lpips.on(&Context::gpu(&gpu)).unwrap()
    };
    // 64 channels of 8192 x 8192.
    let error = of(VGG).prepare(8192, 8192).unwrap_err();
    assert!(error.to_string().contains("17179869184"), "{error}");
    assert!(
        error.to_string().contains("VGG-16 of 8192 x 8192"),
        "{error}"
    );
    assert!(error.hint_text().is_some());
    of(ALEX).prepare(1920, 1080).unwrap();
}
