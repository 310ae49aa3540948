//! Selections: Gaussians picked out one gesture after the other, on a screen or by their numbers, and what is then
//! done with them.
//!
//! 1. A selection begins empty. Each [`SelectionStep`] adds the Gaussians in its [`Shape`], removes them, removes all
//!    others, or inverts them.
//! 2. A shape on a screen holds its camera: the centre of a Gaussian is projected through it, and is in the shape or
//!    not. Centres behind the camera, or outside the range of its lens, are in no shape; occluded ones are.
//! 3. Hidden Gaussians ([`SelectionAction::Hide`]) are in no selection, until all are shown again.
//! 4. Only centres and cameras count, in `f64`, separately for each Gaussian: a recipe without a viewer gives the
//!    selection of the viewer.

use super::{Condition, Editor, Region, Similarity, order};
use crate::{Camera, Error, Lens, Pose, Rays, Result, Splats};
use glam::{DVec2, DVec3};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The most points of a shape.
pub const MOST_POINTS: usize = 4096;

/// The most picks of a selection.
pub const MOST_PICKS: usize = 1000;

/// No pixel is farther away than this.
const MOST_PIXELS: f64 = 1e6;

/// Gaussians that a task takes.
const CHUNK: usize = 4096;

/// A gesture of a selection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionStep {
    /// Effect on the previous selection.
    #[serde(default)]
    pub how: SetOperation,
    /// Which Gaussians it is about.
    pub by: Shape,
}

/// Effect of a pick on the previous selection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetOperation {
    /// Both.
    #[default]
    Add,
    /// Without these.
    Subtract,
    /// Gaussians in both.
    Intersect,
    /// Gaussians in exactly one of them: with [`Shape::All`] all others.
    Toggle,
}

/// Some of the Gaussians.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// Gaussians with their centre inside a polygon on the screen: it winds around them, in any number of turns.
    Polygon {
        /// Camera of the shape.
        eye: SelectionCamera,
        /// Its corners, pixels; the last is joined to the first.
        points: Vec<[f64; 2]>,
    },
    /// Gaussians with their centre within a radius of a line on the screen: a stroke of a round brush.
    Stroke {
        /// Camera of the shape.
        eye: SelectionCamera,
        /// The line's points, pixels; one is a disc.
        points: Vec<[f64; 2]>,
        /// Pixels, above 0.
        radius: f64,
    },
    /// Gaussians with their centre in a part of space.
    Region(Region),
    /// For which all of these hold.
    Conditions(Vec<Condition>),
    /// Those that the last transformation of a selection has moved.
    Moved,
    /// All Gaussians.
    All,
}

/// Camera of a selection, without the size of its image.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionCamera {
    /// Focal lengths, pixels.
    pub focal: [f64; 2],
    /// The principal point, pixels from the upper left corner.
    pub centre: [f64; 2],
    /// From world to camera, `[w, x, y, z]`; it looks along +z with y down.
    pub rotation: [f64; 4],
    /// Added after the rotation, world units.
    pub translation: [f64; 3],
    /// How it bends rays.
    #[serde(default = "no_lens", skip_serializing_if = "Lens::is_identity")]
    pub lens: Lens,
}

fn no_lens() -> Lens {
    Lens::Pinhole
}

/// Action on a selection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SelectionAction {
    /// Removes it.
    Drop,
    /// Removes all others, except the hidden ones.
    Keep,
    /// Keeps it out of later selections, until all is shown. Files hold it as before.
    Hide,
    /// Moves, turns and scales it; cameras stay.
    Transform(Similarity),
}

impl From<&Camera> for SelectionCamera {
    fn from(camera: &Camera) -> Self {
        let Pose {
            rotation: q,
            translation,
        } = camera.camera_from_world;
        Self {
            focal: [camera.fx, camera.fy],
            centre: [camera.cx, camera.cy],
            rotation: [q.w, q.x, q.y, q.z],
            translation: translation.into(),
            lens: camera.lens,
        }
    }
}

impl SelectionCamera {
    fn check(&self) -> Result<()> {
        let turn: f64 = self.rotation.iter().map(|v| v * v).sum();
        let [fx, fy] = self.focal;
        let others = self.centre.iter().chain(&self.translation);
        let sound = (1e-12..=1e12).contains(&turn)
            && [fx, fy].iter().all(|f| (1e-6..=1e9).contains(f))
            && others.copied().all(|v| v.abs() <= 1e12)
            && self.lens.is_finite();
        match sound {
            true => Ok(()),
            false => Err(Error::input(
                "the camera of a selection is none: its numbers are out of bounds",
            )
            .hint("recipes of the viewer hold focal, centre, rotation (w,x,y,z) and translation")),
        }
    }

