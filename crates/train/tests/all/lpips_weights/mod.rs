//! Pseudo-random weights of LPIPS as a file, and images to compare.
#![allow(clippy::unwrap_used, dead_code, reason = "tests; each uses some of it")]

use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;

/// Name to shape and values.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Convolutions of both networks: number, inputs, outputs, window, stride, padding, pooling before (window), whether
/// the distance uses the layer.
pub type Row = (usize, usize, usize, usize, usize, usize, usize, bool);

pub const ALEX: &[Row] = &[
    (0, 3, 64, 11, 4, 2, 0, true),
    (3, 64, 192, 5, 1, 2, 3, true),
    (6, 192, 384, 3, 1, 1, 3, true),
    (8, 384, 256, 3, 1, 1, 0, true),
    (10, 256, 256, 3, 1, 1, 0, true),
];

pub const VGG: &[Row] = &[
    (0, 3, 64, 3, 1, 1, 0, false),
    (2, 64, 64, 3, 1, 1, 0, true),
    (5, 64, 128, 3, 1, 1, 2, false),
    (7, 128, 128, 3, 1, 1, 0, true),
    (10, 128, 256, 3, 1, 1, 2, false),
    (12, 256, 256, 3, 1, 1, 0, false),
    (14, 256, 256, 3, 1, 1, 0, true),
    (17, 256, 512, 3, 1, 1, 2, false),
    (19, 512, 512, 3, 1, 1, 0, false),
    (21, 512, 512, 3, 1, 1, 0, true),
    (24, 512, 512, 3, 1, 1, 2, false),
    (26, 512, 512, 3, 1, 1, 0, false),
    (28, 512, 512, 3, 1, 1, 0, true),
];

/// Pseudo-random numbers in -0.5..0.5.
pub struct Noise(pub u32);

impl Noise {
    pub fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 24) as f32 - 0.5
    }

    pub fn many(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

/// Weights under the names of torchvision, or of the package `lpips`.
pub fn tensors(
    rows: &[Row],
    value: &mut dyn FnMut(&str, &[usize]) -> Vec<f32>,
    own: bool,
) -> Tensors {
    let mut tensors = Tensors::new();
    let mut put = |name: String, shape: Vec<usize>| {
        let values = value(&name, &shape);
        tensors.insert(name, (shape, values));
    };
    let mut looked = 0;
    for &(number, inputs, outputs, size, _, _, _, is_looked_at) in rows {
        let name = match own {
            true => format!("net.slice{}.{number}", looked + 1),
            false => format!("features.{number}"),
        };
        put(format!("{name}.weight"), vec![outputs, inputs, size, size]);
        put(format!("{name}.bias"), vec![outputs]);
        if is_looked_at {
            put(
                format!("lin{looked}.model.1.weight"),
                vec![1, outputs, 1, 1],
            );
            looked += 1;
        }
    }
    tensors
}

pub fn random(rows: &[Row], own: bool) -> Tensors {
    let mut noise = Noise(7);
    let mut value = |name: &str, shape: &[usize]| {
        let count = shape.iter().product();
        if name.starts_with("lin") {
            noise.many(count, 1.0).iter().map(|v| v.abs()).collect()
        } else {
            // As wide as keeps the features' size.
            let fan_in: usize = shape[1..].iter().product::<usize>().max(1);
            noise.many(count, 5.0 / (fan_in as f32).sqrt())
        }
    };
    tensors(rows, &mut value, own)
}

pub fn file(tensors: &Tensors) -> Vec<u8> {
    let bytes: BTreeMap<&String, (&Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, values))| {
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (name, (shape, bytes))
        })
        .collect();
    let views = bytes.iter().map(|(name, (shape, bytes))| {
        let view = TensorView::new(Dtype::F32, (*shape).clone(), bytes).unwrap();
        (name.to_string(), view)
    });
    safetensors::serialize(views, None).unwrap()
}

/// Two pictures of a size, `[height, width, 3]`: waves, and the same with noise.
pub fn pair(width: usize, height: usize) -> (Vec<f32>, Vec<f32>) {
    let mut noise = Noise(3);
    let a: Vec<f32> = (0..width * height * 3)
        .map(|i| 0.5 + 0.4 * (i as f32 * 0.07).sin())
        .collect();
    let b = a
        .iter()
        .map(|v| (v + 0.3 * noise.next()).clamp(0.0, 1.0))
        .collect();
    (a, b)
}
