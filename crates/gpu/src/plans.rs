//! The lists of passes. A [`Plan`] is a list of passes that are submitted for one purpose, in the order of execution.
//!
//! To add a stage: a file under `stages/` with its `PASS`, its shader, and its line in one list below. Features have no
//! lines here: their passes declare a [`Point`].

use crate::features::{self, Point};
use crate::passes::{Bits, Pass};
use crate::recorder::Recorder;
use crate::stages::densify::relocate;
use crate::stages::{
    batch, blend, blend_backward, bytes, contributors, densify, emit, finite, frame_counts,
    gradients, loss, morton, order, parts, project, ranges, report, score, sort, surface, update,
};
use dapple_scene::Result;
use std::sync::LazyLock;

/// Passes of a plan, in order: those of stages by name, those of features by their points.
macro_rules! passes {
    ($($item:expr),* $(,)?) => {
        LazyLock::new(|| {
            let mut all: Vec<&'static Pass> = Vec::new();
            $($item.add_to(&mut all);)*
            all
        })
    };
}

/// A part of a plan.
trait Item {
    fn add_to(self, all: &mut Vec<&'static Pass>);
}

impl Item for &'static Pass {
    fn add_to(self, all: &mut Vec<&'static Pass>) {
        all.push(self);
    }
}

impl Item for Point {
    fn add_to(self, all: &mut Vec<&'static Pass>) {
        all.extend(features::passes(self));
    }
}

type Passes = LazyLock<Vec<&'static Pass>>;

/// The passes of each plan, in order. A new stage is listed here.
static FRONT: Passes = passes![
    &project::PASS,
    &project::FRAMES,
    &order::PASS,
    &order::FRAMES,
    &emit::PASS,
    &sort::PASS,
    &ranges::PASS,
    &frame_counts::PASS,
    &blend::PASS,
];
static LOSS: Passes = passes![
    Point::Image,
    &loss::PASS,
    Point::ImageLoss,
    Point::ImageBack,
    Point::RenderLoss,
];
static BACK: Passes = passes![
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    Point::Gradients,
    &update::PASS,
    &batch::SUMS,
    &batch::UPDATE_PASS,
    Point::AfterUpdate,
    &report::PASS,
];
static GRADIENTS: Passes = passes![
    &blend_backward::PASS,
    &update::SUMS,
    &update::EXTRA_SUMS,
    &gradients::PASS,
];
static PROJECT: Passes = passes![&project::PASS, &parts::COUNTED, &report::PASS];
static OPEN_PARTS: Passes = passes![&parts::OPENED_ALL];
static OPEN_PART: Passes = passes![&parts::OPENED];
static FRONT_OF_PARTS: Passes = passes![
    &parts::SORTED,
    &emit::PASS,
    &sort::PASS,
    &ranges::PASS,
    &blend::PASS,
];
static BACK_OF_PARTS: Passes = passes![&blend_backward::PASS, &report::PASS];
static UPDATE_PART: Passes = passes![
    &update::PASS,
    &batch::SUMS,
    &batch::UPDATE_PASS,
    &report::PASS,
];
static MOVE_PART: Passes = passes![&batch::UPDATE_PASS, &report::PASS];
static SCORE: Passes = passes![&score::PASS];
static SHOWN: Passes = passes![&bytes::PASS, &surface::PASS, &contributors::PASS];
static BEFORE_STEP: Passes = passes![Point::BeforeStep];
static FINITE: Passes = passes![&finite::PASS];
static ROUND: Passes = passes![
    &densify::PASS,
    &relocate::PASS,
    &morton::PASS,
    &report::ROUND,
];

