//! `dapple edit`: applies a chain of actions to splats.

mod chain;
mod photos;

use crate::console::Console;
use crate::interrupt;
use crate::machine::human_bytes;
use crate::options::{
    CaptureOptions, DeviceOptions, NewFolders, config_beside, held_by, make_folder_of, note_frame,
    parse_colour, read_splats_with, refuse_existing, splats_file,
};
use crate::training_display::{gaussians, grouped, written_of};
use chain::{Chain, Link};
use dapple::contract::appearance_mlp;
use dapple::scene::edit::{Action, Editor, Recipe};
use dapple::scene::origin::Frame;
use dapple::scene::splat_file::{self, Format, NonFinite, ReadOptions, WriteOptions};
use dapple::scene::{Error, Result, Splats};
use dapple::train::config::Background;
use dapple::train::{ConfigPatch, TrainConfig, read_appearance_mlp};
use photos::{Loss, Photos};
use serde::Serialize;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Conditions compare a property with a number: 'opacity<0.1' (in quotes, for the shell) or
opacity,lt,0.1. Properties: x y z opacity size thickness elongation area red green blue luminance
contribution, and fields of a PLY file. `finite` selects Gaussians without NaN and infinite values.

docs/EDITING.md explains actions, properties, cameras, the printed loss, and recipes.

Examples:
  dapple edit out/bird clean.ply --drop 'opacity<0.02' --floaters
  dapple edit out/bird level.ply --capture captures/bird --orient auto --crop sphere:0,0,0,2
  dapple edit out/bird small.ply --capture captures/bird --decimate 10%
  dapple edit in.ply out.ply --rotate 180,0,0 --scale 0.1 --translate 0,1.5,0 --order morton
  dapple edit in.ply out.splat --keep finite --cut box:0,2,0,10,1,10 --save-recipe mine.json
  dapple edit a.ply both.ply --translate -2,0,0 --merge b.ply
  dapple edit other.ply out.ply --recipe mine.json
  dapple edit out/hall evening.ply --bake-appearance IMG_0042.jpg";

/// Edits splats by a chain of actions: move, crop, filter, clean, merge, decimate
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Splats: a file of any format, or a run's folder
    #[arg(help_heading = "Input")]
    input: PathBuf,

    /// Bake the appearance of this photo into the colours first, for runs with --appearance mlp; from the
    /// appearance.safetensors next to IN, not stored in recipes
    #[arg(
        long,
        alias = "look",
        value_name = "PHOTO",
        help_heading = "Input",
        hide_short_help = true
    )]
    bake_appearance: Option<String>,

    /// Capture of the splats [default: the run's]
    #[arg(long, value_name = "CAPTURE", help_heading = "Input")]
    capture: Option<PathBuf>,

    #[command(flatten)]
    chain: Chain,

    /// Training steps on renders of the splats before, after each --decimate; needs cameras [default: 300 if half or
    /// less is left and cameras are known, else 0]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(0..=100_000), help_heading = "Actions, applied in the order given; each may be given again", hide_short_help = true)]
    refit: Option<u32>,

    /// Without cameras, measure the loss from an orbit around the splats
    #[arg(long, alias = "ring", help_heading = "Loss", hide_short_help = true)]
    orbit: bool,

    /// Background for actions that use photos [default: the run's, else black]
    #[arg(long, value_name = "black|white|R,G,B", value_parser = parse_colour, help_heading = "Loss", hide_short_help = true)]
    background: Option<[f64; 3]>,

    /// Do not measure the loss of a lossy format, which needs renders
    #[arg(long, help_heading = "Loss", hide_short_help = true)]
    no_loss: bool,

    #[command(flatten)]
    photos: CaptureOptions,

    /// File to write; its extension selects the format. Missing folders are created
    #[arg(help_heading = "Output")]
    output: PathBuf,

    /// Write the chain as a recipe
    #[arg(
        long,
        value_name = "FILE.json",
        help_heading = "Output",
        hide_short_help = true
    )]
    save_recipe: Option<PathBuf>,

    /// Replace OUTPUT and the recipe if they exist
    #[arg(long, help_heading = "Output")]
    overwrite: bool,

    /// Print one JSON object with the results
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    json: bool,

    #[command(flatten)]
    device: DeviceOptions,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    output: &'a Path,
    gaussians_read: usize,
    gaussians: usize,
    sh_degree: u8,
    bytes: u64,
    actions: Vec<Done>,
    /// Loss of a lossy format, as in `convert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<super::convert::Loss>,
}

