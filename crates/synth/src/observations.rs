//! Observations of points in a temporary file, sorted by photo, so that memory holds one part of the points only.
//!
//! `points3D.bin` lists observations by point, `images.bin` by photo. The file has a section for each part of the points.
//! A section has the observations of the first photo, then of the second, ..., as the records of `images.bin`.

use super::points::SparsePoint;
use dapple_scene::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes of a record: the pixel, and the id of the point.
const RECORD: u64 = 24;

/// The temporary file while it is written, and afterwards.
#[derive(Debug)]
pub(super) struct Observations {
    file: File,
    path: PathBuf,
    /// Number of records of each photo in each section.
    sections: Vec<Vec<u32>>,
    photos: usize,
}

impl Observations {
    /// Creates the file in `folder`.
    pub(super) fn new(folder: &Path, photos: usize) -> Result<Self> {
        let path = folder.join("observations");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| Error::io("cannot write the temporary file", &path, source))?;
        Ok(Self {
            file,
            path,
            sections: Vec::new(),
            photos,
        })
    }

    /// Appends the observations of a part of the points; `first_id` is the id of the first of them.
    pub(super) fn push(&mut self, first_id: u64, points: &[SparsePoint]) -> Result<()> {
        let mut by_photo: Vec<Vec<([f64; 2], u64)>> = vec![Vec::new(); self.photos];
        for (id, point) in (first_id..).zip(points) {
            for &(photo, pixel) in &point.track {
                by_photo[photo].push((pixel, id));
            }
        }
        let counts = by_photo.iter().map(|records| records.len() as u32);
        self.sections.push(counts.collect());
        self.append(&by_photo)
            .map_err(|source| Error::io("cannot write the temporary file", &self.path, source))
    }

    fn append(&self, by_photo: &[Vec<([f64; 2], u64)>]) -> io::Result<()> {
        let mut out = BufWriter::new(&self.file);
        for ([x, y], id) in by_photo.iter().flatten() {
            out.write_all(&x.to_le_bytes())?;
            out.write_all(&y.to_le_bytes())?;
            out.write_all(&id.to_le_bytes())?;
        }
        out.flush()
    }

    /// Calls `head` with each photo's number and number of observations, in order, and copies its observations to `out`
    /// after it.
    pub(super) fn copy_by_photo(
        &mut self,
        out: &mut dyn Write,
        mut head: impl FnMut(&mut dyn Write, usize, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        // Place in the file of the next photo's records in each section.
        let mut end = 0;
        let mut places: Vec<u64> = Vec::new();
        for section in &self.sections {
            places.push(end);
            end += section.iter().map(|&n| u64::from(n) * RECORD).sum::<u64>();
        }
        for photo in 0..self.photos {
            let counts = self
                .sections
                .iter()
                .map(|section| u64::from(section[photo]));
            head(out, photo, counts.clone().sum())?;
            for (place, count) in places.iter_mut().zip(counts) {
                let bytes = count * RECORD;
                self.file.seek(SeekFrom::Start(*place))?;
                if io::copy(&mut (&self.file).take(bytes), out)? != bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *place += bytes;
            }
        }
        Ok(())
    }
}
