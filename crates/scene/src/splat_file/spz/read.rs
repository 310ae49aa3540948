//! From a file of any version to splats.

use super::attributes::{Planes, decode};
use super::{
    ANTIALIASED, ATTRIBUTES, AXES_RECORD, DAMAGED, EXTENSIONS, HEADER, Header, LEGACY_HEADER, MAGIC,
};
use crate::splat_file::axes::Axes;
use crate::splat_file::packed::Cursor;
use crate::splat_file::watch::Watch;
use crate::splat_file::{Aside, ReadOptions};
use crate::{Error, MAX_SH_DEGREE, Progress, Result, Splats};
use flate2::bufread::GzDecoder;
use rayon::prelude::*;
use std::io::Read;

/// Bytes of extensions that are looked at; those that are known take 24.
const EXTENSION_BYTES: u64 = 1 << 16;

pub(in crate::splat_file) fn parse(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    if bytes.starts_with(&MAGIC) {
        return current(bytes, options, progress);
    }
    legacy(bytes, options, progress)
}

/// Versions 1 to 3.
fn legacy(bytes: &[u8], options: &ReadOptions, progress: &dyn Progress) -> Result<(Splats, Aside)> {
    let mut stream = Gunzip {
        decoder: GzDecoder::new(bytes),
        file_bytes: bytes.len(),
        unpacked: 0,
    };
    let head = stream.take(LEGACY_HEADER, "header", bytes.len())?;
    if !head.starts_with(&MAGIC) {
        return Err(Error::input(
            "this is not an SPZ file: what gzip has packed does not begin with NGSP",
        )
        .at("byte 0 of what is unpacked")
        .hint("unpack it (gunzip) and name what is inside, if that is a file of splats"));
    }
    let mut fields = Cursor::new(&head, MAGIC.len(), "SPZ");
    let (version, count) = (fields.u32("version")?, fields.u32("count")?);
    let header = Header::new(
        version,
        count,
        [
            fields.u8("degree")?,
            fields.u8("bits")?,
            fields.u8("flags")?,
        ],
    )?;
    let sizes = header.sizes(bytes.len())?;
    // Attributes are what takes time, each by its Gaussians' bytes.
    let watch = Watch::reading(progress, header.count);
    let mut planes: [Vec<u8>; 6] = Default::default();
    for ((plane, size), name) in planes.iter_mut().zip(sizes).zip(ATTRIBUTES) {
        *plane = stream.take(size, name, bytes.len())?;
        watch.advance(size / header.strides().iter().sum::<usize>().max(1));
    }
    let mut records = Vec::new();
    let more = stream.decoder.by_ref().take(EXTENSION_BYTES);
    // What follows is no part of the splats: damage there costs a remark.
    let ended = { more }.read_to_end(&mut records);
    let mut aside = Aside::default();
    if ended.is_err() {
        let what = "the file's end is damaged; its Gaussians could be read";
        aside.notes.push(what.to_owned());
    }
    let declared = match header.flags & EXTENSIONS != 0 {
        true => declared_axes(&records),
        false => None,
    };
    if header.flags & EXTENSIONS == 0 && !records.is_empty() {
        aside.notes.push(format!(
            "{} bytes follow the last Gaussian, unread: is this the file that it should be?",
            records.len()
        ));
    }
    Ok(finish(
        &header,
        &planes.each_ref().map(Vec::as_slice),
        declared,
        options,
        aside,
    ))
}

/// A gzip member as it is unpacked.
struct Gunzip<'a> {
    decoder: GzDecoder<&'a [u8]>,
    file_bytes: usize,
    unpacked: usize,
}

impl Gunzip<'_> {
    /// The next bytes; memory grows with what is there, not with what is promised.
    fn take(&mut self, count: usize, what: &str, file_bytes: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(8 * file_bytes));
        let read = self
            .decoder
            .by_ref()
            .take(count as u64)
            .read_to_end(&mut bytes);
        self.unpacked += bytes.len();
        if read.is_ok() && bytes.len() == count {
            return Ok(bytes);
        }
        let at = self.file_bytes - self.decoder.get_ref().len();
        let error = Error::input(format!(
            "the SPZ file ends or is damaged within its {what}: {} of {count} bytes could be unpacked",
            bytes.len()
        ))
        .at(format!("byte {at}, byte {} of what is unpacked", self.unpacked))
        .hint(DAMAGED);
        Err(match read {
            Err(e) => error.caused_by(e),
            Ok(_) => error,
        })
    }
}

