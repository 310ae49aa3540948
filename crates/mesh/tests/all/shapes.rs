//! Shapes whose depth along a ray is known.

use dapple_base::{NoProgress, Result};
use dapple_mesh::surface::drop_unseen;
use dapple_mesh::volume::PlanOptions;
use dapple_mesh::{DepthSource, DepthView, Fused, Mesh, PhotoSource, Pinhole, Texture, fuse_views};
use dapple_scene::{Camera, Photo, Pose};
use glam::{DVec3, Vec2, Vec3};
use std::sync::Arc;

/// A shape around the origin.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Sphere of radius 1.
    Sphere,
    /// Axis-aligned box of half sizes 0.9, 0.6 and 0.7.
    Cuboid,
}

const HALF: Vec3 = Vec3::new(0.9, 0.6, 0.7);

impl Shape {
    /// Returns the distance along a ray of unit direction.
    fn hit(self, from: Vec3, along: Vec3) -> Option<f32> {
        match self {
            Self::Sphere => {
                let b = from.dot(along);
                let root = b * b - (from.length_squared() - 1.0);
                (root > 0.0).then(|| -b - root.sqrt())
            }
            Self::Cuboid => {
                let (a, b) = ((-HALF - from) / along, (HALF - from) / along);
                let (near, far) = (a.min(b).max_element(), a.max(b).min_element());
                (near < far && near > 0.0).then_some(near)
            }
        }
    }

    /// Returns the distance of a point to the surface.
    pub fn distance(self, p: Vec3) -> f32 {
        match self {
            Self::Sphere => (p.length() - 1.0).abs(),
            Self::Cuboid => {
                let q = p.abs() - HALF;
                (q.max(Vec3::ZERO).length() + q.max_element().min(0.0)).abs()
            }
        }
    }

    /// Returns the colour of a point.
    pub fn colour(p: Vec3) -> Vec3 {
        Vec3::splat(128.0)
            + 100.0 * Vec3::new((3.0 * p.x).sin(), (2.0 * p.y).sin(), (2.5 * p.z).cos())
    }
}

/// Exact depths and photos of a shape.
pub struct Views {
    pub shape: Shape,
    pub cameras: Vec<Camera>,
}

impl Views {
    /// Places cameras on a sphere of radius 4.
    pub fn around(shape: Shape, count: usize, side: u32) -> Self {
        let camera = |i: usize| {
            let z = 1.0 - 2.0 * (i as f64 + 0.5) / count as f64;
            let angle = 2.399_963 * i as f64;
            let flat = (1.0 - z * z).sqrt();
            let eye = 4.0 * DVec3::new(flat * angle.cos(), flat * angle.sin(), z);
            let up = if z.abs() > 0.9 { DVec3::X } else { DVec3::Z };
            Camera::pinhole(
                side,
                side,
                1.4 * f64::from(side),
                Pose::look_at(eye, DVec3::ZERO, up),
            )
        };
        Self {
            shape,
            cameras: (0..count).map(camera).collect(),
        }
    }

    fn rays(camera: &Pinhole) -> impl Iterator<Item = Vec3> + '_ {
        let [width, height] = camera.size;
        (0..width * height).map(move |i| {
            camera.ray(Vec2::new(
                (i % width) as f32 + 0.5,
                (i / width) as f32 + 0.5,
            ))
        })
    }

    /// Returns the world points of the pixels of a camera.
    fn points(&self, camera: &Pinhole) -> Vec<Option<(Vec3, f32)>> {
        let point = |ray: Vec3| {
            let along = (camera.rotation.transpose() * ray).normalize();
            let distance = self.shape.hit(camera.centre, along)?;
            Some((camera.centre + along * distance, distance / ray.length()))
        };
        Self::rays(camera).map(point).collect()
    }

    /// Returns a photo of the shape in these colours, 0 to 255, on black.
    pub fn painted(&self, index: usize, colour: fn(Vec3) -> Vec3) -> (Camera, Photo) {
        let camera = self.cameras[index];
        let points = self.points(&Pinhole::new(&camera));
        let colour = |p: &Option<(Vec3, f32)>| p.map_or(Vec3::ZERO, |(p, _)| colour(p));
        let rgb = points.iter().flat_map(|p| colour(p).to_array());
        let rgb = rgb.map(|v| v.round() as u8).collect();
        (camera, Photo::from_rgb(camera.width, camera.height, rgb))
    }

    /// Fuses the views with default options and this voxel, and removes surfaces that no camera sees.
    pub fn mesh(&mut self, voxel: Option<f32>) -> Result<(Fused, Mesh)> {
        let fused = fuse_views(self, &options(voxel), &NoProgress)?;
        let cameras: Vec<Pinhole> = fused.maps.iter().map(|map| map.camera).collect();
        let (mut mesh, ..) = drop_unseen(&fused.mesh, &cameras);
        mesh.compute_normals();
        Ok((fused, mesh))
    }
}

/// Returns the default options.
pub fn options(voxel: Option<f32>) -> PlanOptions {
    PlanOptions {
        voxel,
        detail: 1.0,
        bounds: None,
        max_memory: 1 << 30,
        far: false,
    }
}

impl DepthSource for Views {
    fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let points = self.points(&Pinhole::new(&self.cameras[view]));
        Ok(DepthView {
            depth: points.iter().map(|p| p.map_or(0.0, |p| p.1)).collect(),
            alpha: points
                .iter()
                .map(|p| f32::from(u8::from(p.is_some())))
                .collect(),
            normals: None,
        })
    }
}

impl PhotoSource for Views {
    fn count(&self) -> usize {
        self.cameras.len()
    }

    fn photo(&self, index: usize) -> Result<(Camera, Arc<Photo>)> {
        let (camera, photo) = self.painted(index, Shape::colour);
        Ok((camera, Arc::new(photo)))
    }
}

/// Returns true if `bytes` gives the same on one, two and eight threads.
pub fn is_same_on_any_threads(bytes: impl Fn() -> Vec<u8> + Sync) -> bool {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(&bytes)
    };
    let one = on(1);
    one == on(2) && one == on(8)
}

/// Returns a textured tetrahedron.
pub fn textured() -> Mesh {
    let corners = [[0.1, 0.2], [0.9, 0.2], [0.5, 0.9]].map(Vec2::from);
    Mesh {
        positions: vec![Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::new(0.25, 0.5, 1.0)],
        triangles: vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]],
        texture: Some(Texture {
            size: [8, 8],
            rgb: (0..192).map(|i| i as u8).collect(),
            corners: vec![corners; 4],
        }),
        ..Mesh::default()
    }
}
