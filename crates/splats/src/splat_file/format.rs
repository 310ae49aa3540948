//! The list of formats: a row of [`Format::known`] each.

use super::files::NamedFiles;
use super::{
    ReadOptions, SplatMetadata, WriteOptions, antimatter, glb, ksplat, sog, spz, streamed,
};
use crate::{Error, Progress, Result, Splats, ply};
use std::io::{self, Write};
use std::path::Path;

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
pub(super) struct Known {
    /// File extension, without the dot.
    pub(super) extension: &'static str,
    /// Highest degree of spherical harmonics in the format.
    pub(super) max_sh_degree: u8,
    /// True if the format stores sizes, not their logarithms.
    pub(super) linear_sizes: bool,
    /// Returns true if bytes are the beginning of such a file; always false if the format has no signature.
    pub(super) is_content: fn(&[u8]) -> bool,
    pub(super) read: Reader,
    pub(super) write: Writer,
}

impl Known {
    /// A format with view dependence of every degree and logarithms of sizes, without a signature: rows state what
    /// differs.
    fn new(extension: &'static str, read: Reader, write: Writer) -> Self {
        Self {
            extension,
            max_sh_degree: crate::MAX_SH_DEGREE,
            linear_sizes: false,
            is_content: |_| false,
            read,
            write,
        }
    }
}

/// Reads both forms of glTF.
fn read_gltf(
    bytes: &[u8],
    options: &ReadOptions,
    _progress: &dyn Progress,
) -> Result<(Splats, SplatMetadata)> {
    glb::parse(bytes, options)
}

/// Reader of a format: returns the splats and their metadata.
pub(super) type Reader = fn(&[u8], &ReadOptions, &dyn Progress) -> Result<(Splats, SplatMetadata)>;

/// Writer of a format.
pub(super) enum Writer {
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

    pub(super) fn known(self) -> Known {
        match self {
            Self::Ply => Known {
                is_content: ply::is_content,
                ..Known::new("ply", ply::parse_all, Writer::Rows(ply::write_to))
            },
            // The PLY reader itself distinguishes the two layouts.
            Self::CompressedPly => {
                let writer = Writer::Rows(ply::write_compressed_to);
                Known::new("compressed.ply", ply::parse_all, writer)
            }
            Self::Splat => Known {
                max_sh_degree: 0,
                linear_sizes: true,
                ..Known::new(
                    "splat",
                    |bytes, options, _| antimatter::parse(bytes, options),
                    Writer::Rows(|out, splats, _| antimatter::write_to(out, splats)),
                )
            },
            Self::Spz => Known {
                is_content: spz::is_content,
                ..Known::new("spz", spz::parse, Writer::Whole(spz::encode))
            },
            Self::Sog => Known {
                is_content: sog::is_content,
                ..Known::new(
                    "sog",
                    |bytes, _, progress| sog::parse(bytes, progress),
                    Writer::Whole(sog::encode),
                )
            },
            Self::SogFolder => Known::new(
                sog::META,
                |bytes, _, _| sog::parse_meta_alone(bytes),
                Writer::Folder(sog::encode_files, sog::is_part),
            ),
            Self::StreamedSog => Known::new(
                streamed::META,
                |bytes, _, _| streamed::parse_meta_alone(bytes),
                Writer::Folder(streamed::encode_files, streamed::is_part),
            ),
            Self::Gltf => Known {
                linear_sizes: true,
                ..Known::new("gltf", read_gltf, Writer::None)
            },
            Self::Glb => Known {
                linear_sizes: true,
                is_content: glb::is_content,
                ..Known::new("glb", read_gltf, Writer::Whole(glb::encode))
            },
            Self::Ksplat => Known {
                linear_sizes: true,
                ..Known::new(
                    "ksplat",
                    |bytes, options, _| ksplat::parse(bytes, options),
                    Writer::None,
                )
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
    pub(super) fn has_linear_sizes(self) -> bool {
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

pub(super) fn one_file(format: Format) -> Error {
    let what = format!(".{} is one file, not several", format.extension());
    Error::unsupported(what).hint("choose meta.json or lod-meta.json")
}
