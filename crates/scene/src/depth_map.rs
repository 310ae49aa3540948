//! Depth images of a capture, one per photo: their files, and their alignment with the photo.
//!
//! 1. The capture names a photo's depth image (Nerfstudio's `depth_file_path`). Else it is a file of the photo's name
//!    in the folder that the user gives, else in `depths` or `depth` next to the image folder: `a.exr`, `a.png`,
//!    `a.jpg.exr`, `a.jpg.png`.
//! 2. Values are read unchanged: 16-bit (or 8-bit) steps of a PNG, floats of an OpenEXR file's channel Z, Y, R or only
//!    channel. The trainer interprets their unit.
//! 3. Each pixel of the photo, as used in training, takes the nearest value along its ray, for any size of the depth
//!    image. A photo that keeps its lens takes the value at the pixel's own position; an undistorted photo takes it
//!    through the lens. Nothing is interpolated, because a mean across a depth edge belongs to no surface.

use crate::capture::PosedImage;
use crate::exr_file::FloatImage;
use crate::{Camera, Error, Result, bounded};
use image::{DynamicImage, ImageFormat};
use std::path::{Path, PathBuf};

/// Depth values of the pixels of a photo.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthMap {
    /// Depths, `[height, width]` of the photo; 0 or not finite if unknown.
    pub values: Vec<f32>,
    /// True if the values are steps of a PNG, which have a unit.
    pub has_steps: bool,
}

/// A depth image in the resolution of its file.
struct Raw {
    width: usize,
    height: usize,
    values: Vec<f32>,
    has_steps: bool,
}

/// Reads the depth image of a photo for `camera`, which has the photo's lens or, after undistortion, none; `None` if
/// there is no depth image.
pub(crate) fn load(
    image: &PosedImage,
    folder: Option<&Path>,
    camera: &Camera,
) -> Result<Option<DepthMap>> {
    let Some(path) = find(image, folder)? else {
        return Ok(None);
    };
    let raw = read(&path).map_err(|e| match e.place() {
        Some(_) => e,
        None => e.at_path(&path),
    })?;
    let (w, h) = (raw.width as f64, raw.height as f64);
    let off = (w * f64::from(image.camera.height) - h * f64::from(image.camera.width)).abs();
    if off > w + h + f64::from(image.camera.width + image.camera.height) {
        return Err(Error::input(format!(
            "the depth image has {}x{} pixels, its photo's camera {}x{}",
            raw.width, raw.height, image.camera.width, image.camera.height
        ))
        .at_path(&path)
        .hint("a depth image needs its photo's aspect ratio"));
    }
    Ok(Some(fit(&raw, image, camera)))
}

/// Resamples a depth image to the photo (step 3).
fn fit(raw: &Raw, image: &PosedImage, camera: &Camera) -> DepthMap {
    let source = image.camera.resized(raw.width as u32, raw.height as u32);
    let keeps_lens = camera.lens == source.lens;
    let mut values = Vec::with_capacity(camera.width as usize * camera.height as usize);
    for y in 0..camera.height {
        for x in 0..camera.width {
            let slope = |i: u32, c: f64, f: f64| (f64::from(i) + 0.5 - c) / f;
            let (u, v) = (
                slope(x, camera.cx, camera.fx),
                slope(y, camera.cy, camera.fy),
            );
            let (u, v) = match keeps_lens {
                true => (u, v),
                false => source.lens.distort(u, v),
            };
            let (px, py) = (u * source.fx + source.cx, v * source.fy + source.cy);
            let inside = px >= 0.0 && py >= 0.0 && px < raw.width as f64 && py < raw.height as f64;
            values.push(match inside {
                true => raw.values[py as usize * raw.width + px as usize],
                false => 0.0,
            });
        }
    }
    DepthMap {
        values,
        has_steps: raw.has_steps,
    }
}

/// Finds the file of a photo's depth image.
pub(crate) fn find(image: &PosedImage, folder: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(named) = &image.depth {
        return match named.is_file() {
            true => Ok(Some(named.clone())),
            false => Err(
                Error::input(format!("the depth image of \"{}\" is missing", image.name))
                    .at_path(named)
                    .hint("restore it, or remove depth_file_path from the transforms file"),
            ),
        };
    }
    let beside = image.folder.parent();
    let usual = ["depths", "depth"].map(|name| beside.map(|parent| parent.join(name)));
    let folders = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => usual.into_iter().flatten().collect(),
    };
    let names = folders.iter().flat_map(|folder| {
        let whole = folder.join(&image.file);
        ["exr", "png"].into_iter().flat_map(move |extension| {
            let mut appended = whole.clone().into_os_string();
            appended.push(format!(".{extension}"));
            [whole.with_extension(extension), PathBuf::from(appended)]
        })
    });
    Ok({ names }.find(|path| path.is_file()))
}

