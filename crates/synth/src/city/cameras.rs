//! Cameras of a city: in its streets and above its roofs.

use super::super::random::Random;
use super::super::setting::FLOOR;
use super::{PITCH, extent};
use dapple_scene::Pose;
use glam::DVec3;

/// Height of the lowest camera of the survey above the ground; others are up to a quarter higher.
const SURVEY: f64 = 58.0;

/// Returns the pose of camera `i` of `count`. Cameras in the streets and above the roofs take turns, and their order
/// changes at every eighth photo, so that held-out photos are of both.
///
/// 1. In the streets: one path over all streets, at the height of eyes or of a car's roof, looking ahead or to a side.
/// 2. Above: rows of a survey, looking down or at an angle to one of four sides.
pub(crate) fn pose(blocks: u32, (i, count): (usize, usize), mut random: Random) -> Pose {
    let above_at = |k: usize| (k + k / 8).is_multiple_of(2);
    let is_above = above_at(i);
    // Cameras of the same kind before this one, and all of them. Four of eight are above.
    let same = |end: usize| {
        let whole = end / 8 * 8;
        whole / 2 + (whole..end).filter(|&k| above_at(k) == is_above).count()
    };
    let part = (same(i) as f64 + 0.5) / same(count).max(1) as f64;
    let (eye, target) = match is_above {
        true => above(blocks, part, (same(i), same(count)), &mut random),
        false => in_street(blocks, part, &mut random),
    };
    // World y points down, and z is that of scenes turned round.
    let world = |p: DVec3| DVec3::new(p.x, -p.y, -p.z);
    Pose::look_at(world(eye), world(target), DVec3::NEG_Y)
}

fn in_street(blocks: u32, part: f64, random: &mut Random) -> (DVec3, DVec3) {
    let [low, high] = extent(blocks).map(f64::from);
    let streets = f64::from(blocks) + 1.0;
    let at = part * 2.0 * streets;
    let (number, along) = (at.floor(), at.fract());
    // Every second street is passed the other way.
    let forward = (number as u32).is_multiple_of(2);
    let along = if forward { along } else { 1.0 - along };
    let place = low + (high - low) * along;
    // Near the end of a street, back: at two blocks from it, or a fifth of the street if that is more.
    let beyond = place - 0.5 * (low + high);
    let left = 0.5 * (high - low) - beyond.abs();
    let turns_back = left < (2.0 * f64::from(PITCH)).max(0.2 * (high - low));
    let ahead = match (turns_back, forward) {
        (true, _) => -beyond.signum(),
        (false, true) => 1.0,
        (false, false) => -1.0,
    };
    // Ahead, or to a side; in the outer streets to the side of the city, a little even ahead.
    let street = number % streets;
    let inward = match (street < 0.5, street > streets - 1.5) {
        (true, _) => Some(1.0),
        (_, true) => Some(-1.0),
        _ => None,
    };
    let side = if random.unit() < 0.5 { 1.0 } else { -1.0 };
    let turned = random.uniform(0.5, 1.2) * inward.unwrap_or(side);
    let is_turned = random.unit() < 0.67;
    let straight = inward.map_or(0.0, |side| 0.3 * side);
    let turn = if is_turned { turned } else { straight } + random.uniform(-0.1, 0.1);
    let off = low + f64::from(PITCH) * street + random.uniform(-1.2, 1.2);
    let height = f64::from(FLOOR) + random.uniform(1.7, 3.0);
    let (sin, cos) = turn.sin_cos();
    let rise = random.uniform(0.0, 0.3);
    let (direction, eye) = match number < streets {
        true => (
            DVec3::new(sin, rise, ahead * cos),
            DVec3::new(off, height, place),
        ),
        false => (
            DVec3::new(ahead * cos, rise, sin),
            DVec3::new(place, height, off),
        ),
    };
    (eye, eye + direction)
}

