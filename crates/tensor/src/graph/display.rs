//! `Display` of a tensor: type, shape and values. The values are computed and waited for, like in [`Tensor::read`].
//! Only the first and the last elements of long axes are computed, so that a large tensor is not copied to the host.

use super::tensor::Tensor;
use std::fmt;

/// Elements of an axis that are shown at each end.
const ENDS: usize = 3;

impl Tensor {
    /// Returns the ends of all long axes.
    fn ends(&self) -> Self {
        (0..self.rank()).fold(self.clone(), |now, axis| {
            let length = now.shape()[axis];
            if length <= 2 * ENDS + 1 {
                return now;
            }
            let ends = [
                now.slice(axis, 0, ENDS),
                now.slice(axis, length - ENDS, ENDS),
            ];
            Self::cat(&[&ends[0], &ends[1]], axis)
        })
    }
}

/// Writes the rows of an axis in brackets. `shape` and `shown` are the axes from here on, of the tensor and of
/// `values`.
fn write_axis(
    f: &mut fmt::Formatter<'_>,
    (shape, shown): (&[usize], &[usize]),
    values: &[f32],
) -> fmt::Result {
    let (Some((&length, inner)), Some((&count, inner_shown))) =
        (shape.split_first(), shown.split_first())
    else {
        return values.iter().try_for_each(|value| write!(f, "{value:?}"));
    };
    let each = inner_shown.iter().product::<usize>();
    f.write_str("[")?;
    for at in 0..count {
        if at > 0 {
            f.write_str(", ")?;
        }
        if length > count && at == ENDS {
            f.write_str(".., ")?;
        }
        write_axis(f, (inner, inner_shown), &values[at * each..(at + 1) * each])?;
    }
    f.write_str("]")
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.ends();
        match ends.read() {
            Ok(values) => {
                write!(f, "{}{:?} ", self.dtype().name(), self.shape())?;
                write_axis(f, (self.shape(), ends.shape()), &values)
            }
            Err(error) => write!(f, "{error}"),
        }
    }
}
