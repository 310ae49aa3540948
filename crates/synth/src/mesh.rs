//! The exact surface of a scene as triangles, with the number of cameras that see each part: truth for meshes.
//!
//! 1. Every vertex is exactly on the surface. Balls, cans, rings and pawns are profiles that turn about an axis, or
//!    cubes that are blown up. An edge of length h cuts off at most h^2 / 8 r of a surface of radius r.
//! 2. A camera sees a vertex if the vertex is in its frame, faces it, and the camera's ray meets nothing in front of
//!    it. A face has the least count of its corners, so that hidden faces (below the table, inside of others) have 0.
//! 3. The file is a binary PLY in the capture's world (y down): `x`, `y`, `z`, `seen` of vertices; `vertex_indices`,
//!    `seen` and `part` of faces ([`Part`]). Faces are counterclockwise from outside.

use super::SceneKind;
use super::cameras::project;
use super::photos::Eye;
use super::scene::{LEG_RADIUS, Scene, TABLE_THICKNESS, flip};
use super::setting::{FLOOR, Site, TABLE_RADIUS};
use super::shapes::{Object, Shape};
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Camera, Progress, Result};
use glam::{Vec2, Vec3A};
use rayon::prelude::*;
use std::f32::consts::{FRAC_PI_2, PI, TAU};
use std::path::Path;

/// Length of the edges of objects, units; farther away from the middle it grows by [`GROWTH`] of the distance.
const EDGE: f32 = 0.02;
const GROWTH: f32 = 0.006;

/// Length of the edges of a city's objects: houses are flat.
const CITY_EDGE: f32 = 0.25;

/// Length of the edges of level surfaces and of the landscape, and its growth.
const LEVEL_EDGE: f32 = 0.05;
const LEVEL_GROWTH: f32 = 0.02;

/// A ray that meets a surface at most this far in front of a vertex has reached the vertex, units and fraction of the
/// distance.
const REACHED: f32 = 2e-3;

/// Distance of points that are one, units.
const SLIVER: f32 = 1e-5;

/// Part of a scene that a face belongs to; the numbers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Things on the table, or houses and trees.
    Object = 0,
    /// Table and leg.
    Table = 1,
    /// Floor or meadow.
    Floor = 2,
    /// Landscape on the inside of a ball around everything.
    Dome = 3,
}

/// Triangles.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Mesh {
    /// Vertices in scene coordinates, y up.
    pub(super) vertices: Vec<Vec3A>,
    /// Corners and part of each face.
    pub(super) faces: Vec<([u32; 3], u8)>,
}

impl Mesh {
    /// Builds the surface of a scene.
    pub(super) fn from_scene(site: Site) -> Self {
        let setting = site.setting();
        let finest = match site.kind {
            SceneKind::City => CITY_EDGE,
            _ => EDGE,
        };
        let mut mesh = Self::default();
        for object in site.objects() {
            mesh.append(&of_object(&object, finest), Part::Object);
        }
        if setting.table {
            let edge = Vec2::new(TABLE_RADIUS, 0.0);
            let below = Vec2::new(TABLE_RADIUS, -TABLE_THICKNESS);
            let leg = [-TABLE_THICKNESS, FLOOR].map(|y| Vec2::new(LEG_RADIUS, y));
            for (from, to, radius) in [
                (Vec2::ZERO, edge, TABLE_RADIUS),
                (edge, below, TABLE_RADIUS),
                (leg[0], leg[1], LEG_RADIUS),
            ] {
                let around = (TAU * radius / EDGE) as u32;
                let profile = line(from, to, LEVEL_EDGE);
                mesh.append(&turned(&profile, around), Part::Table);
            }
        }
        // The floor ends where it meets the dome.
        let edge = (setting.dome * setting.dome - FLOOR * FLOOR).sqrt();
        mesh.append(&turned(&floor(edge), FLOOR_AROUND), Part::Floor);
        mesh.append(&turned(&dome(setting.dome, edge), FLOOR_AROUND), Part::Dome);
        mesh
    }

