//! Edits on the page of `dapple view`: the edited splats, the files for saving, and the display.
//!
//! 1. A single model from a file can be edited. For a capture, a checkpoint or two compared models, a recipe could
//!    not be replayed.
//! 2. Paths are those of the command line, or follow from the input's path. The input and files of the capture are
//!    never written.
//! 3. At the end of the program, unsaved edits are written as a recipe: next to the file that Save writes, or in the
//!    temporary folder.
//! 4. After each edit the device holds the visible splats; cameras and the near plane move with the scene.

use super::{Args, Model, Sight};
use crate::console::Console;
use crate::outputs::{refuse_existing, refuse_sources};
use dapple::scene::edit::Similarity;
use dapple::scene::splat_file::Format;
use dapple::scene::{Error, Result, Splats, load};
use dapple_viewer::{EditRequest, EditSession, Effect, SaveTo, Stage, Viewer};
use std::path::{Path, PathBuf};

/// Editor of one model; the module documents its files.
pub struct Editing {
    session: Option<EditSession>,
    /// File that is edited.
    file: Option<PathBuf>,
    /// File that Save writes; none if saving is off.
    save_to: Option<PathBuf>,
    /// Splats before the edits.
    stage: Stage,
    near: f32,
}

/// Paths for saving edits, or the reason that the splats cannot be edited.
pub struct Plan(std::result::Result<Saves, String>);

type Saves = std::result::Result<SaveTo, String>;

/// Returns the paths for saving edits of these splats, or the reason that they cannot be edited.
///
/// # Errors
/// An output that is not a splat format, or that is an input.
pub fn plan(sight: &Sight, is_compared: bool, args: &Args) -> Result<Plan> {
    let why_not = match &sight.file {
        _ if is_compared => "two models are shown, and only a single model can be edited",
        None => "a capture or a run that is not finished has no file of splats to edit",
        Some(file) => return save_to(file, sight, args).map(|saves| Plan(Ok(saves))),
    };
    if args.save.is_some() {
        return Err(Error::input("there is nothing to save here")
            .at("--save")
            .hint(why_not));
    }
    Ok(Plan(Err(why_not.to_owned())))
}

impl Plan {
    /// Starts editing the splats, if allowed, and prints the path for saving.
    pub fn begin(self, sight: &mut Sight, stage: Stage, console: &Console) -> Editing {
        let edits = self.0.as_ref().map(|_| ()).map_err(String::clone);
        match &self.0 {
            Ok(Ok(to)) => console.note(&match existing(to) {
                None => format!("edits are saved to {}", to.file.display()),
                Some(path) => format!(
                    "note: {} exists, and Save does not replace it\n  hint: move it away, or begin with \
                     `dapple view --save ANOTHER.ply` or with --overwrite",
                    path.display()
                ),
            }),
            Ok(Err(why)) => console.note(&format!("note: edits cannot be saved: {why}")),
            Err(_) => {}
        }
        let to = self.0.as_ref().ok().and_then(|saves| saves.as_ref().ok());
        let save_to = to.map(|to| to.file.clone());
        let mut session = |saves| EditSession::new(std::mem::take(&mut sight.splats), saves);
        Editing {
            session: self.0.ok().map(&mut session),
            file: sight.file.clone(),
            save_to,
            stage: Stage { edits, ..stage },
            near: sight.config.near_plane(),
        }
    }
}

/// Returns the file that prevents saving: it exists, and must not be replaced.
fn existing(to: &SaveTo) -> Option<&PathBuf> {
    let mut files = [&to.file, &to.recipe].into_iter();
    files.find(|path| !to.overwrite && path.exists())
}

/// Returns the paths for saving, or the reason that there are none.
fn save_to(file: &Path, sight: &Sight, args: &Args) -> Result<std::result::Result<SaveTo, String>> {
    let is_open = args.listen.host.is_some_and(|host| !host.is_loopback());
    let to = match &args.save {
        Some(to) => to.clone(),
        None if is_open => {
            return Ok(Err(
                "others may open this page: `dapple view --save FILE` allows them to write that file"
                    .to_owned(),
            ));
        }
        None => beside(file, "-edited.ply"),
    };
    Format::to_write(&to)?;
    let recipe = beside(&to, ".recipe.json");
    refuse_sources(&to)?;
    refuse_sources(&recipe)?;
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| whole(path));
    for path in [&to, &recipe] {
        if resolved(path) == resolved(file) {
            return Err(Error::input("the splats that are viewed are not replaced")
                .at_path(path)
                .hint("name another file with --save"));
        }
    }
    if let Some(scene) = &sight.scene {
        let capture = load::open(scene, &sight.config.load_options())?;
        load::refuse_output_file(&to, &capture)?;
        load::refuse_output_file(&recipe, &capture)?;
    }
    if args.save.is_some() {
        refuse_existing(&to, args.overwrite)?;
        refuse_existing(&recipe, args.overwrite)?;
    }
    Ok(Ok(SaveTo {
        file: to,
        recipe,
        overwrite: args.overwrite,
        antialiased: sight.config.antialias,
        origin: sight.frame.origin,
        moved: sight.frame.moved,
        nearest: args.device.nearest(),
    }))
}

