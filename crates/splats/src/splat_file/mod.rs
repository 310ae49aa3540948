//! Reads and writes splat files. The content determines the format, or the name if the content has no signature.
//!
//! A format is one file of this folder and a row of [`Format`]: detection of its content, reader, writer, and limits.

mod antimatter;
mod axes;
mod checked;
mod described;
mod extras;
mod files;
mod foreign;
mod glb;
mod ksplat;
pub mod nearest;
mod options;
mod packed;
mod sizes;
mod sog;
mod spz;
mod streamed;
pub(crate) mod watch;
mod writing;

pub use axes::Axes;
pub use described::describes_splats;
pub use foreign::foreign;
pub use nearest::NearestBy;
pub(crate) use options::NON_FINITE_HINT;
pub use options::{NonFinite, ReadOptions, SpzVersion, WriteOptions};
pub(crate) use packed::{alpha, cut_harmonics, largest, linear_scale, logit, unit};
pub(crate) use sog::order_by_shells;
pub use writing::{encode, encode_files, write, write_with, write_with_progress};

use crate::Similarity;
use crate::mapped::with_bytes;
use crate::origin::Frame;
use crate::{Error, NoProgress, Progress, Result, Splats, ply};
use files::Files;
use glam::DVec3;
use std::io::{self, Write};
use std::path::Path;

/// Metadata of a splat file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplatMetadata {
    /// Up direction of the file's program, in the form that the exporters of Nerfstudio and Brush write into PLY: a
    /// header line `comment Vertical Axis: z`.
    pub up: Option<[f64; 3]>,
    /// True if the splats were trained with anti-aliasing and need it in rendering.
    pub antialiased: bool,
    /// Local origin of the positions, in their original frame; zero if positions are in that frame. PLY stores it in a
    /// line `comment Origin: x y z`. Positions in doubles, far from zero, are read relative to a computed origin: see
    /// [`crate::origin`].
    pub origin: DVec3,
    /// Motion of the splats since training, of coordinates relative to `origin`; cameras of the capture follow it
    /// ([`Similarity::camera`]). PLY stores it in a line `comment Moved: `, with [`Similarity::numbers`]; SOG and glTF
    /// in the `extras` of their `asset`.
    pub moved: Similarity,
    /// For point clouds: rounding remainders of positions, if the file has them in doubles; see
    /// [`crate::origin::remainder`].
    pub remainders: Vec<[f32; 3]>,
    /// Axes that the file declares; the splats that were read have Dapple's.
    pub axes: Option<Axes>,
    /// Notes for the user: values that were read with changes, ignored data, and suspicious data.
    pub notes: Vec<String>,
}

impl SplatMetadata {
    /// Place of the splats relative to the capture that they were trained on.
    pub fn frame(&self) -> Frame {
        Frame {
            origin: self.origin,
            moved: self.moved,
        }
    }
}

/// Format of splat files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// PLY with the columns of the 3DGS paper's code, and SuperSplat's compressed PLY when reading.
    Ply,
    /// SuperSplat's PLY of 16 bytes per Gaussian and one per coefficient.
    CompressedPly,
    /// 32 bytes per Gaussian, without view dependence: the format of the first web viewers (antimatter15).
    Splat,
    /// Niantic's packed format: versions 1 to 4 are read, 3 or 4 is written.
    Spz,
    /// PlayCanvas' textures in one archive.
    Sog,
    /// PlayCanvas' textures next to a `meta.json`, which is the path.
    SogFolder,
    /// PlayCanvas' textures in levels of detail, for viewers that load only the parts close to the camera. The path is
    /// a `lod-meta.json`, with folders of textures next to it. The finest level is read.
    StreamedSog,
    /// glTF as text with KHR_gaussian_splatting, with the numbers in files next to it or in the text: read only.
    Gltf,
    /// Binary glTF with KHR_gaussian_splatting.
    Glb,
    /// The buffers of mkkellogg's GaussianSplats3D, read only.
    Ksplat,
}

