//! Splats of a mesh's primitive, before the encoding of its scales and opacities is decided.

use super::accessors::{Accessors, Floats};
use super::json::Primitive;
use super::{EXTENSION, coefficient, refuse, signs};
use crate::ply::empty;
use crate::splat_file::axes::Signs;
use crate::splat_file::packed::{cut_harmonics, unit};
use crate::splat_file::{ReadOptions, spz};
use crate::{Error, MAX_SH_DEGREE, NoProgress, Result, SH_C0, Splats};
use serde_json::Value;

/// The extension that compresses splats into an SPZ file, by all names that it has had, within the extension or next to
/// it.
const SPZ: &str = "KHR_gaussian_splatting_compression_spz";
const EARLY_SPZ: [&str; 2] = ["KHR_spz_gaussian_splats_compression", "KHR_spz_compression"];

/// A primitive's splats in right, down, forward.
pub(super) struct Part {
    /// Scales and opacities in the file's encoding, unless these are known.
    pub splats: Splats,
    /// True if scales are logarithms and opacities logits.
    pub is_known: bool,
    /// True if colours are linear.
    pub is_linear: bool,
    pub notes: Vec<String>,
}

/// Returns true if a primitive holds splats.
pub(super) fn holds_splats(primitive: &Primitive) -> bool {
    let mut names = primitive.extensions.keys();
    names.any(|name| name == EXTENSION || EARLY_SPZ.contains(&name.as_str()))
}

/// Returns the view of a primitive's SPZ file.
fn spz_view(primitive: &Primitive) -> Option<usize> {
    let own = primitive.extensions.get(EXTENSION);
    let inner = own.and_then(|own| own.get("extensions")?.as_object());
    let nested = inner.into_iter().flatten();
    let mut all = nested.chain(&primitive.extensions);
    let is_it = |name: &str| name.starts_with(SPZ) || EARLY_SPZ.contains(&name);
    let (_, found) = all.find(|(name, _)| is_it(name))?;
    usize::try_from(found.get("bufferView")?.as_u64()?).ok()
}

/// Returns the extension that holds a primitive's numbers, if these are in no view and the extension is not SPZ's.
fn unknown_packing<'a>(primitive: &'a Primitive, accessors: &Accessors<'_>) -> Option<&'a str> {
    let position = *primitive.attributes.get("POSITION")?;
    if accessors.has_view(position) || spz_view(primitive).is_some() {
        return None;
    }
    let own = primitive.extensions.get(EXTENSION);
    let inner = own.and_then(|own| own.get("extensions")?.as_object());
    let mut names = inner.into_iter().flatten().map(|(name, _)| name);
    let outer = || primitive.extensions.keys().find(|name| *name != EXTENSION);
    names.next().or_else(outer).map(String::as_str)
}

/// Returns the number of Gaussians that a primitive declares.
pub(super) fn promised(primitive: &Primitive, accessors: &Accessors<'_>) -> usize {
    let position = primitive.attributes.get("POSITION");
    position.map_or(0, |&index| accessors.count(index))
}

/// Reads a primitive's splats.
pub(super) fn read(
    primitive: &Primitive,
    accessors: &Accessors<'_>,
    options: &ReadOptions,
    at: &str,
) -> Result<Part> {
    let declared = Declared::read(primitive.extensions.get(EXTENSION));
    if let Some(name) = unknown_packing(primitive, accessors) {
        return Err(Error::unsupported(format!(
            "splats of the glTF file are compressed by {name}, which Dapple does not read"
        ))
        .at(at.to_owned())
        .hint("export it without compression or with SPZ, or as .ply or .spz"));
    }
    let mut part = match spz_view(primitive) {
        Some(view) => packed(accessors.view(view, at)?, options, at)?,
        None => plain(primitive, accessors, at)?,
    };
    let promised = promised(primitive, accessors);
    if part.is_known && promised != 0 && promised != part.splats.len() {
        part.notes.push(format!(
            "the accessors promise {promised} Gaussians, and the SPZ file has {}: these are read",
            part.splats.len()
        ));
    }
    part.is_linear = declared.is_linear;
    part.notes.extend(declared.notes);
    Ok(part)
}