/// Replaces the extension of a file name by this text.
fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(end);
    file.with_file_name(name)
}

impl Editing {
    /// Returns the state of the editor for the page.
    pub fn show(&self, viewer: &Viewer) {
        let mut stage = self.stage.clone();
        if let Some(session) = &self.session {
            let moved = session.moved();
            for entry in &mut stage.cameras {
                entry.camera = moved.camera(&entry.camera);
            }
            if moved != Similarity::IDENTITY {
                // The mesh does not move with the splats.
                stage.mesh = None;
            }
            stage.gaussians = session.splats().len() as u64;
            viewer.edited(&session.state());
        }
        viewer.show(stage);
    }

    /// Returns the result of `act` on the visible splats; on `or` without an editor.
    pub fn with_shown<T>(&self, or: &Splats, act: impl FnOnce(&Splats) -> T) -> T {
        let Some(session) = &self.session else {
            return act(or);
        };
        match session.shown() {
            Some(shown) => act(&shown),
            None => act(session.splats()),
        }
    }

    /// Executes an edit command of a page, and uploads the visible splats to the device.
    pub fn answer(
        &mut self,
        request: &EditRequest,
        model: &mut Model,
        viewer: &Viewer,
        console: &Console,
    ) {
        let Some(session) = &mut self.session else {
            return;
        };
        let before = session.moved();
        let mut effect = session.apply(&request.edit);
        let is_moved = session.moved() != before;
        if matches!(effect, Ok(Effect::Shown)) {
            let upload = match session.shown() {
                Some(shown) => model.engine.upload(&shown, None),
                None => model.engine.upload(session.splats(), None),
            };
            if let Err(error) = upload {
                effect = Err(error);
            }
            model.settings.near = self.near * session.moved().scale as f32;
        }
        match &effect {
            Err(error) => console.detail(&format!("note: an edit failed: {error}")),
            Ok(Effect::Saved) => console.note(&session.state().said),
            Ok(_) => {}
        }
        viewer.edited(&session.state());
        viewer.answer_edit(request, &effect);
        match effect {
            Ok(Effect::Shown) if is_moved => self.show(viewer),
            Ok(Effect::Shown) => viewer.changed(),
            _ => {}
        }
    }

    /// Returns the number of edits that are not saved.
    pub fn unsaved(&self) -> usize {
        self.session.as_ref().map_or(0, EditSession::unsaved)
    }

    /// Writes unsaved edits as a recipe at the end, and prints its path.
    ///
    /// # Errors
    /// No folder is writable.
    pub fn end(&self, console: &Console) -> Result<()> {
        let unsaved = self.unsaved();
        let (Some(session), Some(file), 1..) = (&self.session, &self.file, unsaved) else {
            return Ok(());
        };
        let count = match unsaved {
            1 => "1 edit is".to_owned(),
            n => format!("{n} edits are"),
        };
        let recipe = session.recipe();
        if recipe.actions.is_empty() {
            console.always(&format!("note: {count} not saved: all were undone"));
            return Ok(());
        }
        let written = self.write_unsaved(file, |path| recipe.write(path));
        let path = written.map_err(|error| error.hint(format!("{count} lost")))?;
        console.always(&format!(
            "note: {count} not saved; the recipe of all edits is in {}\n  hint: `dapple edit {} OUT.ply --recipe {}` \
             repeats them",
            path.display(),
            file.display(),
            path.display()
        ));
        Ok(())
    }

    /// Writes a file with a free name: next to the file that Save writes, or else in the temporary folder.
    fn write_unsaved(&self, file: &Path, write: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
        let temporary = std::env::temp_dir().join(file.file_name().unwrap_or_default());
        let next_to = self.save_to.clone();
        let mut outcome = Err(Error::internal("no place for a recipe was tried"));
        for place in next_to.into_iter().chain([temporary]) {
            let names = (1..).map(|n: u32| match n {
                1 => beside(&place, "-unsaved.recipe.json"),
                n => beside(&place, &format!("-unsaved-{n}.recipe.json")),
            });
            let free = names
                .into_iter()
                .find(|path| path.symlink_metadata().is_err());
            let Some(path) = free else { continue };
            outcome = write(&path).map(|()| path);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }
}
