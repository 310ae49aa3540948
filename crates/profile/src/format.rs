//! Formats numbers for people: three or four digits, with a suitable unit.

/// Formats nanoseconds.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        a if a >= 1e9 => (ns / 1e9, "s"),
        a if a >= 1e6 => (ns / 1e6, "ms"),
        a if a >= 1e3 => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a fraction of 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a threshold: a fraction of 1 without decimals.
pub(crate) fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a number with an SI prefix and a unit: `1.25 GB`.
pub(crate) fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value.abs() {
        a if a >= 1e12 => (value / 1e12, "T"),
        a if a >= 1e9 => (value / 1e9, "G"),
        a if a >= 1e6 => (value / 1e6, "M"),
        a if a >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{} {prefix}{unit}", digits(value))
}

/// Formats a number with at most four significant digits; whole numbers stay whole.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() < 1e6 => format!("{value:.0}"),
        a if a >= 100.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        a if a >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(1500.0), "1.50 us");
        assert_eq!(time(12_345_678.0), "12.3 ms");
        assert_eq!(time(-2e9), "-2 s");
        assert_eq!(scaled(3.97e12, "B/s"), "3.97 TB/s");
        assert_eq!(scaled(12.0, "B"), "12 B");
        assert_eq!(percent(0.1234), "12.3 %");
    }
}
