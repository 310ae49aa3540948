//! Edges and corners of solids with flat faces.

use crate::shapes::{Shape, Views, is_same_on_any_threads, options};
use dapple_base::{NoProgress, Result};
use dapple_mesh::files::{About, ply};
use dapple_mesh::judge::samples;
use dapple_mesh::surface::{drop_unseen, simplify};
use dapple_mesh::{DepthSource, DepthView, Mesh, Pinhole, Topology, fuse_views};
use dapple_scene::Camera;
use glam::{Mat3, Quat, Vec2, Vec3};

/// Voxels of all meshes, world units.
const VOXEL: f32 = 0.06;

/// Convex solid: unit normals that point outward, and distances of the faces from the origin.
struct Solid {
    faces: Vec<(Vec3, f32)>,
    cameras: Vec<Camera>,
    /// Standard deviation of the depths, world units.
    noise: f32,
}

impl Solid {
    /// Rotates the faces, so that no edge is along an axis of the voxels, and places cameras around the solid.
    fn new(faces: &[(Vec3, f32)], noise: f32) -> Self {
        let turn = Quat::from_euler(glam::EulerRot::XYZ, 0.4, 0.7, 0.3);
        Self {
            faces: faces
                .iter()
                .map(|&(n, d)| (turn * n.normalize(), d))
                .collect(),
            cameras: Views::around(Shape::Sphere, 40, 128).cameras,
            noise,
        }
    }

    fn cube(noise: f32) -> Self {
        let faces = [
            Vec3::X,
            Vec3::NEG_X,
            Vec3::Y,
            Vec3::NEG_Y,
            Vec3::Z,
            Vec3::NEG_Z,
        ];
        Self::new(&faces.map(|n| (n, 0.7)), noise)
    }

    /// Prism with angles of 50, 65 and 65 degrees.
    fn wedge(noise: f32) -> Self {
        let side = |degrees: f32| {
            let angle = degrees.to_radians();
            Vec3::new(angle.cos(), angle.sin(), 0.0)
        };
        let sides = [(side(65.0), 0.5), (side(-65.0), 0.5), (Vec3::NEG_X, 0.6)];
        let ends = [(Vec3::Z, 0.8), (Vec3::NEG_Z, 0.8)];
        Self::new(&[&sides[..], &ends].concat(), noise)
    }

    /// Plate with large faces at 0.3 from the origin.
    fn plate(noise: f32) -> Self {
        let half = Vec3::new(1.2, 1.2, 0.3);
        let faces = |axis: usize| {
            [
                (Vec3::AXES[axis], half[axis]),
                (-Vec3::AXES[axis], half[axis]),
            ]
        };
        Self::new(&[faces(0), faces(1), faces(2)].concat(), noise)
    }

    /// Returns the largest distance to a face: below zero inside, and exact near a face.
    fn signed(&self, p: Vec3) -> f32 {
        let all = self.faces.iter().map(|(n, d)| n.dot(p) - d);
        all.fold(f32::NEG_INFINITY, f32::max)
    }

    /// Returns the corners of the solid, each with the three faces that meet there.
    fn corners(&self) -> Vec<(Vec3, [usize; 3])> {
        let n = self.faces.len();
        let mut found = Vec::new();
        for i in 0..n {
            for j in i + 1..n {
                for k in j + 1..n {
                    let [a, b, c] = [i, j, k].map(|f| self.faces[f]);
                    let rows = Mat3::from_cols(a.0, b.0, c.0).transpose();
                    if rows.determinant().abs() < 1e-3 {
                        continue;
                    }
                    let p = rows.inverse() * Vec3::new(a.1, b.1, c.1);
                    if self.signed(p) < 1e-4 {
                        found.push((p, [i, j, k]));
                    }
                }
            }
        }
        found
    }

    /// Returns points on all edges, at least `margin` from the corners.
    fn edges(&self, margin: f32) -> Vec<Vec3> {
        let corners = self.corners();
        let mut points = Vec::new();
        for (i, (p, of_p)) in corners.iter().enumerate() {
            for (q, of_q) in &corners[i + 1..] {
                if of_p.iter().filter(|f| of_q.contains(f)).count() == 2 {
                    let cut = margin / p.distance(*q);
                    points.extend(
                        (0..40).map(|k| p.lerp(*q, cut + (1.0 - 2.0 * cut) * k as f32 / 39.0)),
                    );
                }
            }
        }
        points
    }
}

