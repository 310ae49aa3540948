//! A scene as a page: one file that opens from disk without a network, or a folder for a web server.
//!
//! 1. The splats are packed as SPZ 3: the browser's own gzip unpacks it.
//! 2. In a page the packed splats are base64 text. In a folder they are separate files next to the page, in parts: the
//!    Gaussians that matter most come first, so that a coarse scene is visible early.
//! 3. The page consists of plain modules, joined to one script here, because browsers load no modules from disk. With
//!    WebGPU it runs the engine's own kernels (`page/export/webgpu.js`), given as a dispatch list in
//!    [`PageOptions::webgpu`]. Without WebGPU it draws with WebGL2 by the engine's formulas (`page/export/draw.js`).

use base64::Engine as Base64;
use base64::engine::general_purpose::STANDARD;
use dapple_engine::{Engine, EngineExt, RenderSettings};
use dapple_scene::edit::order::{gather, largest_first};
use dapple_scene::splat_file::{Axes, Format, WriteOptions, encode};
use dapple_scene::{Camera, Error, Pose, Result, Splats};
use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

const PAGE: &str = include_str!("page/export/index.html");
const STYLE: &str = include_str!("page/export/style.css");

/// Modules in the order of their dependence.
const MODULES: [&str; 10] = [
    include_str!("page/vectors.js"),
    include_str!("page/path.js"),
    include_str!("page/controls.js"),
    include_str!("page/export/spz.js"),
    include_str!("page/export/sorter.js"),
    include_str!("page/export/draw.js"),
    include_str!("page/export/webgpu.js"),
    include_str!("page/export/painter.js"),
    include_str!("page/export/mesh.js"),
    include_str!("page/export/main.js"),
];

/// Gaussians of a folder's parts, cumulative shares: the first part is visible early, each next is larger.
const PARTS: [f64; 4] = [0.05, 0.2, 0.5, 1.0];

/// Least Gaussians of a part: smaller scenes come in one part.
const LEAST_PART: usize = 20_000;

/// Camera: its position, the rotation from world to camera `[w, x, y, z]`, and its focal length in image heights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageCamera {
    /// World units.
    pub position: [f64; 3],
    /// Of length 1.
    pub rotation: [f64; 4],
    /// In image heights.
    pub focal: f64,
}

/// Bounds of turning and zooming, from the camera positions of the photos.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageBounds {
    /// Origin of the directions.
    pub centre: [f64; 3],
    /// True if the cameras look at the centre: then `places` are directions of length 1 from it, else points.
    pub inward: bool,
    /// One per camera.
    pub places: Vec<[f64; 3]>,
    /// Largest distance from the nearest of these places: radians, or world units.
    pub reach: f64,
    /// The largest distance from the centre, world units.
    pub far: f64,
}

/// Least distance that a page may move from each camera: radians, and as part of the cameras' extent.
const LEAST_TURN: f64 = 0.25;
const LEAST_STEP: f64 = 0.25;

/// Where neighbouring cameras are apart, the page may move by their distance times this factor.
const GAPS: f64 = 1.5;

/// Largest distance from the centre, as a factor of the farthest camera's.
const FARTHER: f64 = 1.25;

impl PageBounds {
    /// Creates the bounds from the camera positions; `None` if there are none.
    pub fn of_cameras(eyes: &[DVec3], centre: DVec3, inward: bool) -> Option<Self> {
        let far = eyes.iter().map(|eye| eye.distance(centre));
        let far = far.reduce(f64::max)?;
        let middle = eyes.iter().sum::<DVec3>() / eyes.len() as f64;
        let extent = eyes.iter().map(|eye| eye.distance(middle));
        let extent = extent.fold(0.0, f64::max).max(0.1 * far);
        let place = |eye: &DVec3| match inward {
            true => (*eye - centre).normalize_or(DVec3::Z),
            false => *eye,
        };
        let places: Vec<DVec3> = eyes.iter().map(place).collect();
        let apart = |a: DVec3, b: DVec3| match inward {
            true => a.dot(b).clamp(-1.0, 1.0).acos(),
            false => a.distance(b),
        };
        let nearest = places.iter().enumerate().map(|(i, a)| {
            let others = places.iter().enumerate().filter(|(j, _)| *j != i);
            others
                .map(|(_, b)| apart(*a, *b))
                .fold(f64::INFINITY, f64::min)
        });
        let mut gaps: Vec<f64> = nearest.filter(|gap| gap.is_finite()).collect();
        gaps.sort_by(f64::total_cmp);
        let gap = gaps.get(gaps.len() / 2).copied().unwrap_or(0.0);
        let least = match inward {
            true => LEAST_TURN,
            false => LEAST_STEP * extent,
        };
        Some(Self {
            centre: centre.to_array(),
            inward,
            places: places.iter().map(|place| place.to_array()).collect(),
            reach: (GAPS * gap).max(least),
            far: FARTHER * far.max(extent),
        })
    }
}

