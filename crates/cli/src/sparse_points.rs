//! Sparse points of a capture, with the renders that show them: panoramas have several renders.

use dapple::glam::Vec3;
use dapple::scene::undistort::pinhole_cameras;
use dapple::scene::{Dataset, Point};
use dapple_mesh::Pinhole;
use dapple_mesh::judge::SparsePoint;

/// Returns the cameras of all renders: one for each photo, or those of the faces of a panorama.
pub fn renders(dataset: &Dataset) -> Vec<Pinhole> {
    let views = dataset.views.iter();
    let cameras = views.flat_map(|view| pinhole_cameras(&view.camera));
    cameras.map(|camera| Pinhole::new(&camera)).collect()
}

/// Returns the sparse points with the renders that show them.
pub fn sparse_points(dataset: &Dataset, cameras: &[Pinhole]) -> Vec<SparsePoint> {
    let firsts = first_renders(dataset);
    let shown = |i: usize, point: &Point| match &dataset.tracks {
        Some(tracks) => {
            let photos = tracks.photos_of(i).iter();
            let render = |&photo| render_of(photo, &firsts, point, cameras);
            photos.filter_map(render).collect()
        }
        None => Vec::new(),
    };
    let points = dataset.points.iter().enumerate();
    points
        .map(|(i, point)| SparsePoint {
            position: Vec3::from(point.position),
            cameras: shown(i, point),
        })
        .collect()
}

/// Returns the number of the first render of each photo, and the number of all renders: a panorama has several.
pub fn first_renders(dataset: &Dataset) -> Vec<u32> {
    let mut next = 0;
    let counts = dataset
        .views
        .iter()
        .map(|view| pinhole_cameras(&view.camera).len());
    let mut firsts = vec![0];
    firsts.extend(counts.map(|count| {
        next += count as u32;
        next
    }));
    firsts
}

/// Returns the render of a photo that shows a point: of the faces of a panorama, the one that it is before.
fn render_of(photo: u32, firsts: &[u32], point: &Point, cameras: &[Pinhole]) -> Option<u32> {
    let (first, end) = (firsts.get(photo as usize)?, firsts.get(photo as usize + 1)?);
    let depth = |&render: &u32| {
        let camera = cameras.get(render as usize);
        camera.map_or(f32::MIN, |c| c.to_camera(point.position.into()).z)
    };
    (*first..*end).max_by(|a, b| depth(a).total_cmp(&depth(b)))
}
