//! The container of a checkpoint: a safetensors file, written and read as a stream.
//!
//! 1. Eight bytes: the length of the header, little-endian.
//! 2. The header: JSON with `__metadata__` (strings by name) and, by name, each tensor's type, shape
//!    and place in the data; spaces make it a multiple of eight bytes.
//! 3. The data: the tensors without gaps, little-endian.
//!
//! The safetensors format has no checksum. Dapple stores a CRC-32 of metadata and data as the metadata `crc32`, and one
//! of the entries of the tensors as `crc32_tensors`, so that a file with a flipped bit is refused too. Any reader of
//! safetensors opens these files.
//!
//! This module reads and writes the format without the `safetensors` crate for three reasons. The crate writes metadata
//! in the order of a hash map, so that two files of one state differ. It renames its temporary file before the caller
//! can sync it. It reads from one slice, and a run of ten million Gaussians has 7 GB of tensors. A test compares both
//! implementations in both directions.

use bytemuck::{Pod, Zeroable};
use crc32fast::Hasher;
use dapple_scene::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

// Numbers are written with their layout in memory.
const _: () = assert!(cfg!(target_endian = "little"));

/// Longest accepted header. A thousand rounds of density control take 0.1 MB.
const MOST_HEADER_BYTES: u64 = 64 << 20;

/// Bytes read at a time for the checksum.
const BLOCK_BYTES: usize = 1 << 18;

/// Name of the checksum in the metadata.
pub(super) const CHECKSUM: &str = "crc32";

/// Name of the checksum of the names, types, shapes and places of the tensors. [`CHECKSUM`] covers it, as part of the
/// metadata. Files of earlier versions lack it.
const TABLE_CHECKSUM: &str = "crc32_tensors";

/// Metadata strings by name.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Types of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    F32,
    F64,
    U32,
    U64,
    BF16,
}

impl Kind {
    fn size_bytes(self) -> u64 {
        match self {
            Self::BF16 => 2,
            Self::F32 | Self::U32 => 4,
            Self::F64 | Self::U64 => 8,
        }
    }
}

/// A tensor to write.
pub(crate) struct Tensor<'a> {
    name: String,
    kind: Kind,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// A tensor of shape `shape` with values of `kind`, or arrays of such values.
    pub(crate) fn new<T: Pod>(name: String, kind: Kind, shape: &[usize], values: &'a [T]) -> Self {
        Self {
            name,
            kind,
            shape: shape.to_vec(),
            bytes: bytemuck::cast_slice(values),
        }
    }
}

/// Header entry of a tensor.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    dtype: Kind,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "__metadata__", default)]
    metadata: Metadata,
    #[serde(flatten)]
    tensors: BTreeMap<String, Entry>,
}