/// Cosine of the steepest view. Steeper views are tilted to it, because a page turns about the up direction.
const STEEPEST: f64 = 0.97;

/// JPEG quality of posters.
const POSTER_QUALITY: u8 = 82;

impl PageCamera {
    /// Creates a camera that looks at `centre` from `distance`, a little from above.
    pub fn around(up: [f64; 3], centre: [f64; 3], distance: f64) -> Self {
        let (up, centre) = (DVec3::from(up).normalize(), DVec3::from(centre));
        let side = if up.x.abs() < 0.9 { DVec3::X } else { DVec3::Z };
        let level = side.cross(up).normalize();
        let eye = centre + (0.35 * up - level).normalize() * distance;
        Self::looking(eye, centre, up, 1.0)
    }

    /// Creates a camera at `eye` that looks at `target` without roll, with the focal length in image heights. A camera
    /// that looks along `up` is tilted a little, about the target.
    pub fn looking(eye: DVec3, target: DVec3, up: DVec3, focal: f64) -> Self {
        let distance = eye.distance(target);
        let mut forward = (target - eye).normalize_or(DVec3::Z);
        let steep = forward.dot(up);
        if steep.abs() > STEEPEST {
            let flat = forward - up * steep;
            let level = flat
                .try_normalize()
                .unwrap_or_else(|| up.any_orthonormal_vector());
            let share = (1.0 - STEEPEST * STEEPEST).sqrt();
            forward = (level * share + up * STEEPEST.copysign(steep)).normalize();
        }
        let eye = target - forward * distance;
        let right = forward.cross(up).normalize();
        let rows = DMat3::from_cols(right, forward.cross(right), forward).transpose();
        let [x, y, z, w] = DQuat::from_mat3(&rows).to_array();
        Self {
            position: eye.to_array(),
            rotation: [w, x, y, z],
            focal,
        }
    }

    /// Converts to an engine's camera, for an image of this size.
    pub fn camera(&self, width: u32, height: u32) -> Camera {
        let pose = Pose::from_wxyz(self.rotation, DVec3::ZERO);
        let pose = Pose {
            translation: -(pose.rotation * DVec3::from(self.position)),
            ..pose
        };
        Camera::pinhole(width, height, self.focal * f64::from(height), pose)
    }
}

/// Renders a view of the engine's splats as JPEG.
///
/// # Errors
/// Errors of the engine.
pub fn poster(
    engine: &mut dyn Engine,
    settings: &RenderSettings,
    camera: &Camera,
) -> Result<Vec<u8>> {
    let rendered = engine.render_bytes(camera, settings)?;
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
    let mut jpeg = Vec::new();
    jpeg_encoder::Encoder::new(&mut jpeg, POSTER_QUALITY)
        .encode(
            &rendered.rgba,
            side(camera.width),
            side(camera.height),
            jpeg_encoder::ColorType::Rgba,
        )
        .map_err(|e| Error::internal("the poster cannot be packed").caused_by(e))?;
    Ok(jpeg)
}

/// Contents of a page in addition to the splats.
#[derive(Debug, Clone, PartialEq)]
pub struct PageOptions {
    /// Title of the page.
    pub title: String,
    /// Up direction of the world.
    pub up: [f64; 3],
    /// Point that the first view turns about, world units.
    pub centre: [f64; 3],
    /// Distance of the first view from `centre`, world units.
    pub distance: f64,
    /// First view, if it is not one from `distance`.
    pub view: Option<PageCamera>,
    /// Bounds of the camera; `None` = none.
    pub bounds: Option<PageBounds>,
    /// Colour behind everything, 0 to 1.
    pub background: [f64; 3],
    /// Gaussians nearer than this are not drawn, world units.
    pub near: f64,
    /// True if the splats are to be drawn with anti-aliasing.
    pub antialiased: bool,
    /// A path of cameras, as the viewer saves it.
    pub path: Option<Value>,
    /// Annotations: a list of `{position, text, view}`, with `view` a [`PageCamera`] or omitted.
    pub notes: Value,
    /// A JPEG of the first view, shown while the scene loads.
    pub poster: Option<Vec<u8>>,
    /// Kernels of the engine as a dispatch list for WebGPU: JSON of the GPU engine's `browser::DispatchList`. Without
    /// it the page draws with WebGL2 only.
    pub webgpu: Option<String>,
    /// Mesh that the page shows on request ([`crate::mesh::encode`]).
    pub mesh: Option<Vec<u8>>,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            title: "Splats".to_owned(),
            up: [0.0, -1.0, 0.0],
            centre: [0.0; 3],
            distance: 4.0,
            view: None,
            bounds: None,
            background: [0.0; 3],
            near: 0.01,
            antialiased: false,
            path: None,
            notes: Value::Array(Vec::new()),
            poster: None,
            webgpu: None,
            mesh: None,
        }
    }
}