/// Properties of a format.
struct Known {
    /// File extension, without the dot.
    extension: &'static str,
    /// Highest degree of spherical harmonics in the format.
    max_sh_degree: u8,
    /// True if the format stores sizes, not their logarithms.
    linear_sizes: bool,
    /// Returns true if bytes are the beginning of such a file; always false if the format has no signature.
    is_content: fn(&[u8]) -> bool,
    read: Reader,
    write: Writer,
}

/// Reader of a format: returns the splats and their metadata.
type Reader = fn(&[u8], &ReadOptions, &dyn Progress) -> Result<(Splats, SplatMetadata)>;

/// Contents of files with their names.
type NamedFiles = Vec<(String, Vec<u8>)>;

/// Writer of a format.
enum Writer {
    /// Row by row.
    Rows(fn(&mut dyn Write, &Splats, &WriteOptions) -> io::Result<()>),
    /// In memory first: small files, and files that may be refused.
    Whole(fn(&Splats, &WriteOptions, &dyn Progress) -> Result<Vec<u8>>),
    /// Several files, by name; the last is the path itself. The second function returns true for entries of such a
    /// result.
    Folder(
        fn(&Splats, &WriteOptions, &dyn Progress) -> Result<NamedFiles>,
        fn(&Path) -> bool,
    ),
    /// The format is not written.
    None,
}

/// Number of Gaussians from which reading, and writing row by row, report progress.
const TOLD_ROWS: usize = 300_000;
pub(crate) const TOLD_READ: usize = 1_000_000;

/// Number of bytes that identify a format.
const TELLING_BYTES: usize = 16;

impl Format {
    /// All formats; a format whose extension ends in another format's extension comes before it.
    pub const ALL: [Self; 10] = [
        Self::CompressedPly,
        Self::Ply,
        Self::Splat,
        Self::Spz,
        Self::Sog,
        Self::SogFolder,
        Self::StreamedSog,
        Self::Gltf,
        Self::Glb,
        Self::Ksplat,
    ];

    fn known(self) -> Known {
        match self {
            Self::Ply => Known {
                extension: "ply",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: ply::is_content,
                read: ply::parse_all,
                write: Writer::Rows(ply::write_to),
            },
            // The PLY reader itself distinguishes the two layouts.
            Self::CompressedPly => Known {
                extension: "compressed.ply",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: |_| false,
                read: ply::parse_all,
                write: Writer::Rows(ply::write_compressed_to),
            },
            Self::Splat => Known {
                extension: "splat",
                max_sh_degree: 0,
                linear_sizes: true,
                is_content: |_| false,
                read: |bytes, options, _| antimatter::parse(bytes, options),
                write: Writer::Rows(|out, splats, _| antimatter::write_to(out, splats)),
            },
            Self::Spz => Known {
                extension: "spz",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: spz::is_content,
                read: spz::parse,
                write: Writer::Whole(spz::encode),
            },
            Self::Sog => Known {
                extension: "sog",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: sog::is_content,
                read: |bytes, _, progress| sog::parse(bytes, progress),
                write: Writer::Whole(sog::encode),
            },
            Self::SogFolder => Known {
                extension: sog::META,
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: |_| false,
                read: |bytes, _, _| sog::parse_meta_alone(bytes),
                write: Writer::Folder(sog::encode_files, sog::is_part),
            },
            Self::StreamedSog => Known {
                extension: streamed::META,
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: false,
                is_content: |_| false,
                read: |bytes, _, _| streamed::parse_meta_alone(bytes),
                write: Writer::Folder(streamed::encode_files, streamed::is_part),
            },
            Self::Gltf => Known {
                extension: "gltf",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: true,
                is_content: |_| false,
                read: |bytes, options, _| glb::parse(bytes, options),
                write: Writer::None,
            },
            Self::Glb => Known {
                extension: "glb",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: true,
                is_content: glb::is_content,
                read: |bytes, options, _| glb::parse(bytes, options),
                write: Writer::Whole(glb::encode),
            },
            Self::Ksplat => Known {
                extension: "ksplat",
                max_sh_degree: crate::MAX_SH_DEGREE,
                linear_sizes: true,
                is_content: |_| false,
                read: |bytes, options, _| ksplat::parse(bytes, options),
                write: Writer::None,
            },
        }
    }

