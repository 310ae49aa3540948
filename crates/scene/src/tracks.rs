//! Observations of each sparse point: the photos, and the errors. Depth supervision uses them.

use std::collections::HashMap;

/// The observations of sparse points, point by point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tracks {
    errors: Vec<f32>,
    /// Index after each point's last photo.
    ends: Vec<u32>,
    photos: Vec<u32>,
}

impl Tracks {
    /// Adds the next point: its mean reprojection error, pixels of the photos at reconstruction, and the numbers of the
    /// photos that observe it.
    pub fn push(&mut self, error: f64, photos: impl IntoIterator<Item = u32>) {
        self.photos.extend(photos);
        self.errors.push(error as f32);
        self.ends
            .push(u32::try_from(self.photos.len()).unwrap_or(u32::MAX));
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// Returns true if there is no point.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the mean reprojection errors, pixels, `[points]`; not finite or negative if unknown.
    pub fn errors(&self) -> &[f32] {
        &self.errors
    }

    /// Returns the photos that observe a point.
    pub fn photos_of(&self, point: usize) -> &[u32] {
        let end = |i: usize| self.ends.get(i).map_or(0, |&end| end as usize);
        let start = point.checked_sub(1).map_or(0, end);
        self.photos.get(start..end(point)).unwrap_or_default()
    }

    /// Returns the points that each of `photos` photos observes, ascending.
    pub fn points_of_photos(&self, photos: usize) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new(); photos];
        for point in 0..self.len() {
            for &photo in self.photos_of(point) {
                if let Some(list) = out.get_mut(photo as usize) {
                    // Some files name a photo twice for one point.
                    if list.last() != Some(&(point as u32)) {
                        list.push(point as u32);
                    }
                }
            }
        }
        out
    }

    /// Returns a copy with other numbers for photos. Photos without a new number are dropped.
    pub(crate) fn renumbered(&self, number_of: &HashMap<u32, u32>) -> Self {
        let mut out = Self::default();
        for (point, &error) in self.errors.iter().enumerate() {
            let photos = self.photos_of(point).iter();
            let known = photos.filter_map(|photo| number_of.get(photo).copied());
            out.push(f64::from(error), known.collect::<Vec<_>>());
        }
        out
    }
}

/// Observation of a sparse point in an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Id of the image.
    pub image: u32,
    /// Index of the point.
    pub point: usize,
    /// Position in pixels of the image's camera.
    pub pixel: [f64; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_photos_find_each_other_under_new_numbers() {
        let mut tracks = Tracks::default();
        tracks.push(0.5, [7, 9]);
        tracks.push(0.1, []);
        tracks.push(0.2, [9, 9, 4]);
        assert_eq!(tracks.photos_of(0), [7, 9]);
        assert_eq!(tracks.photos_of(1), [0u32; 0]);
        let fewer = tracks.renumbered(&HashMap::from([(9, 0), (4, 1)]));
        assert_eq!(fewer.errors(), tracks.errors());
        assert_eq!(fewer.photos_of(0), [0]);
        assert_eq!(fewer.points_of_photos(2), [vec![0, 2], vec![2]]);
        assert_eq!(fewer.photos_of(3), [0u32; 0]);
    }
}
