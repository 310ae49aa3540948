//! Levels of resolution: the box, and boxes of twice the size around it with voxels of twice the size.

use glam::Vec3;

/// Boxes of the levels, from the finest: least and largest corners, world units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels {
    boxes: Vec<[Vec3; 2]>,
}

/// Length at a place: one length in the finest level, and twice that in each further level.
#[derive(Debug, Clone, PartialEq)]
pub struct ByLevel {
    finest: f32,
    levels: Levels,
}

/// Returns true if a place is in the box between two corners.
pub(crate) fn is_in_box(place: Vec3, [low, high]: [Vec3; 2]) -> bool {
    place.cmpge(low).all() && place.cmple(high).all()
}

impl Levels {
    /// Creates the finest level.
    pub fn new(finest: [Vec3; 2]) -> Self {
        Self {
            boxes: vec![finest],
        }
    }

    /// Returns the box of twice the size around the coarsest level.
    pub fn next(&self) -> [Vec3; 2] {
        let [low, high] = self.boxes.last().copied().unwrap_or_default();
        let half = (high - low) / 2.0;
        [low - half, high + half]
    }

    /// Adds a level.
    pub fn push(&mut self, bounds: [Vec3; 2]) {
        self.boxes.push(bounds);
    }

    /// Returns the boxes, from the finest.
    pub fn boxes(&self) -> &[[Vec3; 2]] {
        &self.boxes
    }

    /// Returns the size of the voxels at a place, in voxels of the finest level. Places outside all boxes are of the
    /// coarsest level.
    pub fn factor(&self, place: Vec3) -> f32 {
        let found = self
            .boxes
            .iter()
            .position(|&bounds| is_in_box(place, bounds));
        let level = found.unwrap_or(self.boxes.len().saturating_sub(1));
        2.0f32.powi(level as i32)
    }

    /// Returns a length that is `finest` in the finest level.
    pub fn length(&self, finest: f32) -> ByLevel {
        ByLevel {
            finest,
            levels: self.clone(),
        }
    }
}

impl ByLevel {
    /// Returns the length at a place.
    pub fn at(&self, place: Vec3) -> f32 {
        self.finest * self.levels.factor(place)
    }

    /// Returns this length, times a factor.
    #[must_use]
    pub fn times(&self, factor: f32) -> Self {
        self.levels.length(self.finest * factor)
    }

    /// Returns the length in the finest level.
    pub fn finest(&self) -> f32 {
        self.finest
    }
}

impl From<f32> for ByLevel {
    /// Creates a length that is the same everywhere.
    fn from(length: f32) -> Self {
        Levels::default().length(length)
    }
}
