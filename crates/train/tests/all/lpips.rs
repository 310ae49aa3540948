//! LPIPS, compared with a direct implementation in `f64` with random weights, and with a value computed by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::gpu;
use crate::lpips_weights;

use dapple_engine::CropLoss;
use dapple_train::evaluate::{Backbone, Lpips};
use lpips_weights::{ALEX, Noise, Row, Tensors, VGG, file, pair, random, tensors};

/// `[channel][y][x]`.
type Planes = Vec<Vec<Vec<f64>>>;

/// The definition, in `f64`, one loop a sum.
fn direct(
    rows: &[Row],
    tensors: &Tensors,
    images: [&[f64]; 2],
    width: usize,
    height: usize,
) -> f64 {
    let mean = [-0.030, -0.088, -0.188];
    let deviation = [0.458, 0.448, 0.450];
    let mut features = images.map(|image| -> Planes {
        let value = |c: usize, y: usize, x: usize| {
            let v = image[(y * width + x) * 3 + c];
            (2.0 * v - 1.0 - mean[c]) / deviation[c]
        };
        let row = |c, y| (0..width).map(|x| value(c, y, x)).collect();
        (0..3)
            .map(|c| (0..height).map(|y| row(c, y)).collect())
            .collect()
    });
    let (mut looked, mut total) = (0, 0.0);
    for row in rows {
        features = features.map(|planes| layer(&planes, row, tensors));
        if row.7 {
            let (_, linear) = &tensors[&format!("lin{looked}.model.1.weight")];
            let [a, b] = &features;
            let (h, w) = (a[0].len(), a[0][0].len());
            let mut sum = 0.0;
            for y in 0..h {
                for x in 0..w {
                    let length = |planes: &Planes| {
                        planes.iter().map(|p| p[y][x] * p[y][x]).sum::<f64>().sqrt() + 1e-10
                    };
                    let (la, lb) = (length(a), length(b));
                    for (c, weight) in linear.iter().enumerate() {
                        let difference = a[c][y][x] / la - b[c][y][x] / lb;
                        sum += f64::from(*weight) * difference * difference;
                    }
                }
            }
            total += sum / (h * w) as f64;
            looked += 1;
        }
    }
    total
}

fn layer(input: &Planes, row: &Row, tensors: &Tensors) -> Planes {
    let &(number, inputs, outputs, size, stride, padding, pool, _) = row;
    let pooled: Planes;
    let input = if pool == 0 {
        input
    } else {
        let places = |edge: usize| (edge - pool) / 2 + 1;
        let largest = |plane: &Vec<Vec<f64>>, y: usize, x: usize| {
            let values = (0..pool * pool).map(|i| plane[2 * y + i / pool][2 * x + i % pool]);
            values.fold(f64::NEG_INFINITY, f64::max)
        };
        pooled = input
            .iter()
            .map(|plane| {
                let row = |y| {
                    (0..places(plane[0].len()))
                        .map(|x| largest(plane, y, x))
                        .collect()
                };
                (0..places(plane.len())).map(row).collect()
            })
            .collect();
        &pooled
    };
    let of = |what: &str| {
        let end = format!(".{number}.{what}");
        &tensors
            .iter()
            .find(|(name, _)| name.ends_with(&end))
            .unwrap()
            .1
            .1
    };
    let (weights, bias) = (of("weight"), of("bias"));
    let places = |edge: usize| (edge + 2 * padding - size) / stride + 1;
    let (h, w) = (input[0].len(), input[0][0].len());
    let at = |c: usize, y: usize, x: usize| {
        let inside = (padding..padding + h).contains(&y) && (padding..padding + w).contains(&x);
        if inside {
            input[c][y - padding][x - padding]
        } else {
            0.0
        }
    };
    let value = |o: usize, y: usize, x: usize| {
        let mut sum = f64::from(bias[o]);
        for c in 0..inputs {
            for i in 0..size * size {
                let weight = weights[(o * inputs + c) * size * size + i];
                sum += f64::from(weight) * at(c, y * stride + i / size, x * stride + i % size);
            }
        }
        sum.max(0.0)
    };
    let line = |o, y| (0..places(w)).map(|x| value(o, y, x)).collect();
    (0..outputs)
        .map(|o| (0..places(h)).map(|y| line(o, y)).collect())
        .collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| v.into()).collect()
}

