//! Axes and intrinsics of transforms files.

use super::*;
use crate::Lens;

#[test]
fn opengl_axes_become_ours() {
    // A camera at (1, 2, 3) with OpenGL's identity axes looks along -z with y up.
    let rows = |r: [[f64; 4]; 4]| r.map(|row| row.to_vec()).to_vec();
    let identity = rows([
        [1.0, 0.0, 0.0, 1.0],
        [0.0, 1.0, 0.0, 2.0],
        [0.0, 0.0, 1.0, 3.0],
        [0.0, 0.0, 0.0, 1.0],
    ]);
    let pose = pose(&identity).unwrap();
    assert!(pose.centre().distance(DVec3::new(1.0, 2.0, 3.0)) < 1e-12);
    // Five in front, one to the right, two up: +z, +x, -y.
    let seen = pose.transform(DVec3::new(2.0, 4.0, -2.0));
    assert!(seen.distance(DVec3::new(1.0, -2.0, 5.0)) < 1e-12, "{seen}");
    let mut mirrored = identity.clone();
    mirrored[0][0] = -1.0;
    assert!(super::pose(&mirrored).is_err());
    let mut sheared = identity.clone();
    sheared[0][1] = 0.3;
    assert!(super::pose(&sheared).is_err());
    let mut flat = identity;
    flat[2][2] = 0.0;
    assert!(super::pose(&flat).is_err());
}

#[test]
fn a_frames_own_intrinsics_win() {
    let json = br#"{"w": 640, "h": 480.0, "fl_x": 500, "k1": 0.1, "frames": [
        {"file_path": "images/a.png", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]},
        {"file_path": "./images/b.png", "camera_angle_x": 1.5707963267948966, "camera_model": "OPENCV_FISHEYE",
         "w": 100, "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]]}]}"#;
    let frames = parse_transforms(json, "t").unwrap().frames;
    assert_eq!(frames[1].file_path, Path::new("images/b.png"));
    let camera = |i: usize| {
        frames[i]
            .intrinsics
            .camera(Pose::IDENTITY, || panic!("sizes are given"))
            .unwrap()
    };
    let Described {
        camera: a, model, ..
    } = camera(0);
    assert_eq!((a.fx, a.fy, a.cx, a.cy), (500.0, 500.0, 320.0, 240.0));
    assert_eq!(
        (a.lens, &*model),
        (Lens::OpenCv([0.1, 0.0, 0.0, 0.0]), "OPENCV")
    );
    let b = camera(1).camera;
    assert!((b.fx - 50.0).abs() < 1e-9 && (b.fy - 50.0).abs() < 1e-9);
    assert_eq!(b.lens, Lens::Fisheye([0.1, 0.0, 0.0, 0.0]));
}
