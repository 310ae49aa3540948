//! Objects on and around the table: signed distances of simple shapes.
//!
//! A signed distance is the distance of a point from a surface, negative inside. It never overestimates here, so a ray
//! may always advance by it (sphere tracing, Hart 1996). Formulas: elementary geometry; see also Quilez's collection of
//! distance functions.

use glam::{Mat3A, Vec2, Vec3A};

/// A shape about its own origin, y up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Radius.
    Ball(f32),
    /// Half edge, including the edge radius `round`.
    Block { half: f32, round: f32 },
    /// Ring in the xz plane.
    Ring { major: f32, minor: f32 },
    /// Upright, rounded by `round`.
    Can {
        radius: f32,
        half_height: f32,
        round: f32,
    },
    /// A turned game piece, 1 high.
    Pawn,
    /// Half edges, sharp.
    Box(Vec3A),
    /// Octahedron with its corners `radius` away, stretched upwards by `1 / squash`.
    Gem { radius: f32, squash: f32 },
}

impl Shape {
    /// Returns the signed distance from the surface, or a lower bound of it.
    pub(super) fn distance(self, p: Vec3A) -> f32 {
        match self {
            Self::Ball(radius) => p.length() - radius,
            Self::Block { half, round } => {
                let q = p.abs() - Vec3A::splat(half - round);
                q.max(Vec3A::ZERO).length() + q.max_element().min(0.0) - round
            }
            Self::Box(half) => {
                let q = p.abs() - half;
                q.max(Vec3A::ZERO).length() + q.max_element().min(0.0)
            }
            Self::Ring { major, minor } => Vec2::new(around(p) - major, p.y).length() - minor,
            Self::Can {
                radius,
                half_height,
                round,
            } => {
                let q = Vec2::new(
                    around(p) - (radius - round),
                    p.y.abs() - (half_height - round),
                );
                q.max(Vec2::ZERO).length() + q.max_element().min(0.0) - round
            }
            Self::Pawn => pawn(p),
            Self::Gem { radius, squash } => {
                let q = Vec3A::new(p.x.abs(), p.y.abs() * squash, p.z.abs());
                // The gradient of the sum is sqrt(2 + squash^2) long.
                (q.x + q.y + q.z - radius) / (2.0 + squash * squash).sqrt()
            }
        }
    }

    /// Returns the radius of a ball about the origin that holds the shape.
    fn bound(self) -> f32 {
        match self {
            Self::Ball(radius) => radius,
            // sqrt(3), rounded up.
            Self::Block { half, .. } => 1.7321 * half,
            Self::Box(half) => half.length(),
            Self::Ring { major, minor } => major + minor,
            Self::Can {
                radius,
                half_height,
                ..
            } => radius.hypot(half_height),
            Self::Pawn => 0.62,
            Self::Gem { radius, squash } => radius / squash.min(1.0),
        }
    }
}

/// Returns the distance from the y axis. (`hypot` is exact for huge numbers too, and five times slower.)
pub(super) fn around(p: Vec3A) -> f32 {
    (p.x * p.x + p.z * p.z).sqrt()
}

/// Returns the distance of foot, body and head, blended into each other.
fn pawn(p: Vec3A) -> f32 {
    // Its foot is half a unit below the origin.
    let (r, y) = (around(p), p.y + 0.5);
    let foot = {
        let q = Vec2::new(r - 0.28, (y - 0.09).abs() - 0.05);
        q.max(Vec2::ZERO).length() + q.max_element().min(0.0) - 0.04
    };
    // A cone from radius 0.24 at the bottom to 0.09 at 0.68; the slope shortens its distance.
    let body = {
        let slope = (0.24 - 0.09) / 0.68;
        let side = (r - (0.24 - slope * y)) / (1.0f32 + slope * slope).sqrt();
        side.max(y - 0.68).max(-y)
    };
    let collar = Vec2::new(r - 0.13, y - 0.66).length() - 0.05;
    let head = Vec2::new(r, y - 0.83).length() - 0.17;
    blend(blend(blend(foot, body, 0.06), collar, 0.03), head, 0.03)
}

