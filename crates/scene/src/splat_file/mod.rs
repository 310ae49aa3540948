//! The one door for files of splats: what a file is says its content where it can, else its name.
//!
//! A format is a file beside this one and a row of [`Format`]: how its content is recognised, how it is read
//! and written, and what it cannot hold.

mod antimatter;
mod axes;
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
pub(crate) use packed::{alpha, cut_harmonics, largest, linear_scale, open_logit, unit};
pub(crate) use sog::order_by_shells;
pub use writing::{encode, encode_files, write, write_with, write_with_progress};

use crate::edit::Similarity;
use crate::mapped::with_bytes;
use crate::origin::Frame;
use crate::{Error, NoProgress, Progress, Result, Splats, ply};
use files::Files;
use glam::DVec3;
use std::io::{self, Write};
use std::path::Path;

/// What a file says beside its splats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aside {
    /// The direction that the file's program calls up, as the exporters of Nerfstudio and Brush write it into PLY: a
    /// header line `comment Vertical Axis: z`.
    pub up: Option<[f64; 3]>,
    /// Whether it was trained with anti-aliasing, and is to be drawn so.
    pub antialiased: bool,
    /// The local origin that positions count from, in the frame that they were made in; zero where that is the frame
    /// itself. PLY says it in a line `comment Origin: x y z`. Positions that a file has in doubles, far from zero, are
    /// read about an origin that is found for them: see [`crate::origin`].
    pub origin: DVec3,
    /// The motion of the splats since training, of coordinates that count from `origin`: cameras of the capture follow it
    /// ([`Similarity::camera`]). PLY says it in a line `comment Moved: `, with [`Similarity::numbers`]; SOG and glTF in
    /// the `extras` of their `asset`.
    pub moved: Similarity,
    /// Of point clouds: what positions lack as `f32`, where the file has them in doubles; see
    /// [`crate::Capture::remainders`].
    pub remainders: Vec<[f32; 3]>,
    /// The axes that the file declares; the splats that were read have Dapple's.
    pub axes: Option<Axes>,
    /// Remarks for the user: what was read otherwise than the file says, what is unread, what looks wrong.
    pub notes: Vec<String>,
}

impl Aside {
    /// Where the splats are beside the capture that they were trained on.
    pub fn frame(&self) -> Frame {
        Frame {
            origin: self.origin,
            moved: self.moved,
        }
    }
}

/// A format of files of splats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The layout of the first publication, and SuperSplat's compressed one when reading.
    Ply,
    /// SuperSplat's layout of 16 bytes a Gaussian and one a coefficient, a PLY file too.
    CompressedPly,
    /// 32 bytes a Gaussian, without view dependence: what web viewers began with (antimatter15).
    Splat,
    /// Niantic's packed format: versions 1 to 4 are read, 3 or 4 is written.
    Spz,
    /// PlayCanvas' textures in one archive.
    Sog,
    /// The same textures beside a `meta.json`, which is the path.
    SogFolder,
    /// The same in levels of detail, for viewers that load what they are near to: the path is a `lod-meta.json`, with
    /// folders of textures beside it. The finest level is read.
    StreamedSog,
    /// glTF as text with KHR_gaussian_splatting, its numbers in files next to it or in itself: read only.
    Gltf,
    /// Binary glTF with KHR_gaussian_splatting.
    Glb,
    /// The buffers of mkkellogg's GaussianSplats3D, read only.
    Ksplat,
}

/// What the door knows of a format.
struct Known {
    /// How its files' names end, without the dot.
    extension: &'static str,
    /// The degree of spherical harmonics that it holds at most.
    max_sh_degree: u8,
    /// Whether bytes are such a file's, from its beginning; never where nothing there tells.
    is_content: fn(&[u8]) -> bool,
    read: Reader,
    write: Writer,
}

/// How a format is read: the splats, and what is beside them.
type Reader = fn(&[u8], &ReadOptions, &dyn Progress) -> Result<(Splats, Aside)>;

/// Contents of files by their names.
type NamedFiles = Vec<(String, Vec<u8>)>;

/// How a format is written.
enum Writer {
    /// Row by row.
    Rows(fn(&mut dyn Write, &Splats, &WriteOptions) -> io::Result<()>),
    /// In memory first: small files, and what may be refused.
    Whole(fn(&Splats, &WriteOptions, &dyn Progress) -> Result<Vec<u8>>),
    /// Several files, by name; the last is the path itself.
    Folder(fn(&Splats, &WriteOptions, &dyn Progress) -> Result<NamedFiles>),
    /// It is not.
    None,
}

/// Gaussians from which writing row by row is watched, and reading.
const TOLD_ROWS: usize = 300_000;
pub(crate) const TOLD_READ: usize = 1_000_000;

/// Bytes that tell what a file is.
const TELLING_BYTES: usize = 16;