/// Name of a folder's main file.
const INDEX: &str = "index.html";

/// Name of a folder's mesh.
const MESH: &str = "mesh.bin";

/// File of a folder: its name and bytes.
pub type PageFile = (String, Vec<u8>);

/// Packs everything into one HTML file.
///
/// # Errors
/// Splats that SPZ cannot hold, or no splats.
pub fn page(splats: &Splats, options: &PageOptions) -> Result<String> {
    let packed = pack(splats, options)?;
    let mut data = tag("part-0", &STANDARD.encode(packed));
    if let Some(mesh) = &options.mesh {
        data.push_str(&tag("mesh-data", &STANDARD.encode(mesh)));
    }
    data.push_str(&described(splats, options, &[None], None)?);
    Ok(put_together(options.poster.as_deref(), &data))
}

/// Returns the bytes of a page without its data and its poster: script, style, elements, kernels.
pub fn frame_bytes(options: &PageOptions) -> usize {
    put_together(None, "").len() + kernels(options).len()
}

/// Returns the engine's kernels as the HTML element that the script reads.
fn kernels(options: &PageOptions) -> String {
    let listed = options.webgpu.as_deref();
    listed.map_or_else(String::new, |json| tag("webgpu", &harmless(json)))
}

/// Escapes JSON so that it cannot end the HTML element that contains it.
fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Packs an `index.html` and its parts, for a web server.
///
/// # Errors
/// The errors of [`page`].
pub fn folder(splats: &Splats, options: &PageOptions) -> Result<Vec<PageFile>> {
    let order = largest_first(splats);
    let count = splats.len();
    let mut ends: Vec<usize> = PARTS.map(|share| (share * count as f64) as usize).to_vec();
    ends.retain(|&end| end >= LEAST_PART || end == count);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges: Vec<(usize, usize)> = starts.zip(ends.iter().copied()).collect();
    let parts: Vec<Vec<u8>> = ranges
        .par_iter()
        .map(|&(start, end)| {
            // Spatial neighbours next to each other compress better than the order of importance.
            let mut some = order[start..end].to_vec();
            some.sort_unstable();
            pack(&gather(splats, &some), options)
        })
        .collect::<Result<_>>()?;
    let names: Vec<String> = (0..parts.len())
        .map(|i| format!("splats-{i}.spz"))
        .collect();
    let named: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    let mesh = options.mesh.as_ref().map(|_| MESH);
    let described = described(splats, options, &named, mesh)?;
    let html = put_together(options.poster.as_deref(), &described);
    let mut files: Vec<PageFile> = names.iter().cloned().zip(parts).collect();
    if let Some(mesh) = &options.mesh {
        files.push((MESH.to_owned(), mesh.clone()));
    }
    files.push((INDEX.to_owned(), html.into_bytes()));
    Ok(files)
}