/// Computes the union of two shapes with a fillet of size `k`.
fn blend(a: f32, b: f32, k: f32) -> f32 {
    let h = (k - (a - b).abs()).max(0.0) / k;
    a.min(b) - h * h * k * 0.25
}

/// Paint of a surface.
#[derive(Debug, Clone, Copy)]
pub(super) enum Paint {
    BeachBall,
    Doughnut,
    Block,
    Wood,
    Spiral,
    Gem,
    /// Plain, glossy, linear colour.
    Pearl(Vec3A),
    /// Plain, linear colour.
    Matt(Vec3A),
    /// A house's walls and roof, a silo, a tree: [`field`](super::field).
    Boards {
        colour: Vec3A,
        half: f32,
    },
    Tiles(Vec3A),
    Sheet(Vec3A),
    Bark,
    Leaves(Vec3A),
    /// A house in a [`city`](super::city): colour of its walls, half edges, key of its windows.
    Facade {
        walls: Vec3A,
        half: [f32; 3],
        key: i32,
    },
}

/// A shape at a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    pub(super) centre: Vec3A,
    pub(super) object_from_scene: Mat3A,
    pub(super) shape: Shape,
    /// [`Shape::bound`], stored because every ray needs it.
    pub(super) bound: f32,
    pub(super) paint: Paint,
}

impl Object {
    pub(super) fn new(centre: [f32; 3], turn: Mat3A, shape: Shape, paint: Paint) -> Self {
        Self {
            centre: Vec3A::from(centre),
            object_from_scene: turn,
            shape,
            bound: shape.bound(),
            paint,
        }
    }

    /// Converts a scene point to the object's own coordinates.
    pub(super) fn local(&self, p: Vec3A) -> Vec3A {
        self.object_from_scene * (p - self.centre)
    }

    /// Returns the half edges, along the axes of the scene, of a box that holds the object.
    pub(super) fn half_edges(&self) -> Vec3A {
        let Shape::Box(half) = self.shape else {
            return Vec3A::splat(self.bound);
        };
        let axes = self.object_from_scene.transpose();
        axes.x_axis.abs() * half.x + axes.y_axis.abs() * half.y + axes.z_axis.abs() * half.z
    }

    /// Returns the signed distance of a scene point.
    pub(super) fn distance(&self, p: Vec3A) -> f32 {
        self.shape.distance(self.local(p))
    }

    /// Returns the outward unit normal: the gradient of the distance, from four points around (a tetrahedron needs
    /// fewer than six central differences).
    pub(super) fn normal(&self, p: Vec3A) -> Vec3A {
        const H: f32 = 4e-4;
        const CORNERS: [Vec3A; 4] = [
            Vec3A::new(1.0, -1.0, -1.0),
            Vec3A::new(-1.0, -1.0, 1.0),
            Vec3A::new(-1.0, 1.0, -1.0),
            Vec3A::new(1.0, 1.0, 1.0),
        ];
        let gradient: Vec3A = CORNERS.iter().map(|&c| c * self.distance(p + c * H)).sum();
        gradient.normalize_or(Vec3A::Y)
    }

    /// Returns the outward unit normal of a ball or box exactly; differences of distances are coarse far from the origin.
    /// `None` for other shapes.
    pub(super) fn exact_normal(&self, p: Vec3A) -> Option<Vec3A> {
        let local = self.local(p);
        let normal = match self.shape {
            Shape::Ball(_) => local.normalize_or(Vec3A::Y),
            Shape::Box(half) => {
                let q = local.abs() - half;
                let most = q.max_element();
                let axis = match (q.x == most, q.y == most) {
                    (true, _) => Vec3A::X,
                    (false, true) => Vec3A::Y,
                    (false, false) => Vec3A::Z,
                };
                axis * local.signum()
            }
            _ => return None,
        };
        Some(self.object_from_scene.transpose() * normal)
    }