    fn append(&mut self, other: &Shell, part: Part) {
        let first = self.vertices.len() as u32;
        self.vertices.extend(&other.vertices);
        let faces = other.faces.iter();
        self.faces
            .extend(faces.map(|face| (face.map(|v| first + v), part as u8)));
    }

    /// Returns the sums of the areas of faces about each vertex, as vectors.
    fn normals(&self) -> Vec<Vec3A> {
        let mut normals = vec![Vec3A::ZERO; self.vertices.len()];
        for (corners, _) in &self.faces {
            let [a, b, c] = corners.map(|i| self.vertices[i as usize]);
            let normal = (b - a).cross(c - a);
            for &corner in corners {
                normals[corner as usize] += normal;
            }
        }
        normals
    }

    /// Counts the cameras that see each vertex: step 2.
    pub(super) fn seen(&self, scene: &Scene, cameras: &[Camera]) -> Vec<u16> {
        let eyes: Vec<(Eye, &Camera, f64)> = cameras
            .iter()
            .map(|camera| (Eye::new(camera), camera, camera.lens.max_radius()))
            .collect();
        let normals = self.normals();
        let vertices = self.vertices.par_iter().zip(&normals);
        let count = |(&vertex, &normal): (&Vec3A, &Vec3A)| {
            let sees = |(eye, camera, reach): &&(Eye, &Camera, f64)| {
                let way = vertex - eye.origin;
                if way.dot(normal) >= 0.0 {
                    return false;
                }
                let world = flip(vertex).as_dvec3();
                if project(camera, *reach, world).is_none() {
                    return false;
                }
                let far = way.length();
                let hit = scene.hit(eye.origin, way / far);
                hit.distance >= far - REACHED * far.max(1.0)
            };
            eyes.iter().filter(sees).count().min(u16::MAX.into()) as u16
        };
        vertices.map(count).collect()
    }

    /// Writes the file of step 3.
    pub(super) fn write(&self, seen: &[u16], path: &Path) -> Result<()> {
        let header = format!(
            "ply\nformat binary_little_endian 1.0\n\
             comment seen: number of cameras; part: 0 object, 1 table, 2 floor, 3 landscape\n\
             element vertex {}\nproperty float x\nproperty float y\nproperty float z\n\
             property ushort seen\n\
             element face {}\nproperty list uchar int vertex_indices\nproperty ushort seen\n\
             property uchar part\nend_header\n",
            self.vertices.len(),
            self.faces.len()
        );
        write_atomically(path, |file| {
            file.write_all(header.as_bytes())?;
            for (&vertex, count) in self.vertices.iter().zip(seen) {
                for number in flip(vertex).to_array() {
                    file.write_all(&number.to_le_bytes())?;
                }
                file.write_all(&count.to_le_bytes())?;
            }
            for (corners, part) in &self.faces {
                let least = corners.iter().map(|&i| seen[i as usize]).min();
                file.write_all(&[3])?;
                for corner in corners {
                    file.write_all(&corner.to_le_bytes())?;
                }
                file.write_all(&least.unwrap_or(0).to_le_bytes())?;
                file.write_all(&[*part])?;
            }
            Ok(())
        })
    }
}

/// Writes the surface of a scene with the cameras that see it.
pub(super) fn write(
    (site, scene): (Site, &Scene),
    cameras: &[Camera],
    path: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    progress.start("marking the surface that cameras see", 1);
    let mesh = Mesh::from_scene(site);
    let seen = mesh.seen(scene, cameras);
    progress.finish();
    mesh.write(&seen, path)
}

/// Triangles of one thing, scene coordinates.
#[derive(Debug, Clone, Default)]
struct Shell {
    vertices: Vec<Vec3A>,
    faces: Vec<[u32; 3]>,
}