impl Summary<'_> {
    /// Returns the results as text.
    fn text(&self) -> String {
        format!(
            "{}: {}, SH degree {}, {}{}",
            self.output.display(),
            written_of(self.gaussians, self.gaussians_read),
            self.sh_degree,
            human_bytes(self.bytes),
            match &self.loss {
                Some(loss) => format!("\n{}", loss.shown()),
                None => String::new(),
            }
        )
    }
}

/// Result of an action.
#[derive(Serialize)]
struct Done {
    action: Action,
    gaussians: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Loss>,
}

pub fn run(args: &Args, console: &Console) -> Result<()> {
    let format = Format::to_write(&args.output)?;
    refuse_outputs(args)?;
    let (mut actions, undecided) = args.actions()?;
    let grace = interrupt::grace();
    let file = splats_file(&args.input)?;
    let flags = ConfigPatch {
        background: args.background.map(Background::Colour),
        ..args.photos.patch()
    };
    let config = config_beside(&file, flags, console)?;
    let (mut splats, metadata) = read_splats_with(&file, &read_options(&actions), console)?;
    if let Some(photo) = &args.bake_appearance {
        put_on(&mut splats, &file, photo)?;
    }
    let mut options = WriteOptions {
        antialiased: metadata.antialiased || config.antialias,
        origin: metadata.origin,
        nearest: args.device.nearest(),
        refuses_existing: !args.overwrite,
        ..WriteOptions::default()
    };
    let gaussians_read = splats.len();
    let mut shown = config.clone();
    shown.antialias = options.antialiased;
    let mut photos = Photos::new(args, (&file, &splats, metadata.frame()), config, console);
    let mut editor = Editor::new(splats).in_frame(metadata.frame());
    let done = apply_all(&mut editor, &mut actions, &undecided, &mut photos, console)?;
    grace.check(|| "the edit was stopped; nothing was written".to_owned())?;
    let frame = Frame {
        moved: metadata.moved.then(editor.moved()),
        ..metadata.frame()
    };
    options.moved = frame.moved;
    let edited = editor.into_splats();
    let measured = (format.is_lossy() && !args.no_loss).then(|| edited.clone());
    let splats = held_by(format, edited, console);
    note_frame(format, frame, console);
    let folders = NewFolders::before(&args.output);
    interrupt::remove_if_empty(&folders);
    folders.unless_ok(make_folder_of(&args.output).and_then(|()| {
        let progress = console.progress();
        splat_file::write_with_progress(&args.output, &splats, format, &options, &progress)
    }))?;
    if let Some(path) = &args.save_recipe {
        let folders = NewFolders::before(path);
        folders.unless_ok(make_folder_of(path).and_then(|()| Recipe::new(actions).write(path)))?;
    }
    let loss = measured
        .filter(|edited| !edited.is_empty())
        .and_then(|edited| lost_in_file(args, &edited, &options, &shown, console));
    let bytes = splat_file::size_bytes(&args.output, format);
    let summary = Summary {
        output: &args.output,
        gaussians_read,
        gaussians: splats.len(),
        sh_degree: splats.sh_degree,
        bytes,
        actions: done,
        loss,
    };
    if args.json {
        return console.json(&summary);
    }
    console.outcome(&summary.text())
}