/// The derivative for the LPIPS loss, compared with finite differences of the definition, along directions that involve
/// all pixels, on the CPU and on a GPU.
#[test]
fn the_derivative_by_a_crop_agrees_with_finite_differences() {
    let gpu = gpu::open();
    for (rows, side) in [(ALEX, 37), (VGG, 16)] {
        let tensors = random(rows, false);
        let lpips = Lpips::parse(&file(&tensors)).unwrap();
        let (a, b) = pair(side, side);
        let mut derivative = vec![0.0; a.len()];
        let mut crops = lpips.crops(side as u32).unwrap();
        crops.differentiate(&a, &b, &mut derivative).unwrap();
        let (from, to) = (wide(&a), wide(&b));
        let mut noise = Noise(11);
        for _ in 0..3 {
            let direction = wide(&noise.many(a.len(), 1.0));
            let moved = |by: f64| -> f64 {
                let moved = from.iter().zip(&direction).map(|(v, d)| v + by * d);
                let moved: Vec<f64> = moved.collect();
                direct(rows, &tensors, [&moved, &to], side, side)
            };
            const STEP: f64 = 1e-6;
            let truth = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let along = derivative
                .iter()
                .zip(&direction)
                .map(|(&g, d)| f64::from(g) * d);
            let actual: f64 = along.sum();
            let length = derivative
                .iter()
                .map(|g| f64::from(g * g))
                .sum::<f64>()
                .sqrt();
            println!("{side}: {actual} {truth}, of {length}");
            assert!((actual - truth).abs() < 1e-3 * length, "{actual} {truth}");
        }
        // Equal images have no derivative, also black ones, whose features may all be 0.
        let black = vec![0.0; a.len()];
        for same in [&b, &black] {
            crops.differentiate(same, same, &mut derivative).unwrap();
            assert!(derivative.iter().all(|g| *g == 0.0));
        }
        crops.differentiate(&black, &b, &mut derivative).unwrap();
        assert!(derivative.iter().all(|g| g.is_finite()));
        let Some(gpu) = &gpu else { continue };
        crops.differentiate(&a, &b, &mut derivative).unwrap();
        let crops = lpips.crop_routine(side as u32, gpu).unwrap();
        let routine = crops.routine;
        gpu.write(&routine.inputs[0], 0, &a);
        gpu.write(&routine.inputs[1], 0, &b);
        routine.recording.submit(gpu, &[]);
        let found: Vec<f32> = gpu.read(&routine.outputs[0], a.len()).unwrap();
        let apart = found
            .iter()
            .zip(&derivative)
            .map(|(a, b)| f64::from(a - b).powi(2));
        let length = wide(&derivative).iter().map(|g| g * g).sum::<f64>();
        assert!(
            apart.sum::<f64>() < 1e-8 * length,
            "{side}: the GPU differs"
        );
    }
}

#[test]
fn both_networks_agree_with_the_definition() {
    for (rows, own, backbone, width, height) in [
        (ALEX, true, Backbone::Alex, 39, 47),
        (ALEX, false, Backbone::Alex, 31, 31),
        (VGG, false, Backbone::Vgg, 19, 16),
    ] {
        let tensors = random(rows, own);
        let lpips = Lpips::parse(&file(&tensors)).unwrap();
        assert_eq!(lpips.backbone(), backbone);
        let (a, b) = pair(width, height);
        let expected = direct(rows, &tensors, [&wide(&a), &wide(&b)], width, height);
        let distance = |a: &[f32], b: &[f32]| lpips.distance(a, b, width, height, None).unwrap();
        let actual = distance(&a, &b);
        println!("{backbone:?} {width}x{height}: {actual} {expected}");
        assert!(expected > 0.01);
        assert!(
            (actual / expected - 1.0).abs() < 1e-4,
            "{actual} {expected}"
        );
        assert_eq!(distance(&b, &a), actual, "not symmetric");
        assert_eq!(distance(&a, &a), 0.0);
        // Masked pixels have no effect beyond the edge of the mask.
        let mask: Vec<u8> = (0..width * height)
            .map(|i| if i % width < width / 2 { 0 } else { 255 })
            .collect();
        let masked = |a: &[f32]| lpips.distance(a, &b, width, height, Some(&mask)).unwrap();
        let mut other = a.clone();
        for (pixel, _) in other.chunks_exact_mut(3).zip(&mask).filter(|p| *p.1 == 0) {
            pixel.fill(0.9);
        }
        assert_eq!(masked(&a), masked(&other));
        let small = lpips.distance(&a, &b, 12, 12, None).unwrap_err();
        assert!(small.to_string().contains("12 x 12"), "{small}");
    }
}