impl Shell {
    /// Adds the two triangles of a square whose corners are counterclockwise from outside, without empty ones.
    fn square(&mut self, [a, b, c, d]: [u32; 4]) {
        for face in [[a, b, c], [a, c, d]] {
            let [p, q, r] = face.map(|i| self.vertices[i as usize]);
            if (q - p).cross(r - p).length_squared() > 0.0 {
                self.faces.push(face);
            }
        }
    }
}

/// Number of faces around floor and landscape.
const FLOOR_AROUND: u32 = 360;

/// Returns points on a line, both ends included.
fn line(from: Vec2, to: Vec2, edge: f32) -> Vec<Vec2> {
    let count = ((to - from).length() / edge).ceil().max(1.0) as u32;
    let point = |i| from.lerp(to, i as f32 / count as f32);
    (0..=count).map(point).collect()
}

/// Returns points on an arc about `centre`; angles from the radial axis upwards.
fn arc(centre: Vec2, radius: f32, [from, to]: [f32; 2], edge: f32) -> Vec<Vec2> {
    let count = (radius * (to - from).abs() / edge).ceil().max(2.0) as u32;
    let point = |i| {
        let angle = from + (to - from) * i as f32 / count as f32;
        centre + radius * Vec2::from_angle(angle)
    };
    (0..=count).map(point).collect()
}

/// Returns the profile of the floor: rings whose width grows.
fn floor(edge: f32) -> Vec<Vec2> {
    let mut radii = vec![0.0f32];
    while let Some(&last) = radii.last()
        && last < edge
    {
        radii.push((last + LEVEL_EDGE + LEVEL_GROWTH * last).min(edge));
    }
    radii.iter().map(|&r| Vec2::new(r, FLOOR)).collect()
}

/// Returns the profile of the landscape, from the floor up, so that its faces point inwards.
fn dome(radius: f32, edge: f32) -> Vec<Vec2> {
    let from = FLOOR.atan2(edge);
    arc(Vec2::ZERO, radius, [from, FRAC_PI_2], radius * LEVEL_GROWTH)
}

/// Turns a profile (distance from the axis, height) about the y axis. The outside is on the left of a profile that runs
/// downwards with the axis on its right.
fn turned(profile: &[Vec2], around: u32) -> Shell {
    let around = around.max(8);
    let mut shell = Shell::default();
    // Parts of a profile begin where the part before ends; slivers have no direction.
    let mut profile = profile.to_vec();
    profile.dedup_by(|next, point| next.distance(*point) < SLIVER);
    for point in &mut profile {
        // An arc that ends on the axis ends on one side of it.
        if point.x < SLIVER {
            point.x = 0.0;
        }
        for i in 0..around {
            let (z, x) = (TAU * i as f32 / around as f32).sin_cos();
            shell
                .vertices
                .push(Vec3A::new(x * point.x, point.y, z * point.x));
        }
    }
    for ring in 1..profile.len() as u32 {
        for i in 0..around {
            let next = (i + 1) % around;
            let (above, below) = ((ring - 1) * around, ring * around);
            shell.square([above + i, above + next, below + next, below + i]);
        }
    }
    shell
}

/// Builds a cube of edge 2, each face cut into `cuts` squares a side, and maps its points.
fn blown(cuts: u32, map: impl Fn(Vec3A) -> Vec3A) -> Shell {
    let mut shell = Shell::default();
    let axes = [Vec3A::X, Vec3A::Y, Vec3A::Z];
    for k in 0..3 {
        for side in [1.0f32, -1.0] {
            let (out, across) = (axes[k] * side, axes[(k + 1) % 3]);
            let up = out.cross(across);
            let first = shell.vertices.len() as u32;
            for j in 0..=cuts {
                for i in 0..=cuts {
                    // Angles are even, not places, so that faces of a ball have similar sizes.
                    let at = |n: u32| (FRAC_PI_2 * (n as f32 / cuts as f32 - 0.5)).tan();
                    let point = out + across * at(i) + up * at(j);
                    shell.vertices.push(map(point));
                }
            }
            for j in 0..cuts {
                for i in 0..cuts {
                    let at = first + j * (cuts + 1) + i;
                    shell.square([at, at + 1, at + cuts + 2, at + cuts + 1]);
                }
            }
        }
    }
    shell
}