/// Refuses to replace existing files without --overwrite, and to write the recipe over the splats.
fn refuse_outputs(args: &Args) -> Result<()> {
    refuse_existing(&args.output, args.overwrite)?;
    let Some(recipe) = &args.save_recipe else {
        return Ok(());
    };
    refuse_existing(recipe, args.overwrite)?;
    if [&args.output, &args.input]
        .into_iter()
        .any(|other| is_same_place(recipe, other))
    {
        return Err(
            Error::input("the recipe would take the place of the splats")
                .at_path(recipe)
                .hint("name another file after --save-recipe, mine.json for example"),
        );
    }
    Ok(())
}

/// Measures the loss of the output's format. The file is complete by then: if the loss cannot be measured, a note has
/// the reason.
fn lost_in_file(
    args: &Args,
    edited: &Splats,
    options: &WriteOptions,
    config: &TrainConfig,
    console: &Console,
) -> Option<super::convert::Loss> {
    let (path, device) = (&args.output, &args.device);
    let lost = super::convert::lost_in_file(path, edited, options, config, device, console);
    let say = |error: &Error| {
        console.note(&format!(
            "warning: what the format loses was not measured: {}",
            error.what()
        ));
    };
    lost.inspect_err(say).ok()
}

/// Returns true if both paths name the same file, which need not exist yet.
fn is_same_place(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let whole = path.canonicalize().ok();
        whole.or_else(|| std::path::absolute(path).ok())
    };
    a == b || place(a).is_some_and(|a| Some(a) == place(b))
}

/// Bakes the appearance of a photo into the splats of a run.
fn put_on(splats: &mut Splats, file: &Path, photo: &str) -> Result<()> {
    let path = file.with_file_name("appearance.safetensors");
    let (mlp, photos) = read_appearance_mlp(&path, splats.len())?;
    let stem = |name: &str| Path::new(name).with_extension("");
    let exact = photos.iter().position(|name| name == photo);
    let found = exact.or_else(|| {
        photos
            .iter()
            .position(|name| stem(name) == Path::new(photo))
    });
    let Some(index) = found else {
        let some: Vec<&str> = photos.iter().take(3).map(String::as_str).collect();
        return Err(
            Error::input(format!("the run has no appearance of a photo \"{photo}\""))
                .at_path(&path)
                .hint(format!(
                    "it holds those of the {} photos trained on: {}, ...",
                    photos.len(),
                    some.join(", ")
                )),
        );
    };
    appearance_mlp::bake(splats, &mlp, &mlp.embedding(index));
    Ok(())
}

/// Allows non-finite Gaussians if the chain removes them; other files with non-finite Gaussians are refused.
fn read_options(actions: &[Action]) -> ReadOptions {
    ReadOptions {
        non_finite: NonFinite::of_chain(actions),
        ..ReadOptions::default()
    }
}

/// Default steps of the fit after a strong decimation: see BENCHMARKS.md, "Decimation".
const REFIT: u32 = 300;
/// A decimation to one in this many Gaussians or fewer is strong: merging only then loses too much with few photos.
const FEW: usize = 2;

/// Enables the fit after a strong decimation of `count` Gaussians, if no option sets it.
fn settle_refit(
    action: &mut Action,
    count: usize,
    photos: &mut Photos<'_>,
    console: &Console,
) -> Result<()> {
    if let Action::Decimate { to, refit } = action
        && to.of(count).saturating_mul(FEW) <= count
        && photos.are_known()?
    {
        console.note(&format!(
            "decimate: half or less is left, so the splats are fitted in {REFIT} steps; --refit 0 skips this"
        ));
        *refit = REFIT;
    }
    Ok(())
}

