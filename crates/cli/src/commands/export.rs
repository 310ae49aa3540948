//! `dapple export`: writes a scene as one HTML page, or as a folder for a web server.

mod meshed;

use super::view::cameras_beside;
use crate::camera_paths::KeyPath;
use crate::cameras::{self, Named};
use crate::console::Console;
use crate::interrupt;
use crate::machine::human_bytes;
use crate::opening::Opening;
use crate::options::{
    DeviceOptions, NewFolders, config_beside, make_folder, make_folder_of, read_splats,
    refuse_existing, splats_file,
};
use crate::training_display::gaussians;
use crate::viewing::{page_options, shown_settings, title};
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::atomic::{replace_folder, write_atomically};
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::{Error, Result, Splats, bounded, load, printable};
use dapple::train::{ConfigPatch, TrainConfig};
use dapple_viewer::export::{self, PageCamera, PageOptions};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
page.html is self-contained: it opens from disk, without a network. It needs a browser with WebGL2
or WebGPU. Tested: Chromium on Linux. Not tested: Firefox, Safari, phones.
A folder is for a web server: the page shows a coarse scene early and refines it.

docs/EXPORT.md explains notes, paths, and browsers.

Examples:
  dapple export out/bird bird.html
  dapple export out/bird bird.html --view IMG_0042.jpg
  dapple export out/bird www/bird/ --path tour.json --notes notes.json
  dapple export out/bird bird.html --mesh bird.glb
  dapple export scene.ply scene.html --title \"The old harbour\" --no-poster";

/// Poster size, pixels.
const POSTER: [u32; 2] = [1280, 720];

/// Most notes of a page.
const MOST_NOTES: usize = 999;

/// Writes a page that shows splats in a browser, to send or to put on a web server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splat file, or a run's folder
    #[arg(help_heading = "Input")]
    input: PathBuf,

    /// Capture of the splats, for its cameras and sparse points [default: the cameras next to the splats, the run's
    /// points]
    #[arg(
        long = "capture",
        alias = "scene",
        value_name = "CAPTURE",
        help_heading = "Input"
    )]
    scene: Option<PathBuf>,

    /// Title of the page [default: from the input]
    #[arg(long, help_heading = "Page")]
    title: Option<String>,

    /// Initial view: a photo's name, or a camera file as in `dapple render --camera` [default: a photo that shows the
    /// scene well]
    #[arg(long, value_name = "PHOTO|FILE.json", help_heading = "Page")]
    view: Option<String>,

    /// Camera path for the page to play
    #[arg(long, value_name = "FILE.json", help_heading = "Page")]
    path: Option<PathBuf>,

    /// Notes at positions in the scene
    #[arg(long, value_name = "NOTES.json", help_heading = "Page")]
    notes: Option<PathBuf>,

    /// Mesh that the page shows on request (.glb, .obj or .ply), with its distances to the sparse points
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    mesh: Option<PathBuf>,

    /// Omit the picture that the page shows while the scene loads
    #[arg(long, help_heading = "Page")]
    no_poster: bool,

    /// Page to write (.html or .htm); any other name is a folder for a web server
    #[arg(help_heading = "Output")]
    output: PathBuf,

    /// Replace OUTPUT if it exists
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Print one JSON object with the results
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// A note in the format of its file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    position: [f64; 3],
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<NoteView>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NoteView {
    position: [f64; 3],
    rotation: [f64; 4],
    focal: f64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    gaussians: usize,
    /// Size of all files.
    bytes: usize,
    /// Size of the page, without the splats and the poster.
    page_bytes: usize,
    files: usize,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    refuse_existing(&args.output, args.overwrite)?;
    let file = splats_file(&args.input)?;
    let mut config = config_beside(&file, ConfigPatch::default(), console)?;
    let (splats, metadata) = read_splats(&file, console)?;
    if splats.is_empty() {
        return Err(Error::input("there is no Gaussian to show").at_path(&file));
    }
    let up = metadata.up.map(DVec3::from);
    let opening = opening(
        args,
        (&file, &splats, metadata.frame()),
        up,
        &config,
        console,
    )?;
    let view = opening.view;
    config.antialias |= metadata.antialiased;
    config.near = f64::from(config.near_plane()) * metadata.moved.scale;
    let settings = shown_settings(&config, splats.sh_degree);
    let mut options = PageOptions {
        title: args.title.clone().unwrap_or_else(|| title(&args.input)),
        up: opening.up.into(),
        centre: opening.centre.into(),
        distance: opening.distance,
        view: Some(view),
        bounds: opening.bounds,
        path: args.path.as_deref().map(key_path).transpose()?,
        ..page_options(&settings)?
    };
    if let Some(mesh) = args.mesh.as_deref() {
        options.mesh = Some(meshed::read(
            mesh,
            args,
            (&file, &splats, metadata.frame()),
            &config,
            console,
        )?);
    }
    if let Some(file) = args.notes.as_deref() {
        options.notes = notes(file)?;
    }
    if !args.no_poster {
        options.poster = Some(poster(args, &splats, &settings, &view, console)?);
    }
    let is_page = args.output.extension().is_some_and(|end| {
        ["html", "htm"]
            .iter()
            .any(|page| end.eq_ignore_ascii_case(page))
    });
    let folders = NewFolders::before(&args.output);
    interrupt::remove_if_empty(&folders);
    let (bytes, page_bytes, files) = folders.unless_ok(write(args, &splats, &options, is_page))?;
    let summary = Summary {
        output: &args.output,
        gaussians: splats.len(),
        bytes,
        page_bytes,
        files,
    };
    if args.json {
        return console.json(&summary);
    }
    let hint = match is_page {
        true => "open it in a browser, or send it".to_owned(),
        false => format!(
            "copy it to a web server; to try it: `python3 -m http.server --directory {}`",
            args.output.display()
        ),
    };
    console.outcome(&format!(
        "{}: {}, {} of it the page itself, {}",
        args.output.display(),
        gaussians(splats.len() as u64),
        human_bytes(page_bytes as u64),
        human_bytes(bytes as u64)
    ))?;
    console.note(&hint);
    Ok(())
}

