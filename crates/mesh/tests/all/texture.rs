//! Colours and textures of shapes with known colours.

use crate::shapes::{Shape, Views};
use dapple_base::NoProgress;
use dapple_mesh::colour::{TextureOptions, Unseen, colour_vertices, sampled, texture};
use dapple_mesh::judge::score_photos;
use dapple_mesh::surface::simplify;
use dapple_scene::Photo;
use glam::{Vec2, Vec3};

#[test]
fn vertices_have_the_colours_of_the_photos() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (fused, mut mesh) = views.mesh(None).unwrap();
    let voxel = fused.plan.grid.voxel;
    let seen = colour_vertices(
        &mut mesh,
        &views,
        &Unseen::new(None),
        &voxel.into(),
        &NoProgress,
    )
    .unwrap();
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
        texel: (voxel / 3.0).into(),
        tolerance: voxel.into(),
    };
    let done = texture(&mut mesh, &views, &Unseen::new(None), &options, &NoProgress).unwrap();
    assert!(done.charts < 100 && done.seen > 0.98, "{done:?}");
    let page = mesh.texture.as_ref().unwrap();
    let corners = &page.corners;
    assert!(
        corners
            .as_flattened()
            .iter()
            .all(|p| p.min_element() >= 0.0 && p.max_element() <= 1.0)
    );
    let size = Vec2::new(page.size[0] as f32, page.size[1] as f32);
    let picture = Photo::from_rgb(page.size[0], page.size[1], page.rgb.clone());
    let error = |t: usize| {
        let middle = corners[t].iter().sum::<Vec2>() / 3.0;
        let place = mesh.corners(t).iter().sum::<Vec3>() / 3.0;
        let difference = sampled(&picture, middle * size) - Shape::colour(place);
        difference.abs().max_element()
    };
    let mean = (0..mesh.triangles.len()).map(error).sum::<f32>() / mesh.triangles.len() as f32;
    assert!(mean < 8.0, "{mean}");
    // Pixels at the silhouette show the background of the photo.
    let scores = score_photos(&mesh, &views, &[0, 7, 13]).unwrap();
    assert!(
        scores.iter().all(|score| score.psnr_covered > 22.0),
        "{scores:?}"
    );
}