/// Applies the actions in order. `undecided` has the indices of decimations without a given --refit.
fn apply_all(
    editor: &mut Editor,
    actions: &mut [Action],
    undecided: &[usize],
    photos: &mut Photos<'_>,
    console: &Console,
) -> Result<Vec<Done>> {
    let mut done = Vec::with_capacity(actions.len());
    for i in 0..actions.len() {
        editor.set_non_finite(NonFinite::of_chain(&actions[i + 1..]));
        if undecided.contains(&i) {
            settle_refit(&mut actions[i], editor.splats().len(), photos, console)?;
        }
        let action = &actions[i];
        done.push(
            apply(editor, action, photos, console).map_err(|e| match e.place() {
                Some(_) => e,
                None => e.at(format!(
                    "action {} of {}, {}",
                    i + 1,
                    actions.len(),
                    name(action)
                )),
            })?,
        );
    }
    Ok(done)
}

/// Applies one action, and prints its result and its loss.
fn apply(
    editor: &mut Editor,
    action: &Action,
    photos: &mut Photos<'_>,
    console: &Console,
) -> Result<Done> {
    let count = editor.splats().len();
    let loses = matches!(
        action,
        Action::Decimate { .. } | Action::Prune { .. } | Action::Floaters { .. }
    );
    let before = loses.then(|| editor.splats().clone());
    editor.apply(action, photos, &console.progress())?;
    for note in editor.take_notes() {
        console.note(&format!("note: {note}"));
    }
    let after = editor.splats();
    let loss = match &before {
        Some(before) if before.len() != after.len() => {
            photos.loss(before, after, editor.moved())?
        }
        _ => None,
    };
    let changed = match after.len() == count {
        true => grouped(count as u64),
        false => format!(
            "{} -> {}",
            grouped(count as u64),
            gaussians(after.len() as u64)
        ),
    };
    match &loss {
        Some(loss) => console.note(&format!("{}: {changed}; {}", name(action), loss.line())),
        None => console.note(&format!("{}: {changed}", name(action))),
    }
    let is_floaters = matches!(action, Action::Floaters { .. });
    if let Some(warning) = loss
        .as_ref()
        .filter(|_| is_floaters)
        .and_then(Loss::warning)
    {
        console.always(&warning);
    }
    Ok(Done {
        action: action.clone(),
        gaussians: after.len(),
        loss,
    })
}

/// Returns the option of an action.
fn name(action: &Action) -> &'static str {
    match action {
        Action::Transform(_) => "transform",
        Action::Orient(_) => "orient",
        Action::Crop(_) => "crop",
        Action::Cut(_) => "cut",
        Action::Keep(_) => "keep",
        Action::Drop(_) => "drop",
        Action::Remove(_) => "remove",
        Action::Selected { .. } => "selected",
        Action::ShowAll => "show_all",
        Action::ShDegree(_) => "sh-degree",
        Action::Merge(_) => "merge",
        Action::Order(_) => "order",
        Action::Floaters { .. } => "floaters",
        Action::DropSky => "drop-sky",
        Action::Clusters { .. } => "clusters",
        Action::Prune { .. } => "prune",
        Action::Decimate { .. } => "decimate",
    }
}

impl Args {
    /// Returns the chain with the actions of recipes inserted, and the indices of decimations without a given
    /// --refit.
    fn actions(&self) -> Result<(Vec<Action>, Vec<usize>)> {
        let mut actions = Vec::new();
        let mut undecided = Vec::new();
        for link in &self.chain.0 {
            match link {
                Link::Action(Action::Decimate { to, .. }) => {
                    if self.refit.is_none() {
                        undecided.push(actions.len());
                    }
                    actions.push(Action::Decimate {
                        to: *to,
                        refit: self.refit.unwrap_or(0),
                    });
                }
                Link::Action(action) => actions.push(action.clone()),
                Link::Recipe(path) => actions.extend(Recipe::read(path)?.actions),
            }
        }
        if actions.is_empty() && self.bake_appearance.is_none() {
            return Err(Error::input("there is nothing to do: no action is given")
                .at("the options given")
                .hint("`dapple edit --help` lists the actions; `dapple convert` writes another format"));
        }
        Ok((actions, undecided))
    }
}
