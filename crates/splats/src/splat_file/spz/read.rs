//! Reads splats from a file of any version.

use super::attributes::{Planes, decode};
use super::{
    ANTIALIASED, ATTRIBUTES, AXES_RECORD, DAMAGED, EXTENSIONS, GZIP, HEADER, Header, LEGACY_HEADER,
    MAGIC, MOST_RATIO,
};
use crate::order::append;
use crate::splat_file::axes::Axes;
use crate::splat_file::packed::{Cursor, cut_harmonics};
use crate::splat_file::watch::Watch;
use crate::splat_file::{ReadOptions, SplatMetadata};
use crate::{Error, MAX_SH_DEGREE, Progress, Result, Splats};
use flate2::bufread::GzDecoder;
use rayon::prelude::*;
use std::io::Read;

/// Maximum size of extension records that are read, bytes; the known records take 24.
const EXTENSION_BYTES: u64 = 1 << 16;

/// Maximum number of files joined end to end in one; more are not read.
const MOST_JOINED: usize = 1000;

/// Splats, notes, and the bytes behind the file's end.
type Part<'a> = (Splats, SplatMetadata, &'a [u8]);

pub(in crate::splat_file) fn parse(
    bytes: &[u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    let (mut splats, mut metadata, mut rest) = one(bytes, options, progress)?;
    // Users join files end to end, as .splat files allow.
    let mut files = 1;
    let begins = |rest: &[u8]| rest.starts_with(&MAGIC) || rest.starts_with(&GZIP);
    while files < MOST_JOINED && begins(rest) {
        let Ok((more, other, after)) = one(rest, options, progress) else {
            break;
        };
        append(&mut splats, more);
        for note in other.notes {
            if !metadata.notes.contains(&note) {
                metadata.notes.push(note);
            }
        }
        rest = after;
        files += 1;
    }
    if files > 1 {
        metadata.notes.push(format!(
            "{files} SPZ files are joined in it: the Gaussians of all of them are read"
        ));
    }
    if !rest.is_empty() {
        metadata.notes.push(format!(
            "{} bytes follow the end of the SPZ file, unread: is this the file that it should be?",
            rest.len()
        ));
    }
    Ok((splats, metadata))
}

/// Reads the first file in the bytes.
fn one<'a>(bytes: &'a [u8], options: &ReadOptions, progress: &dyn Progress) -> Result<Part<'a>> {
    if !bytes.starts_with(&MAGIC) {
        let stream = Gunzip {
            decoder: GzDecoder::new(bytes),
            file_bytes: bytes.len(),
            unpacked: 0,
        };
        return legacy(Source::Packed(stream), bytes.len(), options, progress);
    }
    let mut version = Cursor::new(bytes, MAGIC.len(), "SPZ");
    if version.u32("version")? >= 4 {
        return current(bytes, options, progress);
    }
    let plain = Source::Plain(bytes, Cursor::new(bytes, 0, "SPZ"));
    let (splats, mut metadata, rest) = legacy(plain, bytes.len(), options, progress)?;
    metadata.notes.push(
        "the gzip packing around the file is missing, as a download may leave it: Dapple reads it all the same, \
         other programs may not; `dapple convert` writes it whole"
            .to_owned(),
    );
    Ok((splats, metadata, rest))
}

/// Reads versions 1 to 3.
fn legacy<'a>(
    mut source: Source<'a>,
    file_bytes: usize,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<Part<'a>> {
    let head = source.take(LEGACY_HEADER, "header")?;
    if !head.starts_with(&MAGIC) {
        return Err(Error::input(
            "this is not an SPZ file: what gzip has packed does not begin with NGSP",
        )
        .at("byte 0 of what is unpacked")
        .hint("unpack it (gunzip) and name what is inside, if that is a file of splats"));
    }
    let mut fields = Cursor::new(&head, MAGIC.len(), "SPZ");
    let (version, count) = (fields.u32("version")?, fields.u32("count")?);
    if let (4, Source::Packed(stream)) = (version, &mut source) {
        return packed_again(head, stream, options, progress);
    }
    let header = Header::new(
        version,
        count,
        [
            fields.u8("degree")?,
            fields.u8("bits")?,
            fields.u8("flags")?,
        ],
    )?;
    let sizes = header.sizes(file_bytes)?;
    // Most of the time goes into the attributes; progress counts bytes of Gaussians.
    let watch = Watch::reading(progress, header.count);
    let mut planes: [Vec<u8>; 6] = Default::default();
    for ((plane, size), name) in planes.iter_mut().zip(sizes).zip(ATTRIBUTES) {
        *plane = source.take(size, name)?;
        watch.advance(size / header.strides().iter().sum::<usize>().max(1));
    }
    let has_records = header.flags & EXTENSIONS != 0;
    let Rest {
        records,
        is_damaged,
        behind,
    } = source.rest(has_records);
    let mut metadata = SplatMetadata::default();
    // The following data is not part of the splats, so damage there gives only a note.
    if is_damaged {
        let what = "the file's end is damaged; its Gaussians could be read";
        metadata.notes.push(what.to_owned());
    }
    let declared = match has_records {
        true => declared_axes(&records),
        false => None,
    };
    if !has_records && !records.is_empty() {
        metadata.notes.push(format!(
            "{} bytes follow the last Gaussian, unread: is this the file that it should be?",
            records.len()
        ));
    }
    let planes = planes.each_ref().map(Vec::as_slice);
    let (splats, metadata) = finish(&header, &planes, declared, options, metadata);
    Ok((splats, metadata, behind))
}