    /// Returns the file extension, without the dot; `meta.json` and `lod-meta.json` are complete file names.
    pub fn extension(self) -> &'static str {
        self.known().extension
    }

    /// Returns the name of a file of this format: `stem` and the extension, unless the extension is a complete file
    /// name.
    pub fn file_name(self, stem: &str) -> String {
        match self.is_folder() {
            true => self.extension().to_owned(),
            false => format!("{stem}.{}", self.extension()),
        }
    }

    /// Returns true if the format consists of several files, of which the path is the one that names the others.
    pub fn is_folder(self) -> bool {
        matches!(self, Self::SogFolder | Self::StreamedSog)
    }

    /// Returns true if the format's files record the local origin of the positions ([`SplatMetadata::origin`]).
    pub fn holds_origin(self) -> bool {
        matches!(self, Self::Ply | Self::CompressedPly)
    }

    /// Returns true if its files record the motion of splats since training ([`SplatMetadata::moved`]).
    pub fn holds_motion(self) -> bool {
        !matches!(self, Self::Splat | Self::Spz | Self::Ksplat)
    }

    /// Returns true if the format can be written; all formats can be read.
    pub fn is_written(self) -> bool {
        !matches!(self.known().write, Writer::None)
    }

    /// Returns true if the format rounds numbers to few bits.
    pub fn is_lossy(self) -> bool {
        !matches!(self, Self::Ply | Self::Gltf | Self::Glb)
    }

    /// Returns true if the format stores sizes, which exceed the range of floats if logarithms exceed 88.
    fn has_linear_sizes(self) -> bool {
        self.known().linear_sizes
    }

    /// Returns the highest degree of spherical harmonics in the format; higher degrees are dropped.
    pub fn max_sh_degree(self) -> u8 {
        self.known().max_sh_degree
    }

    /// Returns the format for the name of a path.
    ///
    /// # Errors
    /// A name with another ending.
    pub fn of_name(path: &Path) -> Result<Self> {
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase());
        let named = |format: &Self| {
            let name = name.as_deref().unwrap_or_default();
            let rest = name.strip_suffix(format.extension());
            rest.is_some_and(|rest| match format.is_folder() {
                true => rest.is_empty(),
                false => rest.ends_with('.'),
            })
        };
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            Error::unsupported("no format of splats has a name that ends so")
                .at_path(path)
                .hint(format!("end the name in {}", Self::extensions()))
        })
    }

    /// Lists all extensions for messages: ".ply, .splat, .spz or .ksplat".
    pub fn extensions() -> String {
        listed(&Self::ALL)
    }

    /// Lists the extensions of the formats that can be written.
    pub fn written_extensions() -> String {
        let written: Vec<Self> = Self::ALL.into_iter().filter(|f| f.is_written()).collect();
        listed(&written)
    }
}

