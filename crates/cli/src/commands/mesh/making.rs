//! From splats to a mesh file.

use super::Args;
use super::source::{DepthKind, Exposure, Photos, Renders};
use super::writing::{self, Format};
use crate::console::Console;
use crate::known_capture;
use crate::options::{
    NewFolders, config_beside, make_folder_of, read_splats, refuse_inputs, splats_file,
};
use crate::sparse_points::{first_renders, sparse_points};
use crate::viewing::shown_settings;
use dapple::BoxedEngine;
use dapple::contract::{Engine, RenderSettings};
use dapple::glam::{DVec3, Vec3};
use dapple::scene::edit::Similarity;
use dapple::scene::order::gather;
use dapple::scene::origin::middle_of;
use dapple::scene::{Camera, Dataset, Error, Result, Splats, load, sky};
use dapple::train::TrainConfig;
use dapple::train::config::AppearanceModel;
use dapple_mesh::colour::{
    Matched, Reduced, TOLERANCE, TextureOptions, Unseen, colour_vertices, texture,
};
use dapple_mesh::files::About;
use dapple_mesh::judge::{CERTAIN, Fidelity, PhotoScore, score_photos, sparse_score};
use dapple_mesh::raster::MeshDepths;
use dapple_mesh::refine::{RefineOptions, refine};
use dapple_mesh::surface::{drop_unseen, drop_unsupported, fill_holes, simplify};
use dapple_mesh::volume::{ByLevel, PlanOptions};
use dapple_mesh::{Fused, Mesh, PhotoSource, Pinhole, Topology, collision, fuse_views};
use std::panic::resume_unwind;
use std::path::Path;

/// Default triangles of a mesh with a texture.
const TEXTURED_TRIANGLES: usize = 500_000;

/// Triangles of the mesh for collisions.
const COLLISION_TRIANGLES: usize = 4000;

/// Splats and the capture that they belong to, in one frame.
struct Inputs {
    splats: Splats,
    dataset: Dataset,
    config: TrainConfig,
    settings: RenderSettings,
    up: Option<Vec3>,
}

impl Inputs {
    fn read(args: &Args, out: &Path, console: &Console) -> Result<Self> {
        let file = splats_file(&args.splats)?;
        let config = config_beside(&file, args.capture.patch(), console)?;
        let scene = match &args.scene {
            Some(scene) => scene.clone(),
            None => known_capture::needed(&file, console)?,
        };
        let options = config.load_options();
        let capture = load::open(&scene, &options)?;
        for path in std::iter::once(out).chain(args.collision.as_deref()) {
            refuse_inputs(path, &scene, &capture, &options)?;
        }
        let without_sky = || {
            let (splats, metadata) = read_splats(&file, console)?;
            let splats = match sky::last(&splats) {
                Some((order, of_sky)) => gather(&splats, &order[..order.len() - of_sky]),
                None => splats,
            };
            Ok::<_, Error>((splats, metadata))
        };
        let (read, dataset) = std::thread::scope(|threads| {
            let read = threads.spawn(without_sky);
            let dataset = load::decode(capture, &options, &console.progress());
            (
                read.join().unwrap_or_else(|panic| resume_unwind(panic)),
                dataset,
            )
        });
        let ((mut splats, metadata), dataset) = (read?, dataset?);
        // The mesh is in the frame of the capture.
        let frame = metadata.frame().beside(middle_of(&splats), dataset.origin);
        if frame.moved != Similarity::IDENTITY {
            frame.moved.inverse().apply(&mut splats);
        }
        splats.count_from(dataset.origin - frame.origin);
        let settings = RenderSettings {
            antialias: config.antialias || metadata.antialiased,
            ..shown_settings(&config, splats.sh_degree)
        };
        Ok(Self {
            up: metadata
                .up
                .map(|up| DVec3::from(up).as_vec3())
                .or_else(|| mean_up(&dataset)),
            splats,
            dataset,
            config,
            settings,
        })
    }
}

