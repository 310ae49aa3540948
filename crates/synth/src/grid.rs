//! A grid over the ground with the objects near each square, so that a ray or a point tests few of many.

use super::shapes::Object;
use glam::{Vec2, Vec3A};

/// Objects by square. A square lists the objects within a margin around it.
#[derive(Debug)]
pub(super) struct Grid {
    /// Corner of the first square, x and z.
    corner: Vec2,
    /// Edge of a square, units.
    edge: f32,
    /// Squares along x and z.
    size: [usize; 2],
    /// First entry of each square in [`Self::listed`], and their number at the end.
    first: Vec<u32>,
    /// Numbers of objects, square after square, ascending in each.
    listed: Vec<u32>,
}

impl Grid {
    /// Lists `objects` in squares of this edge; `margin` is the distance up to which an object matters to a square.
    pub(super) fn new(objects: &[Object], edge: f32, margin: f32) -> Self {
        let flat = |p: Vec3A| Vec2::new(p.x, p.z);
        let reach = |object: &Object| flat(object.half_edges()) + margin;
        let low = |object: &Object| flat(object.centre) - reach(object);
        let high = |object: &Object| flat(object.centre) + reach(object);
        let corner = objects
            .iter()
            .map(low)
            .reduce(Vec2::min)
            .unwrap_or_default();
        let end = objects
            .iter()
            .map(high)
            .reduce(Vec2::max)
            .unwrap_or_default();
        let size = ((end - corner) / edge).ceil().max(Vec2::ONE);
        let size = [size.x as usize, size.y as usize];
        let mut by_square = vec![Vec::new(); size[0] * size[1]];
        for (number, object) in (0u32..).zip(objects) {
            let [from, to] = [low(object), high(object)].map(|p| (p - corner) / edge);
            let along = |from: f32, to: f32, count: usize| {
                (from.max(0.0) as usize)..=(to.max(0.0) as usize).min(count - 1)
            };
            for z in along(from.y, to.y, size[1]) {
                for x in along(from.x, to.x, size[0]) {
                    by_square[z * size[0] + x].push(number);
                }
            }
        }
        let mut first = vec![0];
        let mut listed = Vec::new();
        for square in by_square {
            listed.extend(square);
            first.push(listed.len() as u32);
        }
        Self {
            corner,
            edge,
            size,
            first,
            listed,
        }
    }

    fn square(&self, x: i32, z: i32) -> Option<&[u32]> {
        let inside = |at: i32, count: usize| usize::try_from(at).ok().filter(|at| *at < count);
        let (x, z) = (inside(x, self.size[0])?, inside(z, self.size[1])?);
        let at = z * self.size[0] + x;
        self.listed
            .get(self.first[at] as usize..self.first[at + 1] as usize)
    }

    /// Returns the objects of the square that a point is in.
    pub(super) fn at(&self, p: Vec3A) -> &[u32] {
        let place = ((Vec2::new(p.x, p.z) - self.corner) / self.edge).floor();
        self.square(place.x as i32, place.y as i32).unwrap_or(&[])
    }

    /// Passes the objects of the squares along a ray between two distances to `visit`, with the distance at which the
    /// ray enters the square, until `visit` returns false or the ray leaves the grid. An object may come several times.
    pub(super) fn walk(
        &self,
        (origin, direction): (Vec3A, Vec3A),
        [mut enter, mut leave]: [f32; 2],
        mut visit: impl FnMut(&[u32], f32) -> bool,
    ) {
        let from = (Vec2::new(origin.x, origin.z) - self.corner) / self.edge;
        let along = Vec2::new(direction.x, direction.z) / self.edge;
        let most = Vec2::new(self.size[0] as f32, self.size[1] as f32);
        // Distances at which the ray enters and leaves the whole grid.
        for axis in 0..2 {
            let (at, step) = (from[axis], along[axis]);
            if step == 0.0 {
                if !(0.0..most[axis]).contains(&at) {
                    return;
                }
                continue;
            }
            let (a, b) = (-at / step, (most[axis] - at) / step);
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        if enter >= leave {
            return;
        }
        let begin = (from + along * enter).clamp(Vec2::ZERO, most - 0.5);
        let mut square = [begin.x as i32, begin.y as i32];
        // Distance to the next border along each axis, and from one to the next.
        let border = |axis: usize, square: i32| {
            let ahead = if along[axis] > 0.0 {
                square + 1
            } else {
                square
            };
            match along[axis] == 0.0 {
                true => f32::INFINITY,
                false => (ahead as f32 - from[axis]) / along[axis],
            }
        };
        let mut entered = enter;
        while let Some(objects) = self.square(square[0], square[1]) {
            if !visit(objects, entered) {
                return;
            }
            let borders = [border(0, square[0]), border(1, square[1])];
            let axis = usize::from(borders[1] < borders[0]);
            if borders[axis] >= leave {
                return;
            }
            entered = borders[axis];
            square[axis] += if along[axis] > 0.0 { 1 } else { -1 };
        }
    }
}