impl Format {
    /// All of them; those whose names end in another's name come before it.
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
                is_content: ply::is_content,
                read: ply::parse_all,
                write: Writer::Rows(ply::write_to),
            },
            // What is read as PLY says itself which of the two it is.
            Self::CompressedPly => Known {
                extension: "compressed.ply",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: |_| false,
                read: ply::parse_all,
                write: Writer::Rows(ply::write_compressed_to),
            },
            Self::Splat => Known {
                extension: "splat",
                max_sh_degree: 0,
                is_content: |_| false,
                read: |bytes, options, _| antimatter::parse(bytes, options),
                write: Writer::Rows(|out, splats, _| antimatter::write_to(out, splats)),
            },
            Self::Spz => Known {
                extension: "spz",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: spz::is_content,
                read: spz::parse,
                write: Writer::Whole(spz::encode),
            },
            Self::Sog => Known {
                extension: "sog",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: sog::is_content,
                read: |bytes, _, progress| sog::parse(bytes, progress),
                write: Writer::Whole(sog::encode),
            },
            Self::SogFolder => Known {
                extension: sog::META,
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: |_| false,
                read: |bytes, _, _| sog::parse_meta_alone(bytes),
                write: Writer::Folder(sog::encode_files),
            },
            Self::StreamedSog => Known {
                extension: streamed::META,
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: |_| false,
                read: |bytes, _, _| streamed::parse_meta_alone(bytes),
                write: Writer::Folder(streamed::encode_files),
            },
            Self::Gltf => Known {
                extension: "gltf",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: |_| false,
                read: |bytes, options, _| glb::parse(bytes, options),
                write: Writer::None,
            },
            Self::Glb => Known {
                extension: "glb",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: glb::is_content,
                read: |bytes, options, _| glb::parse(bytes, options),
                write: Writer::Whole(glb::encode),
            },
            Self::Ksplat => Known {
                extension: "ksplat",
                max_sh_degree: crate::MAX_SH_DEGREE,
                is_content: |_| false,
                read: |bytes, options, _| ksplat::parse(bytes, options),
                write: Writer::None,
            },
        }
    }

    /// How names of its files end, without the dot; `meta.json` and `lod-meta.json` are whole names.
    pub fn extension(self) -> &'static str {
        self.known().extension
    }

    /// The name of a file of this format: `stem` and the extension, where that is not a whole name.
    pub fn file_name(self, stem: &str) -> String {
        match self.is_folder() {
            true => self.extension().to_owned(),
            false => format!("{stem}.{}", self.extension()),
        }
    }

    /// Whether it is several files, of which the path names the one that says what the others are.
    pub fn is_folder(self) -> bool {
        matches!(self, Self::SogFolder | Self::StreamedSog)
    }

    /// Returns true if its files record the local origin that positions count from ([`Aside::origin`]).
    pub fn holds_origin(self) -> bool {
        matches!(self, Self::Ply | Self::CompressedPly)
    }

    /// Returns true if its files record the motion of splats since training ([`Aside::moved`]).
    pub fn holds_motion(self) -> bool {
        !matches!(self, Self::Splat | Self::Spz | Self::Ksplat)
    }

    /// Whether it can be written; all can be read.
    pub fn is_written(self) -> bool {
        !matches!(self.known().write, Writer::None)
    }

    /// Whether numbers of its files are rounded to few bits.
    pub fn is_lossy(self) -> bool {
        !matches!(self, Self::Ply | Self::Gltf | Self::Glb)
    }

    /// The degree of spherical harmonics that it holds at most; what is above is lost.
    pub fn max_sh_degree(self) -> u8 {
        self.known().max_sh_degree
    }

    /// The format that a path's name asks for.
    ///
    /// # Errors
    /// A name that ends otherwise.
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

    /// ".ply, .splat, .spz or .ksplat", for messages.
    pub fn extensions() -> String {
        listed(&Self::ALL)
    }

    /// The same of those that are written.
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

/// Reads splats, and what their file says beside them. What it is its content says; where that has no mark,
/// its name does.
///
/// # Errors
/// A file that cannot be read, that is of no known format, or is not what its format promises: with the place.
pub fn read(path: &Path) -> Result<(Splats, Aside)> {
    read_with(path, &ReadOptions::default())
}

/// [`read`], with what the file may leave open.
///
/// # Errors
/// As [`read`].
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<(Splats, Aside)> {
    read_with_progress(path, options, &NoProgress)
}

/// [`read_with`], which tells how far it is where it takes about a second or more: of PLY, SPZ and SOG.
///
/// # Errors
/// As [`read`].
pub fn read_with_progress(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    sizes::told(read_any(path, options, progress)?)
}

