//! Mesh that pages draw over the splats (`page/export/mesh.js`).
//!
//! A page receives one gzip stream: the bytes of a JSON object (little-endian `u32`), the object, zeros up to
//! a multiple of four, and then, as far as the object names them: positions (`f32`, 3 each vertex), places in the picture
//! (`f32`, 2), errors (`u8`, 1, then zeros up to a multiple of four), colours (`u8`, 4), triangles (`u32`, 3 each), and
//! the picture. Errors are stored in 255 steps, because pages show their colours only.

use dapple_mesh::files::Drawable;
use dapple_scene::{Error, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::Write;

/// Most triangles that a page draws: each takes 100 bytes of graphics memory.
pub const MOST_TRIANGLES: usize = 3_000_000;

/// Error of the last colour, pixels.
const FULL_ERROR: f32 = 4.0;

/// Byte of an unknown error.
const UNKNOWN: u8 = u8::MAX;

/// Description of the data.
#[derive(Serialize)]
struct Head<'a> {
    vertices: usize,
    triangles: usize,
    places: bool,
    /// Error of the last colour, pixels; `None` without errors.
    errors: Option<f32>,
    colours: bool,
    /// Media type of the picture.
    picture: Option<&'a str>,
}

/// Returns the data with which pages draw a mesh. `errors`: a number for each vertex, NaN where it is unknown, or none
/// at all.
///
/// # Errors
/// No triangle, or more than [`MOST_TRIANGLES`].
pub fn encode(drawable: &Drawable, errors: &[f32]) -> Result<Vec<u8>> {
    let Drawable {
        mesh,
        places,
        picture,
        ..
    } = drawable;
    let triangles = mesh.triangles.len();
    if triangles == 0 {
        return Err(Error::input("the mesh has no triangle to draw")
            .hint("copy the file again if it is cut; a set of points is not a mesh"));
    }
    if triangles > MOST_TRIANGLES {
        return Err(Error::input(format!(
            "a page draws meshes of at most {MOST_TRIANGLES} triangles, and this one has {triangles}"
        ))
        .hint("make a smaller mesh: `dapple mesh --triangles 500000`"));
    }
    let vertices = mesh.positions.len();
    let head = Head {
        vertices,
        triangles,
        places: places.len() == vertices,
        errors: (errors.len() == vertices).then_some(FULL_ERROR),
        colours: mesh.colours.len() == vertices,
        picture: picture.as_ref().map(|picture| picture.kind.as_str()),
    };
    let fail =
        |e: &dyn std::fmt::Display| Error::internal(format!("the mesh cannot be packed: {e}"));
    let text = serde_json::to_string(&head).map_err(|e| fail(&e))?;
    let length = u32::try_from(text.len()).map_err(|e| fail(&e))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut floats = |values: &mut dyn Iterator<Item = f32>| {
        values.for_each(|value| bytes.extend(value.to_le_bytes()));
    };
    floats(&mut mesh.positions.iter().flat_map(|p| p.to_array()));
    if head.places {
        floats(&mut places.iter().flat_map(|p| p.to_array()));
    }
    if head.errors.is_some() {
        bytes.extend(errors.iter().map(|&error| level(error)));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    if head.colours {
        bytes.extend(mesh.colours.iter().flat_map(|&[r, g, b]| [r, g, b, 255]));
    }
    let indices = mesh.triangles.as_flattened().iter();
    bytes.extend(indices.flat_map(|i| i.to_le_bytes()));
    if let Some(picture) = picture {
        bytes.extend(&picture.bytes);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&bytes).map_err(|e| fail(&e))?;
    packed.finish().map_err(|e| fail(&e))
}

/// Returns the byte of an error in pixels: 0 to 254, or [`UNKNOWN`].
fn level(error: f32) -> u8 {
    let most = f32::from(UNKNOWN - 1);
    match error.is_finite() {
        true => (error / FULL_ERROR * most).round().clamp(0.0, most) as u8,
        false => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_mesh::Mesh;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn data_are_in_the_order_of_their_description() {
        let mesh = Mesh {
            positions: vec![[0.0; 3].into(), [1.0, 2.0, 3.0].into(), [4.0; 3].into()],
            triangles: vec![[0, 1, 2]],
            colours: vec![[1, 2, 3]; 3],
            ..Mesh::default()
        };
        let drawable = Drawable {
            mesh,
            ..Drawable::default()
        };
        let packed = encode(&drawable, &[0.5, f32::NAN, 9.0]).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        assert_eq!(
            (&head["vertices"], &head["places"]),
            (&3.into(), &false.into())
        );
        let data = &bytes[(4 + length).next_multiple_of(4)..];
        assert_eq!(head["errors"], serde_json::json!(4.0));
        assert_eq!(data.len(), 3 * 12 + 4 + 3 * 4 + 12);
        assert_eq!(data[12..16], 1f32.to_le_bytes());
        assert_eq!(data[36..40], [32, UNKNOWN, UNKNOWN - 1, 0]);
        assert_eq!(data[40..44], [1, 2, 3, 255]);
        assert_eq!(data[56..60], 1u32.to_le_bytes());
        let empty = encode(&Drawable::default(), &[]).unwrap_err();
        assert!(empty.to_string().contains("no triangle"), "{empty}");
    }
}
