//! Colours and textures of shapes with known colours.

use crate::shapes::{Shape, Views};
use dapple_base::NoProgress;
use dapple_mesh::colour::{TextureOptions, Unseen, colour_vertices, sampled, texture};
use dapple_mesh::judge::{picture, score_photos};
use dapple_mesh::surface::simplify;
use dapple_mesh::{Mesh, PhotoSource, Pinhole};
use dapple_scene::{Camera, Photo, Pose};
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
    let scores = score_photos(&mesh, &views, &mut |_| Ok(None), &[0, 7, 13]).unwrap();
    assert!(
        scores.iter().all(|score| score.mesh.psnr > 22.0),
        "{scores:?}"
    );
    assert!(scores.iter().all(|score| score.splats.is_none()));
}

/// Splats whose renders are the photos with less light.
#[test]
fn another_exposure_costs_only_the_score_without_a_match() {
    let mut views = Views::around(Shape::Sphere, 24, 96);
    let (fused, mut mesh) = views.mesh(None).unwrap();
    let voxel = fused.plan.grid.voxel.into();
    colour_vertices(&mut mesh, &views, &Unseen::new(None), &voxel, &NoProgress).unwrap();
    let mut splats = |camera: &Camera| {
        let index = views.cameras.iter().position(|other| other == camera);
        let (_, photo) = views.photo(index.unwrap())?;
        let rgb = photo.rgb.iter().map(|&value| value / 5 * 4 + 10);
        Ok(Some(Photo::from_rgb(96, 96, rgb.collect())))
    };
    for score in score_photos(&mesh, &views, &mut splats, &[2, 11]).unwrap() {
        let splats = score.splats.unwrap();
        assert!(splats.psnr < 25.0 && splats.matched > 38.0, "{splats:?}");
        assert!(score.mesh.matched > score.mesh.psnr - 0.5, "{score:?}");
        assert!(score.covered > 0.1 && score.covered < 0.9, "{score:?}");
    }
}

/// Black and white stripes, a third of a pixel wide: a photo shows grey.
#[test]
fn a_pixel_is_the_mean_over_its_area() {
    let (pixels, columns) = (8, 24);
    let mut mesh = Mesh::default();
    for column in 0..columns {
        let first = mesh.positions.len() as u32;
        let [left, right] = [column, column + 1].map(|c| c as f32 / columns as f32 - 0.5);
        let corners = [[left, -0.5], [right, -0.5], [right, 0.5], [left, 0.5]];
        let at = |[x, y]: [f32; 2]| Vec3::new(x, y, 1.0);
        mesh.positions.extend(corners.map(at));
        mesh.colours.extend([[255 * (column % 2) as u8; 3]; 4]);
        let quad = [[0, 1, 2], [0, 2, 3]];
        mesh.triangles
            .extend(quad.map(|triangle: [u32; 3]| triangle.map(|i| first + i)));
    }
    let camera = Camera::pinhole(pixels, pixels, f64::from(pixels), Pose::IDENTITY);
    let (photo, covered) = picture(&mesh, &Pinhole::new(&camera), [0; 3]);
    assert!(covered.iter().all(|&is_covered| is_covered));
    assert!(
        photo.rgb.iter().all(|v| [85, 170].contains(v)),
        "{:?}",
        photo.rgb
    );
}
