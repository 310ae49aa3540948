//! Edits by hand: a chain of actions and a position in it.
//!
//! 1. Pages send a [`SelectionStep`] or an [`Action`] of [`dapple_scene::edit`]. Picks make up the selection. An action
//!    on the selection stores its picks, so that it replays without a viewer.
//! 2. The shown splats are the original with the chain applied up to the present position. Undo moves one position
//!    back, redo moves one position forward. A new action discards the undone actions.
//! 3. The newest intermediate states are held, up to [`STATES_BYTES`]. Earlier states are replayed from the original.
//! 4. Saving writes the splats and the chain as a [`Recipe`]. The program chooses the path, never the page. `dapple
//!    edit --recipe` then writes the same bytes, because it applies the same actions.

mod histogram;
mod message;
mod save;

pub use histogram::{BINS, Histogram, histogram};
pub(crate) use message::EditCommand;
pub use message::{Edit, EditRequest};
pub use save::SaveTo;

use dapple_scene::edit::{
    Action, Editor, NoCapture, Recipe, SelectionAction, SelectionStep, Shape, Similarity,
};
use dapple_scene::{Error, NoProgress, Result, SH_C0, Splats, bounded};
use glam::DVec3;
use save::Saving;
use serde::Serialize;

/// Largest total size of the held states, bytes.
pub const STATES_BYTES: usize = 512 << 20;

/// Largest number of actions of a chain.
const MOST_ACTIONS: usize = 1000;

/// Colour of selected Gaussians, and its share.
const TINT: [f32; 3] = [1.0, 0.45, 0.0];
const TINT_PART: f32 = 0.65;

/// Action of the chain.
#[derive(Debug, Clone)]
struct Step {
    action: Action,
    /// Previous selection.
    picks: Vec<SelectionStep>,
    /// Bytes of a recipe with this action only.
    bytes: usize,
}

/// Result of an edit.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The shown splats change: other Gaussians are selected, hidden or moved.
    Shown,
    /// Nothing visible changes.
    Nothing,
    /// Files were written.
    Saved,
    /// Requested histogram.
    Histogram(Histogram),
}

/// State of an edit session, as sent to pages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EditState {
    /// All Gaussians.
    pub gaussians: usize,
    /// Selected Gaussians.
    pub selected: usize,
    /// Hidden Gaussians.
    pub hidden: usize,
    /// Actions that can be undone.
    pub undo: usize,
    /// Actions that can be redone.
    pub redo: usize,
    /// Name of the file that edits are saved to.
    pub saves_to: String,
    /// Description of the last edit, for the user.
    pub said: String,
}

/// Edit session: the original splats, the chain of actions and the selection. The module documentation describes the
/// steps.
#[derive(Debug)]
pub struct EditSession {
    original: Splats,
    /// `None` until the first change: the splats are the original.
    editor: Option<Editor>,
    chain: Vec<Step>,
    at: usize,
    picks: Vec<SelectionStep>,
    /// `[N]`; empty if nothing is selected.
    selected: Vec<bool>,
    /// States after this number of actions, ascending.
    states: Vec<(usize, Editor)>,
    saving: Saving,
    said: String,
}

impl EditSession {
    /// Begins a session with these splats. It saves to `save_to`, or reports on request why that is not possible.
    pub fn new(splats: Splats, save_to: std::result::Result<SaveTo, String>) -> Self {
        Self {
            original: splats,
            editor: None,
            chain: Vec::new(),
            at: 0,
            picks: Vec::new(),
            selected: Vec::new(),
            states: Vec::new(),
            saving: Saving::new(save_to),
            said: String::new(),
        }
    }

    /// Returns the present splats, hidden ones included.
    pub fn splats(&self) -> &Splats {
        match &self.editor {
            Some(editor) => editor.splats(),
            None => &self.original,
        }
    }

    /// Similarity that has moved all splats since the beginning.
    pub fn moved(&self) -> Similarity {
        match &self.editor {
            Some(editor) => *editor.moved(),
            None => Similarity::IDENTITY,
        }
    }

    /// Returns the actions up to the present position.
    pub fn recipe(&self) -> Recipe {
        let steps = self.chain[..self.at].iter();
        Recipe::new(steps.map(|step| step.action.clone()).collect())
    }

    /// State of the session, for pages.
    pub fn state(&self) -> EditState {
        let count = |marks: &[bool]| marks.iter().filter(|mark| **mark).count();
        EditState {
            gaussians: self.splats().len(),
            selected: count(&self.selected),
            hidden: count(self.hidden()),
            undo: self.at,
            redo: self.chain.len() - self.at,
            saves_to: self.saving.name(),
            said: self.said.clone(),
        }
    }

