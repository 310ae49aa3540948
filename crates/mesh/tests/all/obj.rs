//! OBJ files that are read.

use crate::shapes::textured;
use dapple_base::ErrorKind;
use dapple_mesh::Mesh;
use dapple_mesh::files::{About, Counted, Drawable, obj, read_obj};
use dapple_scene::Photo;
use glam::{DVec3, Vec2, Vec3};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns a textured tetrahedron with normals, as `dapple mesh` makes it.
fn with_normals() -> Mesh {
    let mut mesh = textured();
    mesh.compute_normals();
    mesh
}

/// Writes a file, and returns its path.
fn put(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// Writes a picture of one colour.
fn put_picture(folder: &TempDir, name: &str) {
    let path = put(folder, name, "");
    let photo = Photo::from_rgb(4, 4, vec![90; 48]);
    photo.write_png(&path).unwrap();
}

/// Returns the error of a file, which has a place and a hint.
#[track_caller]
fn error_of(path: &Path) -> String {
    let error = Drawable::open(path).unwrap_err();
    let is_expected = matches!(error.kind(), ErrorKind::Input | ErrorKind::Unsupported);
    assert!(is_expected, "{error}");
    assert!(
        error.place().is_some() && error.hint_text().is_some(),
        "{error}"
    );
    error.to_string()
}

#[test]
fn obj_files_of_dapple_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let about = About {
        origin: DVec3::new(400_000.0, 5e6, 300.5),
        up: Some(Vec3::NEG_Y),
        voxel: 0.1,
    };
    let mesh = with_normals();
    let (text, material) = obj(&mesh, &about, "name");
    let path = put(&folder, "name.obj", text);
    put(&folder, "name.mtl", material.unwrap());
    put_picture(&folder, "name.png");
    let read = Drawable::open(&path).unwrap();
    assert_eq!((read.origin, read.notes.len()), (about.origin, 0));
    assert_eq!(read.mesh.triangles.len(), 4);
    let picture = read.picture.as_ref().unwrap();
    assert!(picture.kind == "image/png" && picture.bytes.starts_with(b"\x89PNG"));
    for (t, triangle) in read.mesh.triangles.iter().enumerate() {
        let places = mesh.texture.as_ref().unwrap().corners[t];
        for ((corner, place), &vertex) in mesh.corners(t).into_iter().zip(places).zip(triangle) {
            assert_eq!(read.mesh.positions[vertex as usize], corner);
            assert!(read.places[vertex as usize].distance(place) < 1e-5);
        }
    }
    // A comparison reads the vertices as they are.
    let counted = Counted::open(&path).unwrap().mesh;
    assert_eq!(
        (counted.positions, counted.triangles),
        (mesh.positions.clone(), mesh.triangles.clone())
    );
    let coloured = Mesh {
        colours: vec![[10, 128, 255], [0, 1, 2], [254, 255, 3], [77, 78, 79]],
        texture: None,
        ..mesh
    };
    let path = put(&folder, "UPPER.OBJ", obj(&coloured, &about, "UPPER").0);
    let read = Drawable::open(&path).unwrap();
    assert!(read.picture.is_none() && read.places.is_empty());
    assert_eq!(read.mesh.triangles.len(), 4);
    for (triangle, wanted) in read.mesh.triangles.iter().zip(&coloured.triangles) {
        let read = triangle.map(|i| read.mesh.colours[i as usize]);
        assert_eq!(read, wanted.map(|i| coloured.colours[i as usize]));
    }
}

#[test]
fn obj_files_of_other_programs_are_read() {
    let text = "\u{feff}# cube.obj, C:\\folder\\\r\n\
                o thing\r\ng\r\ns off\r\n\
                v 0 0 0 1.0\r\nv 1 0 0 # the second\r\nv\t1  1 0\r\nv 0 1 0\r\n  v -1 0.5 0\r\n\
                vn 0 0 1\r\nvt 0.5\r\nvt 0.25 0.75 0\r\n\
                f 1//1 2//1 3//1 4//1 5//1\r\n\
                f -5/-2/-1 -4/2/1 \\\r\n -3/1\r\n\
                l 1 2\r\np 1\r\ncurv2 1 2 3\r\n";
    let mesh = read_obj(text.as_bytes()).unwrap();
    assert_eq!(mesh.positions.len(), 5);
    assert_eq!(mesh.positions[4], Vec3::new(-1.0, 0.5, 0.0));
    assert_eq!(mesh.triangles, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 2]]);
    assert!(mesh.colours.is_empty());
    // Vertices may come after their faces, and bytes of other encodings in comments.
    let late = b"# \xe9t\xe9\nf 1 2 3\nv 0 0 0\nv 1 0 0 255 128 0\nv 0 1 0 0 64 255 1\n";
    let mesh = read_obj(late).unwrap();
    assert_eq!(mesh.triangles, [[0, 1, 2]]);
    assert_eq!(mesh.colours, [[200; 3], [255, 128, 0], [0, 64, 255]]);
    // A file without faces is a set of points.
    let points = read_obj(b"v 1 2 3\nv 4 5 6").unwrap();
    assert_eq!((points.positions.len(), points.triangles.len()), (2, 0));
}

