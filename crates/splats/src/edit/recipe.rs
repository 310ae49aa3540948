//! A chain of actions as a file: JSON, `{"dapple_recipe": 1, "actions": [...]}`.
//!
//! Numbers are written so that they come back to the last bit; replayed on the same file, a recipe gives the same
//! bytes (where it weighs photos or fits to them: on the same device, with the same capture). Files that it merges
//! are named relative to the folder of the recipe where they are below it, else by their whole path.

use super::Action;
use crate::{Error, Result};
use dapple_base::atomic::write_atomically;
use dapple_base::bounded;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version that is written; another is refused.
pub const RECIPE_VERSION: u32 = 1;

/// A chain of actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// [`RECIPE_VERSION`].
    #[serde(rename = "dapple_recipe")]
    version: u32,
    /// In the order of their application.
    pub actions: Vec<Action>,
}

/// Returns the sentence and the hint in the text of a JSON error. A value that is parsed from text has an [`Error`] of
/// several lines inside it.
fn parts(text: &str) -> (String, Option<String>) {
    // serde_json appends the place.
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    let mut lines = text.split("\n  ");
    let what = lines.next().unwrap_or_default().to_owned();
    let hint = lines.find_map(|line| line.strip_prefix("hint: "));
    (what, hint.map(str::to_owned))
}

impl Recipe {
    /// Builds a recipe of these actions.
    pub fn new(actions: Vec<Action>) -> Self {
        Self {
            version: RECIPE_VERSION,
            actions,
        }
    }

    /// Reads a recipe; paths in it are then those of files, wherever the program runs.
    ///
    /// # Errors
    /// A file that is no recipe, or one of another version; actions with numbers out of range.
    pub fn read(path: &Path) -> Result<Self> {
        let text = bounded::read_text("cannot read the recipe", path, bounded::SETTINGS_BYTES)?;
        let mut recipe = Self::parse(&text).map_err(|e| match e.place() {
            None => e.at_path(path),
            Some(place) => {
                let place = format!("{}, {place}", path.display());
                e.at(place)
            }
        })?;
        for action in &mut recipe.actions {
            if let Action::Merge(file) = action {
                *file = beside(path, file);
            }
        }
        Ok(recipe)
    }

    /// Reads a recipe's text.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            dapple_recipe: u32,
        }
        let hint = "a recipe is what `dapple edit --save-recipe` writes; docs/EDITING.md lists its actions";
        let version = serde_json::from_str::<Version>(text).map_err(|e| {
            Error::input(format!("this is no recipe: {e}"))
                .at(format!("line {}", e.line()))
                .hint(hint)
        })?;
        if version.dapple_recipe != RECIPE_VERSION {
            return Err(Error::unsupported(format!(
                "the recipe is of version {}, and this program knows version {RECIPE_VERSION}",
                version.dapple_recipe
            ))
            .hint("use the version of Dapple that wrote it, or a newer one"));
        }
        let recipe: Self = serde_json::from_str(text).map_err(|e| {
            let (what, remedy) = parts(&e.to_string());
            Error::input(format!("the recipe cannot be understood: {what}"))
                .at(format!("line {}, column {}", e.line(), e.column()))
                .hint(remedy.as_deref().unwrap_or(hint))
        })?;
        for (i, action) in recipe.actions.iter().enumerate() {
            action
                .check()
                .map_err(|e| e.at(format!("action {}", i + 1)))?;
        }
        Ok(recipe)
    }

    /// Writes it: whole or not at all.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok();
        let mut named = self.clone();
        for action in &mut named.actions {
            if let Action::Merge(file) = action {
                let whole = file.canonicalize().unwrap_or_else(|_| file.clone());
                let below = folder
                    .as_ref()
                    .and_then(|folder| whole.strip_prefix(folder).ok());
                *file = below.map_or_else(|| whole.clone(), PathBuf::from);
            }
        }
        let text = serde_json::to_string_pretty(&named)
            .map_err(|e| Error::internal(format!("a recipe cannot be written as JSON: {e}")))?;
        write_atomically(path, |out| writeln!(out, "{text}"))
    }
}

/// Returns the path that a recipe names, relative to the recipe's folder unless it is absolute.
fn beside(recipe: &Path, path: &Path) -> PathBuf {
    recipe
        .parent()
        .map_or_else(|| path.to_owned(), |folder| folder.join(path))
}
