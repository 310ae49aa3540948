//! Numbers formatted for readers, and read from them.

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `1572864` bytes as `1.5 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Parses bytes with a unit: `4GiB`, `500MiB`, `2G` (of 1024).
///
/// # Errors
/// What is wrong, for a message about the option.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: f64 = number
        .parse()
        .map_err(|_| "a number with a unit is needed, for example 4GiB".to_owned())?;
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "kib" | "k" => 10,
        "mib" | "m" => 20,
        "gib" | "g" => 30,
        "tib" | "t" => 40,
        "" => return Err("a unit is needed: MiB or GiB".to_owned()),
        "kb" | "mb" | "gb" | "tb" => {
            return Err("units are of 1024: write MiB or GiB".to_owned());
        }
        other => return Err(format!("\"{other}\" is not a unit: write MiB or GiB")),
    };
    let bytes = number * f64::from(1u32 << (power - 10)) * 1024.0;
    if bytes < 1.0 {
        return Err("at least a byte is needed".to_owned());
    }
    // The cast saturates.
    Ok(bytes as u64)
}

/// Formats a number that a user gave: in scientific notation if it has more than about ten digits.
pub fn plain(number: f64) -> String {
    match number.abs() {
        magnitude if magnitude == 0.0 || !magnitude.is_finite() => number.to_string(),
        magnitude if (1e-5..1e10).contains(&magnitude) => number.to_string(),
        _ => format!("{number:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_of_1024() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        for bad in ["4", "4GB", "GiB", "0GiB", "-1GiB", "4 apples"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_users_are_short() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(-1.5), "-1.5");
        assert_eq!(plain(1e308), "1e308");
        assert_eq!(plain(-1e-300), "-1e-300");
        assert_eq!(plain(f64::NAN), "NaN");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 19), "1.5 MiB");
        assert_eq!(human_bytes(u64::MAX), "16777216.0 TiB");
    }
}
