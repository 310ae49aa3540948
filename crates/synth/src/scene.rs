//! The scene of a synthetic capture, and the light along a ray.
//!
//! 1. Table, floor and dome are intersected exactly. Each object is a signed-distance field that is marched only if the
//!    ray passes its bounding sphere.
//! 2. The nearest surface is lit by a sun with soft shadows, by the sky, which is a map for level surfaces, and by the
//!    lamp if it is lit. Some surfaces have highlights, which move with the viewer.
//!
//! Here y points up. The world of a capture has y down (COLMAP's usual convention), which is rotated by 180 degrees
//! about x: [`flip`].

use super::grid::Grid;
use super::kinds::SceneKind;
use super::light::Light;
use super::lightmap::LightMap;
use super::material::Material;
use super::paint;
use super::setting::{FLOOR, Setting, Site, TABLE_RADIUS};
use super::shapes::{self, Object, Shape, around, meet_ball};
use super::{city, field, plain};
use glam::Vec3A;

pub(super) const TABLE_THICKNESS: f32 = 0.16;
pub(super) const LEG_RADIUS: f32 = 0.3;

/// Distance below which a ray hits an object.
const NEAR_ENOUGH: f32 = 5e-5;
const MARCH_STEPS: usize = 96;

/// Distance of the start of shadow rays from their surface.
const LIFT: f32 = 2e-3;
/// Sharpness of shadows: the sun's disc covers `1 / SHADOW_SHARPNESS` radians.
const SHADOW_SHARPNESS: f32 = 14.0;
/// Extent of the penumbra around all objects: the width of the table at that sharpness.
const PENUMBRA: f32 = 2.0 * TABLE_RADIUS / SHADOW_SHARPNESS;

/// Converts between world coordinates (y down) and scene coordinates (y up).
pub(super) fn flip(p: Vec3A) -> Vec3A {
    Vec3A::new(p.x, -p.y, -p.z)
}

/// Edge of a square of a city's grids.
const SQUARE: f32 = 8.0;

/// Margin around the objects of a square for rays, and for [`Scene::openness`], which reaches less far.
const NEAR_MARGIN: f32 = 0.5;

/// Margin for soft shadows: what covers a part of the sun is not further from the ray, because nothing is higher than
/// [`city::HIGHEST`] and the lowest sun is 34 degrees above the horizon.
const SHADOW_MARGIN: f32 = 6.0;

/// Objects of a city by place.
#[derive(Debug)]
struct Grids {
    near: Grid,
    shadows: Grid,
}

impl Site {
    /// Returns all objects of the scene.
    pub(super) fn objects(self) -> Vec<Object> {
        match self.kind {
            SceneKind::Table | SceneKind::Gravel => shapes::objects(),
            SceneKind::Plain => plain::objects(),
            SceneKind::Field => field::objects(),
            SceneKind::City => city::objects(self.blocks),
        }
    }

    /// Returns the grids of a scene with many objects.
    fn grids(self, objects: &[Object]) -> Option<Grids> {
        (self.kind == SceneKind::City).then(|| Grids {
            near: Grid::new(objects, SQUARE, NEAR_MARGIN),
            shadows: Grid::new(objects, SQUARE, SHADOW_MARGIN),
        })
    }
}

/// Surface that a ray met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    Object(usize),
    Table,
    Leg,
    Floor,
    Dome,
}

/// Nearest surface along a ray.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// Distance along the ray, units.
    pub(super) distance: f32,
    surface: Surface,
}

impl Hit {
    /// Returns true for floor and landscape, which no object consists of.
    pub(super) fn is_surrounding(&self) -> bool {
        matches!(self.surface, Surface::Floor | Surface::Dome)
    }
}

/// The whole scene. All coordinates of its methods have y up.
#[derive(Debug)]
pub(super) struct Scene {
    site: Site,
    setting: Setting,
    objects: Vec<Object>,
    /// Objects by place; `None` in scenes with few, which every ray tests.
    grids: Option<Grids>,
    light: Light,
    /// Light on the top of the table and on the floor; `None` during their computation, and in scenes too large for
    /// them.
    maps: Option<[LightMap; 2]>,
}