/// Reads version 4, which has its own compression, inside a gzip file.
fn packed_again<'a>(
    mut whole: Vec<u8>,
    stream: &mut Gunzip<'a>,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<Part<'a>> {
    let most = MOST_RATIO * stream.file_bytes as u64;
    let unpacked = stream.decoder.by_ref().take(most).read_to_end(&mut whole);
    let (splats, mut metadata, inner) = current(&whole, options, progress)?;
    if unpacked.is_err() {
        let what = "the file's end is damaged; its Gaussians could be read";
        metadata.notes.push(what.to_owned());
    } else if !inner.is_empty() {
        metadata.notes.push(format!(
            "{} bytes follow the last Gaussian, unread: is this the file that it should be?",
            inner.len()
        ));
    }
    metadata.notes.push(
        "gzip is around a file of version 4, which has a packing of its own: other programs may not read it".to_owned(),
    );
    Ok((splats, metadata, stream.behind()))
}

/// Input of versions 1 to 3.
enum Source<'a> {
    /// Gzip members.
    Packed(Gunzip<'a>),
    /// Uncompressed content, without the gzip layer.
    Plain(&'a [u8], Cursor<'a>),
}

/// Data after the last Gaussian.
struct Rest<'a> {
    /// Bytes of the stream, at most [`EXTENSION_BYTES`].
    records: Vec<u8>,
    is_damaged: bool,
    /// Bytes of the file behind the stream.
    behind: &'a [u8],
}

impl<'a> Source<'a> {
    /// Reads the next bytes; memory grows with the available bytes, not with the declared size.
    fn take(&mut self, count: usize, what: &str) -> Result<Vec<u8>> {
        match self {
            Self::Packed(stream) => stream.take(count, what),
            Self::Plain(_, cursor) => Ok(cursor.take(count, what)?.to_vec()),
        }
    }

    fn rest(self, has_records: bool) -> Rest<'a> {
        match self {
            Self::Plain(bytes, cursor) => {
                let left = bytes.get(cursor.at()..).unwrap_or_default();
                // Records extend to the end of the file.
                let (records, behind) = left.split_at(if has_records { left.len() } else { 0 });
                Rest {
                    records: records.to_vec(),
                    is_damaged: false,
                    behind,
                }
            }
            Self::Packed(mut stream) => {
                let mut records = Vec::new();
                let more = stream.decoder.by_ref().take(EXTENSION_BYTES);
                let is_damaged = { more }.read_to_end(&mut records).is_err();
                Rest {
                    behind: if is_damaged { &[] } else { stream.behind() },
                    records,
                    is_damaged,
                }
            }
        }
    }
}

/// Reader of gzip members: some programs cut one stream into several members.
struct Gunzip<'a> {
    decoder: GzDecoder<&'a [u8]>,
    file_bytes: usize,
    unpacked: usize,
}

impl<'a> Gunzip<'a> {
    /// Reads the next bytes; memory grows with the available bytes, not with the declared size.
    fn take(&mut self, count: usize, what: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(8 * self.file_bytes));
        let read = loop {
            let left = (count - bytes.len()) as u64;
            let read = self.decoder.by_ref().take(left).read_to_end(&mut bytes);
            // The member has no more bytes then, so its end can be checked.
            let is_short = read.is_ok() && bytes.len() < count;
            let next = if is_short { self.behind() } else { &[] };
            match next.starts_with(&GZIP) {
                true => self.decoder = GzDecoder::new(next),
                false => break read,
            }
        };
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

    /// Returns the file's bytes behind the member, if the member is unpacked to its end.
    fn behind(&mut self) -> &'a [u8] {
        match self.decoder.read(&mut [0]) {
            Ok(0) => self.decoder.get_ref(),
            _ => &[],
        }
    }
}

/// Reads version 4.
fn current<'a>(
    bytes: &'a [u8],
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<Part<'a>> {
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
    let (splats, metadata) = finish(
        &header,
        &planes,
        declared_axes(records),
        options,
        SplatMetadata::default(),
    );
    Ok((splats, metadata, bytes.get(at..).unwrap_or_default()))
}

/// Unpacks one Zstandard frame.
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

/// Returns the axes that the records of extensions declare: type, length, content, one after the other.
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
    mut metadata: SplatMetadata,
) -> (Splats, SplatMetadata) {
    if header.degree > MAX_SH_DEGREE {
        metadata.notes.push(cut_harmonics(header.degree));
    }
    metadata.antialiased = header.flags & ANTIALIASED != 0;
    metadata.axes = declared;
    let signs = declared.unwrap_or(options.undeclared_axes).signs();
    (decode(header, planes, &signs), metadata)
}
