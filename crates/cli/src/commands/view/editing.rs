//! Edits on the page of `dapple view`: which splats, where they are saved, and what is shown of them.
//!
//! 1. One model that is read from a file is edited: of a capture, a checkpoint or two models that are compared a
//!    recipe would have nothing to be replayed on.
//! 2. Files are those of the command line, or have names that follow from the input's. The input itself and files of
//!    the capture are never written.
//! 3. Edits that are not saved when the program ends are written as a recipe: next to the file that Save would write,
//!    or in the temporary folder.
//! 4. After each edit the device holds what is to be seen; cameras and the near plane move along with the whole.

use super::{Args, Model, Sight};
use crate::console::Console;
use crate::outputs::refuse_sources;
use dapple::scene::splat_file::Format;
use dapple::scene::{Error, Result, Splats, load};
use dapple_viewer::{EditRequest, EditSession, Effect, SaveTo, Stage, Viewer};
use std::path::{Path, PathBuf};

/// See the module.
pub struct Editing {
    session: Option<EditSession>,
    /// The file that is edited.
    file: Option<PathBuf>,
    /// The file that Save writes; none where nothing is saved.
    save_to: Option<PathBuf>,
    /// As it was at first.
    stage: Stage,
    near: f32,
}

/// Whether splats can be edited, or why not, and where they are then saved.
pub struct Plan(std::result::Result<Saves, String>);

type Saves = std::result::Result<SaveTo, String>;

/// Finds out whether, and to where, these splats can be edited.
///
/// # Errors
/// A file to save to that no splats can be written to, or that is an input.
pub fn plan(sight: &Sight, is_compared: bool, args: &Args) -> Result<Plan> {
    let why_not = match &sight.file {
        _ if is_compared => "two models are compared: one alone can be edited",
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
    /// Takes the splats, where they can be edited, and says where they are saved.
    pub fn begin(self, sight: &mut Sight, stage: Stage, console: &Console) -> Editing {
        let edits = self.0.as_ref().map(|_| ()).map_err(String::clone);
        match &self.0 {
            Ok(Ok(to)) => console.note(&format!("edits are saved to {}", to.file.display())),
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

/// Where edits are saved, or why they are not.
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

/// The name of a file without its ending, and this behind it.
fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(end);
    file.with_file_name(name)
}

impl Editing {
    /// Says what there is to see and to edit.
    pub fn show(&self, viewer: &Viewer) {
        let mut stage = self.stage.clone();
        if let Some(session) = &self.session {
            let moved = session.moved();
            for entry in &mut stage.cameras {
                entry.camera = moved.camera(&entry.camera);
            }
            stage.gaussians = session.splats().len() as u64;
            viewer.edited(&session.state());
        }
        viewer.show(stage);
    }

    /// What `act` makes of the splats that are seen; `or` where they are not edited.
    pub fn with_shown<T>(&self, or: &Splats, act: impl FnOnce(&Splats) -> T) -> T {
        let Some(session) = &self.session else {
            return act(or);
        };
        match session.shown() {
            Some(shown) => act(&shown),
            None => act(session.splats()),
        }
    }

    /// Does what a page asks for, and has the device hold what is then to be seen.
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
            Err(error) => console.detail(&format!("note: an edit could not be made: {error}")),
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

    /// At the end: writes edits that are not saved as a recipe, and says where.
    ///
    /// # Errors
    /// No place can be written to.
    pub fn end(&self, console: &Console) -> Result<()> {
        let unsaved = self.session.as_ref().map_or(0, EditSession::unsaved);
        let (Some(session), Some(file), 1..) = (&self.session, &self.file, unsaved) else {
            return Ok(());
        };
        let count = match unsaved {
            1 => "1 edit is".to_owned(),
            n => format!("{n} edits are"),
        };
        let recipe = session.recipe();
        if recipe.actions.is_empty() {
            console.always(&format!("note: {count} not saved: all were taken back"));
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

    /// Writes a file of a name that is free: next to where Save writes, or else in the temporary folder.
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