impl Scene {
    pub(super) fn new(site: Site, light: Light) -> Self {
        let objects = site.objects();
        let mut scene = Self {
            site,
            setting: site.setting(),
            grids: site.grids(&objects),
            objects,
            light,
            maps: None,
        };
        let level = |height: f32| {
            let scene = &scene;
            move |x: f32, z: f32| scene.find_light(Vec3A::new(x, height, z), Vec3A::Y)
        };
        let maps = scene.setting.maps.map(|[table, floor]| {
            [
                LightMap::new(table, level(0.0)),
                LightMap::new(floor, level(FLOOR)),
            ]
        });
        scene.maps = maps;
        scene
    }

    /// Returns the scene with all objects tested for every ray.
    #[cfg(test)]
    pub(super) fn without_grid(self) -> Self {
        Self {
            grids: None,
            ..self
        }
    }

    /// Returns the nearest surface that a ray from inside the dome meets; `direction` is a unit vector.
    pub(super) fn hit(&self, origin: Vec3A, direction: Vec3A) -> Hit {
        let setting = &self.setting;
        let mut hit = Hit {
            distance: leave_ball(origin, direction, setting.dome),
            surface: Surface::Dome,
        };
        let mut offer = |distance: Option<f32>, surface| {
            if let Some(distance) = distance
                && distance < hit.distance
            {
                hit = Hit { distance, surface };
            }
        };
        offer(meet_plane(origin, direction, FLOOR), Surface::Floor);
        if setting.table {
            let top = meet_plane(origin, direction, 0.0).filter(|t| {
                let p = origin + direction * *t;
                around(p) <= TABLE_RADIUS
            });
            offer(top, Surface::Table);
            let wall = |radius, low, high| meet_wall(origin, direction, radius, low, high);
            offer(wall(TABLE_RADIUS, -TABLE_THICKNESS, 0.0), Surface::Table);
            offer(wall(LEG_RADIUS, FLOOR, -TABLE_THICKNESS), Surface::Leg);
        }
        let (centre, radius) = (setting.objects_centre, setting.objects_radius);
        let near = meet_ball(origin, direction, centre, radius);
        if near.is_none() {
            return hit;
        }
        match &self.grids {
            None => (0..self.objects.len())
                .for_each(|index| self.offer_object(index, origin, direction, &mut hit)),
            Some(grids) => grids.near.walk(
                (origin, direction),
                below_roofs(origin, direction),
                |near, entered| {
                    let is_ahead = entered < hit.distance;
                    if is_ahead {
                        near.iter().for_each(|&index| {
                            self.offer_object(index as usize, origin, direction, &mut hit);
                        });
                    }
                    is_ahead
                },
            ),
        }
        hit
    }

    /// Replaces a hit if a ray meets an object before it.
    fn offer_object(&self, index: usize, origin: Vec3A, direction: Vec3A, hit: &mut Hit) {
        let object = &self.objects[index];
        let Some((enter, leave)) = object.bounds(origin, direction, 0.0) else {
            return;
        };
        let leave = leave.min(hit.distance);
        let met = match object.shape {
            // A ball is its own bound.
            Shape::Ball(_) => (enter < leave).then_some(enter),
            Shape::Box(half) => {
                let met = object.meet_box(half, origin, direction);
                met.filter(|distance| *distance < hit.distance)
            }
            _ => march(object, origin, direction, enter, leave),
        };
        if let Some(distance) = met {
            *hit = Hit {
                distance,
                surface: Surface::Object(index),
            };
        }
    }

