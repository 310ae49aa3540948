//! EXIF data of a photo: orientation, focal length, camera, GPS position.

use exif::{Exif, In, Reader, Tag, Value};
use glam::DVec3;
use std::io::Cursor;

/// Position by GPS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gps {
    /// Degrees, north positive.
    pub latitude: f64,
    /// Degrees, east positive.
    pub longitude: f64,
    /// Metres above sea level; 0 if unknown.
    pub altitude: f64,
}

/// EXIF data that matter for poses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExifData {
    /// Orientation from 1 to 8; 1 if unknown.
    pub orientation: u16,
    /// Focal length, mm; also its equivalent on 35 mm film.
    pub focal: Option<f64>,
    /// Focal length on 35 mm film, mm.
    pub focal_35: Option<f64>,
    /// Maker and model of the camera.
    pub camera: String,
    /// Position.
    pub gps: Option<Gps>,
}

impl ExifData {
    /// Reads the EXIF data of a JPEG, PNG, WebP, TIFF or HEIF file. Photos without EXIF data have an upright
    /// orientation and nothing else.
    pub fn read(bytes: &[u8]) -> Self {
        let none = Self {
            orientation: 1,
            ..Self::default()
        };
        let mut reader = Reader::new();
        reader.continue_on_error(true);
        let found = reader
            .read_from_container(&mut Cursor::new(bytes))
            .or_else(|e| e.distill_partial_result(|_| {}));
        let Ok(found) = found else {
            return none;
        };
        let number = |tag: Tag| number(&found, tag).filter(|&n| n > 0.0);
        let text = |tag: Tag| {
            let field = found.get_field(tag, In::PRIMARY)?;
            let Value::Ascii(lines) = &field.value else {
                return None;
            };
            let text = String::from_utf8_lossy(lines.first()?);
            Some(
                text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
                    .to_owned(),
            )
        };
        let parts = [text(Tag::Make), text(Tag::Model)];
        Self {
            orientation: number(Tag::Orientation)
                .map(|n| n as u16)
                .filter(|n| (1..=8).contains(n))
                .unwrap_or(1),
            focal: number(Tag::FocalLength),
            focal_35: number(Tag::FocalLengthIn35mmFilm),
            camera: parts.into_iter().flatten().collect::<Vec<_>>().join(" "),
            gps: gps(&found),
        }
    }

    /// Returns the focal length in pixels by COLMAP's rule, for a photo of this size.
    pub fn focal_pixels(&self, width: u32, height: u32) -> Option<f64> {
        let diagonal = f64::from(width).hypot(f64::from(height));
        // Diagonal of 35 mm film: 36 x 24 mm.
        self.focal_35
            .map(|focal| focal / 36f64.hypot(24.0) * diagonal)
    }
}

fn number(exif: &Exif, tag: Tag) -> Option<f64> {
    let field = exif.get_field(tag, In::PRIMARY)?;
    match &field.value {
        Value::Rational(list) => list.first().map(exif::Rational::to_f64),
        other => other.get_uint(0).map(f64::from),
    }
    .filter(|n| n.is_finite())
}

fn gps(exif: &Exif) -> Option<Gps> {
    let degrees = |tag: Tag| {
        let field = exif.get_field(tag, In::PRIMARY)?;
        let Value::Rational(parts) = &field.value else {
            return None;
        };
        let part = |index: usize| parts.get(index).map_or(0.0, exif::Rational::to_f64);
        let value = part(0) + part(1) / 60.0 + part(2) / 3600.0;
        value.is_finite().then_some(value)
    };
    let is = |tag: Tag, letter: &str| {
        let field = exif.get_field(tag, In::PRIMARY);
        field.is_some_and(|field| field.display_value().to_string().starts_with(letter))
    };
    let sign = |negative: bool| if negative { -1.0 } else { 1.0 };
    let latitude = degrees(Tag::GPSLatitude)? * sign(is(Tag::GPSLatitudeRef, "S"));
    let longitude = degrees(Tag::GPSLongitude)? * sign(is(Tag::GPSLongitudeRef, "W"));
    let is_below = exif
        .get_field(Tag::GPSAltitudeRef, In::PRIMARY)
        .and_then(|field| field.value.get_uint(0))
        == Some(1);
    let altitude = number(exif, Tag::GPSAltitude).unwrap_or(0.0) * sign(is_below);
    // Zero and zero is what receivers without a position write.
    let is_position = latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
    (is_position && (latitude, longitude) != (0.0, 0.0)).then_some(Gps {
        latitude,
        longitude,
        altitude,
    })
}

