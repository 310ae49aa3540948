//! Accessors: numbers in views of buffers, as floats.

use super::buffers::Buffers;
use super::json::{Accessor, Gltf};
use super::refuse;
use crate::splat_file::NON_FINITE_HINT;
use crate::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Numbers of an accessor.
pub(super) struct Floats {
    pub values: Vec<f32>,
    /// Numbers per row.
    pub width: usize,
}

/// Accessors of a file.
pub(super) struct Accessors<'a> {
    gltf: &'a Gltf,
    pub buffers: Buffers<'a>,
    keeps_non_finite: bool,
    /// Bytes of views that accessors have used, from the view's beginning, and bytes of a row.
    used: RefCell<BTreeMap<usize, (usize, usize)>>,
}

/// Location of an accessor's numbers.
struct Place {
    view: usize,
    /// Numbers per row, bytes of a number and of a row.
    width: usize,
    size: usize,
    stride: usize,
    /// Bytes from the first number to the last's end.
    needed: usize,
}

impl<'a> Accessors<'a> {
    pub(super) fn new(gltf: &'a Gltf, buffers: Buffers<'a>, keeps_non_finite: bool) -> Self {
        Self {
            gltf,
            buffers,
            keeps_non_finite,
            used: RefCell::default(),
        }
    }

    /// Returns the rows of an accessor; 0 if the accessor does not exist.
    pub(super) fn count(&self, index: usize) -> usize {
        self.gltf.accessors.get(index).map_or(0, |a| a.count)
    }

    /// Returns true if an accessor's numbers are in a view, or if the accessor does not exist.
    pub(super) fn has_view(&self, index: usize) -> bool {
        let accessor = self.gltf.accessors.get(index);
        accessor.is_none_or(|a| a.buffer_view.is_some())
    }

    /// Returns the bytes of a view.
    pub(super) fn view(&self, index: usize, at: &str) -> Result<&[u8]> {
        let Some(view) = self.gltf.buffer_views.get(index) else {
            return refuse(format!("the glTF file has no bufferView {index}"), at);
        };
        if let Some(name) = view.extensions.keys().find(|name| name.contains("meshopt")) {
            return Err(Error::unsupported(format!(
                "numbers of the glTF file are compressed by {name}, which Dapple does not read"
            ))
            .at(at.to_owned())
            .hint("export it without compression, or as .ply or .spz"));
        }
        let buffer = self.buffers.get(view.buffer)?;
        let end = view.byte_offset.checked_add(view.byte_length);
        let bytes = end.and_then(|end| buffer.get(view.byte_offset..end));
        bytes.map_or_else(
            || {
                refuse(
                    format!(
                        "bufferView {index} of the glTF file has {} bytes from {} on, beyond the file's {}",
                        view.byte_length,
                        view.byte_offset,
                        buffer.len()
                    ),
                    at,
                )
            },
            Ok,
        )
    }

    fn place(&self, accessor: &Accessor, at: &str) -> Result<Place> {
        let Some(view) = accessor.buffer_view else {
            return refuse(
                "an attribute of the glTF file's splats has no numbers: an extension may hold them"
                    .to_owned(),
                at,
            );
        };
        let width = match accessor.kind.as_str() {
            "SCALAR" => 1,
            "VEC3" => 3,
            "VEC4" => 4,
            _ => 0,
        };
        let size = match accessor.component_type {
            5120 | 5121 => 1,
            5122 | 5123 => 2,
            5126 => 4,
            _ => 0,
        };
        if accessor.sparse.is_some() {
            return refuse(
                "an attribute of the glTF file's splats is sparse, which Dapple does not read"
                    .to_owned(),
                at,
            );
        }
        let declared = self.gltf.buffer_views.get(view).and_then(|v| v.byte_stride);
        let stride = declared.unwrap_or(width * size);
        if width == 0 || size == 0 || stride < width * size {
            return refuse(
                format!(
                    "an attribute of the glTF file's splats is of another type: {} of {}, {stride} bytes a row",
                    accessor.kind, accessor.component_type
                ),
                at,
            );
        }
        let needed = match accessor.count {
            0 => Some(0),
            count => stride
                .checked_mul(count - 1)
                .and_then(|b| b.checked_add(width * size)),
        };
        let Some(needed) = needed else {
            return refuse(
                format!(
                    "{} rows of an attribute of the glTF file are beyond the file",
                    accessor.count
                ),
                at,
            );
        };
        Ok(Place {
            view,
            width,
            size,
            stride,
            needed,
        })
    }