#[test]
fn materials_of_other_programs_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 0 1\n";
    let faces = "usemtl wood\nf 1/1 2/2 3/3\nusemtl the paint\nf 2 4 3\n";
    let mesh = format!("mtllib my materials.mtl\n{corners}{faces}");
    let path = put(&folder, "a.obj", &mesh);
    // Without the file, and with colours alone.
    let read = Drawable::open(&path).unwrap();
    assert!(read.picture.is_none() && read.mesh.colours.is_empty());
    assert!(
        read.notes[0].contains("my materials.mtl"),
        "{:?}",
        read.notes
    );
    let tints = "newmtl wood\nKd 1 0.5 0\nKd_unknown x\nnewmtl the paint\r\nKd 0 0 1\r\n";
    put(&folder, "my materials.mtl", tints);
    let read = Drawable::open(&path).unwrap();
    assert!(read.notes.is_empty() && read.places.is_empty());
    let colours = |t: usize| read.mesh.triangles[t].map(|i| read.mesh.colours[i as usize]);
    assert_eq!(colours(0), [[255, 128, 0]; 3]);
    assert_eq!(colours(1), [[0, 0, 255]; 3]);
    // A path of another machine, options, and a name with a space.
    let pictures = "newmtl wood\nmap_Kd -s 1 1 1 -clamp on C:\\work\\tex\\oak wood.png\n";
    put(&folder, "my materials.mtl", pictures);
    let read = Drawable::open(&path).unwrap();
    assert!(read.picture.is_none() && read.notes[0].contains("oak wood.png"));
    put_picture(&folder, "oak wood.png");
    let read = Drawable::open(&path).unwrap();
    assert!(read.picture.is_some() && read.notes.is_empty());
    let place = |t: usize, k: usize| read.places[read.mesh.triangles[t][k] as usize];
    assert_eq!((place(0, 1), place(0, 2)), (Vec2::ONE, Vec2::ZERO));
    // The face without places shares no vertex with the other.
    assert_eq!((read.mesh.positions.len(), place(1, 0)), (6, Vec2::ZERO));
    // In a folder below, and with a second texture.
    let two = "newmtl wood\nmap_Kd tex/a.png\nnewmtl the paint\nmap_Kd b.png\n";
    put(&folder, "my materials.mtl", two);
    put_picture(&folder, "tex/a.png");
    let read = Drawable::open(&path).unwrap();
    assert!(read.picture.is_some() && read.notes[0].contains("2 textures"));
}

#[test]
fn files_outside_the_folder_of_an_obj_file_are_not_read() {
    let outer = tempfile::tempdir().unwrap();
    put_picture(&outer, "secret.png");
    put(&outer, "above.mtl", "newmtl m\nKd 1 0 0\n");
    let secret = outer.path().join("secret.png");
    for (library, picture) in [
        ("own.mtl", "../secret.png"),
        ("own.mtl", secret.to_str().unwrap()),
        ("../above.mtl", "own.png"),
    ] {
        let text = format!(
            "mtllib {library}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nusemtl m\nf 1/1 2/1 3/1\n"
        );
        let path = put(&outer, "mesh/a.obj", text);
        put(
            &outer,
            "mesh/own.mtl",
            format!("newmtl m\nmap_Kd {picture}\n"),
        );
        let read = Drawable::open(&path).unwrap();
        assert!(
            read.picture.is_none() && read.mesh.colours.is_empty(),
            "{library} {picture}"
        );
        assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
    }
}