    /// Computes the light that reaches `origin` from the hit, linear.
    pub(super) fn light(&self, origin: Vec3A, direction: Vec3A, hit: Hit) -> Vec3A {
        let p = origin + direction * hit.distance;
        let normal = self.normal(p, hit);
        // Extent of a pixel on the surface, in photos about 1000 pixels wide.
        let footprint = hit.distance / (850.0 * normal.dot(direction).abs().max(0.02));
        let material = match hit.surface {
            Surface::Dome => return self.dome(p),
            Surface::Object(index) => {
                let object = &self.objects[index];
                paint::object(self.site.kind, object.paint, object.local(p), footprint)
            }
            Surface::Table | Surface::Leg => paint::table(self.site.kind, p, p.y > -1e-3),
            Surface::Floor => paint::floor(self.site, p, footprint),
        };
        let light = match (hit.surface, &self.maps) {
            (Surface::Table, Some([table, _])) if normal == Vec3A::Y => table.at(p.x, p.z),
            (Surface::Floor, Some([_, floor])) => floor.at(p.x, p.z),
            _ => self.find_light(p, normal),
        };
        let lit =
            self.shade(light, normal, direction, material) + self.lamplight(p, normal, material);
        if hit.surface != Surface::Floor {
            return lit;
        }
        // The floor fades into the landscape, so that there is no hard edge at the horizon.
        let [from, over] = self.setting.haze;
        let haze = ((around(p) - from) / over).clamp(0.0, 1.0);
        lit.lerp(self.dome(p), haze * haze)
    }

    /// Returns the landscape behind a point at the dome.
    fn dome(&self, p: Vec3A) -> Vec3A {
        paint::dome(self.site.kind, p / self.setting.dome)
    }

    /// Returns the unit normal, towards the origins of rays, of the surface that was hit at `p`.
    pub(super) fn normal(&self, p: Vec3A, hit: Hit) -> Vec3A {
        match hit.surface {
            Surface::Dome => -p.normalize_or(Vec3A::Y),
            Surface::Object(index) => {
                let object = &self.objects[index];
                let exact = object.exact_normal(p).filter(|_| self.grids.is_some());
                exact.unwrap_or_else(|| object.normal(p))
            }
            Surface::Table if p.y > -1e-3 => Vec3A::Y,
            Surface::Table | Surface::Leg => outward(p),
            Surface::Floor => Vec3A::Y,
        }
    }

    /// Computes [`Scene::light`] of the first hit of a ray.
    pub(super) fn look(&self, origin: Vec3A, direction: Vec3A) -> Vec3A {
        self.light(origin, direction, self.hit(origin, direction))
    }

    /// Computes the visible share of the sun's disc, and the openness to the sky.
    pub(super) fn find_light(&self, p: Vec3A, normal: Vec3A) -> [f32; 2] {
        let sunlight = if normal.dot(self.light.sun) > 0.0 {
            self.unshadowed(p + normal * LIFT, self.light.sun, f32::INFINITY)
        } else {
            0.0
        };
        [sunlight, self.openness(p, normal)]
    }

    /// Applies Lambert's law for sun and sky, and Phong's highlight; `light` is from [`Scene::find_light`].
    fn shade(
        &self,
        [sunlight, openness]: [f32; 2],
        normal: Vec3A,
        direction: Vec3A,
        material: Material,
    ) -> Vec3A {
        const SUN: Vec3A = Vec3A::new(1.0, 0.93, 0.8);
        const SKY: Vec3A = Vec3A::new(0.36, 0.42, 0.5);
        const GROUND: Vec3A = Vec3A::new(0.22, 0.18, 0.15);
        let facing = normal.dot(self.light.sun).max(0.0);
        let sky = GROUND.lerp(SKY, 0.5 + 0.5 * normal.y) * openness;
        let diffuse = material.albedo * (SUN * (facing * sunlight) + sky);
        if material.gloss == 0.0 {
            return diffuse;
        }
        let mirrored = direction - normal * (2.0 * direction.dot(normal));
        let highlight = mirrored
            .dot(self.light.sun)
            .max(0.0)
            .powf(material.shininess);
        // The sky is reflected a little too, more at a flat angle (Schlick 1994).
        let grazing = (1.0 + direction.dot(normal)).clamp(0.0, 1.0).powi(5);
        let sheen = SKY * (0.3 * material.gloss * grazing * (0.5 + 0.5 * mirrored.y));
        diffuse + SUN * (material.gloss * highlight * sunlight) + sheen
    }

