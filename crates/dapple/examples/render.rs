//! Renders a view of splats to a PNG file:
//! `cargo run --release --example render -- [SPLATS.ply] [PICTURE.png]`.
//!
//! Without a file it renders the sparse points of a synthetic capture, from its first camera. Splats of a file are
//! seen from a place in front of their centre, against z.

use dapple::prelude::*;
use std::path::Path;

fn main() -> dapple::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next();
    let out = arguments.next().unwrap_or_else(|| "picture.png".to_owned());
    let (splats, camera) = match file {
        Some(file) => {
            let (splats, _) = dapple::scene::splat_file::read(Path::new(&file))?;
            let camera = in_front_of(&splats);
            (splats, camera)
        }
        None => {
            let capture = synth::dataset(&SynthOptions {
                photos: 4,
                width: 320,
                height: 240,
                points: 2000,
                ..SynthOptions::default()
            })?;
            let extent = capture.extent(&[0, 1, 2, 3]);
            let points = &capture.points;
            let mut splats = dapple::train::init::from_points(points, extent, 0, 0)?;
            splats.opacities.fill(2.0); // logit: firm enough to see
            (splats, capture.views[0].camera)
        }
    };
    let settings = RenderSettings {
        background: [1.0; 3],
        sh_degree: splats.sh_degree,
        ..RenderSettings::default()
    };
    let mut engine = dapple::engine(Device::Auto)?;
    engine.upload(&splats, None)?;
    let image = engine.render(&camera, &settings)?;
    image.photo().write_png(Path::new(&out))?;
    println!("{out}: {}x{} pixels", image.width, image.height);
    Ok(())
}

/// A camera that sees most of the splats.
fn in_front_of(splats: &Splats) -> Camera {
    let centres = splats
        .means
        .iter()
        .map(|mean| DVec3::from(mean.map(f64::from)));
    let count = splats.len().max(1) as f64;
    let centre = centres.clone().sum::<DVec3>() / count;
    let spread = centres.map(|mean| mean.distance(centre)).sum::<f64>() / count;
    let eye = centre - DVec3::Z * 2.5 * spread.max(1e-3);
    Camera::pinhole(640, 480, 600.0, Pose::look_at(eye, centre, DVec3::NEG_Y))
}
