//! Colours as bytes.

/// Converts a colour of 0..1 to a byte. The cast saturates and turns NaN into 0.
pub fn to_byte(value: f32) -> u8 {
    (value * 255.0 + 0.5) as u8
}