    /// Returns the splats as shown: without the hidden ones, the selected ones in another colour. `None` if these are
    /// [`Self::splats`].
    pub fn shown(&self) -> Option<Splats> {
        let splats = self.splats();
        let hidden = self.hidden();
        let tints = self.selected.contains(&true);
        if !tints && !hidden.contains(&true) {
            return None;
        }
        let is = |marks: &[bool], i: usize| marks.get(i).copied().unwrap_or(false);
        let seen: Vec<usize> = (0..splats.len()).filter(|&i| !is(hidden, i)).collect();
        let mut shown = match seen.len() == splats.len() {
            true => splats.clone(),
            false => dapple_scene::edit::order::gather(splats, &seen),
        };
        let stride = shown.sh_rest_stride();
        for to in (0..seen.len()).filter(|&to| is(&self.selected, seen[to])) {
            for (value, tint) in shown.sh0[to].iter_mut().zip(TINT) {
                *value += TINT_PART * ((tint - 0.5) / SH_C0 - *value);
            }
            let rest = &mut shown.sh_rest[to * stride..(to + 1) * stride];
            rest.iter_mut().for_each(|value| *value *= 1.0 - TINT_PART);
        }
        Some(shown)
    }

    /// Applies an edit command of a page.
    ///
    /// # Errors
    /// Edits that cannot be applied; then nothing has changed.
    pub fn apply(&mut self, edit: &Edit) -> Result<Effect> {
        match edit {
            Edit::Select { anew, pick } => self.select(*anew, pick)?,
            Edit::Deselect => self.deselect(),
            Edit::Histogram(property) => {
                let (hidden, selected) = (self.hidden(), &self.selected);
                let found = histogram(self.splats(), *property, hidden, selected);
                return Ok(Effect::Histogram(found));
            }
            Edit::Delete => self.with_selected(SelectionAction::Drop, "deleted")?,
            Edit::Crop => self.with_selected(SelectionAction::Keep, "cropped")?,
            Edit::Hide => {
                let state = self.state();
                if state.selected + state.hidden == state.gaussians {
                    return Err(Error::input("nothing would be left to see")
                        .hint("select less before you hide it"));
                }
                self.with_selected(SelectionAction::Hide, "hidden")?;
            }
            Edit::ShowAll if !self.hidden().contains(&true) => return Ok(Effect::Nothing),
            Edit::ShowAll => self.act(Action::ShowAll, "all shown")?,
            Edit::Transform {
                degrees,
                factor,
                by,
            } => self.transform(*degrees, *factor, *by)?,
            Edit::Undo if self.at == 0 => return Ok(Effect::Nothing),
            Edit::Undo => self.undo()?,
            Edit::Redo if self.at == self.chain.len() => return Ok(Effect::Nothing),
            Edit::Redo => {
                let step = self.chain[self.at].clone();
                self.advance(&step.action)?;
                self.said = "done again".to_owned();
            }
            Edit::Save => {
                self.save()?;
                return Ok(Effect::Saved);
            }
        }
        Ok(Effect::Shown)
    }

    fn hidden(&self) -> &[bool] {
        self.editor.as_ref().map_or(&[], Editor::hidden)
    }

    /// Returns the editor, which exists from the first change on.
    fn editor(&mut self) -> &mut Editor {
        let original = &self.original;
        self.editor
            .get_or_insert_with(|| Editor::new(original.clone()))
    }

    fn select(&mut self, anew: bool, pick: &SelectionStep) -> Result<()> {
        let most = dapple_scene::edit::selection::MOST_PICKS;
        if !anew && self.picks.len() >= most {
            return Err(
                Error::input(format!("a selection has at most {most} gestures"))
                    .hint("delete or hide what is selected, and begin another"),
            );
        }
        let count = self.splats().len();
        let mut selected = match anew || self.selected.is_empty() {
            true => vec![false; count],
            false => self.selected.clone(),
        };
        self.editor().pick(&mut selected, pick)?;
        if anew {
            self.picks.clear();
        }
        self.picks.push(pick.clone());
        self.selected = selected;
        self.said.clear();
        if !self.selected.contains(&true) {
            self.deselect();
            self.said = "nothing is selected".to_owned();
        }
        Ok(())
    }

    fn deselect(&mut self) {
        self.picks.clear();
        self.selected.clear();
        self.said.clear();
    }

    /// Applies an action to the selection.
    fn with_selected(&mut self, then: SelectionAction, said: &str) -> Result<()> {
        if self.picks.is_empty() {
            return Err(Error::input("nothing is selected")
                .hint("draw a rectangle or a lasso, paint, or choose a range of a histogram"));
        }
        let count = self.state().selected;
        let by = self.picks.clone();
        self.act(Action::Selected { by, then }, &format!("{said}: {count}"))
    }