    /// How it projects: made once for many points.
    fn projection(&self) -> impl Fn([f32; 3]) -> Option<DVec2> + Sync + use<> {
        let pose = Pose::from_wxyz(self.rotation, self.translation.into());
        let rays = Rays::new(&Camera {
            width: 0,
            height: 0,
            fx: self.focal[0],
            fy: self.focal[1],
            cx: self.centre[0],
            cy: self.centre[1],
            lens: self.lens,
            camera_from_world: pose,
        });
        move |mean| {
            let pixel = rays.pixel(pose.transform(DVec3::from(mean.map(f64::from))));
            pixel.filter(|pixel| !pixel.is_nan())
        }
    }
}

impl SelectionStep {
    /// Checks its numbers.
    ///
    /// # Errors
    /// Those that are not finite or out of bounds; more points than [`MOST_POINTS`].
    pub fn check(&self) -> Result<()> {
        let points = |points: &[[f64; 2]], least: usize| {
            let count = (least..=MOST_POINTS).contains(&points.len());
            let sound = points.as_flattened().iter().all(|v| v.abs() <= MOST_PIXELS);
            match count && sound {
                true => Ok(()),
                false => Err(Error::input("a shape of a selection is broken").hint(format!(
                    "it has {least} to {MOST_POINTS} points, and none is farther than a million pixels away"
                ))),
            }
        };
        match &self.by {
            Shape::Polygon {
                eye,
                points: corners,
            } => eye.check().and_then(|()| points(corners, 3)),
            Shape::Stroke {
                eye,
                points: line,
                radius,
            } => {
                eye.check()?;
                points(line, 1)?;
                match *radius > 0.0 && *radius <= MOST_PIXELS {
                    true => Ok(()),
                    false => Err(Error::input(format!(
                        "a brush of {radius} pixels paints nothing"
                    ))
                    .hint("its radius is above 0 and at most a million pixels")),
                }
            }
            Shape::Region(region) => region.check(),
            Shape::Conditions(all) if all.is_empty() || all.len() > MOST_POINTS => Err(
                Error::input("a selection by conditions has none, or too many")
                    .hint("a list of conditions, such as [\"opacity>=0.1\", \"opacity<0.2\"]"),
            ),
            Shape::Conditions(all) if all.iter().any(Condition::needs_contributions) => Err(
                Error::input("a selection cannot ask what Gaussians contribute to photos")
                    .hint("the actions keep and drop can: `dapple edit --drop 'contribution<1'`"),
            ),
            Shape::Conditions(_) | Shape::Moved | Shape::All => Ok(()),
        }
    }
}

/// Checks the numbers of a selection and of what is done with it.
pub(super) fn check(by: &[SelectionStep], then: &SelectionAction) -> Result<()> {
    if by.is_empty() || by.len() > MOST_PICKS {
        return Err(
            Error::input(format!("a selection of {} picks is none", by.len()))
                .hint(format!("1 to {MOST_PICKS} of them")),
        );
    }
    by.iter().try_for_each(SelectionStep::check)?;
    match then {
        SelectionAction::Transform(similarity) => similarity.check(),
        SelectionAction::Drop | SelectionAction::Keep | SelectionAction::Hide => Ok(()),
    }
}

/// Returns true if a polygon goes around a point: its winding number is not 0 (Sunday 2001).
fn goes_around(corners: &[[f64; 2]], p: DVec2) -> bool {
    let mut winding = 0;
    for (i, &a) in corners.iter().enumerate() {
        let b = DVec2::from(corners[(i + 1) % corners.len()]);
        let a = DVec2::from(a);
        let left = (b - a).perp_dot(p - a);
        if a.y <= p.y && b.y > p.y && left > 0.0 {
            winding += 1;
        } else if a.y > p.y && b.y <= p.y && left < 0.0 {
            winding -= 1;
        }
    }
    winding != 0
}

/// Returns true if a point is no farther than `radius` from a line of points.
fn is_near(line: &[[f64; 2]], radius: f64, p: DVec2) -> bool {
    let first = DVec2::from(line[0]);
    let ends = line.windows(2).map(|two| (two[0].into(), two[1].into()));
    std::iter::once((first, first))
        .chain(ends)
        .any(|(a, b): (DVec2, DVec2)| {
            let (along, length) = (b - a, a.distance_squared(b));
            let at = if length > 0.0 {
                ((p - a).dot(along) / length).clamp(0.0, 1.0)
            } else {
                0.0
            };
            p.distance_squared(a + at * along) <= radius * radius
        })
}

/// The least and the largest of both coordinates.
fn bounds(points: &[[f64; 2]]) -> [DVec2; 2] {
    let points = || points.iter().map(|&p| DVec2::from(p));
    [
        points().fold(DVec2::INFINITY, DVec2::min),
        points().fold(DVec2::NEG_INFINITY, DVec2::max),
    ]
}

