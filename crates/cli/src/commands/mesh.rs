//! `dapple mesh`: a triangle mesh of the splats' surface.

mod source;

use crate::console::Console;
use crate::known_capture;
use crate::options::{
    CaptureOptions, DeviceOptions, config_beside, make_folder_of, read_splats, refuse_existing,
    splats_file,
};
use crate::viewing::shown_settings;
use dapple::contract::RenderSettings;
use dapple::glam::{DVec3, Vec3};
use dapple::scene::atomic::write_atomically;
use dapple::scene::{Error, Result, load};
use dapple::train::ConfigPatch;
use dapple_mesh::files::{About, ply};
use dapple_mesh::{Topology, fuse_views, volume::PlanOptions};
use source::Renders;
use std::path::PathBuf;

/// Makes a triangle mesh of the surface that splats show
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Splats: a splat file, or a run's folder
    splats: PathBuf,

    /// Mesh file to write: .glb, .obj or .ply
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,

    /// Replace a file that Dapple has not written
    #[arg(long)]
    overwrite: bool,

    /// Capture with the cameras [default: the run's]
    #[arg(long)]
    scene: Option<PathBuf>,

    /// Distance between voxels, world units [default: three pixels of the photos]
    #[arg(long, value_name = "X")]
    voxel: Option<f32>,

    /// Factor on the automatic resolution of voxels [default: 1]
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    detail: f32,

    /// Box to mesh, world units [default: from the cameras and the depths]
    #[arg(long = "box", value_name = "X,Y,Z,X,Y,Z", allow_hyphen_values = true, value_parser = parse_box)]
    bounds: Option<[Vec3; 2]>,

    /// Most memory of voxels and depth maps, MiB [default: 4096]
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    max_memory: u64,

    #[command(flatten)]
    capture: CaptureOptions,

    #[command(flatten)]
    device: DeviceOptions,
}

/// Parses a box: its least corner, then its largest.
fn parse_box(text: &str) -> Result<[Vec3; 2], String> {
    let numbers: Result<Vec<f32>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match numbers.as_deref() {
        Ok(&[a, b, c, d, e, f]) => Ok([Vec3::new(a, b, c), Vec3::new(d, e, f)]),
        _ => Err("six numbers are needed: the least x, y, z, then the largest".to_owned()),
    }
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let flags = ConfigPatch {
        data: args.capture.patch(),
        ..ConfigPatch::default()
    };
    refuse_existing(&args.out, args.overwrite)?;
    let file = splats_file(&args.splats)?;
    let config = config_beside(&file, flags, console)?;
    let (splats, aside) = read_splats(&file, console)?;
    let scene = match &args.scene {
        Some(scene) => scene.clone(),
        None => known_capture::needed(&file, console)?,
    };
    let dataset = load(&scene, &config.load_options(), &console.progress())?;
    let frame = aside.frame();
    let cameras = dataset.views.iter().map(|view| frame.camera(&view.camera, dataset.origin));
    let settings = RenderSettings {
        depth: true,
        antialias: config.antialias || aside.antialiased,
        ..shown_settings(&config, splats.sh_degree)
    };
    let mut engine = args.device.engine(console)?;
    engine.upload(&splats, None)?;
    let mut renders = Renders::new(engine, cameras.collect(), settings);
    let options = PlanOptions {
        voxel: args.voxel,
        detail: args.detail,
        bounds: args.bounds,
        max_memory: args.max_memory << 20,
    };
    let began = std::time::Instant::now();
    let mut fused = fuse_views(&mut renders, &options, &console.progress())?;
    fused.mesh.compute_normals();
    let about = About {
        origin: DVec3::ZERO,
        up: None,
        voxel: fused.plan.grid.voxel,
    };
    console.note(&format!(
        "{} triangles, voxel {}, {} blocks, outside {:.3}, {:?}, {:?}, {:.1} s",
        fused.mesh.triangles.len(),
        fused.plan.grid.voxel,
        fused.plan.blocks.len(),
        fused.plan.outside,
        fused.plan.grid,
        Topology::of(&fused.mesh),
        began.elapsed().as_secs_f32()
    ));
    let bytes = ply(&fused.mesh, &about);
    make_folder_of(&args.out)?;
    write_atomically(&args.out, |file| file.write_all(&bytes))?;
    let _ = Error::input("");
    console.outcome(&format!("mesh in {}", args.out.display()))
}