impl Inputs {
    /// Returns the photos of the training.
    fn photos(&self) -> Photos<'_> {
        let split = self.config.data.split_all_views(&self.dataset);
        Photos::new(&self.dataset, &split.train)
    }

    /// Returns what belongs to each photo, given what belongs to each render.
    fn of_photos<'a, T>(
        &self,
        photos: &'a Photos<'_>,
        of_renders: &'a [T],
    ) -> impl Iterator<Item = &'a T> {
        let firsts = first_renders(&self.dataset);
        photos
            .faces()
            .map(move |(view, face)| &of_renders[firsts[view] as usize + face])
    }

    /// Returns the photos, in the exposure of the splats if the options select this.
    fn exposed<'a>(
        &self,
        args: &Args,
        photos: &'a Photos<'_>,
        renders: &'a [Option<Reduced>],
        console: &Console,
    ) -> Box<dyn PhotoSource + 'a> {
        let has_learned = self.config.appearance.model != AppearanceModel::None;
        let matches = match args.exposure {
            Exposure::Auto => has_learned,
            Exposure::Splats => true,
            Exposure::Photos => false,
        };
        let of_photos = self.of_photos(photos, renders).map(Option::as_ref);
        let of_photos: Option<Vec<&Reduced>> = of_photos.collect();
        match of_photos.filter(|_| matches) {
            Some(renders) => {
                console.note(
                    "exposure: that of the splats (--exposure photos keeps that of each photo)",
                );
                Box::new(Matched::new(photos, renders))
            }
            None => Box::new(Photos::clone(photos)),
        }
    }
}

/// Returns the mean up direction of the cameras; `None` if they disagree.
fn mean_up(dataset: &Dataset) -> Option<Vec3> {
    let up = |camera: &Camera| camera.camera_from_world.rotation.conjugate() * DVec3::NEG_Y;
    let sum: DVec3 = dataset.views.iter().map(|view| up(&view.camera)).sum();
    let is_clear = sum.length() > 0.3 * dataset.views.len() as f64;
    is_clear.then(|| sum.normalize().as_vec3())
}

pub fn run(args: &Args, out: &Path, console: &Console) -> Result<()> {
    let format = Format::from_path(out)?;
    for path in std::iter::once(out).chain(args.collision.as_deref()) {
        writing::refuse(path, args.overwrite)?;
    }
    // A device takes half a second to open.
    let (inputs, opened) = std::thread::scope(|threads| {
        let opened = threads.spawn(|| args.device.open_quietly(false));
        let inputs = Inputs::read(args, out, console);
        let opened = opened.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok::<_, Error>((inputs?, opened?))
    })?;
    let engine = args.device.holding(opened, &inputs.splats, console)?;
    let (fused, renders) = fused(args, &inputs, engine, console)?;
    let (renders, engine) = renders.into_parts();
    // Only scores use it again.
    let engine = args.score.then_some(engine);
    let Fused {
        mesh,
        maps,
        plan,
        levels,
        ..
    } = fused;
    let voxel = plan.grid.voxel;
    let cameras: Vec<Pinhole> = maps.iter().map(|map| map.camera).collect();
    let (mesh, lone) = drop_unsupported(&mesh, &maps, &levels.length(plan.grid.truncation));
    console.detail(&format!(
        "removed: {lone} triangles that too few depth maps show"
    ));
    drop(maps);
    let (mut mesh, depths) = cleaned(mesh, &cameras, args, console);
    let by_level = levels.length(voxel);
    if args.refine {
        refined(&mut mesh, &depths, &by_level, (args, &inputs), console)?;
    }
    drop(depths);
    let about = About {
        origin: inputs.dataset.origin,
        up: inputs.up,
        voxel,
    };
    let folders = NewFolders::before(out);
    folders.unless_ok((|| {
        make_folder_of(out)?;
        if let Some(path) = &args.collision {
            make_folder_of(path)?;
            if let Some(proxy) = collision(&mesh, COLLISION_TRIANGLES) {
                writing::write(&proxy, &about, path)?;
                let count = proxy.triangles.len();
                console.note(&format!(
                    "collision mesh: {count} triangles in {}",
                    path.display()
                ));
            }
        }
        let has_texture = format.holds_texture() && args.texture_size > 0;
        let mut mesh = simplified(mesh, args, has_texture, console);
        let photos = inputs.photos();
        let photos = inputs.exposed(args, &photos, &renders, console);
        coloured(
            &mut mesh,
            &inputs,
            &*photos,
            (args, &by_level, has_texture),
            console,
        )?;
        writing::write(&mesh, &about, out)?;
        if let Some(engine) = engine {
            score(&mesh, &inputs, engine, &cameras, console)?;
        }
        console.outcome(&format!(
            "{} triangles in {}",
            mesh.triangles.len(),
            out.display()
        ))
    })())
}