/// Returns true if a folder's entry has the name of a file of [`folder`].
pub fn is_part(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name
        .strip_prefix("splats-")
        .and_then(|rest| rest.strip_suffix(".spz"));
    name == INDEX || name == MESH || number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Encodes the data with which the viewer's page draws splats itself: the bytes of a JSON object (little-endian `u32`),
/// the object (`background`, `near`, `kernels`: [`PageOptions::webgpu`]), and the splats as SPZ.
///
/// # Errors
/// The errors of [`page`].
pub fn drawn(splats: &Splats, options: &PageOptions) -> Result<Vec<u8>> {
    let about = serde_json::json!({
        "background": options.background,
        "near": options.near,
        "kernels": options.webgpu,
    })
    .to_string();
    let length = u32::try_from(about.len())
        .map_err(|e| Error::internal("the kernels are too long").caused_by(e))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(about.into_bytes());
    bytes.extend(pack(splats, options)?);
    Ok(bytes)
}

fn pack(splats: &Splats, options: &PageOptions) -> Result<Vec<u8>> {
    let axes = WriteOptions {
        axes: Axes::Rdf,
        antialiased: options.antialiased,
        ..WriteOptions::default()
    };
    encode(splats, Format::Spz, &axes)
}

/// Description of the scene that the script reads, as JSON. `parts`, `mesh`: names of files.
fn described(
    splats: &Splats,
    options: &PageOptions,
    parts: &[Option<&str>],
    mesh: Option<&str>,
) -> Result<String> {
    let scene = serde_json::json!({
        "title": options.title,
        "up": options.up,
        "centre": options.centre,
        "distance": options.distance,
        "background": options.background,
        "near": options.near,
        "gaussians": splats.len(),
        "parts": parts,
        "mesh": mesh,
        "view": options.view,
        "bounds": options.bounds,
        "path": options.path,
        "notes": options.notes,
    });
    let text = serde_json::to_string(&scene)
        .map_err(|e| Error::internal("the page cannot be described").caused_by(e))?;
    Ok(tag("scene", &harmless(&text)) + &kernels(options))
}

fn tag(id: &str, text: &str) -> String {
    format!("<script type=\"text/plain\" id=\"{id}\">{text}</script>\n")
}

fn put_together(poster: Option<&[u8]>, data: &str) -> String {
    let poster = poster.map_or_else(String::new, |jpeg| {
        let bytes = STANDARD.encode(jpeg);
        format!("<img id=\"poster\" alt=\"\" src=\"data:image/jpeg;base64,{bytes}\">")
    });
    let mut page = String::with_capacity(PAGE.len() + data.len() + poster.len() + 64_000);
    let parts = [
        ("/*style*/", STYLE),
        ("<!--poster-->", &poster),
        ("<!--data-->", data),
        ("/*script*/", &script()),
    ];
    let mut rest = PAGE;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Joins the modules to one script, without imports and without lines that are only comments.
fn script() -> String {
    let mut out = String::new();
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        let bare = line.trim_start();
        if bare.starts_with("import ") || bare.starts_with("// ") {
            continue;
        }
        out.push_str(line.strip_prefix("export ").unwrap_or(line));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splats(n: usize) -> Splats {
        let mut splats = Splats::empty(0);
        for i in 0..n {
            splats.means.push([i as f32 * 0.01, 0.0, 1.0]);
            splats
                .scales
                .push([-3.0, -3.0, if i % 3 == 0 { -1.0 } else { -3.0 }]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(1.0);
            splats.sh0.push([0.1, 0.2, 0.3]);
        }
        splats
    }

    #[test]
    fn a_page_is_whole_and_small_beside_its_data() {
        let options = PageOptions {
            title: "</script><b>".to_owned(),
            poster: Some(vec![1, 2, 3]),
            ..PageOptions::default()
        };
        let splats = splats(10);
        let page = page(&splats, &options).unwrap();
        let data = STANDARD.encode(pack(&splats, &options).unwrap());
        assert!(page.len() - data.len() < 90_000, "{}", page.len());
        assert!(page.contains(&data) && page.contains("data:image/jpeg;base64,AQID"));
        for gone in [
            "/*style*/",
            "<!--poster-->",
            "<!--data-->",
            "/*script*/",
            "import {",
            "\nexport ",
        ] {
            assert!(!page.contains(gone), "{gone} is left");
        }
        // A title cannot end the element that contains it, and the page loads nothing from elsewhere.
        assert!(!page.contains("</script><b>"));
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "an address"
        );
        assert_eq!(
            page.matches("<script").count(),
            page.matches("</script").count()
        );
    }

    /// Modules share one scope in the page.
    #[test]
    fn no_name_is_made_twice() {
        let mut names = std::collections::BTreeSet::new();
        for line in script().lines() {
            let word = ["const ", "let ", "function ", "async function ", "class "];
            let Some(rest) = word.iter().find_map(|word| line.strip_prefix(word)) else {
                continue;
            };
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            assert!(
                name.is_empty() || names.insert(name.to_owned()),
                "{name} is made twice"
            );
        }
        assert!(names.contains("Renderer") && names.len() > 20);
    }

    #[test]
    fn a_folder_begins_with_what_is_seen_most_and_leaves_nothing_out() {
        let splats = splats(120_000);
        let files = folder(&splats, &PageOptions::default()).unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["splats-0.spz", "splats-1.spz", "splats-2.spz", "index.html"]
        );
        let parts = files.iter().filter(|(name, _)| name.ends_with("spz"));
        let read: Vec<Splats> = parts
            .map(|(name, bytes)| {
                dapple_scene::splat_file::parse(bytes, Format::Spz)
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
                    .0
            })
            .collect();
        assert_eq!(read.iter().map(Splats::len).sum::<usize>(), 120_000);
        assert!(read[0].scales.iter().all(|scales| scales[2] > -2.0));
        let few = folder(&self::splats(10), &PageOptions::default()).unwrap();
        assert_eq!(few.len(), 2);
    }
}