/// Returns a number of mean 0 and deviation 1, the same for the same seed.
fn normal(seed: u64) -> f32 {
    let mut sum = 0.0;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    for _ in 0..12 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        sum += (state >> 40) as f32 / (1u64 << 24) as f32;
    }
    sum - 6.0
}

impl DepthSource for Solid {
    fn cameras(&self) -> &[Camera] {
        &self.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let camera = Pinhole::new(&self.cameras[view]);
        let [width, height] = camera.size;
        let depth = |i: usize| {
            let (x, y) = (i % width, i / width);
            let ray =
                camera.rotation.transpose() * camera.ray(Vec2::new(x as f32 + 0.5, y as f32 + 0.5));
            let (mut near, mut far) = (0.0f32, f32::INFINITY);
            for (n, d) in &self.faces {
                let (speed, at) = (n.dot(ray), (d - n.dot(camera.centre)) / n.dot(ray));
                if speed < 0.0 {
                    near = near.max(at)
                } else {
                    far = far.min(at)
                }
            }
            let seed = (view * 1000 + y / 4) * 1000 + x / 4;
            if near < far {
                near + self.noise * normal(seed as u64)
            } else {
                0.0
            }
        };
        let depth: Vec<f32> = (0..width * height).map(depth).collect();
        Ok(DepthView {
            alpha: depth
                .iter()
                .map(|&z| f32::from(u8::from(z > 0.0)))
                .collect(),
            depth,
            normals: None,
        })
    }
}

/// Depths of a shape with noise.
struct Noisy(Views, f32);

impl DepthSource for Noisy {
    fn cameras(&self) -> &[Camera] {
        &self.0.cameras
    }

    fn depth(&mut self, view: usize) -> Result<DepthView> {
        let mut found = self.0.depth(view)?;
        let width = self.0.cameras[view].width as usize;
        for (i, z) in found
            .depth
            .iter_mut()
            .enumerate()
            .filter(|(_, z)| **z > 0.0)
        {
            let seed = (view * 1000 + i / width / 4) * 1000 + i % width / 4;
            *z += self.1 * normal(seed as u64);
        }
        Ok(found)
    }
}

/// Returns the distance of a point to a triangle.
fn distance_to(p: Vec3, [a, b, c]: [Vec3; 3]) -> f32 {
    let n = (b - a).cross(c - a);
    let inside = [(a, b), (b, c), (c, a)]
        .iter()
        .all(|(u, v)| (*v - *u).cross(p - *u).dot(n) >= 0.0);
    if inside && n.length_squared() > 0.0 {
        return (p - a).dot(n.normalize()).abs();
    }
    let to = |u: Vec3, v: Vec3| {
        let t = (p - u).dot(v - u) / (v - u).length_squared().max(1e-20);
        p.distance(u.lerp(v, t.clamp(0.0, 1.0)))
    };
    to(a, b).min(to(b, c)).min(to(c, a))
}

/// Returns the distances of points to a mesh, in voxels.
fn gaps(mesh: &Mesh, points: &[Vec3], voxel: f32) -> Vec<f32> {
    let near = |p: &Vec3| {
        (0..mesh.triangles.len())
            .map(|t| distance_to(*p, mesh.corners(t)) / voxel)
            .fold(f32::INFINITY, f32::min)
    };
    points.iter().map(near).collect()
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len() as f32
}

fn greatest(values: &[f32]) -> f32 {
    values.iter().copied().fold(0.0, f32::max)
}

/// Fuses depths with voxels of [`VOXEL`].
fn mesh_of(source: &mut dyn DepthSource) -> Mesh {
    let fused = fuse_views(source, &options(Some(VOXEL)), &NoProgress).unwrap();
    let cameras: Vec<Pinhole> = fused.maps.iter().map(|map| map.camera).collect();
    drop_unseen(&fused.mesh, &cameras).0
}