    /// Turns and scales about the middle of the selection, or of all Gaussians.
    fn transform(&mut self, degrees: [f64; 3], factor: f64, by: [f64; 3]) -> Result<()> {
        let splats = self.splats();
        let concerns = |i: usize| {
            self.selected
                .get(i)
                .copied()
                .unwrap_or(self.picks.is_empty())
        };
        let centres = (0..splats.len())
            .filter(|&i| concerns(i))
            .map(|i| DVec3::from(splats.means[i].map(f64::from)))
            .filter(|centre| centre.is_finite());
        let (sum, count) = centres.fold((DVec3::ZERO, 0_usize), |(sum, n), c| (sum + c, n + 1));
        let middle = sum / count.max(1) as f64;
        let turn = Similarity {
            scale: factor,
            ..Similarity::from_degrees(degrees)
        };
        let translation = middle + DVec3::from(by) - turn.point(middle);
        let similarity = Similarity {
            translation: translation.into(),
            ..turn
        };
        match self.picks.is_empty() {
            true => self.act(Action::Transform(similarity), "all moved"),
            false => self.with_selected(SelectionAction::Transform(similarity), "moved"),
        }
    }

    /// Adds an action and discards the undone actions.
    fn act(&mut self, action: Action, said: &str) -> Result<()> {
        let alone = serde_json::to_string_pretty(&Recipe::new(vec![action.clone()]));
        let bytes = alone.map_or(0, |text| text.len());
        let before: usize = self.chain[..self.at].iter().map(|step| step.bytes).sum();
        if self.at >= MOST_ACTIONS || (before + bytes) as u64 > bounded::SETTINGS_BYTES {
            return Err(
                Error::input("the chain of edits is as long as a recipe can be")
                    .hint("save, and view what was saved"),
            );
        }
        let picks = self.picks.clone();
        self.advance(&action)?;
        let place = self.at - 1;
        self.chain.truncate(place);
        self.chain.push(Step {
            action,
            picks,
            bytes,
        });
        self.said = said.to_owned();
        Ok(())
    }

    /// Applies an action to the present state, and stores the state before.
    fn advance(&mut self, action: &Action) -> Result<()> {
        // The state before the first action is the original.
        let before = (self.at > 0).then(|| self.editor().clone());
        self.editor().apply(action, &mut NoCapture, &NoProgress)?;
        if let Some(before) = before {
            self.hold(before);
        }
        self.at += 1;
        let moves = matches!(
            action,
            Action::Selected {
                then: SelectionAction::Transform(_),
                ..
            }
        );
        self.deselect();
        if moves {
            // The Gaussians stay selected, to be moved further.
            self.reselect(vec![SelectionStep {
                how: Default::default(),
                by: Shape::Moved,
            }])?;
        }
        Ok(())
    }

    /// Stores a state for undo, and drops the oldest states beyond the limit.
    fn hold(&mut self, state: Editor) {
        let at = self.at;
        self.states.retain(|(place, _)| *place < at);
        self.states.push((at, state));
        let bytes = |(_, editor): &(usize, Editor)| bytes_of(editor.splats());
        let mut held: usize = self.states.iter().map(bytes).sum();
        while held > STATES_BYTES && !self.states.is_empty() {
            held -= bytes(&self.states.remove(0));
        }
    }

    fn undo(&mut self) -> Result<()> {
        let to = self.at - 1;
        self.states.retain(|(place, _)| *place <= to);
        let (mut place, mut editor) = match self.states.last() {
            Some((place, editor)) => (*place, editor.clone()),
            None => (0, Editor::new(self.original.clone())),
        };
        while place < to {
            editor.apply(&self.chain[place].action, &mut NoCapture, &NoProgress)?;
            place += 1;
        }
        self.editor = Some(editor);
        self.at = to;
        self.deselect();
        self.reselect(self.chain[to].picks.clone())?;
        self.said = "taken back".to_owned();
        Ok(())
    }

    fn reselect(&mut self, picks: Vec<SelectionStep>) -> Result<()> {
        if !picks.is_empty() {
            self.selected = self.editor().select(&picks)?;
            self.picks = picks;
        }
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let recipe = self.recipe();
        let splats = match &self.editor {
            Some(editor) => editor.splats(),
            None => &self.original,
        };
        self.said = self.saving.save(splats, recipe, &self.moved())?;
        Ok(())
    }

    /// Number of edits since the last save, done or undone.
    pub fn unsaved(&self) -> usize {
        self.saving.unsaved(&self.recipe())
    }
}

/// Memory of the splats, bytes.
fn bytes_of(splats: &Splats) -> usize {
    let numbers = 3 + 3 + 4 + 1 + 3 + splats.sh_rest_stride();
    4 * numbers * splats.len()
}

#[cfg(test)]
mod tests;
