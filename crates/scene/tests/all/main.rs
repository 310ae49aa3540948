//! Integration tests of this crate as one program, because linking is most of the cost of each further program.

mod cameras_file;
mod colmap_parsers;
mod formats;
mod load_colmap;
mod load_real;
mod load_support;
mod load_transforms;
mod ply_compressed;
mod ply_format;
mod ply_other_tools;
mod ply_real;
mod ply_splat_transform;
mod pose_noise;
mod splat_transform;
mod synth_capture;
mod synth_splats;
