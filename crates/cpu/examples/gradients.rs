//! Writes the gradients of the reference and of the CPU engine for one view of a run, for comparison with another
//! program: `cargo run -p dapple-cpu --example gradients -- RUN VIEW FOLDER`.
//!
//! RUN is the folder of a run (`splats.ply`, `cameras.json`), VIEW the name of a photo. The loss is the sum over the
//! image of colours times random weights. Pixels in which rounding may decide have a weight of 0. Each file in FOLDER
//! has 64-bit floats: `weights` `[height, width, 3]`, then for `reference` and `cpu` the image and the tensors of
//! `Gradients`. `gradients_gsplat.py` reads them.

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::{Engine, EngineExt, Gradients, RenderSettings};
use dapple_reference::scenes::Random;
use dapple_reference::{
    Contribution, Projected, contributions, decision_margins, gradients, ranges, render, visible,
};
use dapple_scene::{Error, Result, read_cameras, splat_file};
use glam::DVec2;
use std::path::Path;

/// Margin of decisions, in units of ln alpha: nearer to a threshold, `f32` may decide otherwise.
const MARGIN: f64 = 1e-4;

/// Relative difference of two depths below which `f32` may order two Gaussians otherwise. Equal depths are ordered by
/// index.
const DEPTH_MARGIN: f64 = 1e-6;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, view, out] = arguments.as_slice() else {
        return Err(Error::input("three arguments are needed").hint("give RUN VIEW FOLDER"));
    };
    let (run, out) = (Path::new(run), Path::new(out));
    let (splats, _) = splat_file::read(&run.join("splats.ply"))?;
    let cameras = read_cameras(&run.join("cameras.json"))?;
    let Some((_, camera)) = cameras.iter().find(|(name, _)| name == view) else {
        return Err(Error::input(format!("no camera has the name {view}"))
            .at_path(run.join("cameras.json"))
            .hint("give a `file_path` of this file"));
    };
    let settings = RenderSettings {
        sh_degree: splats.sh_degree,
        ..RenderSettings::default()
    };

    let gaussians = dapple_reference::Gaussian::all(&splats);
    let seen = visible(&gaussians, camera, &settings)?;
    let lists = ranges(&seen, camera, 0);
    let margins = decision_margins(&seen, &lists, camera);
    let is_decided = |pixel: usize| {
        let (x, y) = (pixel as u32 % camera.width, pixel as u32 / camera.width);
        let centre = DVec2::new(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let (blended, _) = contributions(&seen, lists.at(x, y), centre);
        let is_ordered =
            |pair: &[Contribution]| is_ordered(&seen[pair[0].position], &seen[pair[1].position]);
        margins[pixel] > MARGIN && blended.windows(2).all(is_ordered)
    };
    let decided: Vec<bool> = (0..margins.len()).map(is_decided).collect();
    let mut random = Random::new(1);
    let weight = |&decided: &bool| {
        let drawn: [f32; 3] = std::array::from_fn(|_| random.uniform(-1.0, 1.0) as f32);
        drawn.map(|value| if decided { value } else { 0.0 })
    };
    let weights: Vec<f32> = decided.iter().flat_map(weight).collect();
    let wide: Vec<f64> = weights.iter().map(|&v| f64::from(v)).collect();
    let undecided = decided.iter().filter(|&&decided| !decided).count();
    println!(
        "{} Gaussians, {} visible, {}x{} pixels, {undecided} undecided",
        splats.len(),
        seen.len(),
        camera.width,
        camera.height
    );

    write(out, "weights", &wide)?;
    write(
        out,
        "reference/image",
        &render(&splats, camera, &settings)?.rgb,
    )?;
    write_gradients(
        out,
        "reference",
        &gradients(&splats, camera, &settings, &wide, None)?,
    )?;
    let mut engine = CpuEngine::new(CpuOptions::default())?;
    engine.upload(&splats, None)?;
    write(out, "cpu/image", &engine.render(camera, &settings)?.rgb)?;
    let found = engine.gradients(camera, &settings, &weights, None)?;
    write_gradients(out, "cpu", &found)
}

/// Returns true if `f32` orders two Gaussians as the reference does.
fn is_ordered(front: &Projected, back: &Projected) -> bool {
    let distance = back.depth - front.depth;
    distance == 0.0 || distance > DEPTH_MARGIN * back.depth
}

/// Writes the tensors of `gradients` to files in the folder `engine`.
fn write_gradients<T: Copy + Default + Into<f64>>(
    out: &Path,
    engine: &str,
    gradients: &Gradients<T>,
) -> Result<()> {
    for (name, values) in gradients.tensors() {
        write(out, &format!("{engine}/{name}"), &values)?;
    }
    Ok(())
}

/// Writes a file of 64-bit floats.
fn write<T: Copy + Into<f64>>(out: &Path, name: &str, values: &[T]) -> Result<()> {
    let path = out.join(name);
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|&v| v.into().to_le_bytes())
        .collect();
    let folder = path.parent().unwrap_or(out);
    std::fs::create_dir_all(folder).map_err(|why| Error::io("create the folder", folder, why))?;
    std::fs::write(&path, bytes).map_err(|why| Error::io("write", &path, why))
}