    /// Returns the distance at which a ray from outside meets a box of these half edges.
    pub(super) fn meet_box(&self, half: Vec3A, origin: Vec3A, direction: Vec3A) -> Option<f32> {
        let from = self.local(origin);
        let along = self.object_from_scene * direction;
        // A direction of zero along an axis gives infinities, which the minimum and maximum drop.
        let (a, b) = ((-half - from) / along, (half - from) / along);
        let enter = a.min(b).max_element();
        let leave = a.max(b).min_element();
        (enter < leave && enter >= 0.0).then_some(enter)
    }

    /// Returns the distances at which a ray enters and exits the ball that holds the object.
    pub(super) fn bounds(
        &self,
        origin: Vec3A,
        direction: Vec3A,
        margin: f32,
    ) -> Option<(f32, f32)> {
        meet_ball(origin, direction, self.centre, self.bound + margin)
    }
}

/// Returns the distances at which a ray enters (0 from inside) and exits a ball.
pub(super) fn meet_ball(
    origin: Vec3A,
    direction: Vec3A,
    centre: Vec3A,
    radius: f32,
) -> Option<(f32, f32)> {
    let to_centre = centre - origin;
    let middle = to_centre.dot(direction);
    let half_squared = radius * radius - (to_centre - direction * middle).length_squared();
    if half_squared <= 0.0 {
        return None;
    }
    let half = half_squared.sqrt();
    (middle + half > 0.0).then_some(((middle - half).max(0.0), middle + half))
}

/// Returns all objects on the table, whose top is y = 0.
pub(super) fn objects() -> Vec<Object> {
    let about_y = Mat3A::from_rotation_y;
    let mut all = vec![
        Object::new(
            [-0.85, 0.62, 0.35],
            Mat3A::from_rotation_x(0.5) * Mat3A::from_rotation_z(0.45),
            Shape::Ball(0.62),
            Paint::BeachBall,
        ),
        Object::new(
            [0.62, 0.27, 1.0],
            about_y(0.4),
            Shape::Ring {
                major: 0.5,
                minor: 0.27,
            },
            Paint::Doughnut,
        ),
        Object::new(
            [0.95, 0.42, -0.55],
            about_y(0.5),
            Shape::Block {
                half: 0.42,
                round: 0.07,
            },
            Paint::Block,
        ),
        Object::new(
            [-0.1, 0.5, -1.05],
            Mat3A::IDENTITY,
            Shape::Pawn,
            Paint::Wood,
        ),
        Object::new(
            [-1.25, 0.45, -0.95],
            Mat3A::IDENTITY,
            Shape::Can {
                radius: 0.3,
                half_height: 0.45,
                round: 0.06,
            },
            Paint::Spiral,
        ),
        Object::new(
            [0.12, 0.46, 0.08],
            about_y(0.3),
            Shape::Gem {
                radius: 0.34,
                squash: 0.74,
            },
            Paint::Gem,
        ),
    ];
    let pearls = [
        ([-0.55, 1.35], [0.85, 0.25, 0.08]),
        ([-0.15, 1.62], [0.9, 0.62, 0.08]),
        ([1.55, 0.35], [0.08, 0.45, 0.3]),
        ([1.72, -0.1], [0.12, 0.2, 0.65]),
        ([0.45, -1.6], [0.6, 0.1, 0.35]),
        ([-1.75, 0.1], [0.8, 0.75, 0.65]),
    ];
    all.extend(pearls.map(|([x, z], colour)| {
        let paint = Paint::Pearl(Vec3A::from(colour));
        Object::new([x, 0.15, z], Mat3A::IDENTITY, Shape::Ball(0.15), paint)
    }));
    all
}
