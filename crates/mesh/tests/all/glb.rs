//! GLB files that are read.

use crate::shapes::textured;
use dapple_base::ErrorKind;
use dapple_mesh::Mesh;
use dapple_mesh::files::{About, Drawable, glb, jpeg, ply};
use glam::{DVec3, Vec3};

#[test]
fn glb_files_come_back_in_the_axes_of_the_capture() {
    let about = About {
        origin: DVec3::new(400_000.0, 5e6, 300.0),
        up: Some(Vec3::NEG_Y),
        voxel: 0.1,
    };
    let mesh = textured();
    let picture = jpeg(mesh.texture.as_ref().unwrap()).unwrap();
    let bytes = glb(&mesh, &about, Some((&picture, "image/jpeg"))).unwrap();
    let read = Drawable::read(&bytes).unwrap();
    assert_eq!((read.origin, read.mesh.triangles.len()), (about.origin, 4));
    assert_eq!(read.picture.as_ref().unwrap().bytes, picture);
    for (t, triangle) in read.mesh.triangles.iter().enumerate() {
        let places = mesh.texture.as_ref().unwrap().corners[t];
        for ((corner, place), &vertex) in mesh.corners(t).into_iter().zip(places).zip(triangle) {
            assert_eq!(read.mesh.positions[vertex as usize], corner);
            assert_eq!(read.places[vertex as usize], place);
        }
    }
    let coloured = Mesh {
        colours: vec![[10, 128, 255]; 4],
        texture: None,
        ..mesh
    };
    let read = Drawable::read(&glb(&coloured, &about, None).unwrap()).unwrap();
    assert!(read.picture.is_none() && read.places.is_empty());
    let near = |a: u8, b: u8| a.abs_diff(b) <= 3;
    let [r, g, b] = read.mesh.colours[0];
    assert!(near(r, 10) && near(g, 128) && near(b, 255), "{r} {g} {b}");
    let read = Drawable::read(&ply(&coloured, &about)).unwrap();
    assert_eq!(read.origin, about.origin);
    assert_eq!(
        (read.mesh.positions, read.mesh.colours),
        (coloured.positions, coloured.colours)
    );
}

#[test]
fn damaged_glb_files_are_errors() {
    let mesh = textured();
    let picture = jpeg(mesh.texture.as_ref().unwrap()).unwrap();
    let whole = glb(&mesh, &About::default(), Some((&picture, "image/jpeg"))).unwrap();
    for end in (0..whole.len()).step_by(7) {
        assert!(Drawable::read(&whole[..end]).is_err(), "cut at {end}");
    }
    // Bytes of the description and of the data, one after the other. An error or a mesh, never a panic.
    let mut errors = 0;
    for at in 0..whole.len() {
        for flip in [0x01, 0x10, 0x80] {
            let mut broken = whole.clone();
            broken[at] ^= flip;
            match Drawable::read(&broken) {
                Ok(Drawable { mesh, .. }) => assert!(
                    mesh.triangles
                        .as_flattened()
                        .iter()
                        .all(|&i| (i as usize) < mesh.positions.len())
                ),
                Err(error) => {
                    errors += 1;
                    assert!(
                        matches!(error.kind(), ErrorKind::Input | ErrorKind::Unsupported),
                        "{error}"
                    );
                }
            }
        }
    }
    assert!(errors > 100, "{errors}");
}
