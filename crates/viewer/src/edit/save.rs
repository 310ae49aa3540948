//! Saving of edits: the splats, and the recipe next to them.
//!
//! 1. A file that another program has written is replaced only with [`SaveTo::overwrite`].
//! 2. A file that has changed since this session read its state or wrote it is never replaced.

use dapple_scene::edit::{Recipe, Similarity};
use dapple_scene::splat_file::{self, Format, NearestBy, WriteOptions};
use dapple_scene::{Error, Result, Splats};
use glam::DVec3;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Destination of edits, chosen by the user of the program.
#[derive(Debug, Clone)]
pub struct SaveTo {
    /// File of splats; its extension selects the format.
    pub file: PathBuf,
    /// The recipe.
    pub recipe: PathBuf,
    /// True if existing files are replaced. Files that this session has written are always replaced.
    pub overwrite: bool,
    /// True if the splats were trained with the Mip-Splatting filters. Formats with a field for it record it.
    pub antialiased: bool,
    /// Local origin of the splats' coordinates. Formats with a field for it record it.
    pub origin: DVec3,
    /// Motion of the splats since training, before this session.
    pub moved: Similarity,
    /// Search for the nearest palette entries, for formats with palettes.
    pub nearest: NearestBy,
}

/// Length and modification time of a file; `None` if it does not exist.
type Stamp = Option<(u64, Option<SystemTime>)>;

/// Destination of a session, and the state of its last save.
#[derive(Debug)]
pub(super) struct Saving {
    to: std::result::Result<SaveTo, String>,
    /// Stamps of file and recipe when the session began, or after its last save.
    stamps: [Stamp; 2],
    /// Recipe of the last save.
    saved: Option<Recipe>,
}

impl Saving {
    pub(super) fn new(to: std::result::Result<SaveTo, String>) -> Self {
        let stamps = to.as_ref().map(stamps).unwrap_or_default();
        Self {
            to,
            stamps,
            saved: None,
        }
    }

    /// Returns the file's name; empty if nothing is saved.
    pub(super) fn name(&self) -> String {
        self.to.as_ref().map_or(String::new(), |to| name(&to.file))
    }

    /// See [`super::EditSession::unsaved`].
    pub(super) fn unsaved(&self, now: &Recipe) -> usize {
        let saved = self.saved.as_ref().map_or(&[][..], |r| &r.actions);
        let common = saved.iter().zip(&now.actions).take_while(|(a, b)| a == b);
        saved.len().max(now.actions.len()) - common.count()
    }

    /// Writes both files and returns a sentence for the user. `moved` is the motion of the splats in this session.
    ///
    /// # Errors
    /// There is no destination, nothing was edited, or a file exists, has changed or cannot be written.
    pub(super) fn save(
        &mut self,
        splats: &Splats,
        recipe: Recipe,
        moved: &Similarity,
    ) -> Result<String> {
        let to = match &self.to {
            Ok(to) => to,
            Err(why) => return Err(Error::input(why.clone())),
        };
        if recipe.actions.is_empty() {
            return Err(Error::input(
                "nothing was edited, so there is nothing to save",
            ));
        }
        self.refuse_others(to)?;
        let format = Format::of_name(&to.file)?;
        let lower = (splats.sh_degree > format.max_sh_degree())
            .then(|| splats.clone().with_sh_degree(format.max_sh_degree()));
        let folder = to.file.parent().filter(|f| !f.as_os_str().is_empty());
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)
                .map_err(|e| Error::io("cannot make the output folder", folder, e))?;
        }
        let options = WriteOptions {
            antialiased: to.antialiased,
            origin: to.origin,
            moved: to.moved.then(moved),
            nearest: to.nearest.clone(),
            ..WriteOptions::default()
        };
        let splats = lower.as_ref().unwrap_or(splats);
        splat_file::write_with(&to.file, splats, format, &options)?;
        self.stamps[0] = stamp(&to.file);
        recipe.write(&to.recipe)?;
        self.stamps[1] = stamp(&to.recipe);
        self.saved = Some(recipe);
        Ok(format!("saved {} and {}", name(&to.file), name(&to.recipe)))
    }

    /// Refuses to replace files that another program has written, before this session or since its last save.
    fn refuse_others(&self, to: &SaveTo) -> Result<()> {
        for (path, before) in [&to.file, &to.recipe].into_iter().zip(self.stamps) {
            let now = stamp(path);
            if now.is_none() {
                continue;
            }
            let is_ours = self.saved.is_some();
            if !is_ours && !to.overwrite {
                return Err(
                    Error::input(format!("{} exists and is not replaced", name(path)))
                        .hint("begin with `dapple view --save ANOTHER.ply`, or with --overwrite"),
                );
            }
            if now != before {
                return Err(Error::input(format!(
                    "{} was changed by another program since it was {}, and is not replaced",
                    name(path),
                    if is_ours { "saved here" } else { "found here" }
                ))
                .hint("move that file away, or end `dapple view` with Ctrl-C: it writes the edits as a recipe"));
            }
        }
        Ok(())
    }
}

fn stamps(to: &SaveTo) -> [Stamp; 2] {
    [stamp(&to.file), stamp(&to.recipe)]
}

fn stamp(path: &Path) -> Stamp {
    let found = path.metadata().ok()?;
    Some((found.len(), found.modified().ok()))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
