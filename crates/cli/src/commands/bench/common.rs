//! Limits, warnings and options of all measurements.

use crate::console::Console;
use dapple::AnyEngine;
use dapple::scene::Result;
use dapple_instruments::bench;
use dapple_instruments::bench::rows::LimitRow;
use dapple_instruments::bench::times::Times;
use dapple_profile::ceilings::is_scattered;

/// Version of the `--json` output of these commands; raised when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// Returns the peak rates of the engine's device.
pub fn limits(engine: &AnyEngine, console: &Console) -> Result<LimitRow> {
    let (limits, spread) = bench::limits(engine)?;
    remark_limits(spread, console);
    Ok(limits)
}

/// Prints a warning if the limits scatter.
pub fn remark_limits(spread: f64, console: &Console) {
    if is_scattered(spread) {
        busy("the machine's limits", spread, console);
    }
}

/// Prints a warning if the times of `what` scatter, also with `--quiet`, since such numbers cannot be used.
pub fn remark(times: &Times, what: &str, console: &Console) {
    if let Some(spread) = times.scattered() {
        busy(what, spread, console);
    }
}

/// Reports the run `what`: a warning if its times scatter, and its lines unless JSON follows.
pub fn report(
    times: &Times,
    what: &str,
    is_json: bool,
    console: &Console,
    lines: impl FnOnce() -> String,
) -> Result<()> {
    remark(times, what, console);
    if is_json {
        return Ok(());
    }
    console.data(&lines())
}

fn busy(what: &str, spread: f64, console: &Console) {
    console.always(&format!(
        "warning: {what}: slow ones took {spread:.2} times the median: the machine is busy\n  \
         hint: end other programs, or measure longer and compare medians"
    ));
}

/// `WxH`.
pub fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let side = |text: &str| {
        let pixels = text.trim().parse::<u32>().ok();
        pixels.filter(|side| (1..=16_384).contains(side))
    };
    text.split_once('x')
        .and_then(|(width, height)| Some([side(width)?, side(height)?]))
        .ok_or_else(|| {
            "width x height is needed, each 1 to 16384 pixels, for example 516x344".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_not() {
        assert_eq!(parse_size("516x344"), Ok([516, 344]));
        for bad in ["", "516", "x", "0x5", "5x-1", "5x99999", "1x2x3"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