/// Returns the depths to fuse: engines that share splats render no surface.
fn depth_kind(args: &Args, engine: &mut dyn Engine, console: &Console) -> DepthKind {
    if args.depth == DepthKind::Surface && engine.sharing().is_some() {
        console.note(
            "note: engines that share splats render no surface depths: the mesh is made of median depths; --device cpu \
             makes it of surface depths",
        );
        return DepthKind::Median;
    }
    args.depth
}

/// Renders and fuses the depths, and prints the plan. Also returns the renders.
fn fused(
    args: &Args,
    inputs: &Inputs,
    mut engine: BoxedEngine,
    console: &Console,
) -> Result<(Fused, Renders)> {
    engine.upload(&inputs.splats, None)?;
    let cameras: Vec<Camera> = inputs
        .dataset
        .views
        .iter()
        .map(|view| view.camera)
        .collect();
    let depth = depth_kind(args, engine.as_mut(), console);
    let mut renders = Renders::new(engine, &cameras, inputs.settings, depth);
    let options = PlanOptions {
        voxel: args.voxel,
        detail: args.detail,
        bounds: args.bounds,
        max_memory: args.max_memory << 20,
        far: args.far,
    };
    let fused = fuse_views(&mut renders, &options, &console.progress())?;
    let plan = &fused.plan;
    let [low, high] =
        [plan.grid.low, plan.grid.high].map(|p| p.to_array().map(|v| format!("{v:.3}")));
    console.note(&format!(
        "voxel: {} world units; {} MiB of voxels; box {},{}; {:.0} % of the depths are outside",
        plan.grid.voxel,
        plan.bytes >> 20,
        low.join(","),
        high.join(","),
        100.0 * plan.outside
    ));
    let levels = fused.levels.boxes();
    if let [_, .., [low, high]] = levels {
        let [low, high] = [low, high].map(|p| p.to_array().map(|v| format!("{v:.3}")));
        console.note(&format!(
            "far: {} coarser levels up to the box {},{}; {:.1} % of the depths are outside",
            levels.len() - 1,
            low.join(","),
            high.join(","),
            100.0 * fused.outside
        ));
    }
    if let Some(wanted) = plan.wanted {
        console.note(&format!(
            "note: a voxel of {wanted} does not fit {} MiB; --max-memory, --box or --voxel change this",
            args.max_memory
        ));
    }
    if fused.reduced > 1 {
        console.note(&format!(
            "note: depth maps are reduced by {} to fit {} MiB (--max-memory)",
            fused.reduced, args.max_memory
        ));
    }
    Ok((fused, renders))
}

/// Removes what no camera sees, fills small holes, and prints the topology. Also returns the depths of the mesh from each
/// camera.
fn cleaned(
    mesh: Mesh,
    cameras: &[Pinhole],
    args: &Args,
    console: &Console,
) -> (Mesh, Vec<MeshDepths>) {
    let (mut mesh, mut done, depths) = drop_unseen(&mesh, cameras);
    dapple_mesh::split_fans(&mut mesh);
    done.filled = fill_holes(&mut mesh, args.fill_holes);
    dapple_mesh::split_fans(&mut mesh);
    let topology = Topology::from_mesh(&mesh);
    console.note(&format!(
        "surface: {} triangles in {} parts; removed: {} small parts, {} triangles that no camera sees; holes: {} \
         filled, {} left",
        mesh.triangles.len(),
        topology.components,
        done.parts,
        done.unseen,
        done.filled,
        topology.holes
    ));
    (mesh, depths)
}

/// Moves the vertices to where photos agree.
fn refined(
    mesh: &mut Mesh,
    depths: &[MeshDepths],
    voxel: &ByLevel,
    (args, inputs): (&Args, &Inputs),
    console: &Console,
) -> Result<()> {
    let of_depths: u64 = depths.iter().map(MeshDepths::bytes).sum();
    let options = RefineOptions {
        max_memory: (args.max_memory << 20).saturating_sub(of_depths),
        voxel: voxel.clone(),
    };
    let photos = inputs.photos();
    let depths: Vec<&MeshDepths> = inputs.of_photos(&photos, depths).collect();
    let done = refine(mesh, (&photos, &depths), &options, &console.progress())?;
    console.note(&format!(
        "photos: {:.0} % of the vertices match; the median vertex moves by {:.2} voxels",
        100.0 * done.matched,
        done.moved / voxel.finest()
    ));
    Ok(())
}