    /// Computes the lamp's light on a surface, in all directions: Lambert's law.
    fn lamplight(&self, p: Vec3A, normal: Vec3A, material: Material) -> Vec3A {
        const COLOUR: Vec3A = Vec3A::new(1.0, 0.72, 0.42);
        if self.light.lamp == 0.0 {
            return Vec3A::ZERO;
        }
        let ([x, y, z], near) = self.setting.lamp;
        let way = Vec3A::new(x, y, z) - p;
        let far = way.length();
        let towards = way / far;
        let facing = normal.dot(towards);
        if facing <= 0.0 {
            return Vec3A::ZERO;
        }
        let light = facing * self.unshadowed(p + normal * LIFT, towards, far);
        // As bright as the sun at that distance.
        let falloff = near * near / (far * far + 0.02 * near * near);
        material.albedo * COLOUR * (self.light.lamp * light * falloff)
    }

    /// Returns the visible share of a disc, 0 to 1, at the distance `far` in a direction: the closest pass of the
    /// shadow ray by an object, as an angle. The disc is the sun's or the lamp's.
    fn unshadowed(&self, p: Vec3A, towards: Vec3A, far: f32) -> f32 {
        let setting = &self.setting;
        let mut light = 1.0f32;
        if setting.table && p.y < -TABLE_THICKNESS && towards.y > 0.0 {
            // The table below is a disc; its shadow is softened by distance.
            let t = -p.y / towards.y;
            let at = p + towards * t;
            let outside = around(at) - TABLE_RADIUS;
            light = (0.5 + outside * SHADOW_SHARPNESS / (2.0 * t)).clamp(0.0, 1.0);
        }
        let (centre, radius) = (setting.objects_centre, setting.objects_radius);
        if meet_ball(p, towards, centre, radius + PENUMBRA).is_none() {
            return smooth(light);
        }
        match &self.grids {
            None => {
                for object in &self.objects {
                    cover(object, p, towards, far, &mut light);
                }
            }
            Some(grids) => {
                // Nothing is higher than the highest house; a little above it, soft shadows end.
                let top = FLOOR + city::HIGHEST + SHADOW_MARGIN;
                let far = match towards.y > 0.0 {
                    true => far.min((top - p.y).max(0.0) / towards.y),
                    false => far,
                };
                grids
                    .shadows
                    .walk((p, towards), [0.0, far], |near, entered| {
                        for &index in near {
                            cover(&self.objects[index as usize], p, towards, far, &mut light);
                        }
                        entered < far && light >= 0.01
                    });
            }
        }
        smooth(light)
    }

    /// Returns the visibility of the sky at a point, 0 to 1, from the free distance along its normal.
    fn openness(&self, p: Vec3A, normal: Vec3A) -> f32 {
        const REACH: [(f32, f32); 2] = [(0.08, 1.6), (0.25, 0.9)];
        let setting = &self.setting;
        // Nothing casts shadows on floor and hills below the table.
        if p.y < setting.ground - 1.0 {
            return 1.0;
        }
        let covered: f32 = REACH
            .iter()
            .map(|&(reach, weight)| {
                let probe = p + normal * reach;
                let near =
                    (probe - setting.objects_centre).length() < setting.objects_radius + reach;
                let closer = |room: f32, object: &Object| {
                    let far = (probe - object.centre).length() - object.bound;
                    if far >= room {
                        room
                    } else {
                        room.min(object.distance(probe))
                    }
                };
                let room = match (near, &self.grids) {
                    (false, _) => reach,
                    (true, None) => self.objects.iter().fold(reach, closer),
                    (true, Some(grids)) => {
                        let objects = grids.near.at(probe).iter();
                        let objects = objects.map(|&index| &self.objects[index as usize]);
                        objects.fold(reach, closer)
                    }
                };
                // The ground occludes the lower half space.
                let height = p.y - setting.ground;
                let above = height >= -1e-3 && around(p) < setting.ground_radius;
                let room = if above {
                    room.min((probe.y - setting.ground).max(0.0))
                } else {
                    room
                };
                weight * (reach - room)
            })
            .sum();
        (1.0 - 1.6 * covered).clamp(0.25, 1.0)
    }
}

