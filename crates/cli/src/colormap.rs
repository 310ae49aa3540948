//! Colour maps, and the range of values that they cover.

use clap::ValueEnum;
use dapple::contract::score::{to_byte, turbo};

/// Colour maps of depths, counts and alpha.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colormap {
    /// Dark blue over green to dark red
    Turbo,
    /// Dark violet over green to yellow
    Viridis,
    /// Dark grey to white
    Grey,
    /// No colours: values in 16 bits
    None,
}

/// Viridis (van der Walt and Smith 2015) as polynomials of degree 6: red, green and blue, from the constant term up.
const VIRIDIS: [[f32; 7]; 3] = [
    [
        0.277_727, 0.105_093, -0.330_862, -4.634_23, 6.228_27, 4.776_385, -5.435_456,
    ],
    [
        0.005_407,
        1.404_614,
        0.214_848,
        -5.799_101,
        14.179_933,
        -13.745_145,
        4.645_853,
    ],
    [
        0.334_100,
        1.384_59,
        0.095_095,
        -19.332_441,
        56.690_55,
        -65.353_033,
        26.312_435,
    ],
];

/// Least grey, to differ from the black of pixels without a value.
const LEAST_GREY: f32 = 0.15;

impl Colormap {
    /// Returns the colour at `x`, clamped to 0..1.
    fn colour(self, x: f32) -> [u8; 3] {
        let x = x.clamp(0.0, 1.0);
        match self {
            Self::Turbo => turbo(x),
            Self::Viridis => {
                VIRIDIS.map(|c| to_byte(c.iter().rev().fold(0.0, |sum, c| sum * x + c)))
            }
            Self::Grey | Self::None => [to_byte(LEAST_GREY + (1.0 - LEAST_GREY) * x); 3],
        }
    }
}

/// Colour map with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Colours {
    /// Colour map.
    pub map: Colormap,
    /// Value of the first colour.
    pub low: f32,
    /// Value of the last colour.
    pub high: f32,
}

impl Colours {
    /// Returns the colours of these values, three bytes each. Zero (no Gaussian) is black.
    pub fn bytes(&self, values: &[f32]) -> Vec<u8> {
        let span = (self.high - self.low).max(f32::MIN_POSITIVE);
        let colour = |&value: &f32| match value > 0.0 {
            true => self.map.colour((value - self.low) / span),
            false => [0; 3],
        };
        values.iter().flat_map(colour).collect()
    }
}

/// Returns the range of most values: the 1st and the 99th percentile of those above 0.
pub fn range(mut values: Vec<f32>) -> [f32; 2] {
    values.retain(|&value| value > 0.0 && value.is_finite());
    values.sort_by(f32::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return [0.0, 1.0];
    };
    [0.01, 0.99].map(|part| values[(last as f64 * part) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_colours_of_their_range() {
        let of = |map| Colours {
            map,
            low: 2.0,
            high: 6.0,
        };
        let grey = of(Colormap::Grey).bytes(&[0.0, 2.0, 4.0, 6.0, 9.0]);
        let grey: Vec<u8> = grey.chunks(3).map(|colour| colour[0]).collect();
        assert_eq!((grey[0], grey[3], grey[4]), (0, 255, 255));
        assert!(0 < grey[1] && grey[1] < grey[2] && grey[2] < grey[3]);
        assert_eq!(of(Colormap::Turbo).bytes(&[6.0]), turbo(1.0));
        // Viridis begins at (68, 1, 84) and ends at (253, 231, 37).
        let ends = of(Colormap::Viridis).bytes(&[2.0, 6.0]);
        for (found, wanted) in ends.iter().zip([68_u8, 1, 84, 253, 231, 37]) {
            assert!(found.abs_diff(wanted) < 6, "{ends:?}");
        }
    }

    #[test]
    fn a_range_leaves_out_the_outermost_numbers() {
        let values = (0..=1000).map(|i| i as f32).chain([1e9, f32::NAN]);
        let [low, high] = range(values.collect());
        assert!((low - 10.0).abs() < 2.0 && (high - 990.0).abs() < 2.0);
        assert_eq!(range(vec![0.0; 4]), [0.0, 1.0]);
    }
}
