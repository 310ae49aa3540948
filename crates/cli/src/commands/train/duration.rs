//! Durations on the command line.

/// Largest time, four months.
const MOST_SECONDS: f64 = 1e7;

/// Parses a time to seconds, from `90`, `60s`, `5m`, `1h30m`, `1m30s`.
pub fn parse_duration(text: &str) -> Result<f64, String> {
    const EXAMPLE: &str = "a time is needed, for example 60s, 5m or 1h30m";
    let mut seconds = 0.0;
    let mut number = String::new();
    let mut least_unit = f64::INFINITY;
    for c in text.trim().chars() {
        let unit = match c.to_ascii_lowercase() {
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            '0'..='9' | '.' => {
                number.push(c);
                continue;
            }
            _ => return Err(EXAMPLE.to_owned()),
        };
        if unit >= least_unit {
            return Err(format!("{EXAMPLE}: hours before minutes before seconds"));
        }
        least_unit = unit;
        seconds += unit * number.parse::<f64>().map_err(|_| EXAMPLE.to_owned())?;
        number.clear();
    }
    if !number.is_empty() {
        if least_unit.is_finite() {
            return Err(format!("{EXAMPLE}: the last number has no unit"));
        }
        seconds = number.parse::<f64>().map_err(|_| EXAMPLE.to_owned())?;
    }
    if !(1.0..=MOST_SECONDS).contains(&seconds) {
        let (bound, limit) = match seconds < 1.0 {
            true => ("least", "1 second".to_owned()),
            false => ("most", format!("{:.0} hours", MOST_SECONDS / 3600.0)),
        };
        return Err(format!("a time to train is at {bound} {limit}"));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for (text, seconds) in [
            ("60s", 60.0),
            ("90", 90.0),
            ("5m", 300.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("2m5s", 125.0),
        ] {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for bad in ["", "s", "5x", "30m1h", "1h30", "0s", "-5s", "1..5s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        // Each message names its own limit.
        let refusal = |text| parse_duration(text).unwrap_err();
        assert!(refusal("0.5s").contains("at least 1 second"));
        assert!(refusal("99999999h").contains("at most 2778 hours"));
    }
}