fn read(path: &Path) -> Result<Raw> {
    let most = bounded::IMAGE_BYTES;
    let bytes = bounded::read("cannot read the depth image", path, most)?;
    if path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("exr"))
    {
        return from_exr(FloatImage::from_exr(&bytes)?);
    }
    let decoded = image::load_from_memory_with_format(&bytes, ImageFormat::Png).map_err(|e| {
        Error::input(format!(
            "the depth image cannot be decoded: {}",
            dapple_base::decoder_fault(&e)
        ))
        .hint("16-bit grey PNG and OpenEXR are read")
    })?;
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let values = match decoded {
        DynamicImage::ImageLuma16(grey) => grey.into_raw().iter().map(|&v| f32::from(v)).collect(),
        DynamicImage::ImageLuma8(grey) => grey.into_raw().iter().map(|&v| f32::from(v)).collect(),
        _ => {
            return Err(Error::unsupported("the depth image has colours")
                .hint("16-bit grey PNG and OpenEXR are read: colour-mapped depth cannot be"));
        }
    };
    Ok(Raw {
        width,
        height,
        values,
        has_steps: true,
    })
}

fn from_exr(mut image: FloatImage) -> Result<Raw> {
    let named = |name: &str| image.channels.iter().position(|(n, _)| n == name);
    let only = (image.channels.len() == 1).then_some(0);
    let index = ["Z", "Y", "R"].iter().find_map(|name| named(name)).or(only);
    let Some(index) = index else {
        return Err(Error::unsupported(
            "the OpenEXR file has several channels, none of them Z, Y or R",
        )
        .hint("write depths as the channel Z"));
    };
    Ok(Raw {
        width: image.width as usize,
        height: image.height as usize,
        values: image.channels.swap_remove(index).1,
        has_steps: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undistort::pinhole_camera;
    use crate::{Lens, Pose};

    fn posed(camera: Camera) -> PosedImage {
        PosedImage {
            name: "a.png".to_owned(),
            folder: PathBuf::new(),
            file: PathBuf::new(),
            downscaled: false,
            mask: None,
            id: 0,
            depth: None,
            camera,
            source_model: String::new(),
        }
    }

    /// A depth image of half the size, through a lens, against the value at the ray's place.
    #[test]
    fn values_are_found_through_the_lens_at_any_size() {
        let mut source = Camera::pinhole(80, 60, 70.0, Pose::IDENTITY);
        source.lens = Lens::Radial([-0.2, 0.03]);
        let image = posed(source);
        let camera = pinhole_camera(&source);
        let raw = Raw {
            width: 40,
            height: 30,
            values: (0..1200).map(|i| i as f32).collect(),
            has_steps: false,
        };
        let map = fit(&raw, &image, &camera);
        let (x, y) = (camera.width - 3, 4);
        let ray = (
            (f64::from(x) + 0.5 - camera.cx) / camera.fx,
            (f64::from(y) + 0.5 - camera.cy) / camera.fy,
        );
        let (u, v) = source.lens.distort(ray.0, ray.1);
        // The lens bends this ray by more than a pixel.
        assert!((u - ray.0).abs() * 70.0 > 1.0);
        let (px, py) = ((u * 70.0 + 40.0) / 2.0, (v * 70.0 + 30.0) / 2.0);
        let expected = (py as usize * 40 + px as usize) as f32;
        assert_eq!(map.values[(y * camera.width + x) as usize], expected);
        assert_eq!(map.values.len(), (camera.width * camera.height) as usize);
    }

    /// The photo and its depth image have the same lens: pixels keep their positions.
    #[test]
    fn a_photo_that_keeps_its_lens_takes_pixels_as_they_lie() {
        let mut source = Camera::pinhole(80, 60, 70.0, Pose::IDENTITY);
        source.lens = Lens::Fisheye([0.02, -0.01, 0.0, 0.0]);
        let raw = Raw {
            width: 40,
            height: 30,
            values: (0..1200).map(|i| i as f32).collect(),
            has_steps: false,
        };
        let map = fit(&raw, &posed(source), &source);
        assert_eq!(map.values[59 * 80 + 79], 1199.0);
        assert_eq!(map.values[13 * 80 + 5], (6 * 40 + 2) as f32);
    }

    #[test]
    fn channels_are_chosen_by_name() {
        let with = |names: &[&str]| FloatImage {
            width: 1,
            height: 1,
            channels: names
                .iter()
                .enumerate()
                .map(|(i, name)| ((*name).to_owned(), vec![i as f32]))
                .collect(),
        };
        let value = |names: &[&str]| from_exr(with(names)).map(|raw| raw.values[0]);
        assert_eq!(value(&["A", "Z"]).unwrap(), 1.0);
        assert_eq!(value(&["B", "G", "R"]).unwrap(), 2.0);
        assert_eq!(value(&["V"]).unwrap(), 0.0);
        assert!(value(&["B", "G"]).is_err());
    }
}