/// Builds the surface of an object, with edges of at least `finest`.
fn of_object(object: &Object, finest: f32) -> Shell {
    let edge = finest.max(GROWTH * object.centre.length());
    let around = |radius: f32| (TAU * radius / edge).ceil() as u32;
    // Even, so that the edges of octahedra are edges of faces.
    let cuts = |radius: f32| 2 * (0.5 * FRAC_PI_2 * radius / edge).ceil().max(2.0) as u32;
    let mut shell = match object.shape {
        Shape::Ball(radius) => blown(cuts(radius), |p| p.normalize() * radius),
        Shape::Block { half, round } => blown(cuts(half), |p| {
            let outer = p * half;
            let inner = outer.clamp(Vec3A::splat(round - half), Vec3A::splat(half - round));
            inner + (outer - inner).normalize() * round
        }),
        Shape::Box(half) => blown(cuts(half.max_element()), |p| p * half),
        Shape::Gem { radius, squash } => blown(cuts(radius), |p| {
            // The octahedron in the same direction; its corners are those of the cube's faces.
            let p = octahedral(p) * radius;
            Vec3A::new(p.x, p.y / squash, p.z)
        }),
        Shape::Ring { major, minor } => {
            // Downwards on the outside.
            let circle = arc(Vec2::new(major, 0.0), minor, [PI, -PI], edge);
            turned(&circle, around(major + minor))
        }
        Shape::Can {
            radius,
            half_height,
            round,
        } => turned(&can(radius, half_height, round, edge), around(radius)),
        Shape::Pawn => turned(&pawn(object.shape, edge), around(0.32)),
    };
    let scene_from_object = object.object_from_scene.transpose();
    for vertex in &mut shell.vertices {
        *vertex = object.centre + scene_from_object * *vertex;
    }
    shell
}

/// Maps a point of the cube of edge 2 to the octahedron `|x| + |y| + |z| = 1`, along the line to the middle.
fn octahedral(p: Vec3A) -> Vec3A {
    p / (p.x.abs() + p.y.abs() + p.z.abs())
}

/// Returns the profile of a rounded can, downwards.
fn can(radius: f32, half_height: f32, round: f32, edge: f32) -> Vec<Vec2> {
    let (r, h) = (radius - round, half_height - round);
    let parts = [
        line(Vec2::new(0.0, half_height), Vec2::new(r, half_height), edge),
        arc(Vec2::new(r, h), round, [FRAC_PI_2, 0.0], edge),
        line(Vec2::new(radius, h), Vec2::new(radius, -h), edge),
        arc(Vec2::new(r, -h), round, [0.0, -FRAC_PI_2], edge),
        line(
            Vec2::new(r, -half_height),
            Vec2::new(0.0, -half_height),
            edge,
        ),
    ];
    parts.concat()
}