/// Returns the initial view: the photo or camera of --view, else a photo that shows the scene well.
fn opening(
    args: &Args,
    (file, splats, frame): (&Path, &Splats, Frame),
    up: Option<DVec3>,
    config: &TrainConfig,
    console: &Console,
) -> Result<Opening> {
    let named: Vec<Named> = match &args.scene {
        Some(scene) => {
            let capture = load::open(scene, &config.load_options())?;
            load::refuse_output_file(&args.output, &capture)?;
            let frame = frame.beside(middle_of(splats), capture.origin);
            let images = capture.images.iter();
            images
                .map(|image| {
                    (
                        image.name.clone(),
                        frame.camera(&image.camera, capture.origin),
                    )
                })
                .collect()
        }
        None => cameras_beside(file, frame, console)
            .into_iter()
            .map(|entry| (entry.name, entry.camera))
            .collect(),
    };
    let wanted = args.view.as_deref();
    let is_file = wanted.is_some_and(|view| view.to_lowercase().ends_with(".json"));
    let photo = match wanted {
        Some(photo) if !is_file => Some(photo_named(&named, photo)?),
        _ => None,
    };
    let mut opening = match Opening::of_cameras(&named, splats, up, photo) {
        Some(opening) => opening,
        None => Opening::of_splats(splats, up)?,
    };
    if let Some(view) = wanted.filter(|_| is_file) {
        opening.stand(&cameras::read(Path::new(view))?);
    }
    if let Some(photo) = &opening.photo {
        console.note(&format!(
            "first view: that of the photo {}",
            printable(photo)
        ));
    }
    Ok(opening)
}

/// Returns the camera of a photo, by its name with or without extension.
fn photo_named(named: &[Named], photo: &str) -> Result<usize> {
    let stem = |name: &str| Path::new(name).with_extension("");
    let exact = named.iter().position(|(name, _)| name == photo);
    let found = exact.or_else(|| named.iter().position(|(name, _)| stem(name) == stem(photo)));
    found.ok_or_else(|| {
        let hint = match named.first() {
            Some((first, _)) => format!("name a photo that was trained on, such as {first}"),
            None => {
                "no cameras are known: name the capture with --capture, or a camera's file, x.json"
                    .to_owned()
            }
        };
        Error::input(format!("no camera of a photo \"{photo}\" is known"))
            .at("--view")
            .hint(hint)
    })
}

/// Writes the page or the folder. Returns the size of all files, the size of the page, and the number of files.
fn write(
    args: &Args,
    splats: &Splats,
    options: &PageOptions,
    is_page: bool,
) -> Result<(usize, usize, usize)> {
    let page_bytes = export::frame_bytes(options);
    if is_page {
        make_folder_of(&args.output)?;
        let page = export::page(splats, options)?;
        write_atomically(&args.output, |out| out.write_all(page.as_bytes()))?;
        return Ok((page.len(), page_bytes, 1));
    }
    make_folder(&args.output)?;
    let files = export::folder(splats, options)?;
    replace_folder(&args.output, &files, &export::is_part)?;
    let bytes = files.iter().map(|(_, bytes)| bytes.len()).sum();
    Ok((bytes, page_bytes, files.len()))
}

fn poster(
    args: &Args,
    splats: &Splats,
    settings: &RenderSettings,
    view: &PageCamera,
    console: &Console,
) -> Result<Vec<u8>> {
    let mut engine = args.device.engine_holding(splats, console)?;
    engine.upload(splats, None)?;
    let [width, height] = POSTER;
    export::poster(engine.as_mut(), settings, &view.camera(width, height))
}

/// Reads a path, with the checks of `render`, in the format of the page.
fn key_path(file: &Path) -> Result<serde_json::Value> {
    KeyPath::read(file)?;
    json(file, "cannot read the path")
}

fn notes(file: &Path) -> Result<serde_json::Value> {
    let hint = "`dapple export --help` shows an example";
    let told = |what: String| Error::input(what).at_path(file).hint(hint);
    let value = json(file, "cannot read the notes")?;
    let notes: Vec<Note> = serde_json::from_value(value)
        .map_err(|e| told(format!("the notes cannot be read: {e}")))?;
    if notes.len() > MOST_NOTES {
        return Err(told(format!(
            "a page has at most {MOST_NOTES} notes, not {}",
            notes.len()
        )));
    }
    for (i, note) in notes.iter().enumerate() {
        let near = |position: &[f64; 3]| position.iter().all(|v| v.abs() <= 1e9);
        let stands = note.view.as_ref().is_none_or(|view| {
            let length: f64 = view.rotation.iter().map(|v| v * v).sum();
            near(&view.position)
                && (1e-6..=1e6).contains(&length)
                && (1e-3..=1e3).contains(&view.focal)
        });
        if !near(&note.position) || !stands {
            return Err(told(format!(
                "note {} is at a position that cannot be shown",
                i + 1
            )));
        }
    }
    serde_json::to_value(notes).map_err(|e| told(format!("the notes cannot be read: {e}")))
}

fn json(file: &Path, what: &'static str) -> Result<serde_json::Value> {
    let text = bounded::read_text(what, file, bounded::SETTINGS_BYTES)?;
    serde_json::from_str(&text).map_err(|e| {
        Error::input(format!("this is not JSON: {e}"))
            .at_path(file)
            .hint("`dapple export --help` shows an example")
    })
}
