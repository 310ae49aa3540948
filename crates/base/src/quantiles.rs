//! Values at a place in the order of a list: [`at`], [`median`], [`quantile`].

use std::cmp::Ordering;

/// Number with a total order: of floats, that of [`f64::total_cmp`].
pub trait Ordered: Copy {
    /// Compares two numbers.
    fn compare(&self, other: &Self) -> Ordering;
}

macro_rules! ordered {
    ($($number:ty: $compare:path),*) => {
        $(impl Ordered for $number {
            fn compare(&self, other: &Self) -> Ordering {
                $compare(self, other)
            }
        })*
    };
}

ordered!(f32: f32::total_cmp, f64: f64::total_cmp, u8: u8::cmp);

/// Returns the median, the upper one of two; `None` of an empty list.
///
/// ```
/// use dapple_base::quantiles::median;
///
/// assert_eq!(median(vec![5.0, 1.0, 3.0, 9.0]), Some(5.0));
/// assert_eq!(median::<f32>(Vec::new()), None);
/// ```
pub fn median<T: Ordered>(values: Vec<T>) -> Option<T> {
    let middle = values.len() / 2;
    at(values, middle)
}

/// Returns the value that as many of the others are not above as `part` says, 0 (least) to 1 (largest); the lower one
/// of two. `None` of an empty list.
///
/// ```
/// use dapple_base::quantiles::quantile;
///
/// let values = vec![5.0, 1.0, 3.0, 9.0];
/// assert_eq!([0.0, 0.5, 1.0].map(|part| quantile(values.clone(), part)), [Some(1.0), Some(3.0), Some(9.0)]);
/// ```
pub fn quantile<T: Ordered>(values: Vec<T>, part: f64) -> Option<T> {
    let last = values.len().saturating_sub(1);
    at(values, (last as f64 * part) as usize)
}

/// Returns the value at a place in the order; `None` if there is no such place.
pub fn at<T: Ordered>(mut values: Vec<T>, place: usize) -> Option<T> {
    (place < values.len()).then(|| *values.select_nth_unstable_by(place, T::compare).1)
}
