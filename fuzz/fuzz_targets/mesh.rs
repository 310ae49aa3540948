//! Mesh files: GLB and PLY by their first bytes, OBJ, and PLY with the counts of `synth --mesh`. Bytes that are not such a
//! file become the faces of an OBJ file with a few vertices.
#![no_main]

use dapple_mesh::files::{Drawable, read_counted_ply, read_obj};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Drawable::read(data));
    drop(read_counted_ply(data));
    drop(read_obj(data));
    let vertices = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nvt 0 0\nvn 0 0 1\nf ";
    drop(read_obj(&[vertices, data].concat()));
});
