//! Numbers and matrices in the variants of different writers of transforms files.
//!
//! 1. A number may be a string, `"1920"`.
//! 2. A matrix is a list of rows, or a flat list of 9, 12 or 16 numbers, or OpenCV's `{"rows", "cols", "data"}`.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use std::fmt;

/// A number, or a string that contains one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(ItemVisitor)? {
            Item::Cell(number) => Ok(Self(number)),
            Item::Row(_) => Err(D::Error::invalid_type(Unexpected::Seq, &"a number")),
        }
    }
}

/// A number, or a list of numbers.
enum Item {
    Cell(f64),
    Row(Vec<f64>),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Item, E> {
        Ok(Item::Cell(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Item, E> {
        Ok(Item::Cell(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Item, E> {
        Ok(Item::Cell(value as f64))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Item, E> {
        let number = value.trim().parse().ok();
        let number = number.ok_or_else(|| E::invalid_value(Unexpected::Str(value), &"a number"));
        number.map(Item::Cell)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Item, A::Error> {
        let mut row = Vec::new();
        while let Some(Number(value)) = list.next_element()? {
            row.push(value);
        }
        Ok(Item::Row(row))
    }
}

/// The rows of a matrix; a flat list whose length fits no matrix is one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix(pub(super) Vec<Vec<f64>>);

impl Matrix {
    fn of_flat(numbers: &[f64]) -> Self {
        let width = match numbers.len() {
            9 => 3,
            12 | 16 => 4,
            other => other.max(1),
        };
        Self(numbers.chunks(width).map(<[f64]>::to_vec).collect())
    }
}

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MatrixVisitor)
    }
}

struct MatrixVisitor;

impl<'de> Visitor<'de> for MatrixVisitor {
    type Value = Matrix;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a matrix as a list of its rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Matrix, A::Error> {
        let (mut rows, mut flat) = (Vec::new(), Vec::new());
        while let Some(item) = list.next_element()? {
            match item {
                Item::Row(row) => rows.push(row),
                Item::Cell(number) => flat.push(number),
            }
        }
        match (rows.is_empty(), flat.is_empty()) {
            (_, true) => Ok(Matrix(rows)),
            (true, false) => Ok(Matrix::of_flat(&flat)),
            (false, false) => Err(A::Error::custom("a matrix of numbers and lists")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Matrix, A::Error> {
        let mut data = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "data" => data = Some(map.next_value::<Vec<Number>>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let data = data.ok_or_else(|| A::Error::missing_field("data"))?;
        let numbers: Vec<f64> = data.into_iter().map(|Number(value)| value).collect();
        Ok(Matrix::of_flat(&numbers))
    }
}

/// Reads a number that may be absent or null.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(Option::<Number>::deserialize(deserializer)?.map(|Number(value)| value))
}

/// Reads a boolean, as JSON boolean, as 0 or 1, or in a string.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Bool(bool),
        Number(f64),
        Text(String),
    }
    let text = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err(D::Error::invalid_value(
            Unexpected::Str(text),
            &"true or false",
        )),
    };
    Option::<Flag>::deserialize(deserializer)?
        .map(|flag| match flag {
            Flag::Bool(flag) => Ok(flag),
            Flag::Number(number) => Ok(number != 0.0),
            Flag::Text(value) => text(&value),
        })
        .transpose()
}
