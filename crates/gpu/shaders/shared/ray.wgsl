// Rays of pixels, in camera coordinates: of depth 1. CPU version: splats::Rays.
// Through a lens that distorts, the slopes of a place are found by Newton's method: at most RAY_ROUNDS rounds, from the
// place itself.
//
// With LENS the importing shader declares `lenses: array<Lens>`, an entry a view.
#if LENS
#import shared/lens_jet

const RAY_ROUNDS: u32 = 24u;
// Largest error of a place, in units of the focal length.
const RAY_EXACT: f32 = 1e-6;
const RAY_CLOSE: f32 = 1e-4;
#endif
#if RING
#import shared/normal
#endif

struct Ray {
    // False if no ray of the lens reaches the pixel.
    is_known: bool,
    along: vec3f,
}

fn ray_of(pixel: vec2u, view: View) -> Ray {
    let place = (vec2f(pixel) + 0.5 - view.principal) / view.focal;
#if LENS
    let lens = lenses[step.view];
    var slope = place;
    var off = vec2f(1.0);
    for (var round = 0u; round < RAY_ROUNDS && max(abs(off.x), abs(off.y)) > RAY_EXACT; round++) {
        let jet = lens_jet(lens, slope);
        off = place - jet.place;
        let determinant = jet.da.x * jet.db.y - jet.db.x * jet.da.y;
        slope += vec2f(jet.db.y * off.x - jet.db.x * off.y, jet.da.x * off.y - jet.da.y * off.x) / determinant;
    }
    let is_known = max(abs(off.x), abs(off.y)) <= RAY_CLOSE && dot(slope, slope) <= lens.reach;
    return Ray(is_known, vec3f(slope, 1.0));
#else
#if RING
    // Cosines of the longitude and of a quarter turn less, as fractions of a turn.
    let turns = place / 6.283185307179586;
    let cosine = cos_turns(fract(turns.x));
    let sine = cos_turns(fract(turns.x - 0.25));
#if EQUIRECT
    let level = cos_turns(fract(turns.y));
    let height = cos_turns(fract(turns.y - 0.25));
#endif
#if CYLINDER
    let level = 1.0;
    let height = place.y;
#endif
    return Ray(true, vec3f(sine * level, height, cosine * level));
#else
    return Ray(true, vec3f(place, 1.0));
#endif
#endif
}