fn simplified(mesh: Mesh, args: &Args, has_texture: bool, console: &Console) -> Mesh {
    let default = if has_texture {
        TEXTURED_TRIANGLES
    } else {
        usize::MAX
    };
    let target = args.triangles.map_or(default, |n| n as usize);
    let mut simple = simplify(&mesh, target, f32::INFINITY);
    if args.triangles.is_some() && simple.triangles.len() > target {
        console.note(&format!(
            "note: {} triangles remain: fewer would change the topology",
            simple.triangles.len()
        ));
    }
    simple.compute_normals();
    simple
}

/// Colours the mesh by a texture or per vertex.
fn coloured(
    mesh: &mut Mesh,
    inputs: &Inputs,
    photos: &dyn PhotoSource,
    (args, voxel, has_texture): (&Args, &ByLevel, bool),
    console: &Console,
) -> Result<()> {
    let unseen = Unseen::new(Some(&inputs.splats));
    let tolerance = voxel.times(TOLERANCE);
    let progress = console.progress();
    if !has_texture {
        let seen = colour_vertices(mesh, photos, &unseen, &tolerance, &progress)?;
        console.note(&format!(
            "colours: photos show {:.1} % of the vertices",
            100.0 * seen
        ));
        return Ok(());
    }
    let options = TextureOptions {
        most: args.texture_size,
        // One pixel of the photos.
        texel: voxel.times(args.voxel.map_or(args.detail, |_| 1.0) / 3.0),
        tolerance,
    };
    let done = texture(mesh, photos, &unseen, &options, &progress)?;
    let side = mesh.texture.as_ref().map_or(0, |texture| texture.size[0]);
    console.note(&format!(
        "texture: {side} x {side} pixels of {:.6} world units, {} charts; photos show {:.1} % of it",
        done.texel,
        done.charts,
        100.0 * done.seen
    ));
    Ok(())
}

/// Prints scores at the held-out photos and the distance to the sparse points.
fn score(
    mesh: &Mesh,
    inputs: &Inputs,
    mut engine: BoxedEngine,
    cameras: &[Pinhole],
    console: &Console,
) -> Result<()> {
    let dataset = &inputs.dataset;
    let split = inputs.config.data.split_all_views(dataset);
    let photos = Photos::new(dataset, &split.eval);
    let indices: Vec<usize> = (0..photos.count()).collect();
    let mut splats = |camera: &Camera| {
        let rendered = engine.render(camera, &inputs.settings)?;
        Ok(Some(rendered.photo()))
    };
    let scores = score_photos(mesh, &photos, &mut splats, &indices)?;
    if !scores.is_empty() {
        let count = scores.len() as f64;
        let mean = |of: fn(&PhotoScore) -> f64| scores.iter().map(of).sum::<f64>() / count;
        console.data(&format!(
            "held-out photos   {} of them: PSNR {:.2} dB, {:.2} dB where the mesh is, which is {:.1} % of the pixels",
            scores.len(),
            mean(|s| s.psnr),
            mean(|s| s.mesh.psnr),
            100.0 * mean(|s| s.covered)
        ))?;
        let of_splats = |of: fn(&Fidelity) -> f64| {
            let values = scores.iter().filter_map(|score| score.splats.as_ref());
            values.map(of).sum::<f64>() / count
        };
        console.data(&format!(
            "                  the splats there: {:.2} dB; in the exposure of each photo: mesh {:.2} dB, splats {:.2} dB",
            of_splats(|s| s.psnr),
            mean(|s| s.mesh.matched),
            of_splats(|s| s.matched)
        ))?;
    }
    let points = sparse_points(dataset, cameras);
    match sparse_score(mesh, &points, cameras) {
        Some(score) => {
            let certain = match score.median_of_certain {
                Some(median) => format!(
                    "; {median:.2} pixels for the {} that photos determine to {CERTAIN} pixels",
                    score.certain
                ),
                None => String::new(),
            };
            console.data(&format!(
                "sparse points     median distance {:.2} pixels, {} of {} are in the box of the mesh{certain}",
                score.median,
                score.count,
                points.len()
            ))
        }
        None => console.data("sparse points     none in the box of the mesh"),
    }
}
