//! `score` on renders that no scene gives: non-finite values, and data in buffers beyond the image.
//! `dapple_reference::conformance` checks the renders of scenes.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_engine::score::{HIDDEN, error_colour, to_byte, turbo};
use dapple_gpu::layout::{self, Step, View};
use dapple_gpu::passes::Bits;
use dapple_gpu::stages::score::{PARTIALS, PASS, PHOTO, PICTURES, picture_words};
use dapple_gpu::{Buffers, Context, Recorder};
use dapple_runtime::wgpu;
use support::{context, groups};

const WIDTH: usize = 21;
const HEIGHT: usize = 13;
const PIXELS: usize = WIDTH * HEIGHT;
const TILES: usize = 2;
/// The value that its photo has everywhere, and its byte.
const PHOTO_VALUE: f32 = 51.0 / 255.0;
const PHOTO_BYTE: u32 = 51;

/// Returns sums by tile, and the bytes of both pictures, of a grey render. Pixel 7 is masked.
fn scored(context: &Context, image: &[[f32; 4]]) -> (Vec<[f32; 4]>, Vec<u8>, Vec<u8>) {
    let gpu = &context.gpu;
    let mut buffers = Buffers::default();
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST;
    let bytes = groups::count() * groups::BYTES;
    let entries = gpu.buffer_with("groups", bytes, usage).unwrap();
    // More workgroups than tiles, in two dimensions.
    gpu.write(&entries, groups::offset(groups::PIXELS), &[2, 3, 1, 0]);
    buffers.set("groups", entries);
    let view = View {
        size: [WIDTH as u32, HEIGHT as u32],
        tiles: [2, 1],
        ..View::default()
    };
    buffers.set("views", gpu.upload("views", &[view]).unwrap());
    // The buffer held a larger image before.
    let mut pixels = image.to_vec();
    pixels.resize(2 * PIXELS, [f32::NAN; 4]);
    buffers.set("image", gpu.upload("image", &pixels).unwrap());
    let mut photo = vec![(PHOTO_BYTE * 0x0001_0101) | 0xff00_0000; PIXELS];
    photo.extend([u32::MAX; PIXELS.div_ceil(32)]);
    photo[PIXELS] &= !(1 << 7);
    buffers.set(PHOTO, gpu.upload(PHOTO, &photo).unwrap());
    let words = picture_words(PIXELS as u64) as usize;
    for (name, floats) in [(PARTIALS, 4 * TILES), (PICTURES, 2 * words)] {
        buffers.set(name, gpu.upload(name, &vec![f32::NAN; floats]).unwrap());
    }
    let mut recorder = Recorder::new(context, &buffers, Bits::PICTURES);
    recorder.pass(&PASS).unwrap();
    let recording = recorder.finish();
    let step = Step {
        flags: layout::FLAG_MASK,
        ..Step::default()
    };
    recording.submit(gpu, bytemuck::bytes_of(&step));
    let read = |at: usize| {
        let buffer = buffers.get(PICTURES).unwrap();
        gpu.read_at::<u8>(buffer, 4 * (at * words) as u64, 3 * PIXELS)
            .unwrap()
    };
    let partials = gpu.read(buffers.get(PARTIALS).unwrap(), TILES).unwrap();
    (partials, read(0), read(1))
}

#[test]
fn what_is_not_finite_costs_no_more_than_a_wrong_value() {
    require_gpu!();
    let context = context();
    let scored = |image: &[[f32; 4]]| scored(&context, image);
    let equal = vec![[PHOTO_VALUE, PHOTO_VALUE, PHOTO_VALUE, 0.0]; PIXELS];
    let (partials, rendered, errors) = scored(&equal);
    // Rounding of a pixel's SSIM, summed over a tile.
    for partial in partials {
        assert!(partial.iter().all(|sum| sum.abs() < 1e-3), "{partial:?}");
    }
    assert!(rendered.iter().all(|&byte| u32::from(byte) == PHOTO_BYTE));
    for (i, colour) in errors.as_chunks::<3>().0.iter().enumerate() {
        assert_eq!(*colour, if i == 7 { HIDDEN } else { turbo(0.0) }, "{i}");
    }

    let square = |value: f32| f64::from(value - PHOTO_VALUE).powi(2);
    let cases = [
        (f32::NAN, 0.0),
        (f32::INFINITY, 1.0),
        (f32::NEG_INFINITY, 0.0),
        (-3.0, 0.0),
        (1.5, 1.0),
        (0.6, 0.6),
    ];
    // In the first tile, and in the second, which ends within the image.
    for at in [2 * WIDTH + 3, 12 * WIDTH + 20] {
        for (value, counts_as) in cases {
            let mut image = equal.clone();
            image[at][1] = value;
            image[7] = [f32::NAN, 9.0, -1.0, 0.0];
            let (partials, rendered, errors) = scored(&image);
            let squared: f32 = partials.iter().map(|partial| partial[0]).sum();
            let off = f64::from(squared) - square(counts_as);
            assert!(off.abs() < 1e-6, "{value}: {squared}");
            let lost: f32 = partials.iter().map(|partial| partial[2]).sum();
            assert!(lost.is_finite(), "{value}: {lost}");
            assert_eq!(rendered[3 * at + 1], to_byte(counts_as), "{value}");
            let colour = [PHOTO_VALUE, value, PHOTO_VALUE];
            let expected = error_colour([PHOTO_VALUE; 3], colour);
            let place = 3 * at..3 * at + 3;
            let near = errors[place.clone()]
                .iter()
                .zip(expected)
                .all(|(a, b)| a.abs_diff(b) <= 1);
            assert!(near, "{value}: {:?} {expected:?}", &errors[place]);
            assert_eq!(rendered[21..24], [0, 255, 0]);
            assert_eq!(errors[21..24], HIDDEN);
        }
    }
}