/// Version 4.
fn current(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    let mut head = Cursor::new(bytes, MAGIC.len(), "SPZ");
    let (version, count) = (head.u32("header")?, head.u32("header")?);
    let header = Header::new(
        version,
        count,
        [head.u8("header")?, head.u8("header")?, head.u8("header")?],
    )?;
    let streams = usize::from(head.u8("header")?);
    let table_at = head.u32("header")? as usize;
    let sizes = header.sizes(bytes.len())?;
    let wanted: Vec<usize> = (0..6).filter(|&k| sizes[k] > 0).collect();
    if version != 4 || streams != wanted.len() || table_at < HEADER {
        let what = format!(
            "the SPZ file's header contradicts itself: version {version}, {streams} attributes where degree {} has \
             {}, their table at byte {table_at}",
            header.degree,
            wanted.len()
        );
        return Err(Error::input(what).at("byte 15").hint(DAMAGED));
    }
    let mut records = Cursor::new(bytes, HEADER, "SPZ");
    let records = records.take(table_at - HEADER, "extensions")?;
    let mut table = Cursor::new(bytes, table_at, "SPZ");
    let mut frames = Vec::new();
    let mut at = table_at + 16 * streams;
    for &k in &wanted {
        let here = table.at();
        let (packed, unpacked) = (table.u64("table")?, table.u64("table")?);
        if unpacked != sizes[k] as u64 {
            let what = format!(
                "the SPZ file's {} take {unpacked} bytes, and {count} Gaussians need {}",
                ATTRIBUTES[k], sizes[k]
            );
            return Err(Error::input(what).at(format!("byte {here}")).hint(DAMAGED));
        }
        let packed = usize::try_from(packed).unwrap_or(usize::MAX);
        let mut frame = Cursor::new(bytes, at, "SPZ");
        frames.push((k, at, frame.take(packed, ATTRIBUTES[k])?));
        at = frame.at();
    }
    let watch = Watch::reading(progress, header.count);
    let unpacked: Vec<(usize, Vec<u8>)> = frames
        .into_par_iter()
        .map(|(k, at, frame)| {
            let plane = unpack(frame, sizes[k], ATTRIBUTES[k], at)?;
            watch.advance(sizes[k] / header.strides().iter().sum::<usize>().max(1));
            Ok((k, plane))
        })
        .collect::<Result<_>>()?;
    let mut planes: Planes<'_> = [&[]; 6];
    for (k, bytes) in &unpacked {
        planes[*k] = bytes;
    }
    let mut aside = Aside::default();
    if at < bytes.len() {
        let left = bytes.len() - at;
        let note = format!(
            "{left} bytes follow the last Gaussian, unread: is this the file that it should be?"
        );
        aside.notes.push(note);
    }
    Ok(finish(
        &header,
        &planes,
        declared_axes(records),
        options,
        aside,
    ))
}

/// One Zstandard frame.
fn unpack(frame: &[u8], count: usize, what: &str, at: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count.min(8 * frame.len()));
    let failed = |read: usize| {
        Error::input(format!(
            "the SPZ file is damaged within its {what}: {read} of {count} bytes could be unpacked"
        ))
        .at(format!("byte {at}"))
        .hint(DAMAGED)
    };
    let mut decoder =
        zstd::stream::read::Decoder::with_buffer(frame).map_err(|e| failed(0).caused_by(e))?;
    let read = decoder.by_ref().take(count as u64).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() == count => Ok(bytes),
        Ok(_) => Err(failed(bytes.len())),
        Err(e) => Err(failed(bytes.len()).caused_by(e)),
    }
}

/// What the records of extensions say of the axes: type, length, content, one after the other.
fn declared_axes(mut records: &[u8]) -> Option<Axes> {
    loop {
        let (kind, rest) = records.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
        if u32::from_le_bytes(*kind) == AXES_RECORD {
            return Axes::of_number(u32::from_le_bytes(content.try_into().ok()?));
        }
        records = &rest[content.len()..];
    }
}

fn finish(
    header: &Header,
    planes: &Planes<'_>,
    declared: Option<Axes>,
    options: &ReadOptions,
    mut aside: Aside,
) -> (Splats, Aside) {
    if header.degree > MAX_SH_DEGREE {
        aside.notes.push(format!(
            "harmonics of degree {} are left out: Dapple has {MAX_SH_DEGREE} at most",
            header.degree
        ));
    }
    aside.antialiased = header.flags & ANTIALIASED != 0;
    aside.axes = declared;
    let signs = declared.unwrap_or(options.undeclared_axes).signs();
    (decode(header, planes, &signs), aside)
}