/// Returns the distances between which a ray is not above all objects of a city.
fn below_roofs(origin: Vec3A, direction: Vec3A) -> [f32; 2] {
    let above = FLOOR + city::HIGHEST - origin.y;
    let crossing = above / direction.y;
    match (direction.y < 0.0, above < 0.0) {
        (true, true) => [crossing, f32::INFINITY],
        (false, true) => [0.0, 0.0],
        (true, false) => [0.0, f32::INFINITY],
        // A level ray crosses at infinity.
        (false, false) => [0.0, crossing.abs()],
    }
}

/// Reduces `light`, the visible share of a disc in the direction `towards`, by what an object covers of it: see
/// [`Scene::unshadowed`].
fn cover(object: &Object, p: Vec3A, towards: Vec3A, far: f32, light: &mut f32) {
    // At a larger distance from the ray, the object covers nothing of the disc.
    let furthest = (object.centre - p).dot(towards) + object.bound;
    let penumbra = furthest.max(0.0) / SHADOW_SHARPNESS;
    let Some((enter, leave)) = object.bounds(p, towards, penumbra) else {
        return;
    };
    let leave = leave.min(far);
    if *light < 0.01 {
        *light = 0.0;
        return;
    }
    if let Shape::Ball(radius) = object.shape {
        // The closest point is where the ray passes the centre.
        let t = (object.centre - p).dot(towards).clamp(LIFT, far.max(LIFT));
        let distance = (p + towards * t - object.centre).length() - radius;
        *light = light.min(SHADOW_SHARPNESS * distance / t);
        return;
    }
    let mut t = enter.max(LIFT);
    for _ in 0..MARCH_STEPS {
        if t > leave || *light < 0.01 {
            break;
        }
        let distance = object.distance(p + towards * t);
        *light = light.min(SHADOW_SHARPNESS * distance / t);
        t += distance.max(0.05);
    }
}

/// Smooth step from 0 to 1 with level ends, like the area of a disc that an edge uncovers.
fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Returns the horizontal direction away from the y axis.
fn outward(p: Vec3A) -> Vec3A {
    Vec3A::new(p.x, 0.0, p.z).normalize_or(Vec3A::X)
}

/// Traces spheres between two distances.
fn march(object: &Object, origin: Vec3A, direction: Vec3A, enter: f32, leave: f32) -> Option<f32> {
    let mut t = enter;
    for _ in 0..MARCH_STEPS {
        if t >= leave {
            return None;
        }
        let distance = object.distance(origin + direction * t);
        if distance < NEAR_ENOUGH {
            return Some(t);
        }
        t += distance;
    }
    None
}

/// Returns the distance at which a ray from inside exits a ball about the origin.
fn leave_ball(origin: Vec3A, direction: Vec3A, radius: f32) -> f32 {
    let along = origin.dot(direction);
    let inside = radius * radius - origin.length_squared();
    -along + (along * along + inside).max(0.0).sqrt()
}

/// Returns the distance to the plane at a height, from above.
fn meet_plane(origin: Vec3A, direction: Vec3A, height: f32) -> Option<f32> {
    let t = (height - origin.y) / direction.y;
    (direction.y < 0.0 && t > 0.0).then_some(t)
}

/// Returns the distance to the outside of an upright cylinder about the y axis.
fn meet_wall(origin: Vec3A, direction: Vec3A, radius: f32, low: f32, high: f32) -> Option<f32> {
    let a = direction.x * direction.x + direction.z * direction.z;
    let b = origin.x * direction.x + origin.z * direction.z;
    let c = origin.x * origin.x + origin.z * origin.z - radius * radius;
    let root = b * b - a * c;
    if a <= 0.0 || root <= 0.0 {
        return None;
    }
    let t = (-b - root.sqrt()) / a;
    let y = origin.y + direction.y * t;
    (t > 0.0 && (low..=high).contains(&y)).then_some(t)
}
