//! Each path that is not a capture has its own next step.

use super::*;
use std::collections::HashSet;

/// Creates a folder of these files, by name and content.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        match name.strip_suffix('/') {
            Some(name) => fs::create_dir_all(folder.path().join(name)).unwrap(),
            None => write(&folder, name, content),
        }
    }
    folder
}

const PHOTOS: [(&str, &str); 3] = [
    ("images/1.jpg", ""),
    ("images/2.jpg", ""),
    ("images/3.jpg", ""),
];

#[test]
fn poses_of_other_tools_are_named_with_a_way_in() {
    let csv = "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2\n1.jpg,0,0,0,0,0,0,26,0,0,0,0,0,0,0,0\n";
    let metashape = "<?xml version=\"1.0\"?>\n<document version=\"1.5.0\">\n <chunk label=\"1\">";
    for (files, words) in [
        (&[("poses_bounds.npy", "")][..], &["LLFF", "COLMAP"][..]),
        (
            &[("reconstruction.json", r#"[{"cameras": {}, "shots": {}}]"#)],
            &["OpenSfM", "export_colmap"],
        ),
        (
            &[
                ("opensfm/reconstruction.json", r#"[{"cameras": {}}]"#),
                ("odm_orthophoto/", ""),
            ],
            &["OpenDroneMap", "odm"],
        ),
        (&[("cameras.sfm", "{}")], &["Meshroom", "exportColmap"]),
        (
            &[("MeshroomCache/StructureFromMotion/sfm.sfm", "{}")],
            &["Meshroom", "exportColmap"],
        ),
        (&[("sfm_data.json", "{}")], &["OpenMVG", "openMVG2Colmap"]),
        (
            &[("matches/sfm_data.bin", "")],
            &["OpenMVG", "openMVG2Colmap"],
        ),
        (
            &[
                ("metadata.json", r#"{"w": 1, "K": [], "poses": []}"#),
                ("rgb/0.jpg", ""),
            ],
            &["Record3D", "record3d"],
        ),
        (
            &[
                ("metadata", r#"{"w": 1, "K": [], "poses": []}"#),
                ("rgb/0.jpg", ""),
            ],
            &["Record3D", "record3d"],
        ),
        (
            &[
                ("intrinsics.txt", "1"),
                ("pose/0.txt", "1"),
                ("rgb/0.png", ""),
            ],
            &["NSVF", "transforms.json"],
        ),
        (
            &[("cameras_sphere.npz", "PK"), ("image/0.png", "")],
            &["DTU, IDR or NeuS", "world_mat"],
        ),
        (&[("cameras.npz", "PK")], &["IDR", "transforms.json"]),
        (&[("scan.psx", "")], &["Metashape", "Export Cameras"]),
        (
            &[("cameras.xml", metashape)],
            &["Metashape", "ns-process-data metashape"],
        ),
        (
            &[("Export/Doc.XML", metashape)],
            &["Metashape", "Export/Doc.XML"],
        ),
        (
            &[("blocks.xml", "<BlocksExchange version=\"3\">")],
            &["ContextCapture"],
        ),
        (
            &[("registration.csv", csv)],
            &["RealityCapture", "realitycapture"],
        ),
        (&[("scan.rcproj", "")], &["RealityCapture"]),
        (
            &[("images/1.xmp", "<x xcr:Rotation=\"1\"/>")],
            &["RealityCapture", "XMP"],
        ),
        (
            &[("mesh_info.json", "{}"), ("keyframes/images/1.jpg", "")],
            &["Polycam", "polycam"],
        ),
        (
            &[("keyframes/corrected_cameras/1.json", "{}")],
            &["Polycam"],
        ),
        (
            &[("odometry.csv", "a"), ("rgb.mp4", "")],
            &["Stray Scanner", "odometry.csv"],
        ),
        (
            &[("a_calibrated_external_camera_parameters.txt", "")],
            &["Pix4D"],
        ),
        (&[("bundle.rd.out", "# Bundle file v0.3")], &["Bundler"]),
        (&[("model.nvm", "NVM_V3")], &["VisualSFM"]),
        (&[("scene.mvs", "")], &["OpenMVS", "InterfaceCOLMAP"]),
        (&[("cams/00000000_cam.txt", "extrinsic")], &["MVSNet"]),
        (
            &[("database.db", "SQLite format 3")],
            &["poses are not found yet", "colmap mapper"],
        ),
        (
            &[
                ("cfg_args", "Namespace()"),
                ("cameras.json", "[]"),
                ("point_cloud/iteration_7/point_cloud.ply", ""),
            ],
            &["3DGS", "source_path"],
        ),
        (
            &[("config.yml", ""), ("dataparser_transforms.json", "{}")],
            &["Nerfstudio's training", "ns-export"],
        ),
    ] {
        let all = [files, &PHOTOS[..]].concat();
        refused(folder(&all).path(), words);
        // Only the file, without its folder.
        let alone = folder(files);
        let (name, content) = files[0];
        let is_csv_of_others = name == "metadata";
        if !content.is_empty() && !is_csv_of_others && name != "intrinsics.txt" {
            let error = open(&alone.path().join(name), &LoadOptions::default()).unwrap_err();
            assert!(error.hint_text().is_some(), "{name}: {error}");
        }
    }
}

#[test]
fn each_kind_of_input_has_its_own_next_step() {
    let kinds = [
        (&PHOTOS[..], &["3 photos", "COLMAP"][..]),
        (
            &[("1.heic", ""), ("2.heic", ""), ("3.heic", "")],
            &["3 photos", "magick mogrify -format jpg *.heic", "COLMAP"],
        ),
        (&[("Clip.MP4", "")], &["Clip.MP4 is a video", "ffmpeg"]),
        (&[("scan.zip", "PK")], &["scan.zip is an archive", "unpack"]),
        (&[("scan.tar.gz", "")], &["archive", "unpack"]),
        (&[("scan.las", "")], &["point cloud", "photos with poses"]),
        (&[("splats.spz", "")], &["dapple view"]),
        (
            &[("sparse/0/cameras.bin", ""), ("sparse/0/points3D.bin", "")],
            &["has no images.bin", "sparse/0/cameras.bin"],
        ),
        (&[("sparse/images.txt", "")], &["has no cameras.txt"]),
        (
            &[("transforms_test.json", "{}")],
            &["transforms_train.json"],
        ),
        (
            &[("nerf.json", r#"{"frames": [{"transform_matrix": 1}]}"#)],
            &["nerf.json", "name the file"],
        ),
        (&[], &["looked for"]),
    ];
    let mut seen = HashSet::new();
    for (files, words) in kinds {
        let made = folder(files);
        let said = refused(made.path(), words).replace(&made.path().display().to_string(), "");
        assert!(seen.insert(said.clone()), "twice: {said}");
    }
    // Only the files, without their folder.
    for (name, words) in [
        ("clip.mov", &["video", "ffmpeg", "clip.mov"][..]),
        ("scan.7z", &["archive", "unpack"]),
        ("a.jpg", &["this file is not a capture", "photo"]),
        ("a.ply", &["this file is not a capture", "dapple view"]),
        ("a.e57", &["this file is not a capture", "point cloud"]),
        ("a.xyz1", &["this file is not a capture"]),
    ] {
        refused(&folder(&[(name, "x")]).path().join(name), words);
    }
}

#[test]
fn a_transforms_file_beside_a_model_is_called_what_it_is() {
    let with = capture();
    fs::rename(with.path().join("sparse"), with.path().join("kept")).unwrap();
    transforms(&with, "", "/home/me/scan/images/");
    fs::rename(with.path().join("kept"), with.path().join("sparse")).unwrap();
    let said = notes(&with);
    assert!(
        said.contains("there is a transforms.json too") && said.contains("name the file"),
        "{said}"
    );
    write(&with, "transforms.json", "[]");
    assert!(notes(&with).contains("no transforms file that can be read: "));
}