/// Returns the mean angle between the normals of triangles and these normals, degrees, and the mean of the absolute
/// distances, voxels. `truth` returns the normal and the distance of a place; `None` excludes the triangle.
fn roughness(mesh: &Mesh, truth: impl Fn(Vec3) -> Option<(Vec3, f32)>) -> [f32; 2] {
    let (mut turned, mut off, mut area) = (0.0, 0.0, 0.0);
    for t in 0..mesh.triangles.len() {
        let middle = mesh.corners(t).iter().sum::<Vec3>() / 3.0;
        let cross = mesh.cross(t);
        if let Some((normal, distance)) = truth(middle).filter(|_| cross.length() > 0.0) {
            turned += cross.length() * cross.angle_between(normal).to_degrees();
            off += cross.length() * distance.abs();
            area += cross.length();
        }
    }
    [turned / area, off / area / VOXEL]
}

/// Mean distances of the edges and of the corners to a mesh, voxels.
fn of_edges_and_corners(solid: &Solid, mesh: &Mesh) -> [f32; 2] {
    let corners: Vec<Vec3> = solid.corners().iter().map(|corner| corner.0).collect();
    [solid.edges(0.15), corners].map(|points| mean(&gaps(mesh, &points, VOXEL)))
}

#[test]
fn edges_of_exact_depths_are_within_a_quarter_of_a_voxel_and_corners_within_six_tenths() {
    for (name, mut solid) in [("cube", Solid::cube(0.0)), ("wedge", Solid::wedge(0.0))] {
        let mesh = mesh_of(&mut solid);
        let topology = Topology::from_mesh(&mesh);
        assert!(
            topology.is_manifold() && topology.boundary_edges == 0,
            "{name}: {topology:?}"
        );
        let simple = simplify(&mesh, 600, f32::INFINITY);
        for (step, mesh) in [("extracted", &mesh), ("simplified", &simple)] {
            let [edge, corner] = of_edges_and_corners(&solid, mesh);
            assert!(
                edge < 0.25 && corner < 0.6,
                "{name}, {step}: {edge} {corner}"
            );
            let off: Vec<f32> = samples(mesh, 20_000)
                .iter()
                .map(|s| solid.signed(s.0).abs() / VOXEL)
                .collect();
            let (mean, most) = (mean(&off), greatest(&off));
            assert!(mean < 0.13 && most < 1.0, "{name}, {step}: {mean} {most}");
        }
    }
}

#[test]
fn noise_of_half_a_voxel_becomes_no_edges() {
    let noise = 0.5 * VOXEL;
    let sphere = mesh_of(&mut Noisy(Views::around(Shape::Sphere, 40, 128), noise));
    let [turned, off] = roughness(&sphere, |p| Some((p, p.length() - 1.0)));
    assert!(
        turned < 5.6 && off < 0.07,
        "sphere: {turned} degrees, {off} voxels"
    );
    let mut plate = Solid::plate(noise);
    let mesh = mesh_of(&mut plate);
    let normal = plate.faces[4].0;
    let of_face = |p: Vec3| {
        let high = normal.dot(p);
        let is_inner = high > 0.0 && (p - normal * high).length() < 0.7;
        is_inner.then_some((normal, high - 0.3))
    };
    let [turned, off] = roughness(&mesh, of_face);
    assert!(
        turned < 5.6 && off < 0.06,
        "plane: {turned} degrees, {off} voxels"
    );
    let mut wedge = Solid::wedge(noise);
    let mesh = mesh_of(&mut wedge);
    let topology = Topology::from_mesh(&mesh);
    assert!(topology.is_manifold(), "{topology:?}");
    let [edge, corner] = of_edges_and_corners(&wedge, &mesh);
    assert!(edge < 0.4 && corner < 0.8, "{edge} {corner}");
}

#[test]
fn sharp_edges_have_the_same_bytes_on_one_two_and_eight_threads() {
    assert!(is_same_on_any_threads(|| {
        ply(&mesh_of(&mut Solid::wedge(0.5 * VOXEL)), &About::default())
    }));
}