/// A list of passes that is submitted at once, or recorded at once as a part of another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plan {
    /// A render.
    Front,
    /// From the image to its gradient.
    Loss,
    /// From the image's gradient to new parameters, and the report.
    Back,
    /// A step: the three plans above.
    Step,
    /// From the image's gradient to gradients that are written out.
    Gradients,
    /// Projection of the Gaussians of a part, for another engine.
    Project,
    /// Preparation for projected Gaussians of all parts.
    OpenParts,
    /// A render of them.
    FrontOfParts,
    /// From the gradient of such a render to its gradient slots, and the report.
    BackOfParts,
    /// Preparation for such sums of a part.
    OpenPart,
    /// From them to new parameters of the part.
    UpdatePart,
    /// After the gradients of a batch are added: its last step, and the report.
    MovePart,
    /// From a render to its scores.
    Score,
    /// From a render to an 8-bit, count or surface image, or to the Gaussians that pixels show.
    Shown,
    /// Passes of features before a step that requests them.
    BeforeStep,
    /// Search for non-finite parameters, after a report.
    Finite,
    /// A densification round, with the Morton order, and its report.
    Round,
}

impl Plan {
    /// Every plan.
    pub const ALL: [Self; 17] = [
        Self::Front,
        Self::Loss,
        Self::Back,
        Self::Step,
        Self::Gradients,
        Self::Project,
        Self::OpenParts,
        Self::FrontOfParts,
        Self::BackOfParts,
        Self::OpenPart,
        Self::UpdatePart,
        Self::MovePart,
        Self::Score,
        Self::Shown,
        Self::BeforeStep,
        Self::Finite,
        Self::Round,
    ];

    /// Returns the parts of a plan that is composed of others.
    pub fn parts(self) -> &'static [Self] {
        match self {
            Self::Step => &[Self::Front, Self::Loss, Self::Back],
            _ => &[],
        }
    }

    /// Returns its passes, in order, without those of its parts.
    pub fn passes(self) -> &'static [&'static Pass] {
        match self {
            Self::Front => &FRONT,
            Self::Loss => &LOSS,
            Self::Back => &BACK,
            // Its parts have the passes.
            Self::Step => &[],
            Self::Gradients => &GRADIENTS,
            Self::Project => &PROJECT,
            Self::OpenParts => &OPEN_PARTS,
            Self::OpenPart => &OPEN_PART,
            Self::FrontOfParts => &FRONT_OF_PARTS,
            Self::BackOfParts => &BACK_OF_PARTS,
            Self::UpdatePart => &UPDATE_PART,
            Self::MovePart => &MOVE_PART,
            Self::Score => &SCORE,
            Self::Shown => &SHOWN,
            Self::BeforeStep => &BEFORE_STEP,
            Self::Finite => &FINITE,
            Self::Round => &ROUND,
        }
    }

    /// Returns the bits that make a difference to the plan.
    pub fn understands(self) -> Bits {
        let own = self.passes().iter().map(|pass| pass.understands());
        let parts = self.parts().iter().map(|part| part.understands());
        own.chain(parts).fold(Bits::NONE, |all, bits| all | bits)
    }

    /// Returns true if the plan is recorded for each photo slot.
    pub fn has_photo(self) -> bool {
        matches!(self, Self::Loss | Self::Step)
    }
}

/// Returns true if the pass belongs to densification rounds.
pub(crate) fn is_of_rounds(pass: &Pass) -> bool {
    let mut rounds = Plan::Round.passes().iter();
    rounds.any(|other| std::ptr::eq(*other, pass))
}

/// Returns every pass, once.
pub fn all() -> impl Iterator<Item = &'static Pass> {
    let listed = || {
        Plan::ALL
            .iter()
            .flat_map(|plan| plan.passes().iter().copied())
    };
    listed().enumerate().filter_map(move |(index, pass)| {
        let is_new = !listed()
            .take(index)
            .any(|before| std::ptr::eq(before, pass));
        is_new.then_some(pass)
    })
}

impl Recorder<'_> {
    /// Appends the passes of a plan that the bits of the command enable.
    ///
    /// # Errors
    /// See [`Self::pass`].
    pub fn plan(&mut self, plan: Plan) -> Result<()> {
        plan.passes().iter().try_for_each(|pass| self.pass(pass))
    }
}