fn read_any(
    path: &Path,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<(Splats, Aside)> {
    // Files of JSON are told apart by their content.
    let by_name = described::by_content(path).or(Format::of_name(path).ok());
    match by_name {
        Some(Format::SogFolder) => return sog::read_folder(path, progress),
        Some(Format::StreamedSog) => return streamed::read_folder(path, progress),
        _ => {}
    }
    let is_content = |bytes: &[u8], format: &Format| (format.known().is_content)(bytes);
    let by_content = |bytes: &[u8]| Format::ALL.into_iter().find(|f| is_content(bytes, f));
    // What begins with no mark and has no known name need not be read to its end: a device has none.
    let is_wanted = |bytes: &[u8]| by_content(bytes).or(by_name).is_some();
    with_bytes(path, TELLING_BYTES, is_wanted, |bytes| {
        // ZIP archives are not only SOG's.
        let is_told = matches!(by_content(bytes), None | Some(Format::Sog)) && by_name.is_none();
        let unknown = || is_told.then(|| foreign::by_name(path)).flatten();
        if let Some(error) = foreign::by_content(bytes).or_else(unknown) {
            return Err(error);
        }
        if bytes.is_empty() {
            return Err(Error::input("the file is empty")
                .hint("the program that wrote it did not finish, or the disk is full: write or copy it again"));
        }
        // PLY has the words for a file that is none of them.
        let format = by_content(bytes).or(by_name).unwrap_or(Format::Ply);
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
/// Bytes that are not what the format promises: with the place.
pub fn parse(bytes: &[u8], format: Format) -> Result<(Splats, Aside)> {
    parse_with(bytes, format, &ReadOptions::default())
}

/// [`parse`], with what the file may leave open.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(bytes: &[u8], format: Format, options: &ReadOptions) -> Result<(Splats, Aside)> {
    sizes::told((format.known().read)(bytes, options, &NoProgress)?)
}

/// Reads splats from the files of a format that is a folder, in memory: by their names in it, as [`encode_files`]
/// gives them.
///
/// # Errors
/// As [`parse`]; a format that is one file.
pub fn parse_files(files: &[(String, Vec<u8>)], format: Format) -> Result<(Splats, Aside)> {
    let files = files::Memory(files);
    let meta = files.get(format.extension());
    let read = match format {
        Format::SogFolder => {
            let beside = files::Beside::new(&files, sog::META);
            sog::parse_beside(&meta?, &beside, &NoProgress)
        }
        Format::StreamedSog => streamed::parse_beside(&meta?, &files, &NoProgress),
        _ => Err(one_file(format)),
    };
    sizes::told(read?)
}

/// Bytes of the file at `path`, with those of the textures where a SOG folder's `meta.json` or a `lod-meta.json` is
/// named; 0 where there is none.
pub fn size_bytes(path: &Path, format: Format) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    match format {
        Format::SogFolder => {
            let textures = sog::TEXTURES
                .iter()
                .map(|name| size(&path.with_file_name(name)));
            size(path) + textures.sum::<u64>()
        }
        Format::StreamedSog => streamed::size_bytes(path),
        _ => size(path),
    }
}

fn one_file(format: Format) -> Error {
    let what = format!(".{} is one file, not several", format.extension());
    Error::unsupported(what).hint("choose meta.json or lod-meta.json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn every_format_is_listed_once_and_found_by_its_name() {
        for format in Format::ALL {
            let name = match format {
                Format::SogFolder => "a/meta.JSON".to_owned(),
                Format::StreamedSog => "a/LOD-meta.json".to_owned(),
                _ => format!("some.{}", format.extension().to_uppercase()),
            };
            assert_eq!(Format::of_name(Path::new(&name)).unwrap(), format);
        }
        let error = Format::of_name(Path::new("a.spl")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error
                .hint_text()
                .unwrap()
                .contains("meta.json, lod-meta.json, .gltf, .glb or .ksplat")
        );
    }

    #[test]
    fn content_counts_where_it_has_a_mark_and_the_name_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut splats = Splats::empty(1);
        splats.means.push([1.0, 2.0, 3.0]);
        splats.scales.push([0.0; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(0.0);
        splats.sh0.push([0.0; 3]);
        splats.sh_rest = vec![0.5; 9];
        let [a, b, c] = ["a.splat", "b.splat", "c"].map(|name| folder.path().join(name));
        write(&a, &splats, Format::Splat).unwrap();
        assert_eq!(std::fs::metadata(&a).unwrap().len(), 32);
        // View dependence is left out.
        assert_eq!(read(&a).unwrap().0.sh_degree, 0);
        // A PLY file under another name is one all the same.
        write(&b, &splats, Format::Ply).unwrap();
        assert_eq!(read(&b).unwrap().0.sh_rest, splats.sh_rest);
        // Without name and mark it is nothing.
        std::fs::copy(&a, &c).unwrap();
        assert!(read(&c).unwrap_err().place().is_some());
        splats.quats.pop();
        assert_eq!(
            write(&a, &splats, Format::Splat).unwrap_err().kind(),
            ErrorKind::Internal
        );
    }
}
