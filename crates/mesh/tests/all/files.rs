//! Mesh files, read by other programs where they are installed.

use crate::shapes::{Shape, Views};
use dapple_base::NoProgress;
use dapple_mesh::Mesh;
use dapple_mesh::colour::{TextureOptions, Unseen, texture};
use dapple_mesh::files::{About, glb, jpeg, obj};
use glam::{DVec3, Vec3};
use std::process::Command;

fn textured() -> Mesh {
    let mut views = Views::around(Shape::Cuboid, 16, 64);
    let (fused, mut mesh) = views.mesh(None).unwrap();
    let voxel = fused.plan.grid.voxel;
    let options = TextureOptions {
        most: 512,
        texel: (voxel / 2.0).into(),
        tolerance: voxel.into(),
    };
    texture(&mut mesh, &views, &Unseen::new(None), &options, &NoProgress).unwrap();
    mesh
}

fn about() -> About {
    About {
        origin: DVec3::new(1.0, 2.0, 3.0),
        up: Some(Vec3::NEG_Y),
        voxel: 0.01,
    }
}

/// Returns the description and the binary part of a GLB file.
fn parts(bytes: &[u8]) -> (serde_json::Value, &[u8]) {
    assert_eq!(&bytes[..4], b"glTF");
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(number(8), bytes.len());
    let length = number(12);
    (
        serde_json::from_slice(&bytes[20..20 + length]).unwrap(),
        &bytes[28 + length..],
    )
}

#[test]
fn a_glb_file_has_the_texture_and_records_the_frame() {
    let mesh = textured();
    let picture = jpeg(mesh.texture.as_ref().unwrap()).unwrap();
    let bytes = glb(&mesh, &about(), Some((&picture, "image/jpeg"))).unwrap();
    let (root, binary) = parts(&bytes);
    assert_eq!(
        root["nodes"][0]["extras"]["origin"],
        serde_json::json!([1.0, 2.0, 3.0])
    );
    assert_eq!(
        root["materials"][0]["extensions"]["KHR_materials_unlit"],
        serde_json::json!({})
    );
    let view = &root["bufferViews"][root["images"][0]["bufferView"].as_u64().unwrap() as usize];
    let start = view["byteOffset"].as_u64().unwrap() as usize;
    let length = view["byteLength"].as_u64().unwrap() as usize;
    let decoded = image::load_from_memory(&binary[start..start + length]).unwrap();
    assert_eq!(
        [decoded.width(), decoded.height()],
        mesh.texture.as_ref().unwrap().size
    );
}

#[test]
fn the_gltf_validator_finds_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = textured();
    let picture = jpeg(mesh.texture.as_ref().unwrap()).unwrap();
    let mut coloured = mesh.clone();
    coloured.texture = None;
    coloured.colours = vec![[10, 20, 30]; mesh.positions.len()];
    let files = [
        glb(&mesh, &about(), Some((&picture, "image/jpeg"))).unwrap(),
        glb(&coloured, &About::default(), None).unwrap(),
    ];
    let script = "const v=require('gltf-validator'),f=require('fs');v.validateBytes(new Uint8Array(\
                  f.readFileSync(process.argv[1]))).then(r=>{console.log(JSON.stringify(r.issues));\
                  process.exit(r.issues.numErrors+r.issues.numWarnings?1:0)})";
    for (i, bytes) in files.iter().enumerate() {
        let path = folder.path().join(format!("{i}.glb"));
        std::fs::write(&path, bytes).unwrap();
        let result = Command::new("node")
            .args(["-e", script])
            .arg(&path)
            .output();
        let Ok(output) = result else {
            println!("SKIPPED: node is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("Cannot find module 'gltf-validator'") {
            println!("SKIPPED: the npm package gltf-validator is not installed (NODE_PATH)");
            return;
        }
        assert!(
            output.status.success(),
            "{} {text}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn an_obj_file_names_its_material_and_existing_vertices() {
    let mesh = textured();
    let (text, material) = obj(&mesh, &about(), "name");
    assert!(text.contains("mtllib name.mtl") && material.unwrap().contains("map_Kd name.png"));
    let count = |prefix: &str| text.lines().filter(|line| line.starts_with(prefix)).count();
    assert_eq!(count("v "), mesh.positions.len());
    assert_eq!(count("f "), mesh.triangles.len());
    let places = count("vt ");
    for line in text.lines().filter(|line| line.starts_with("f ")) {
        for corner in line[2..].split(' ') {
            let numbers: Vec<usize> = corner.split('/').map(|n| n.parse().unwrap()).collect();
            assert!(
                (1..=mesh.positions.len()).contains(&numbers[0])
                    && (1..=places).contains(&numbers[1])
            );
        }
    }
}
