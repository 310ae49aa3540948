//! Colours and textures of shapes with known colours.

use crate::shapes::{Shape, Views};
use dapple_base::NoProgress;
use dapple_mesh::colour::{TextureOptions, Unseen, colour_vertices, texture};
use dapple_mesh::judge::score_photos;
use dapple_mesh::surface::simplify;

#[test]
fn vertices_have_the_colours_of_the_photos() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (fused, mut mesh) = views.mesh(None).unwrap();
    let voxel = fused.plan.grid.voxel;
    let seen = colour_vertices(&mut mesh, &views, &Unseen::new(None), voxel, &NoProgress).unwrap();
    assert!(seen > 0.999, "{seen}");
    let errors = mesh.positions.iter().zip(&mesh.colours).map(|(p, c)| {
        (0..3)
            .map(|k| (f32::from(c[k]) - Shape::colour(*p)[k]).abs())
            .fold(0.0, f32::max)
    });
    let mean = errors.sum::<f32>() / mesh.positions.len() as f32;
    assert!(mean < 3.0, "{mean}");
}

#[test]
fn a_texture_on_few_triangles_shows_the_photos() {
    let mut views = Views::around(Shape::Cuboid, 24, 128);
    let (fused, mesh) = views.mesh(None).unwrap();
    let voxel = fused.plan.grid.voxel;
    let mut mesh = simplify(&mesh, 1000, f32::INFINITY);
    mesh.compute_normals();
    let options = TextureOptions {
        most: 1024,
        texel: voxel / 3.0,
        tolerance: voxel,
    };
    let done = texture(&mut mesh, &views, &Unseen::new(None), &options, &NoProgress).unwrap();
    assert!(done.charts < 100 && done.seen > 0.98, "{done:?}");
    let corners = &mesh.texture.as_ref().unwrap().corners;
    assert!(
        corners
            .as_flattened()
            .iter()
            .all(|p| p.min_element() >= 0.0 && p.max_element() <= 1.0)
    );
    let scores = score_photos(&mesh, &views, &[0, 7, 13]).unwrap();
    for score in scores {
        assert!(score.psnr_covered > 30.0, "{score:?}");
    }
}
