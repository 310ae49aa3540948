//! Comparison of Gaussians with `splats.ply` of a run.

use crate::output::{finite_splats, splat_options};
use crate::{RunFolder, Trainer};
use dapple_engine::PARAM_GROUPS;
use dapple_scene::splat_file::{self, Format};
use dapple_scene::{Error, Result, Splats};

/// Result of [`RunFolder::compare_splats`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SplatsComparison {
    /// CRC-32 of `splats.ply`, and of the file that the second run would write.
    pub crc32: [u32; 2],
    /// Number of Gaussians of the file, and of the second run.
    pub gaussians: [usize; 2],
    /// The first tensor that differs, in the order of [`PARAM_GROUPS`]; `None` with other numbers of Gaussians.
    pub first: Option<TensorDifference>,
}

/// Difference of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct TensorDifference {
    /// Name of the tensor.
    pub tensor: &'static str,
    /// Number of the first Gaussian that differs, from 0.
    pub gaussian: usize,
    /// Number of Gaussians that differ in this tensor.
    pub count: usize,
    /// Largest difference.
    pub largest: f32,
}

impl SplatsComparison {
    /// Returns true if the Gaussians are equal, bit by bit. The header of a file of another version may differ.
    pub fn is_same(&self) -> bool {
        self.gaussians[0] == self.gaussians[1] && self.first.is_none()
    }
}

impl RunFolder {
    /// Compares the present Gaussians of a trainer with `splats.ply`.
    ///
    /// # Errors
    /// The file is missing or damaged; the engine fails.
    pub fn compare_splats(&self, trainer: &mut Trainer) -> Result<SplatsComparison> {
        let path = self.splats_path();
        if !path.is_file() {
            return Err(Error::input("the run has no splats").at_path(path));
        }
        let splats = finite_splats(trainer)?;
        let options = splat_options(trainer.config().antialias, trainer.origin());
        let found = splat_file::encode(&splats, Format::Ply, &options)?;
        let recorded = std::fs::read(&path)
            .map_err(|e| Error::io("cannot read the splats of the run", &path, e))?;
        let crc32 = [&recorded, &found].map(|bytes| crc32fast::hash(bytes));
        if recorded == found {
            let gaussians = [splats.len(); 2];
            return Ok(SplatsComparison {
                crc32,
                gaussians,
                first: None,
            });
        }
        // Both as readers see them.
        let (recorded, _) =
            splat_file::parse(&recorded, Format::Ply).map_err(|e| e.at_path(&path))?;
        let (found, _) = splat_file::parse(&found, Format::Ply)?;
        let gaussians = [recorded.len(), found.len()];
        let first = match gaussians[0] == gaussians[1] {
            true => first_difference(&recorded, &found),
            false => None,
        };
        Ok(SplatsComparison {
            crc32,
            gaussians,
            first,
        })
    }
}

/// Returns the difference of the first tensor that differs. Both have the same number of Gaussians.
fn first_difference(a: &Splats, b: &Splats) -> Option<TensorDifference> {
    PARAM_GROUPS.iter().find_map(|group| {
        let width = group.width(a.sh_degree).max(1);
        of_tensor(group.name, group.values(a), group.values(b), width)
    })
}

fn of_tensor(tensor: &'static str, a: &[f32], b: &[f32], width: usize) -> Option<TensorDifference> {
    let mut found: Option<TensorDifference> = None;
    for (gaussian, (a, b)) in a.chunks(width).zip(b.chunks(width)).enumerate() {
        if a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()) {
            continue;
        }
        let so_far = found.get_or_insert(TensorDifference {
            tensor,
            gaussian,
            count: 0,
            largest: 0.0,
        });
        so_far.count += 1;
        for (a, b) in a.iter().zip(b) {
            so_far.largest = so_far.largest.max((a - b).abs());
        }
    }
    found.or_else(|| {
        // Another degree.
        (a.len() != b.len()).then_some(TensorDifference {
            tensor,
            gaussian: 0,
            count: a.len().max(b.len()) / width,
            largest: f32::INFINITY,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tensor_that_differs_is_found() {
        let splats = |change: &dyn Fn(&mut Splats)| {
            let mut splats = Splats {
                sh_degree: 1,
                ..Splats::default()
            };
            for i in 0..3 {
                splats.means.push([i as f32; 3]);
                splats.scales.push([-1.0; 3]);
                splats.quats.push([1.0, 0.0, 0.0, 0.0]);
                splats.opacities.push(0.5);
                splats.sh0.push([0.25; 3]);
                splats.sh_rest.extend([0.125; 9]);
            }
            change(&mut splats);
            splats
        };
        let plain = splats(&|_| {});
        assert_eq!(first_difference(&plain, &plain), None);
        let moved = splats(&|s| {
            s.sh_rest[17] += 0.5;
            s.opacities[2] -= 0.25;
        });
        assert_eq!(
            first_difference(&plain, &moved),
            Some(TensorDifference {
                tensor: "opacities",
                gaussian: 2,
                count: 1,
                largest: 0.25,
            })
        );
        // Zeros of two signs are other bits.
        let signed = splats(&|s| s.quats[1][2] = -0.0);
        let found = first_difference(&plain, &signed);
        assert_eq!(found.map(|d| (d.tensor, d.gaussian)), Some(("quats", 1)));
        let shorter = splats(&|s| s.sh_rest.clear());
        let found = first_difference(&plain, &shorter);
        assert_eq!(found.map(|d| d.tensor), Some("sh_rest"));
    }
}
