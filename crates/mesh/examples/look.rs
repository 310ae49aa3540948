//! Draws a mesh from a circle of places around it: `look MESH.ply OUT.png UP_X UP_Y UP_Z [PICTURES]`.

use dapple_mesh::Pinhole;
use dapple_mesh::files::read_ply;
use dapple_mesh::judge::picture;
use dapple_scene::{Camera, Error, Photo, Pose, Result};
use glam::{DVec3, Vec3};
use std::path::Path;

const SIDE: u32 = 420;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|v| v.parse::<f64>().ok());
    let (Some(mesh), Some(out)) = (args.get(1), args.get(2)) else {
        return Err(Error::input(
            "arguments: MESH.ply OUT.png [UP_X UP_Y UP_Z [PICTURES [LIFT [ZOOM]]]]",
        ));
    };
    let bytes = std::fs::read(mesh).map_err(|e| Error::io("cannot read", mesh, e))?;
    let mut mesh = read_ply(&bytes)?;
    if std::env::var("GREY").is_ok() {
        mesh.colours.clear();
    }
    let up = DVec3::new(
        number(3).unwrap_or(0.0),
        number(4).unwrap_or(-1.0),
        number(5).unwrap_or(0.0),
    )
    .normalize();
    let count = number(6).unwrap_or(6.0) as u32;
    let middle =
        number(9).map(|x| DVec3::new(x, number(10).unwrap_or(0.0), number(11).unwrap_or(0.0)));
    let low_high = |q: f32| {
        let mut c = Vec3::ZERO;
        for k in 0..3 {
            let mut v: Vec<f32> = mesh.positions.iter().map(|p| p[k]).collect();
            v.sort_by(f32::total_cmp);
            c[k] = v.get((v.len() as f32 * q) as usize).copied().unwrap_or(0.0);
        }
        c
    };
    let (low, high) = (low_high(0.02), low_high(0.98));
    let middle = middle.unwrap_or_else(|| ((low + high) * 0.5).as_dvec3());
    let radius = f64::from((high - low).length()) * 0.5 / number(8).unwrap_or(1.0);
    let across = up.any_orthonormal_vector();
    let deep = up.cross(across);
    let mut pictures = Vec::new();
    for i in 0..count {
        let angle = f64::from(i) / f64::from(count) * std::f64::consts::TAU;
        let away = across * angle.cos() + deep * angle.sin() + up * number(7).unwrap_or(0.5);
        let eye = middle + away.normalize() * radius * 2.0;
        let camera = Camera::pinhole(SIDE, SIDE, f64::from(SIDE), Pose::look_at(eye, middle, up));
        pictures.push(picture(&mesh, &Pinhole::new(&camera), [30; 3]).0);
    }
    let columns = 3.min(count);
    let rows = count.div_ceil(columns);
    let mut rgb = vec![0u8; (3 * SIDE * columns * SIDE * rows) as usize];
    for (i, one) in pictures.iter().enumerate() {
        let (x0, y0) = (i as u32 % columns * SIDE, i as u32 / columns * SIDE);
        for y in 0..SIDE {
            let to = (3 * ((y0 + y) * SIDE * columns + x0)) as usize;
            let from = (3 * y * SIDE) as usize;
            let row = 3 * SIDE as usize;
            rgb[to..to + row].copy_from_slice(&one.rgb[from..from + row]);
        }
    }
    Photo::from_rgb(SIDE * columns, SIDE * rows, rgb).write_png(Path::new(out))
}
