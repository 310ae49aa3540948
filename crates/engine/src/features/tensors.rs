//! [`ViewTensors`]: what a feature holds of the views, as a list of tensors. Checkpoints iterate over the list and name no
//! tensor.

use dapple_scene::{Error, Result};
use std::borrow::Cow;

/// Numbers of a tensor, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers<'a> {
    /// Floats; most tensors.
    F32(Cow<'a, [f32]>),
    /// Counts.
    U32(Cow<'a, [u32]>),
}

/// Tensor of a state, for files.
#[derive(Debug, Clone, PartialEq)]
pub struct StateTensor<'a> {
    /// Name, also in files.
    pub name: &'static str,
    /// Shape.
    pub shape: Vec<usize>,
    /// Numbers, row by row.
    pub numbers: Numbers<'a>,
}

impl<'a> StateTensor<'a> {
    /// Creates a tensor of floats.
    pub fn floats(name: &'static str, shape: &[usize], values: &'a [f32]) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            numbers: Numbers::F32(values.into()),
        }
    }

    /// Creates a tensor of counts.
    pub fn counts(name: &'static str, shape: &[usize], values: &'a [u32]) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            numbers: Numbers::U32(values.into()),
        }
    }
}

/// State of a feature. [`Self::TENSORS`] has every number of it.
pub trait ViewTensors: Default + 'static {
    /// Sizes of the tensors.
    type Sizes: Copy + Default + PartialEq;

    /// All tensors.
    const TENSORS: &'static [TensorRow<Self>];

    /// Returns the sizes of the tensors.
    fn sizes(&self) -> Self::Sizes;

    /// Checks that the lengths of all tensors are consistent.
    ///
    /// # Errors
    /// Lengths that differ.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Creates a state of these sizes before its tensors are read.
    fn with_sizes(_sizes: &Self::Sizes) -> Self {
        Self::default()
    }
}

/// A feature without a state.
impl ViewTensors for () {
    type Sizes = ();
    const TENSORS: &'static [TensorRow<Self>] = &[];

    fn sizes(&self) {}
}

/// Tensor of a state, as a row of [`ViewTensors::TENSORS`].
#[derive(Debug)]
pub struct TensorRow<S: ViewTensors> {
    /// Name, also in files; the part before the first dot is the group's name.
    pub name: &'static str,
    /// Access to the numbers.
    pub field: Field<S>,
    /// Returns the shape. Without a first dimension there is no tensor.
    pub shape: fn(&S::Sizes) -> Vec<usize>,
}

/// Access to the numbers of a tensor.
#[derive(Debug)]
pub enum Field<S> {
    /// Floats in a field of the state.
    F32(fn(&S) -> &Vec<f32>, fn(&mut S) -> &mut Vec<f32>),
    /// Counts in a field of the state.
    U32(fn(&S) -> &Vec<u32>, fn(&mut S) -> &mut Vec<u32>),
    /// Floats that the state holds in another form.
    Converted(fn(&S) -> Vec<f32>, fn(&mut S, &[f32])),
}

/// Row for a field of floats or counts of a state.
macro_rules! tensor_row {
    ($name:literal, $kind:ident $($field:ident).+, $shape:expr) => {
        $crate::features::TensorRow {
            name: $name,
            field: $crate::features::tensors::Field::$kind(
                |state| &state.$($field).+,
                |state| &mut state.$($field).+,
            ),
            shape: $shape,
        }
    };
}
pub(crate) use tensor_row;

/// Appends the tensors of a state that are not empty.
pub(super) fn push<'a, S: ViewTensors>(state: &'a S, tensors: &mut Vec<StateTensor<'a>>) {
    let sizes = state.sizes();
    for row in S::TENSORS {
        let shape = (row.shape)(&sizes);
        if shape.first().is_none_or(|&rows| rows == 0) {
            continue;
        }
        tensors.push(StateTensor {
            name: row.name,
            shape,
            numbers: match row.field {
                Field::F32(get, _) => Numbers::F32(get(state).into()),
                Field::U32(get, _) => Numbers::U32(get(state).into()),
                Field::Converted(get, _) => Numbers::F32(get(state).into()),
            },
        });
    }
}

/// Function that returns the numbers of a tensor by its name, its shape, and true for counts.
type Read<'a> = &'a mut dyn FnMut(&'static str, &[usize], bool) -> Result<Numbers<'static>>;

/// Reads the tensors of a state.
///
/// # Errors
/// Those of `read`; numbers of another type.
pub(super) fn read<S: ViewTensors>(state: &mut S, sizes: &S::Sizes, read: Read<'_>) -> Result<()> {
    *state = S::with_sizes(sizes);
    for row in S::TENSORS {
        let shape = (row.shape)(sizes);
        if shape.first().is_none_or(|&rows| rows == 0) {
            continue;
        }
        let is_count = matches!(row.field, Field::U32(..));
        match (&row.field, read(row.name, &shape, is_count)?) {
            (Field::F32(_, get), Numbers::F32(values)) => *get(state) = values.into_owned(),
            (Field::U32(_, get), Numbers::U32(values)) => *get(state) = values.into_owned(),
            (Field::Converted(_, set), Numbers::F32(values)) => set(state, &values),
            _ => {
                let name = row.name;
                return Err(Error::internal(format!(
                    "the numbers of {name} have another type"
                )));
            }
        }
    }
    Ok(())
}

/// Asserts that the list contains every number of a state, and that each row writes the tensor that it reads. The numbers
/// of the state must differ from each other.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(super) fn assert_complete<S: ViewTensors + PartialEq>(state: &S) {
    let mut tensors = Vec::new();
    push(state, &mut tensors);
    let mut tensors = tensors.into_iter();
    let mut copy = S::default();
    let mut next = |name: &'static str, shape: &[usize], is_count: bool| {
        let tensor = tensors.next().unwrap();
        assert_eq!((tensor.name, tensor.shape.as_slice()), (name, shape));
        let (len, counts) = match &tensor.numbers {
            Numbers::F32(values) => (values.len(), false),
            Numbers::U32(values) => (values.len(), true),
        };
        assert_eq!((len, counts), (shape.iter().product(), is_count), "{name}");
        Ok(match tensor.numbers {
            Numbers::F32(values) => Numbers::F32(values.into_owned().into()),
            Numbers::U32(values) => Numbers::U32(values.into_owned().into()),
        })
    };
    read(&mut copy, &state.sizes(), &mut next).unwrap();
    assert!(copy == *state, "a tensor is missing in the list");
    assert_eq!(tensors.next(), None);
}