#[test]
fn damaged_obj_files_are_errors_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let three = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\n";
    let lines = [
        ("f 0 1 2", "line 5"),
        ("f -9 2 3", "line 5"),
        ("f 1/-2 2 3", "line 5"),
        ("f 1 2 4", "vertex 4, and the file has 3"),
        ("f 1/1 2/1 3/2", "texture place 2, and the file has 1"),
        ("f 1 2", "2 corners"),
        ("f", "0 corners"),
        ("f 1/1/1/1 2 3", "line 5"),
        ("f 1 2 /3", "line 5"),
        ("f 1 2 99999999999999999999", "line 5"),
        ("f 1 2 4294967296", "line 5"),
        ("f -9223372036854775808 1 2", "line 5"),
        ("f 1 2 x", "\"x\" is no corner"),
        ("f 1//x 2 3", "line 5"),
        ("v 0 0", "2 numbers"),
        ("v 0 0 0 1 1", "5 numbers"),
        ("v 0 0 0 1 1 x", "\"x\" is no number"),
        ("v 0 nan 0", "no finite position"),
        ("v 0 1e99 0", "no finite position"),
        ("vt", "no finite numbers"),
        ("vt 0 inf", "no finite numbers"),
        ("f 1 2 3 \\", "the file ends"),
    ];
    for (line, wanted) in lines {
        let path = put(&folder, "a.obj", format!("{three}{line}\n"));
        let error = error_of(&path);
        assert!(
            error.contains(wanted) && error.contains("a.obj"),
            "{line}: {error}"
        );
        assert!(Counted::open(&path).is_err(), "{line}");
    }
    for none in ["", "hello\n", "\0\0\0", "# v 0 0 0\n"] {
        let error = error_of(&put(&folder, "a.obj", none));
        assert!(error.contains("no OBJ file"), "{error}");
    }
    // The name decides, because the format has no signature.
    let error = error_of(&put(&folder, "a.txt", format!("{three}f 1 2 3\n")));
    assert!(error.contains("no PLY file"), "{error}");
}

#[test]
fn damaged_textures_and_materials_are_errors_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let text = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nusemtl m\nf 1/1 2/1 3/1\n";
    let path = put(&folder, "a.obj", text);
    put(&folder, "a.mtl", "newmtl m\nmap_Kd a.png\n");
    put(&folder, "a.png", "no picture");
    assert!(error_of(&path).contains("browsers do not show"));
    put_picture(&folder, "a.png");
    let picture = std::fs::read(folder.path().join("a.png")).unwrap();
    put(&folder, "a.png", &picture[..picture.len() / 2]);
    let error = error_of(&path);
    assert!(
        error.contains("cannot be decoded") && error.contains("a.png"),
        "{error}"
    );
    // Materials that are not understood have no colour and no picture.
    for line in [
        "Kd 1 1",
        "Kd spectral a.rfl",
        "map_Kd",
        "map_Kd -s 1 1 1",
        "map_Kd -o",
        "Kd",
    ] {
        put(
            &folder,
            "a.mtl",
            format!("map_Kd before.png\nnewmtl m\n{line}\n"),
        );
        let read = Drawable::open(&path).unwrap();
        assert!(
            read.picture.is_none() && read.mesh.colours.is_empty(),
            "{line}"
        );
    }
    put(&folder, "a.mtl", b"newmtl\n\xff\xfe\0\nnewmtl m\nKd 1 0 0");
    assert_eq!(
        Drawable::open(&path).unwrap().mesh.colours,
        [[255, 0, 0]; 3]
    );
}

#[test]
fn changed_bytes_of_obj_files_are_a_mesh_or_an_error() {
    let (whole, _) = obj(&with_normals(), &About::default(), "name");
    let whole = whole.into_bytes();
    let mut errors = 0;
    let mut try_out = |bytes: &[u8]| match read_obj(bytes) {
        Ok(mesh) => {
            let count = mesh.positions.len();
            let mut indices = mesh.triangles.as_flattened().iter();
            assert!(indices.all(|&i| (i as usize) < count));
        }
        Err(error) => {
            errors += 1;
            assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        }
    };
    for at in 0..whole.len() {
        try_out(&whole[..at]);
        for flip in [0x01, 0x10, 0x80] {
            let mut broken = whole.clone();
            broken[at] ^= flip;
            try_out(&broken);
        }
    }
    assert!(errors > 300, "{errors}");
}