impl Gps {
    /// Returns the position relative to `origin`: metres east, down, north.
    ///
    /// The axes are those of COLMAP's worlds: x to the right, y down, z forward. Exact to a thousandth within 50 km.
    pub fn relative_to(&self, origin: &Self) -> DVec3 {
        // WGS 84.
        const RADIUS: f64 = 6_378_137.0;
        const ECCENTRICITY_2: f64 = 0.006_694_379_990_14;
        let sine_2 = origin.latitude.to_radians().sin().powi(2);
        let w = (1.0 - ECCENTRICITY_2 * sine_2).sqrt();
        let north_radius = RADIUS * (1.0 - ECCENTRICITY_2) / w.powi(3);
        let east_radius = RADIUS / w * origin.latitude.to_radians().cos();
        DVec3::new(
            (self.longitude - origin.longitude).to_radians() * east_radius,
            origin.altitude - self.altitude,
            (self.latitude - origin.latitude).to_radians() * north_radius,
        )
    }
}

/// Sets the orientation of a JPEG to upright, in place. Returns true if a tag was changed.
///
/// Poses belong to the stored pixels. A tool or a viewer that turns photos by their EXIF data would contradict them.
pub fn reset_orientation(jpeg: &mut [u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xff, marker, high, low]) = jpeg.get(at..at + 4) {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if marker == 0xda {
            return false;
        }
        let is_exif = marker == 0xe1 && jpeg.get(at + 4..at + 10) == Some(b"Exif\0\0");
        if is_exif && let Some(tiff) = jpeg.get_mut(at + 10..at + 2 + length) {
            return reset_in_tiff(tiff).is_some();
        }
        at += 2 + length;
    }
    false
}

fn reset_in_tiff(tiff: &mut [u8]) -> Option<()> {
    let is_little = tiff.get(..2)? == b"II";
    let short = |bytes: &[u8]| {
        let bytes = bytes.try_into().ok()?;
        Some(if is_little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    };
    let long = |bytes: &[u8]| {
        let bytes = bytes.try_into().ok()?;
        Some(if is_little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    };
    let first = long(tiff.get(4..8)?)? as usize;
    let count = short(tiff.get(first..first + 2)?)?;
    for index in 0..usize::from(count) {
        let at = first + 2 + 12 * index;
        if short(tiff.get(at..at + 2)?)? == 0x0112 {
            let upright = if is_little { [1, 0] } else { [0, 1] };
            tiff.get_mut(at + 8..at + 10)?.copy_from_slice(&upright);
            return Some(());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn metres_from_degrees_are_those_of_the_ellipsoid() {
        let origin = Gps {
            latitude: 48.0,
            longitude: 11.0,
            altitude: 500.0,
        };
        let there = Gps {
            latitude: 48.001,
            longitude: 11.001,
            altitude: 510.0,
        };
        let found = there.relative_to(&origin);
        // Length of a thousandth of a degree at 48 degrees: 111.20 m north, 74.63 m east.
        assert!((found.z - 111.2).abs() < 0.02, "{found}");
        assert!((found.x - 74.63).abs() < 0.02, "{found}");
        assert_eq!(found.y, -10.0);
    }

    /// A JPEG header with one EXIF tag: the orientation.
    fn turned(is_little: bool) -> Vec<u8> {
        let mut tiff = if is_little {
            b"II*\0\x08\0\0\0\x01\0".to_vec()
        } else {
            b"MM\0*\0\0\0\x08\0\x01".to_vec()
        };
        tiff.extend(if is_little {
            [0x12, 0x01, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0]
        } else {
            [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0]
        });
        tiff.extend([0; 4]);
        let mut jpeg = b"\xff\xd8\xff\xe1".to_vec();
        jpeg.extend((tiff.len() as u16 + 8).to_be_bytes());
        jpeg.extend(b"Exif\0\0");
        jpeg.extend(tiff);
        jpeg.extend(b"\xff\xda\0\x02");
        jpeg
    }

    #[test]
    fn the_orientation_is_read_and_reset_in_both_byte_orders() {
        for is_little in [true, false] {
            let mut jpeg = turned(is_little);
            assert_eq!(ExifData::read(&jpeg).orientation, 6);
            assert!(reset_orientation(&mut jpeg));
            assert_eq!(ExifData::read(&jpeg).orientation, 1);
        }
        assert!(!reset_orientation(&mut [0xff, 0xd8, 0xff, 0xda, 0, 2]));
    }
}