fn listed(formats: &[Format]) -> String {
    let ending = |format: &Format| format.file_name("");
    let all: Vec<String> = formats.iter().map(ending).collect();
    match all.split_last() {
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Reads splats and the metadata of their file. The content determines the format, or the name if the content has no
/// signature.
///
/// # Errors
/// A file that cannot be read, that is of no known format, or that violates its format; the error names the place.
pub fn read(path: &Path) -> Result<(Splats, SplatMetadata)> {
    read_with(path, &ReadOptions::default())
}

/// [`read`] with options.
///
/// # Errors
/// See [`read`].
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<(Splats, SplatMetadata)> {
    read_with_progress(path, options, &NoProgress)
}

/// [`read_with`] with progress reports for files that take about a second or more: PLY, SPZ and SOG.
///
/// # Errors
/// See [`read`].
pub fn read_with_progress(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    sizes::told(read_any(path, options, progress)?)
}

fn read_any(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    // JSON files are recognised by their content.
    let by_name = described::by_content(path).or(Format::of_name(path).ok());
    match by_name {
        Some(Format::SogFolder) => return sog::read_folder(path, progress),
        Some(Format::StreamedSog) => return streamed::read_folder(path, progress),
        _ => {}
    }
    let is_content = |bytes: &[u8], format: &Format| (format.known().is_content)(bytes);
    let by_content = |bytes: &[u8]| Format::ALL.into_iter().find(|f| is_content(bytes, f));
    // A file without a signature and with an unknown name is not read to its end, because a device file has none.
    let is_wanted = |bytes: &[u8]| by_content(bytes).or(by_name).is_some();
    with_bytes(path, TELLING_BYTES, is_wanted, |bytes| {
        // ZIP archives are used by other formats than SOG too.
        let is_told = matches!(by_content(bytes), None | Some(Format::Sog)) && by_name.is_none();
        let unknown = || is_told.then(|| foreign::by_name(path)).flatten();
        if let Some(error) = foreign::by_content(bytes).or_else(unknown) {
            return Err(error);
        }
        if bytes.is_empty() {
            return Err(Error::input("the file is empty")
                .hint("the program that wrote it did not finish, or the disk is full: write or copy it again"));
        }
        let Some(format) = by_content(bytes).or(by_name) else {
            return Err(Error::input(
                "this is no file of splats: neither its content nor its name is of a known format",
            )
            .hint(format!("name a file of splats: {}", Format::extensions())));
        };
        if matches!(format, Format::Gltf | Format::Glb) {
            let folder = files::Folder(path.parent().unwrap_or(Path::new("")));
            return glb::parse_beside(bytes, &folder, options);
        }
        (format.known().read)(bytes, options, progress)
    })
}

/// Reads splats from the bytes of a file of this format.
///
/// # Errors
/// Bytes that violate the format; the error names the place.
pub fn parse(bytes: &[u8], format: Format) -> Result<(Splats, SplatMetadata)> {
    parse_with(bytes, format, &ReadOptions::default())
}

/// [`parse`] with options.
///
/// # Errors
/// See [`parse`].
pub fn parse_with(
    bytes: &[u8],
    format: Format,
    options: &ReadOptions,
) -> Result<(Splats, SplatMetadata)> {
    sizes::told((format.known().read)(bytes, options, &NoProgress)?)
}

/// Reads splats from the files of a format that is a folder, in memory: by their names in it, as returned by
/// [`encode_files`].
///
/// # Errors
/// The errors of [`parse`]; a format that is one file.
pub fn parse_files(files: &[(String, Vec<u8>)], format: Format) -> Result<(Splats, SplatMetadata)> {
    let files = files::Memory(files);
    let meta = files.get(format.extension());
    let read = match format {
        Format::SogFolder => {
            let beside = files::SiblingFiles::new(&files, sog::META);
            sog::parse_beside(&meta?, &beside, &NoProgress)
        }
        Format::StreamedSog => streamed::parse_beside(&meta?, &files, &NoProgress),
        _ => Err(one_file(format)),
    };
    sizes::told(read?)
}

/// Returns the bytes of the file at `path`. For a SOG folder's `meta.json` or a `lod-meta.json`, adds the bytes of the
/// textures. 0 for a missing file.
pub fn size_bytes(path: &Path, format: Format) -> u64 {
    match format {
        Format::SogFolder => sog::size_bytes(path),
        Format::StreamedSog => streamed::size_bytes(path),
        _ => std::fs::metadata(path).map_or(0, |file| file.len()),
    }
}

fn one_file(format: Format) -> Error {
    let what = format!(".{} is one file, not several", format.extension());
    Error::unsupported(what).hint("choose meta.json or lod-meta.json")
}

#[cfg(test)]
mod tests;