/// Returns the profile of a pawn, downwards: the contour of its distance in the plane of the axis, followed in small
/// steps from its top.
fn pawn(shape: Shape, edge: f32) -> Vec<Vec2> {
    const H: f32 = 1e-3;
    let distance = |p: Vec2| shape.distance(Vec3A::new(p.x.abs(), p.y, 0.0));
    let gradient = |p: Vec2| {
        let along = |by: Vec2| (distance(p + by) - distance(p - by)) / (2.0 * H);
        Vec2::new(along(Vec2::X * H), along(Vec2::Y * H))
    };
    let onto = |mut p: Vec2| {
        for _ in 0..8 {
            let slope = gradient(p);
            p -= slope * (distance(p) / slope.length_squared().max(0.25));
        }
        p
    };
    // The head is half a unit above the origin.
    let mut profile = vec![Vec2::new(0.0, onto(Vec2::new(0.0, 0.5)).y)];
    let step = 0.5 * edge;
    // The contour is about two units long.
    let most = (8.0 / step) as usize;
    while let Some(&last) = profile.last()
        && profile.len() < most
    {
        let outward = gradient(last).normalize_or(Vec2::Y);
        let next = onto(last + Vec2::new(outward.y, -outward.x) * step);
        if next.x <= 0.0 {
            profile.push(Vec2::new(0.0, next.y));
            break;
        }
        profile.push(next);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::super::light::Light;
    use super::super::{LensKind, SynthOptions, cameras};
    use super::*;

    #[test]
    fn vertices_are_on_the_surface_and_faces_look_outwards() {
        for kind in SceneKind::ALL {
            for object in Site::usual(kind).objects() {
                let shell = of_object(&object, EDGE.max(0.05 * object.bound));
                let size = object.bound;
                assert!(shell.faces.len() > 100, "{object:?}");
                for &vertex in &shell.vertices {
                    let off = object.distance(vertex).abs();
                    assert!(off < 5e-5 * size.max(1.0), "{off} from {:?}", object.shape);
                }
                for face in &shell.faces {
                    let [a, b, c] = face.map(|i| shell.vertices[i as usize]);
                    let (normal, middle) = ((b - a).cross(c - a).normalize(), (a + b + c) / 3.0);
                    // Middles of faces are in the object. A step outwards ends outside.
                    let off = object.distance(middle + normal * 0.05 * size);
                    assert!(off > 0.0, "{:?}: {off} at {middle}", object.shape);
                }
            }
        }
    }

    #[test]
    fn closed_objects_have_the_volume_of_their_shape() {
        let volume = |shell: &Shell| -> f32 {
            let six = shell.faces.iter().map(|face| {
                let [a, b, c] = face.map(|i| shell.vertices[i as usize]);
                a.dot(b.cross(c))
            });
            six.sum::<f32>() / 6.0
        };
        for object in Site::usual(SceneKind::Table).objects() {
            let about = Object {
                centre: Vec3A::ZERO,
                ..object
            };
            let found = volume(&of_object(&about, EDGE));
            let expected = match object.shape {
                Shape::Ball(r) => 4.0 / 3.0 * PI * r * r * r,
                Shape::Ring { major, minor } => TAU * major * PI * minor * minor,
                Shape::Gem { radius, squash } => 4.0 / 3.0 * radius.powi(3) / squash,
                _ => continue,
            };
            assert!(
                (found / expected - 1.0).abs() < 1e-2,
                "{found}, not {expected}"
            );
        }
    }

    #[test]
    fn cameras_see_what_is_up_and_nothing_below() {
        let options = SynthOptions {
            photos: 6,
            ..SynthOptions::default()
        };
        let site = Site::usual(SceneKind::Table);
        let scene = Scene::new(site, Light::default());
        let mesh = Mesh::from_scene(site);
        let seen = mesh.seen(&scene, &cameras::cameras(&options, LensKind::Pinhole));
        let under = |v: &Vec3A| v.y < -0.01 && v.y > FLOOR + 0.01 && v.length() < 2.2;
        let count = |what: &dyn Fn(&Vec3A) -> bool| {
            let rows = mesh.vertices.iter().zip(&seen).filter(|(v, _)| what(v));
            let (all, some) = rows.fold((0, 0), |(all, some), (_, &n)| {
                (all + 1, some + i32::from(n > 0))
            });
            f64::from(some) / f64::from(all.max(1))
        };
        assert!(count(&|v| v.y > 0.2 && v.length() < 2.3) > 0.8);
        assert!(count(&under) < 0.3, "{}", count(&under));
        assert!(seen.iter().all(|&n| n <= 6));
    }
}