fn above(
    blocks: u32,
    part: f64,
    (number, count): (usize, usize),
    random: &mut Random,
) -> (DVec3, DVec3) {
    let [low, high] = extent(blocks).map(f64::from);
    let rows = (count as f64).sqrt().round().max(1.0);
    let at = part * rows;
    let along = match (at.floor() as u32).is_multiple_of(2) {
        true => at.fract(),
        false => 1.0 - at.fract(),
    };
    let place = |t: f64| low + (high - low) * t;
    let eye = DVec3::new(
        place(along) + random.uniform(-2.0, 2.0),
        f64::from(FLOOR) + SURVEY * random.uniform(1.0, 1.25),
        place((at.floor() + 0.5) / rows) + random.uniform(-2.0, 2.0),
    );
    // Every other photo looks down, the rest to the sides in turn. Straight down has no horizon: a little off it.
    let slant = if number.is_multiple_of(2) { 0.05 } else { 0.75 };
    let (sin, cos) = (std::f64::consts::FRAC_PI_2 * (number / 2) as f64).sin_cos();
    // At the edge of the city, towards its middle.
    let (middle, outer) = (0.5 * (low + high), 0.25 * (high - low));
    let inward = |at: f64, along: f64| match (at - middle).abs() > outer {
        true => along.abs() * (middle - at).signum(),
        false => along,
    };
    let turn = random.uniform(-0.15, 0.15);
    let (x, z) = (inward(eye.x, slant * cos), inward(eye.z, slant * sin));
    (eye, eye + DVec3::new(x + turn * slant, -1.0, z))
}

#[cfg(test)]
mod tests {
    use super::super::super::shapes::Object;
    use super::super::{STREET, objects};
    use super::*;
    use glam::Vec3A;

    #[test]
    fn both_kinds_of_cameras_are_among_the_held_out_photos() {
        let heights = |photos: &[usize]| -> [usize; 2] {
            let high = photos.iter().filter(|&&i| {
                let pose = pose(2, (i, 64), Random::new(0, 1, i as u64));
                -pose.centre().y > f64::from(FLOOR) + 20.0
            });
            let high = high.count();
            [high, photos.len() - high]
        };
        let held_out: Vec<usize> = (0..64).step_by(8).collect();
        let trained: Vec<usize> = (0..64).filter(|i| i % 8 != 0).collect();
        assert_eq!(heights(&held_out), [4, 4]);
        assert!(heights(&trained).iter().all(|&count| count > 20));
    }

    #[test]
    fn street_cameras_see_the_city_before_its_end() {
        for (blocks, count) in [(1, 40), (2, 64), (9, 200)] {
            let [low, high] = extent(blocks).map(f64::from);
            let inside = low - f64::from(STREET)..=high + f64::from(STREET);
            let mut street = 0;
            for i in 0..count {
                let pose = pose(blocks, (i, count), Random::new(5, 1, i as u64));
                let eye = pose.centre();
                let ahead = pose.rotation_matrix().transpose().z_axis;
                if -eye.y > 10.0 {
                    continue;
                }
                street += 1;
                let end = eye + 15.0 * DVec3::new(ahead.x, 0.0, ahead.z).normalize();
                // World z is that of the scene turned round.
                let is_inside = inside.contains(&end.x) && inside.contains(&-end.z);
                assert!(is_inside, "photo {i} of {blocks} blocks looks at {end}");
            }
            assert_eq!(street, count / 2);
        }
    }

    #[test]
    fn cameras_of_a_large_city_keep_away_from_its_objects() {
        let objects = objects(9);
        for i in 0..600 {
            let eye = pose(9, (i, 600), Random::new(8, 1, i as u64)).centre();
            let eye = Vec3A::new(eye.x as f32, -eye.y as f32, -eye.z as f32);
            let distance = |object: &Object| object.distance(eye);
            let nearest = objects.iter().map(distance).fold(f32::MAX, f32::min);
            assert!(
                nearest > 0.8,
                "photo {i}: {nearest} to the nearest of {eye}"
            );
        }
    }
}