/// The first layers pass red and green through, and all other weights are zero: features of length 2.5 and of one
/// channel.
#[test]
fn a_distance_found_by_hand() {
    let mut value = |name: &str, shape: &[usize]| {
        let mut values = vec![0.0; shape.iter().product()];
        // [output, input, row, column]: the middle of 3x3 is the fifth.
        match name {
            "features.0.weight" => (values[4], values[(3 + 1) * 9 + 4]) = (1.0, 1.0),
            "features.2.weight" => (values[4], values[(64 + 1) * 9 + 4]) = (1.0, 1.0),
            "lin0.model.1.weight" => (values[0], values[1]) = (0.5, 0.25),
            _ => {}
        }
        values
    };
    let lpips = Lpips::parse(&file(&tensors(VGG, &mut value, false))).unwrap();
    // After scaling (2, 1.5), and (2, less than 0): (0.8, 0.6) against (1, 0).
    let colour = [
        (2.0 * 0.458 - 0.030 + 1.0) / 2.0,
        (1.5 * 0.448 - 0.088 + 1.0) / 2.0,
    ];
    let (width, height) = (16, 24);
    let a = [colour[0], colour[1], 0.3].repeat(width * height);
    let mut b = a.clone();
    for pixel in b.chunks_exact_mut(3).take(width * height / 4) {
        pixel[1] = 0.0;
    }
    // A quarter of the pixels differ: 0.5 * 0.2^2 + 0.25 * 0.6^2 each.
    let expected = (0.5 * 0.04 + 0.25 * 0.36) / 4.0;
    let distance = |mask: Option<&[u8]>| lpips.distance(&a, &b, width, height, mask).unwrap();
    assert!(
        (distance(None) - expected).abs() < 1e-6,
        "{}",
        distance(None)
    );
    // Hidden differences do not count; with half of all pixels hidden in addition, the others count twice.
    let mask = |hidden: std::ops::Range<usize>| -> Vec<u8> {
        let value = |i| if hidden.contains(&i) { 0 } else { 255 };
        (0..width * height).map(value).collect()
    };
    assert_eq!(distance(Some(&mask(0..width * height / 4))), 0.0);
    let doubled = distance(Some(&mask(width * height / 2..width * height)));
    assert!((doubled - 2.0 * expected).abs() < 1e-6, "{doubled}");
}

#[test]
fn files_that_are_no_weights_are_refused() {
    let refused = |bytes: &[u8], words: &str| {
        let error = Lpips::parse(bytes).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    };
    refused(b"", "no safetensors file");
    refused(b"PK\x03\x04 this is a zip", "no safetensors file");
    let mut zeros = |_: &str, shape: &[usize]| vec![0.0; shape.iter().product()];
    let whole = tensors(ALEX, &mut zeros, false);
    let bytes = file(&whole);
    assert!(Lpips::parse(&bytes).is_ok());
    refused(&bytes[..bytes.len() - 1], "no safetensors file");
    let changed = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = whole.clone();
        change(&mut tensors);
        file(&tensors)
    };
    for name in [
        "features.0.weight",
        "features.6.bias",
        "lin4.model.1.weight",
    ] {
        let without = changed(&|tensors| {
            tensors.remove(name);
        });
        refused(&without, name);
    }
    let wrong = changed(&|tensors| {
        tensors.insert("features.3.bias".to_owned(), (vec![191], vec![0.0; 191]));
    });
    refused(&wrong, "F32 [192] is expected");
    let nan = changed(&|tensors| {
        if let Some((_, values)) = tensors.get_mut("features.3.bias") {
            values[5] = f32::NAN;
        }
    });
    refused(&nan, "features.3.bias has a value");
    let other = changed(&|tensors| {
        let first = (vec![64, 3, 7, 7], vec![0.0; 64 * 3 * 49]);
        tensors.insert("features.0.weight".to_owned(), first);
    });
    refused(&other, "no network that is known");
}
