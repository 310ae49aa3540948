//! Fuses depths in EXR files, as `dapple render --views all --channel median-depth --format exr` writes them.
//!
//! `cargo run --release --example fuse -- CAPTURE DEPTHS ALPHAS mesh.ply`

use dapple_mesh::files::{About, ply};
use dapple_mesh::volume::PlanOptions;
use dapple_mesh::{DepthSource, DepthView, Topology, fuse_views};
use dapple_scene::exr_file::FloatImage;
use dapple_scene::{Camera, Error, LoadOptions, NoProgress, Result, load};
use std::path::{Path, PathBuf};

/// Depths in two folders of EXR files.
struct Files {
    cameras: Vec<Camera>,
    names: Vec<String>,
    depths: PathBuf,
    alphas: PathBuf,
}

fn read(folder: &Path, name: &str) -> Result<Vec<f32>> {
    let path = folder.join(name).with_extension("exr");
    let bytes = std::fs::read(&path).map_err(|e| Error::io("cannot read", &path, e))?;
    let image = FloatImage::from_exr(&bytes)?;
    Ok(image
        .channels
        .into_iter()
        .next()
        .map(|(_, v)| v)
        .unwrap_or_default())
}

impl DepthSource for Files {
    fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        Ok(DepthView {
            depth: read(&self.depths, &self.names[view])?,
            alpha: read(&self.alphas, &self.names[view])?,
            normals: None,
        })
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, capture, depths, alphas, out] = args.as_slice() else {
        return Err(Error::input("arguments: CAPTURE DEPTHS ALPHAS OUT.ply"));
    };
    let dataset = load(Path::new(capture), &LoadOptions::default(), &NoProgress)?;
    let mut files = Files {
        cameras: dataset.views.iter().map(|view| view.camera).collect(),
        names: dataset.views.iter().map(|view| view.name.clone()).collect(),
        depths: PathBuf::from(depths),
        alphas: PathBuf::from(alphas),
    };
    let var = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<f32>().ok());
    let options = PlanOptions {
        voxel: var("VOXEL"),
        detail: var("DETAIL").unwrap_or(1.0),
        bounds: None,
        max_memory: 4 << 30,
    };
    let began = std::time::Instant::now();
    let mut fused = fuse_views(&mut files, &options, &NoProgress)?;
    println!("inconsistent {}", fused.inconsistent);
    fused.mesh = dapple_mesh::surface::drop_unsupported(
        &fused.mesh,
        &fused.maps,
        fused.plan.grid.truncation,
    )
    .0;
    fused.mesh.compute_normals();
    println!(
        "{:?} {:.1} s",
        Topology::of(&fused.mesh),
        began.elapsed().as_secs_f32()
    );
    let about = About::default();
    std::fs::write(out, ply(&fused.mesh, &about)).map_err(|e| Error::io("cannot write", out, e))
}