    /// Reads an accessor's numbers, all finite unless the options keep others.
    pub(super) fn floats(&self, index: usize, at: &str) -> Result<Floats> {
        let Some(accessor) = self.gltf.accessors.get(index) else {
            return refuse(
                format!(
                    "an attribute of the glTF file's splats has no numbers: there is no accessor {index}"
                ),
                at,
            );
        };
        let place = self.place(accessor, at)?;
        let view = self.view(place.view, at)?;
        let room = view.get(accessor.byte_offset..).unwrap_or_default();
        if place.needed > room.len() {
            return refuse(
                format!(
                    "an attribute of the glTF file needs {} bytes and has {}",
                    place.needed,
                    room.len()
                ),
                at,
            );
        }
        let end = accessor.byte_offset + place.needed;
        let mut used = self.used.borrow_mut();
        let entry = used.entry(place.view).or_insert((0, place.stride));
        entry.0 = entry.0.max(end);
        entry.1 = entry.1.max(place.stride);
        let Place {
            width,
            size,
            stride,
            ..
        } = place;
        let mut values = Vec::with_capacity(accessor.count * width);
        for i in 0..accessor.count {
            for bytes in room[i * stride..][..width * size].chunks_exact(size) {
                values.push(number(bytes, accessor.component_type, accessor.normalized));
            }
        }
        match values.iter().position(|v| !v.is_finite()) {
            Some(bad) if !self.keeps_non_finite => Err(Error::input(format!(
                "number {bad} of an attribute of the glTF file is not finite"
            ))
            .at(at.to_owned())
            .hint(NON_FINITE_HINT)),
            _ => Ok(Floats { values, width }),
        }
    }

    /// Returns notes on views that hold more rows than their accessors declare.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.buffers.notes();
        let used = self.used.borrow();
        // Other accessors may use the remaining bytes.
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        for accessor in &self.gltf.accessors {
            let Some(view) = accessor.buffer_view.filter(|view| used.contains_key(view)) else {
                continue;
            };
            let place = self.place(accessor, "").ok();
            let end = place.and_then(|place| accessor.byte_offset.checked_add(place.needed));
            let entry = ends.entry(view).or_default();
            *entry = end.unwrap_or(usize::MAX).max(*entry);
        }
        let surplus = used.iter().filter_map(|(view, &(end, stride))| {
            let length = self.gltf.buffer_views.get(*view)?.byte_length;
            let last = ends.get(view).map_or(end, |last| end.max(*last));
            Some(length.saturating_sub(last) / stride.max(4)).filter(|&rows| rows > 0)
        });
        if let Some(rows) = surplus.max() {
            notes.push(format!(
                "bufferViews of the splats hold {rows} rows more than the accessors promise, unread"
            ));
        }
        notes
    }
}

/// Reads a component; a normalised one is a fraction of its type's largest number.
fn number(bytes: &[u8], kind: u32, normalized: bool) -> f32 {
    let (value, most) = match (kind, bytes) {
        (5120, &[a]) => (f32::from(a as i8), 127.0),
        (5121, &[a]) => (f32::from(a), 255.0),
        (5122, &[a, b]) => (f32::from(i16::from_le_bytes([a, b])), 32_767.0),
        (5123, &[a, b]) => (f32::from(u16::from_le_bytes([a, b])), 65_535.0),
        (_, &[a, b, c, d]) => return f32::from_le_bytes([a, b, c, d]),
        _ => return 0.0,
    };
    if normalized {
        (value / most).max(-1.0)
    } else {
        value
    }
}