/// Properties of the splats that the extension declares.
struct Declared {
    is_linear: bool,
    notes: Vec<String>,
}

impl Declared {
    fn read(extension: Option<&Value>) -> Self {
        let text = |key: &str| {
            extension
                .and_then(|e| e.get(key)?.as_str())
                .map(str::to_owned)
        };
        let mut notes = Vec::new();
        let mut unknown = |what: &str, found: &str, read: &str| {
            let found: String = found.chars().take(60).collect();
            notes.push(format!("the {what} {found:?} is not known: {read}"));
        };
        if let Some(kernel) = text("kernel").filter(|k| k != "ellipse") {
            unknown(
                "kernel",
                &kernel,
                "the splats are read as ellipsoids, and may look otherwise",
            );
        }
        // The second of each pair is the value of the extension's drafts.
        let is_linear = match text("colorSpace").as_deref() {
            None | Some("srgb_rec709_display" | "BT.709-sRGB") => false,
            Some("lin_rec709_display" | "BT.709-linear") => true,
            Some(space) => {
                unknown(
                    "colour space",
                    space,
                    "colours are read as sRGB, and may look otherwise",
                );
                false
            }
        };
        if let Some(projection) = text("projection").filter(|p| p != "perspective") {
            unknown(
                "projection",
                &projection,
                "the splats are drawn in perspective",
            );
        }
        if let Some(sorting) = text("sortingMethod").filter(|s| s != "cameraDistance") {
            unknown("sorting method", &sorting, "the splats are sorted by depth");
        }
        Self { is_linear, notes }
    }
}

/// Reads an SPZ file in a view.
fn packed(bytes: &[u8], options: &ReadOptions, at: &str) -> Result<Part> {
    let read = spz::parse(bytes, options, &NoProgress);
    let (splats, metadata) = read.map_err(|e| {
        let place = match e.place() {
            Some(place) => format!("{at}, its SPZ file, {place}"),
            None => format!("{at}, its SPZ file"),
        };
        e.at(place)
    })?;
    Ok(Part {
        splats,
        is_known: true,
        is_linear: false,
        notes: metadata.notes,
    })
}

/// Attributes of a primitive.
struct Attributes<'a, 'b> {
    primitive: &'a Primitive,
    accessors: &'a Accessors<'b>,
    at: &'a str,
    count: usize,
}

impl Attributes<'_, '_> {
    /// Reads the attribute with the first of these names that exists.
    fn find(&self, names: &[&str], width: usize) -> Result<Option<Vec<f32>>> {
        let all = &self.primitive.attributes;
        let found = names
            .iter()
            .find_map(|name| Some((*name, *all.get(*name)?)));
        let Some((name, index)) = found else {
            return Ok(None);
        };
        let at = format!("{}, {name}", self.at);
        let Floats {
            values,
            width: found,
        } = self.accessors.floats(index, &at)?;
        if found != width || values.len() != width * self.count {
            return refuse(
                format!(
                    "{name} of the glTF file has {} rows of {found} numbers, and {} Gaussians need {width} each",
                    values.len() / found.max(1),
                    self.count
                ),
                &at,
            );
        }
        Ok(Some(values))
    }

    fn need(&self, names: &[&str], width: usize) -> Result<Vec<f32>> {
        match self.find(names, width)? {
            Some(values) => Ok(values),
            None => refuse(
                format!("the splats of the glTF file lack {}", names[0]),
                self.at,
            ),
        }
    }

    /// Reads colour and opacity of points. Drafts of the extension had these instead of attributes of its own.
    fn colour(&self) -> Result<Option<(Vec<f32>, usize)>> {
        let Some(&index) = self.primitive.attributes.get("COLOR_0") else {
            return Ok(None);
        };
        let at = format!("{}, COLOR_0", self.at);
        let Floats { values, width } = self.accessors.floats(index, &at)?;
        let fits = width >= 3 && values.len() == width * self.count;
        Ok(fits.then_some((values, width)))
    }