/// Starts the checksum with the metadata.
fn start_checksum(metadata: &Metadata) -> Hasher {
    let mut hasher = Hasher::new();
    for (name, value) in metadata.iter().filter(|(name, _)| *name != CHECKSUM) {
        for text in [name, value] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    hasher
}

/// Returns the checksum of the header entries of tensors.
fn table_checksum(tensors: &BTreeMap<String, Entry>) -> String {
    let mut hasher = Hasher::new();
    for (name, entry) in tensors {
        let (start, end) = entry.data_offsets;
        let shape = entry.shape.iter().map(|&n| n as u64);
        let numbers = [
            name.len() as u64,
            entry.dtype.size_bytes(),
            entry.dtype as u64,
            start,
            end,
        ];
        hasher.update(name.as_bytes());
        for number in numbers.into_iter().chain(shape) {
            hasher.update(&number.to_le_bytes());
        }
    }
    format!("{:08x}", hasher.finalize())
}

/// Writes a file, and returns its checksum. Tensors with wider numbers should be first, so that all tensors are aligned.
pub(crate) fn write(
    out: &mut dyn Write,
    mut metadata: Metadata,
    tensors: &[Tensor<'_>],
) -> io::Result<String> {
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for tensor in tensors {
        let start = end;
        end += tensor.bytes.len() as u64;
        entries.insert(
            tensor.name.clone(),
            Entry {
                dtype: tensor.kind,
                shape: tensor.shape.clone(),
                data_offsets: (start, end),
            },
        );
    }
    metadata.insert(TABLE_CHECKSUM.to_owned(), table_checksum(&entries));
    let mut hasher = start_checksum(&metadata);
    tensors
        .iter()
        .for_each(|tensor| hasher.update(tensor.bytes));
    let checksum = format!("{:08x}", hasher.finalize());
    metadata.insert(CHECKSUM.to_owned(), checksum.clone());
    let header = Header {
        metadata,
        tensors: entries,
    };
    let mut json = serde_json::to_vec(&header)?;
    json.resize(json.len().next_multiple_of(8), b' ');
    out.write_all(&(json.len() as u64).to_le_bytes())?;
    out.write_all(&json)?;
    for tensor in tensors {
        out.write_all(tensor.bytes)?;
    }
    Ok(checksum)
}

/// A file whose header has been read and found to agree with the file's length.
pub(crate) struct Reader<R> {
    input: R,
    header: Header,
    data_start: u64,
    data_bytes: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The input is not a safetensors file, or its length contradicts its header.
    pub(crate) fn open(mut input: R) -> Result<Self> {
        let file_bytes = input.seek(SeekFrom::End(0)).map_err(unreadable)?;
        input.rewind().map_err(unreadable)?;
        let mut length = [0; 8];
        if file_bytes < 8 {
            return Err(foreign(format!("it has {file_bytes} bytes")));
        }
        input.read_exact(&mut length).map_err(unreadable)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > MOST_HEADER_BYTES {
            return Err(foreign("its first bytes are no length of a header"));
        }
        if header_bytes > file_bytes - 8 {
            return Err(incomplete(file_bytes, 8 + header_bytes));
        }
        // Fits: no longer than the file, and bounded.
        let mut json = vec![0; header_bytes as usize];
        input.read_exact(&mut json).map_err(unreadable)?;
        let header: Header = serde_json::from_slice(&json)
            .map_err(|e| foreign(format!("its header cannot be read: {e}")).caused_by(e))?;
        let data_start = 8 + header_bytes;
        let data_bytes = check_places(&header.tensors)?;
        let whole = data_start.saturating_add(data_bytes);
        if whole > file_bytes {
            return Err(incomplete(file_bytes, whole));
        }
        if whole < file_bytes {
            let more = file_bytes - whole;
            return Err(foreign(format!(
                "{more} bytes follow the data of its header"
            )));
        }
        Ok(Self {
            input,
            header,
            data_start,
            data_bytes,
        })
    }

    /// Returns the metadata value of this name.
    pub(crate) fn metadata(&self, name: &str) -> Option<&str> {
        self.header.metadata.get(name).map(String::as_str)
    }

    /// Reads the whole file once and compares the checksum.
    ///
    /// # Errors
    /// The checksum differs or is missing.
    pub(crate) fn verify(&mut self) -> Result<()> {
        let mut hasher = start_checksum(&self.header.metadata);
        self.input
            .seek(SeekFrom::Start(self.data_start))
            .map_err(unreadable)?;
        let mut block = vec![0; BLOCK_BYTES];
        let mut left = self.data_bytes;
        while left > 0 {
            let part = &mut block[..left.min(BLOCK_BYTES as u64) as usize];
            self.input.read_exact(part).map_err(unreadable)?;
            hasher.update(part);
            left -= part.len() as u64;
        }
        let is_whole = self.metadata(CHECKSUM) == Some(&format!("{:08x}", hasher.finalize()));
        let table = self.metadata(TABLE_CHECKSUM);
        if is_whole && table.is_none_or(|sum| sum == table_checksum(&self.header.tensors)) {
            return Ok(());
        }
        Err(
            Error::input("the checkpoint is damaged: its checksum does not fit its content")
                .hint("copy the file again, or start the run again without --resume"),
        )
    }

    /// Returns the shape of a tensor.
    ///
    /// # Errors
    /// No tensor has this name.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.entry(name)?.shape)
    }

    /// Returns the kind of the numbers of a tensor.
    ///
    /// # Errors
    /// No tensor has this name.
    pub(crate) fn kind(&self, name: &str) -> Result<Kind> {
        Ok(self.entry(name)?.dtype)
    }

    /// Returns the values of a tensor, as arrays if `T` is an array.
    ///
    /// # Errors
    /// No tensor has this name, type and shape.
    pub(crate) fn read<T: Pod + Zeroable>(
        &mut self,
        name: &str,
        kind: Kind,
        shape: &[usize],
    ) -> Result<Vec<T>> {
        let entry = self.entry(name)?;
        if entry.dtype != kind || entry.shape != shape {
            return Err(Error::input(format!(
                "the checkpoint's tensor {name} is {:?} {:?}, and {kind:?} {shape:?} is expected",
                entry.dtype, entry.shape
            ))
            .hint("another program has written it: use the checkpoint as the run left it"));
        }
        let (start, end) = entry.data_offsets;
        // Fits in usize: offsets are within the file, and shapes agree with them.
        let count = (end - start) as usize / size_of::<T>();
        let mut values = vec![T::zeroed(); count];
        self.fill(start, &mut values)?;
        Ok(values)
    }

    /// Appends the values of some rows of a tensor, whose rows have the shape `row`.
    ///
    /// # Errors
    /// No tensor has this name, type and shape, or not as many rows.
    pub(crate) fn read_rows<T: Pod + Zeroable>(
        &mut self,
        name: &str,
        (kind, row): (Kind, &[usize]),
        rows: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<()> {
        let entry = self.entry(name)?;
        let (is, own) = (entry.dtype, entry.shape.as_slice());
        let fits = own
            .split_first()
            .is_some_and(|(&n, own)| own == row && rows.end <= n);
        if is != kind || !fits {
            return Err(Error::input(format!(
                "the checkpoint's tensor {name} is {is:?} {own:?}, and rows {rows:?} of {kind:?} {row:?} are expected"
            ))
            .hint("another program has written it: use the checkpoint as the run left it"));
        }
        // Rows are within the tensor, and the tensor within the file.
        let row_values: usize = row.iter().product();
        let start = entry.data_offsets.0 + (rows.start * row_values * size_of::<T>()) as u64;
        let first = values.len();
        values.resize(first + rows.len() * row_values, T::zeroed());
        self.fill(start, &mut values[first..])
    }

    /// Reads values from a place in the data.
    fn fill<T: Pod>(&mut self, start: u64, values: &mut [T]) -> Result<()> {
        self.input
            .seek(SeekFrom::Start(self.data_start + start))
            .map_err(unreadable)?;
        self.input
            .read_exact(bytemuck::cast_slice_mut(values))
            .map_err(unreadable)
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.header.tensors.get(name).ok_or_else(|| {
            Error::input(format!("the checkpoint has no tensor {name}"))
                .hint("another program has written it: use the checkpoint as the run left it")
        })
    }
}

/// Checks that tensors fill the data without gaps and have the bytes of their shapes. Returns the bytes of all tensors.
fn check_places(tensors: &BTreeMap<String, Entry>) -> Result<u64> {
    let mut places: Vec<(&String, &Entry)> = tensors.iter().collect();
    places.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut end = 0;
    for (name, entry) in places {
        let bytes = entry
            .shape
            .iter()
            .try_fold(entry.dtype.size_bytes(), |bytes, &n| {
                bytes.checked_mul(n as u64)
            });
        let (from, to) = entry.data_offsets;
        if from != end || bytes.is_none() || to.checked_sub(from) != bytes {
            return Err(foreign(format!("its tensor {name} has no sound place")));
        }
        end = to;
    }
    Ok(end)
}

fn unreadable(error: io::Error) -> Error {
    Error::io("cannot read the checkpoint", "", error)
}

fn foreign(why: impl AsRef<str>) -> Error {
    let why = why.as_ref();
    Error::input(format!("this is not a checkpoint, or a damaged one: {why}")).hint(
        "a checkpoint is the file checkpoint.safetensors in the folder of a run; without it, start \
         the run again without --resume",
    )
}

fn incomplete(is: u64, should: u64) -> Error {
    Error::input(format!(
        "the checkpoint is cut off: it has {is} bytes of {should}"
    ))
    .hint("copy the file again: Dapple writes only complete files")
}
