//! [`Layout`]: maps the elements of a tensor to elements of a buffer. Views change layouts and copy nothing.

/// Shape, strides and offset, in elements. An expanded axis has stride 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

/// An axis after [`Layout::collapsed`]: size and stride.
pub(crate) type Dim = (usize, usize);

impl Layout {
    /// Creates a row-major layout without gaps.
    pub fn contiguous(shape: &[usize]) -> Self {
        Self {
            shape: shape.to_vec(),
            strides: strides_of(shape),
            offset: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if element `i` is the buffer's element `i`, for all `elements` of the buffer. A prefix of a buffer
    /// is no identity: its reader would take the buffer's length.
    pub fn is_identity(&self, elements: usize) -> bool {
        let is_dense = || matches!(self.collapsed().as_slice(), [] | [(_, 1)]);
        self.count() == elements && (elements == 0 || (self.offset == 0 && is_dense()))
    }

    /// Returns the same elements in fewer axes, outermost first: axes of one element are dropped, and contiguous
    /// neighbours are joined.
    pub fn collapsed(&self) -> Vec<Dim> {
        let mut dims: Vec<Dim> = Vec::new();
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            if size == 1 {
                continue;
            }
            match dims.last_mut() {
                Some(last) if last.1 == stride * size => *last = (last.0 * size, stride),
                _ => dims.push((size, stride)),
            }
        }
        dims
    }

    pub fn permuted(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Broadcasts to `shape`, which [`broadcast`] has checked.
    pub fn expanded(&self, shape: &[usize]) -> Self {
        let new = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(new) {
            Some(old) if self.shape[old] == shape[axis] => self.strides[old],
            _ => 0,
        };
        Self {
            shape: shape.to_vec(),
            strides: (0..shape.len()).map(stride).collect(),
            offset: self.offset,
        }
    }

    pub fn sliced(&self, axis: usize, start: usize, length: usize) -> Self {
        let mut sliced = self.clone();
        sliced.shape[axis] = length;
        if length > 0 {
            sliced.offset += start * self.strides[axis];
        }
        sliced
    }

    /// Returns the layout of another shape with the same number of elements, if that needs no copy.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        if self.count() == 0 {
            return Some(Self::contiguous(shape));
        }
        let dims = self.collapsed();
        let mut strides = vec![0; shape.len()];
        // From the innermost axis: each joined axis is cut into whole new ones.
        let mut axis = shape.len();
        for &(size, stride) in dims.iter().rev() {
            let mut left = size;
            while left > 1 {
                axis = axis.checked_sub(1)?;
                if !left.is_multiple_of(shape[axis]) {
                    return None;
                }
                strides[axis] = stride * (size / left);
                left /= shape[axis];
            }
        }
        Some(Self {
            shape: shape.to_vec(),
            strides,
            offset: self.offset,
        })
    }
}

fn strides_of(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Returns the shape that both broadcast to: axes match from the last on, and 1 or missing stretches. `None` if they do
/// not fit.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_continue_each_other_are_joined() {
        assert_eq!(Layout::contiguous(&[2, 3, 4]).collapsed(), [(24, 1)]);
        let turned = Layout::contiguous(&[2, 3, 4]).permuted(&[2, 0, 1]);
        assert_eq!(turned.collapsed(), [(4, 1), (6, 4)]);
        let rows = Layout::contiguous(&[5, 1]).expanded(&[5, 7]);
        assert_eq!(rows.collapsed(), [(5, 1), (7, 0)]);
        assert!(!rows.is_identity(35) && Layout::contiguous(&[0, 3]).is_identity(0));
        let prefix = Layout::contiguous(&[6, 3]).sliced(0, 0, 2);
        assert!(prefix.is_identity(6) && !prefix.is_identity(18));
        let none = Layout::contiguous(&[]).expanded(&[0]);
        assert!(!none.is_identity(1));
    }

    #[test]
    fn reshapes_copy_only_where_they_must() {
        let dense = Layout::contiguous(&[4, 6]);
        assert_eq!(dense.reshaped(&[2, 12]), Some(Layout::contiguous(&[2, 12])));
        let turned = dense.permuted(&[1, 0]);
        assert_eq!(turned.reshaped(&[24]), None);
        let cut = turned.reshaped(&[3, 2, 4]).map(|layout| layout.strides);
        assert_eq!(cut, Some(vec![2, 1, 6]));
        let ones = dense
            .reshaped(&[1, 4, 1, 6])
            .map(|layout| layout.collapsed());
        assert_eq!(ones, Some(vec![(24, 1)]));
    }

    #[test]
    fn shapes_broadcast_from_the_last_axis_on() {
        assert_eq!(broadcast(&[3, 1], &[4]), Some(vec![3, 4]));
        assert_eq!(broadcast(&[], &[2, 2]), Some(vec![2, 2]));
        assert_eq!(broadcast(&[3], &[4]), None);
        assert_eq!(broadcast(&[0], &[1]), Some(vec![0]));
    }
}