    /// Reads opacities and the coefficients of degree 0. Missing attributes are taken from `COLOR_0`, with a note.
    fn opacities_and_sh0(&self, notes: &mut Vec<String>) -> Result<(Vec<f32>, Vec<f32>)> {
        let (opacity_name, sh0_name) = (format!("{EXTENSION}:OPACITY"), coefficient(0, 0));
        let mut opacities = self.find(&[&opacity_name, "_OPACITY"], 1)?;
        let mut sh0 = self.find(&[&sh0_name], 3)?;
        if (opacities.is_none() || sh0.is_none())
            && let Some((colours, width)) = self.colour()?
        {
            let rows = || colours.chunks_exact(width);
            if sh0.is_none() {
                let dc = |c: &f32| (c - 0.5) / SH_C0;
                sh0 = Some(rows().flat_map(|row| row[..3].iter().map(dc)).collect());
            }
            if opacities.is_none() && width == 4 {
                opacities = Some(rows().map(|row| row[3]).collect());
            }
            notes.push(
                "colours or opacities are taken from COLOR_0, where drafts of the extension had them"
                    .to_owned(),
            );
        }
        let (Some(opacities), Some(sh0)) = (opacities, sh0) else {
            let lacks = if self.primitive.attributes.contains_key(&sh0_name) {
                opacity_name
            } else {
                sh0_name
            };
            return refuse(format!("the splats of the glTF file lack {lacks}"), self.at);
        };
        Ok((opacities, sh0))
    }

    /// Reads the coefficients of degree 1 to `degree` into `splats`.
    fn read_sh_rest(&self, splats: &mut Splats, degree: usize, signs: &Signs) -> Result<()> {
        let stride = splats.sh_rest_stride();
        for degree in 1..=degree {
            for n in 0..2 * degree + 1 {
                let values = self.need(&[&coefficient(degree, n)], 3)?;
                let k = degree * degree - 1 + n;
                for i in 0..self.count {
                    for channel in 0..3 {
                        splats.sh_rest[i * stride + 3 * k + channel] =
                            values[3 * i + channel] * signs.sh[k];
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads attributes in accessors.
fn plain(primitive: &Primitive, accessors: &Accessors<'_>, at: &str) -> Result<Part> {
    let Some(&position) = primitive.attributes.get("POSITION") else {
        return refuse("the splats of the glTF file lack POSITION".to_owned(), at);
    };
    let means = accessors.floats(position, &format!("{at}, POSITION"))?;
    let attributes = Attributes {
        primitive,
        accessors,
        at,
        count: means.values.len() / 3,
    };
    let count = attributes.count;
    let means = attributes.need(&["POSITION"], 3)?;
    // Attributes of the drafts had no prefix.
    let own = |name: &str| format!("{EXTENSION}:{name}");
    let quats = attributes.need(&[&own("ROTATION"), "_ROTATION"], 4)?;
    let scales = attributes.need(&[&own("SCALE"), "_SCALE"], 3)?;
    let mut notes = Vec::new();
    let (opacities, sh0) = attributes.opacities_and_sh0(&mut notes)?;
    let has = |degree: &usize| primitive.attributes.contains_key(&coefficient(*degree, 0));
    let stored = (0..=10).rev().find(has).unwrap_or(0);
    let degree = stored.min(usize::from(MAX_SH_DEGREE));
    if stored > degree {
        notes.push(cut_harmonics(stored as u8));
    }
    let mut splats = empty(count, degree as u8);
    let signs = signs();
    for i in 0..count {
        let three = |values: &[f32]| [0, 1, 2].map(|k| values[3 * i + k]);
        let mean = three(&means);
        splats.means[i] = [0, 1, 2].map(|k| mean[k] * signs.mean[k]);
        splats.scales[i] = three(&scales);
        let [x, y, z, w] = [0, 1, 2, 3].map(|k| quats[4 * i + k]);
        let [sx, sy, sz] = signs.quat;
        let quat = [w, x * sx, y * sy, z * sz];
        splats.quats[i] = match quat.iter().all(|q| q.is_finite()) {
            true => unit(quat),
            false => quat,
        };
        splats.opacities[i] = opacities[i];
        splats.sh0[i] = three(&sh0);
    }
    attributes.read_sh_rest(&mut splats, degree, &signs)?;
    Ok(Part {
        splats,
        is_known: false,
        is_linear: false,
        notes,
    })
}
