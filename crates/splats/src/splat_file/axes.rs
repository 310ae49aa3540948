//! Axes of a file: the eight conventions of x, y and z that differ by signs.
//!
//! COLMAP's scenes, and so all PLY files that are trained from it, have x right, y down, z forward (RDF). SPZ's
//! description specifies right, up, back (RUB), and files exist in both.

use crate::{Error, Result};

/// Directions of x, y and z: **R**ight or **L**eft, **U**p or **D**own, **F**orward or **B**ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Axes {
    /// Left, down, back.
    Ldb,
    /// Right, down, back.
    Rdb,
    /// Left, up, back.
    Lub,
    /// Right, up, back: SPZ's description and OpenGL.
    Rub,
    /// Left, down, forward.
    Ldf,
    /// Right, down, forward: COLMAP and Dapple.
    Rdf,
    /// Left, up, forward: glTF.
    Luf,
    /// Right, up, forward: Unity.
    Ruf,
}

impl Axes {
    /// All conventions, in the order of SPZ's numbers, which begin with 1.
    pub const ALL: [Self; 8] = [
        Self::Ldb,
        Self::Rdb,
        Self::Lub,
        Self::Rub,
        Self::Ldf,
        Self::Rdf,
        Self::Luf,
        Self::Ruf,
    ];

    /// Returns the name in the spelling of the command line, for example `rdf`.
    pub fn name(self) -> &'static str {
        ["ldb", "rdb", "lub", "rub", "ldf", "rdf", "luf", "ruf"][self as usize]
    }

    /// Returns the convention of a name.
    ///
    /// # Errors
    /// Any other name.
    pub fn of_name(name: &str) -> Result<Self> {
        let name = name.to_lowercase();
        let found = Self::ALL.into_iter().find(|axes| axes.name() == name);
        found.ok_or_else(|| {
            Error::input(format!("{name:?} names no axes")).hint(
                "three letters say where x, y and z point: rdf is right, down, forward (as PLY files of captures \
                 are), rub right, up, back",
            )
        })
    }

    /// Returns the number in an SPZ file.
    pub(super) fn number(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the convention of a number in an SPZ file; `None` for 0 and unknown numbers.
    pub(super) fn of_number(number: u32) -> Option<Self> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// Returns the sign changes between these axes and right, down, forward; the signs of both directions are equal.
    pub(super) fn signs(self) -> Signs {
        let letters = self.name().as_bytes();
        let sign = |at: usize, letter: u8| match letters[at] == letter {
            true => 1.0,
            false => -1.0,
        };
        Signs::from_axes([sign(0, b'r'), sign(1, b'd'), sign(2, b'f')])
    }
}

/// Signs that convert a Gaussian's numbers between axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Signs {
    pub mean: [f32; 3],
    /// Signs of x, y, z; w is unchanged.
    pub quat: [f32; 3],
    /// Signs of coefficients 1 to 15.
    pub sh: [f32; 15],
}

impl Signs {
    /// Computes the signs. A spherical harmonic is odd in the axes that its polynomial is odd in.
    fn from_axes([x, y, z]: [f32; 3]) -> Self {
        let one = 1.0;
        let (xy, yz, xz) = (x * y, y * z, x * z);
        Self {
            mean: [x, y, z],
            quat: [yz, xz, xy],
            sh: [y, z, x, xy, yz, one, xz, one, y, xy * z, y, z, x, z, x],
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_numbers_and_signs_belong_together() {
        for (i, axes) in Axes::ALL.into_iter().enumerate() {
            assert_eq!(axes.number() as usize, i + 1);
            assert_eq!(Axes::of_number(axes.number()), Some(axes));
            assert_eq!(Axes::of_name(&axes.name().to_uppercase()).unwrap(), axes);
        }
        assert_eq!((Axes::of_number(0), Axes::of_number(9)), (None, None));
        assert!(Axes::of_name("xyz").unwrap_err().hint_text().is_some());
        // The numbers of SPZ's description.
        assert_eq!((Axes::Rub.number(), Axes::Rdf.number()), (4, 6));
        assert_eq!(Axes::Luf.number(), 7);
        let rub = Axes::Rub.signs();
        assert_eq!(rub.mean, [1.0, -1.0, -1.0]);
        assert_eq!(rub.quat, [1.0, -1.0, -1.0]);
        // y, z, x; xy, yz, 1, xz, 1.
        assert_eq!(rub.sh[..8], [-1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0]);
        assert_eq!(Axes::Rdf.signs(), Signs::from_axes([1.0; 3]));
    }
}