/// For each Gaussian whether `test` holds.
fn each(splats: &Splats, test: impl Fn(usize) -> bool + Sync) -> Vec<bool> {
    let mut found = vec![false; splats.len()];
    found
        .par_chunks_mut(CHUNK)
        .enumerate()
        .for_each(|(chunk, found)| {
            for (i, found) in found.iter_mut().enumerate() {
                *found = test(chunk * CHUNK + i);
            }
        });
    found
}

impl Editor {
    /// Which Gaussians are hidden, `[N]`; empty where none is.
    pub fn hidden(&self) -> &[bool] {
        &self.hidden
    }

    /// Marks the Gaussians that these picks select, `[N]`.
    ///
    /// # Errors
    /// The errors of [`Self::pick`].
    pub fn select(&self, picks: &[SelectionStep]) -> Result<Vec<bool>> {
        let mut selected = vec![false; self.splats.len()];
        for pick in picks {
            self.pick(&mut selected, pick)?;
        }
        Ok(selected)
    }

    /// Changes what is selected, `[N]`, by one pick more.
    ///
    /// # Errors
    /// Numbers out of range; [`Shape::Moved`] where nothing was moved; then nothing is changed.
    pub fn pick(&self, selected: &mut [bool], pick: &SelectionStep) -> Result<()> {
        pick.check()?;
        let held = self.held(&pick.by)?;
        for (i, (selected, held)) in selected.iter_mut().zip(held).enumerate() {
            let now = match pick.how {
                SetOperation::Add => *selected || held,
                SetOperation::Subtract => *selected && !held,
                SetOperation::Intersect => *selected && held,
                SetOperation::Toggle => *selected != held,
            };
            *selected = now && !self.hidden.get(i).copied().unwrap_or(false);
        }
        Ok(())
    }

    /// Which Gaussians a shape holds.
    fn held(&self, shape: &Shape) -> Result<Vec<bool>> {
        let splats = &self.splats;
        let seen = |eye: &SelectionCamera,
                    [low, high]: [DVec2; 2],
                    test: &(dyn Fn(DVec2) -> bool + Sync)| {
            let project = eye.projection();
            each(splats, |i| {
                project(splats.means[i])
                    .is_some_and(|p| p.cmpge(low).all() && p.cmple(high).all() && test(p))
            })
        };
        Ok(match shape {
            Shape::Polygon { eye, points } => {
                seen(eye, bounds(points), &|p| goes_around(points, p))
            }
            Shape::Stroke {
                eye,
                points,
                radius,
            } => {
                let [low, high] = bounds(points);
                let around = [low - *radius, high + *radius];
                seen(eye, around, &|p| is_near(points, *radius, p))
            }
            Shape::Region(region) => each(splats, |i| region.contains(splats.means[i])),
            Shape::Conditions(all) => {
                each(splats, |i| all.iter().all(|one| one.holds(splats, &[], i)))
            }
            Shape::All => vec![true; splats.len()],
            Shape::Moved if self.shifted.is_empty() => {
                return Err(Error::input("no selection has been moved before").hint(
                    "moved stands for what the last transformation of a selection has moved",
                ));
            }
            Shape::Moved => self.shifted.clone(),
        })
    }

    /// Does something with a selection.
    pub(super) fn with_selected(
        &mut self,
        by: &[SelectionStep],
        then: &SelectionAction,
    ) -> Result<()> {
        let selected = self.select(by)?;
        match then {
            SelectionAction::Drop => {
                self.keep("the removal of the selection", |_, i| !selected[i])?
            }
            SelectionAction::Keep => {
                let hidden = self.hidden.clone();
                let stays = |i: usize| selected[i] || hidden.get(i).copied().unwrap_or(false);
                self.keep("the crop to the selection", |_, i| stays(i))?;
            }
            SelectionAction::Hide => {
                self.hidden.resize(selected.len(), false);
                let both = self.hidden.iter_mut().zip(&selected);
                both.for_each(|(hidden, selected)| *hidden |= selected);
            }
            SelectionAction::Transform(similarity) => {
                let which: Vec<usize> = (0..selected.len()).filter(|&i| selected[i]).collect();
                let mut some = order::gather(&self.splats, &which);
                similarity.apply(&mut some);
                order::scatter(&mut self.splats, &some, &which);
                self.shifted = selected;
            }
        }
        Ok(())
    }

    /// Applies a new order to the state of each Gaussian: `order` are the remaining ones, in their new order.
    pub(super) fn carry(&mut self, order: &[usize]) {
        for marks in [&mut self.hidden, &mut self.shifted] {
            if !marks.is_empty() {
                *marks = order.iter().map(|&i| marks[i]).collect();
            }
        }
    }

    /// Other Gaussians: of those that were nothing is known.
    pub(super) fn forget(&mut self) {
        self.hidden.clear();
        self.shifted.clear();
    }
}

#[cfg(test)]
mod tests;
