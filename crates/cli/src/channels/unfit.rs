//! Values of a render that the 16 bits of a PNG do not hold.

use super::Channel;
use dapple_base::numbers::{grouped, plain};

/// Pixels whose values do not fit into the 16 bits of a PNG.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Unfit {
    /// Pixels above the largest number, written as 65535.
    saturated: u64,
    /// Pixels that hold a value and are written as 0, which means nothing.
    vanished: u64,
    /// Largest value.
    largest: f64,
}

impl Unfit {
    /// Returns the pixels of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            saturated: self.saturated + other.saturated,
            vanished: self.vanished + other.vanished,
            largest: self.largest.max(other.largest),
        }
    }

    /// Counts the values that have no 16-bit number in steps of `unit`.
    pub(super) fn of(values: &[f32], unit: f64) -> Self {
        let step = |value: f32| (f64::from(value) / unit).round();
        let count = |is: &dyn Fn(f32) -> bool| values.iter().filter(|&&v| is(v)).count() as u64;
        Self {
            saturated: count(&|v| step(v) > f64::from(u16::MAX)),
            vanished: count(&|v| v > 0.0 && step(v) < 1.0),
            largest: values.iter().copied().fold(0.0, f32::max).into(),
        }
    }

    /// Returns notes for the user on pictures with steps of `unit`.
    pub fn notes(&self, channel: Channel, unit: f64) -> Vec<String> {
        let mut notes = Vec::new();
        let pixels = |count: u64, one: &str, more: &str| match count {
            1 => format!("1 pixel {one}"),
            n => format!("{} pixels {more}", grouped(n)),
        };
        let is_count = channel == Channel::Count;
        if self.saturated > 0 && is_count {
            notes.push(format!(
                "note: {} more than 65535 Gaussians, and 65535 was written\n  hint: `--format exr` writes the numbers",
                pixels(self.saturated, "blends", "blend")
            ));
        } else if self.saturated > 0 {
            let hint = match larger_unit(self.largest) {
                Some(larger) => format!(
                    "`--depth-unit {larger}` reaches {}, or `--format exr` writes floats",
                    short(larger * 65535.0)
                ),
                None => "`--format exr` writes floats".to_owned(),
            };
            notes.push(format!(
                "warning: {} deeper than {} world units, the largest depth in steps of {}, and that depth was \
                 written; the largest is {}\n  hint: {hint}",
                pixels(self.saturated, "is", "are"),
                short(unit * 65535.0),
                plain(unit),
                short(self.largest)
            ));
        }
        if self.vanished > 0 && !is_count {
            notes.push(format!(
                "warning: {} less deep than half a step of {} world units: 0 was written, which means no depth\n  \
                 hint: give a smaller --depth-unit, or `--format exr` for floats",
                pixels(self.vanished, "is", "are"),
                plain(unit)
            ));
        }
        notes
    }
}

/// Formats a length with six significant digits.
fn short(length: f64) -> String {
    let rounded = format!("{length:.5e}").parse();
    plain(rounded.unwrap_or(length))
}

/// Returns the smallest unit 1, 2 or 5 times a power of ten whose 16-bit numbers reach a depth.
fn larger_unit(depth: f64) -> Option<f64> {
    let least = depth / f64::from(u16::MAX);
    if !(1e-9..1e9).contains(&least) {
        return None;
    }
    let exponent = least.log10().floor() as i32;
    let units =
        (exponent..=exponent + 1).flat_map(|e| [1, 2, 5].map(|digit| format!("{digit}e{e}")));
    units
        .filter_map(|unit| unit.parse().ok())
        .find(|&unit: &f64| unit >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_are_counted_and_noted() {
        let depths = [2.0, 2.0, 0.0, 100.0];
        let unfit = Unfit::of(&depths, 0.001);
        assert_eq!((unfit.saturated, unfit.vanished), (1, 0));
        assert_eq!(unfit.and(unfit).saturated, 2);
        let notes = unfit.notes(Channel::Depth, 0.001);
        assert!(
            notes[0].contains("1 pixel is deeper than 65.535"),
            "{notes:?}"
        );
        assert!(notes[0].contains("`--depth-unit 0.002`"), "{notes:?}");
        assert_eq!(
            Unfit::of(&depths, 0.002).notes(Channel::Depth, 0.002).len(),
            0
        );
        // Depths of 2 vanish in steps of 10.
        let unfit = Unfit::of(&depths, 10.0);
        assert_eq!((unfit.saturated, unfit.vanished), (0, 2));
        let notes = unfit.notes(Channel::Depth, 10.0);
        assert!(notes[0].contains("smaller --depth-unit"), "{notes:?}");
        let counts = Unfit::of(&[70_000.0, 1.0], 1.0).notes(Channel::Count, 1.0);
        assert!(counts[0].contains("1 pixel blends"), "{counts:?}");
        assert_eq!(larger_unit(65535.0), Some(1.0));
        assert_eq!(larger_unit(65536.0), Some(2.0));
        assert_eq!(larger_unit(f64::INFINITY), None);
        assert_eq!(short(0.0001 * 65535.0), "6.5535");
    }
}
