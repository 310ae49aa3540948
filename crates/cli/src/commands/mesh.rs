//! `dapple mesh`: a triangle mesh of the surface that splats show.

mod comparing;
mod making;
mod source;
mod writing;

use crate::console::Console;
use crate::options::{CaptureOptions, DeviceOptions};
use comparing::{Benchmark, Distance, parse_distance};
use dapple::glam::Vec3;
use dapple::scene::Result;
use source::{DepthKind, Exposure};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
The depth of the splats is rendered from every camera of the capture and fused in voxels. The
surface is a manifold. Parts that no camera sees are removed, and small holes are filled. Vertices
move to where photos agree (--refine false: they do not).

.glb and .obj have a texture made of the photos, .ply has colours per vertex. Coordinates are the
capture's; the node of a .glb turns the up direction to +y, as glTF viewers expect.

--compare TRUTH compares a mesh: distances to a mesh (.glb, .obj, .ply) or points (.obj, .ply), in
world units and in per cent of the truth's extent. Accuracy is the mean distance from the mesh to the truth,
completeness that from the truth to the mesh, chamfer their mean.

Examples:
  dapple mesh out/bird -o bird.glb
  dapple mesh out/bird -o bird.obj --triangles 50000 --texture-size 2048
  dapple mesh splats.ply --capture captures/bird -o bird.ply --detail 2
  dapple mesh out/bird -o bird.glb --box -1,-1,-1,1,1,1 --collision bird-collision.glb
  dapple mesh bird.ply --compare truth.ply --distances 0.5%,1%";

/// Makes a textured mesh of the surface that splats show
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splats: a splat file, or a run's folder; with --compare a mesh as .glb, .obj or .ply
    splats: PathBuf,

    /// Mesh file: .glb, .obj or .ply
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "compare",
        conflicts_with = "compare"
    )]
    out: Option<PathBuf>,

    /// Replace existing files
    #[arg(long)]
    overwrite: bool,

    /// Capture with the cameras and photos [default: the run's]
    #[arg(long = "capture", alias = "scene", value_name = "CAPTURE")]
    scene: Option<PathBuf>,

    /// Distance between voxels, world units [default: three pixels of the photos]
    #[arg(long, value_name = "X")]
    voxel: Option<f32>,

    /// Factor on the default resolution of voxels
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    detail: f32,

    /// Box to mesh or compare, world units: least corner, largest corner [default: around the surfaces near the
    /// cameras]
    #[arg(long = "box", value_name = "X,Y,Z,X,Y,Z", allow_hyphen_values = true, value_parser = parse_box)]
    bounds: Option<[Vec3; 2]>,

    /// Also mesh what is outside the box: in a box of twice the size with voxels of twice the size, and so on
    #[arg(long)]
    far: bool,

    /// Most memory of voxels and depth maps, MiB; larger voxels are used if necessary
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 4096,
        hide_short_help = true
    )]
    max_memory: u64,

    /// Depths to fuse
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    depth: DepthKind,

    /// Move the surface to where photos agree
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set,
        hide_short_help = true
    )]
    refine: bool,

    /// Simplify to at most N triangles [default: 500000 with a texture, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    triangles: Option<u32>,

    /// Fill holes of at most N edges, before simplification
    #[arg(long, value_name = "N", default_value_t = 24, hide_short_help = true)]
    fill_holes: usize,

    /// Largest width and height of the texture, pixels; 0 for colours per vertex
    #[arg(long, value_name = "PIXELS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(..=16384))]
    texture_size: u32,

    /// Exposure of the photos in the colours of the mesh
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        default_value_t,
        hide_short_help = true
    )]
    exposure: Exposure,

    /// Also write a closed mesh of about 4000 triangles around the surface, for collisions
    #[arg(long, value_name = "FILE")]
    collision: Option<PathBuf>,

    /// Score the mesh at the held-out photos, and print its distance to the sparse points
    #[arg(long)]
    score: bool,

    /// Compare the mesh with the truth: a mesh, or points as .obj or .ply
    #[arg(long, value_name = "TRUTH")]
    compare: Option<PathBuf>,

    /// Distances of precision and recall, world units or per cent of the extent [default: 0.25%,0.5%,1%]
    #[arg(long, value_name = "D,D", value_delimiter = ',', value_parser = parse_distance, requires = "compare")]
    distances: Vec<Distance>,

    /// Largest distance that counts [default: 3%]
    #[arg(long, value_name = "D", value_parser = parse_distance, requires = "compare")]
    max_distance: Option<Distance>,

    /// Rules of a published benchmark
    #[arg(long, value_name = "NAME", value_enum, requires = "compare")]
    benchmark: Option<Benchmark>,

    /// Parts of the truth that fewer cameras see do not count for completeness and recall; 0 for all parts. Only for a
    /// truth with these numbers, as `synth --mesh` writes it
    #[arg(
        long,
        value_name = "N",
        requires = "compare",
        default_value_t = 2,
        hide_short_help = true
    )]
    seen: u32,

    /// Move the mesh onto the truth by a similarity first
    #[arg(long, requires = "compare")]
    align: bool,

    /// Print the comparison as one JSON object
    #[arg(long, requires = "compare")]
    json: bool,

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
    match (&args.compare, &args.out) {
        (Some(truth), _) => comparing::run(args, truth, console),
        (None, Some(out)) => making::run(args, out, console),
        (None, None) => Err(dapple::scene::Error::internal(
            "the parser let a missing -o pass",
        )),
    }
}
