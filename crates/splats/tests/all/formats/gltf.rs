//! glTF scenes: nodes, instances and meshes.

use crate::formats::glb::by_hand;
use crate::formats::support::{Steps, assert_near, crowd};
use dapple_splats::Splats;
use dapple_splats::edit::Similarity;
use dapple_splats::splat_file::{self, Format, WriteOptions, parse};
use serde_json::json;

pub const E: &str = "KHR_gaussian_splatting";

/// A JSON scene for tests to change: meshes of splats, each of all given Gaussians.
pub struct Scene {
    pub json: serde_json::Value,
    pub bin: Vec<u8>,
}

/// Builds attributes of splats in glTF's axes; `scale` and `colour` convert to the stored numbers.
pub fn scene(splats: &Splats, scale: fn(f32) -> f32, colour: fn(f32) -> f32) -> Scene {
    let (mut bin, mut views, mut accessors) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = serde_json::Map::new();
    let mut add = |name: String, kind: &str, rows: Vec<Vec<f32>>| {
        let at = bin.len();
        bin.extend(rows.iter().flatten().flat_map(|v| v.to_le_bytes()));
        views.push(json!({"buffer": 0, "byteOffset": at, "byteLength": bin.len() - at}));
        accessors.push(json!({"bufferView": views.len() - 1, "componentType": 5126,
            "count": rows.len(), "type": kind}));
        names.insert(name, json!(accessors.len() - 1));
    };
    let rows = |row: &dyn Fn(usize) -> Vec<f32>| (0..splats.len()).map(row).collect::<Vec<_>>();
    let signs = [-1.0, -1.0, 1.0];
    let mean = |i: usize| (0..3).map(|k| splats.means[i][k] * signs[k]).collect();
    add("POSITION".to_owned(), "VEC3", rows(&mean));
    let quat = |i: usize| {
        let [w, x, y, z] = splats.quats[i];
        vec![-x, -y, z, w]
    };
    add(format!("{E}:ROTATION"), "VEC4", rows(&quat));
    let size = |i: usize| splats.scales[i].map(scale).to_vec();
    add(format!("{E}:SCALE"), "VEC3", rows(&size));
    let alpha = |i: usize| vec![1.0 / (1.0 + (-splats.opacities[i]).exp())];
    add(format!("{E}:OPACITY"), "SCALAR", rows(&alpha));
    let dc = |i: usize| splats.sh0[i].map(colour).to_vec();
    add(format!("{E}:SH_DEGREE_0_COEF_0"), "VEC3", rows(&dc));
    let stride = splats.sh_rest_stride();
    let odd = [-1.0f32, 1.0, -1.0];
    for (n, odd) in odd.into_iter().enumerate().take(stride / 3) {
        // Coefficients of y, z and x.
        let rest = |i: usize| {
            (0..3)
                .map(|c| splats.sh_rest[i * stride + 3 * n + c] * odd)
                .collect()
        };
        add(format!("{E}:SH_DEGREE_1_COEF_{n}"), "VEC3", rows(&rest));
    }
    let json = json!({
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"mode": 0, "attributes": names,
            "extensions": {E: {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"}}}]}],
        "accessors": accessors, "bufferViews": views, "buffers": [{"byteLength": bin.len()}],
    });
    Scene { json, bin }
}

/// Builds a text file that contains its numbers.
pub fn with_base64(splats: &Splats) -> Vec<u8> {
    use base64::Engine;
    let mut scene = Scene::plain(splats);
    let text = base64::engine::general_purpose::STANDARD.encode(&scene.bin);
    scene.json["buffers"][0]["uri"] = json!(format!("data:application/octet-stream;base64,{text}"));
    scene.json.to_string().into_bytes()
}

/// Builds a binary file with an SPZ file in it, below a node that moves it.
pub fn with_spz(splats: &Splats) -> Vec<u8> {
    let spz = splat_file::encode(splats, Format::Spz, &WriteOptions::default()).unwrap();
    let packed = json!({"KHR_gaussian_splatting_compression_spz_2": {"bufferView": 0}});
    let json = json!({
        "nodes": [{"children": [1], "scale": [1, 2, 1]}, {"mesh": 0}], "scenes": [{"nodes": [0]}],
        "meshes": [{"primitives": [{"extensions": {E: {"extensions": packed}}}]}],
        "bufferViews": [{"buffer": 0, "byteLength": spz.len()}], "buffers": [{"byteLength": spz.len()}],
    });
    by_hand(&json.to_string(), &spz)
}

impl Scene {
    pub fn plain(splats: &Splats) -> Self {
        scene(splats, f32::exp, |c| c)
    }

    pub fn read(&self) -> (Splats, Vec<String>) {
        let (splats, metadata) = parse(&self.bytes(), Format::Glb).unwrap();
        (splats, metadata.notes)
    }

    pub fn bytes(&self) -> Vec<u8> {
        by_hand(&self.json.to_string(), &self.bin)
    }

    #[track_caller]
    pub fn refused(&self, word: &str) {
        let error = parse(&self.bytes(), Format::Glb).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert!(
            error.place().is_some() && error.hint_text().is_some(),
            "{error}"
        );
    }
}

#[track_caller]
pub fn said(notes: &[String], word: &str) {
    assert!(
        notes.iter().any(|note| note.contains(word)),
        "{word}: {notes:?}"
    );
}

#[test]
fn plain_scenes_have_no_notes() {
    for degree in [0, 1] {
        let splats = crowd(50, degree);
        let (read, notes) = Scene::plain(&splats).read();
        assert!(notes.is_empty(), "{notes:?}");
        assert_near(&read, &splats, Steps::NONE, "plain");
    }
}

/// Compares the scene's nodes in glTF's axes with an edit's similarity in Dapple's.
#[test]
fn nodes_and_their_parents_place_the_splats() {
    let splats = crowd(50, 1);
    let mut scene = Scene::plain(&splats);
    let half = 0.5f64.sqrt();
    let turn = glam::DQuat::from_xyzw(0.0, half, 0.0, half);
    let outer = json!({"children": [1], "translation": [10, 0, 3], "rotation": [0, half, 0, half]});
    // The quarter turn about y is the same in Dapple's axes, except for its direction.
    let expected = Similarity {
        rotation: [turn.w, 0.0, -turn.y, 0.0],
        scale: 2.0,
        translation: [-10.0, 0.0, 3.0],
    };
    let mut moved = splats.clone();
    expected.apply(&mut moved);
    let matrix = glam::DMat4::from_scale_rotation_translation(
        glam::DVec3::splat(2.0),
        turn,
        glam::DVec3::new(10.0, 0.0, 3.0),
    );
    for nodes in [
        json!([outer, {"children": [2], "scale": [2, 2, 2]}, {"mesh": 0}]),
        json!([{"children": [1]}, {"mesh": 0, "matrix": matrix.to_cols_array()}]),
        json!([{"mesh": 0, "scale": [2, 2, 2], "translation": [10, 0, 3],
            "rotation": [0, 2.0 * half, 0, 2.0 * half]}]),
    ] {
        scene.json["nodes"] = nodes;
        let (read, notes) = scene.read();
        assert!(notes.is_empty(), "{notes:?}");
        assert_near(
            &read,
            &moved,
            Steps {
                mean: 1e-4,
                ..Steps::NONE
            },
            "moved",
        );
    }
}

#[test]
fn every_instance_primitive_and_mesh_of_the_scene_is_read() {
    let splats = crowd(20, 0);
    let mut scene = Scene::plain(&splats);
    let primitive = scene.json["meshes"][0]["primitives"][0].clone();
    let mesh = json!({"primitives": [primitive, primitive]});
    scene.json["meshes"] = json!([scene.json["meshes"][0], mesh, mesh]);
    scene.json["nodes"] = json!([
        {"mesh": 0, "translation": [100, 0, 0]}, {"mesh": 1}, {"mesh": 0, "children": [3]}, {"mesh": 0},
        {"mesh": 2},
    ]);
    scene.json["scenes"] = json!([{"nodes": [0, 1, 2]}]);
    let (read, notes) = scene.read();
    // Two primitives of mesh 1, three instances of mesh 0; mesh 2 is in no scene.
    assert_eq!(read.len(), 100);
    said(&notes, "1 meshes of splats are in no node");
    let far = read.means.iter().filter(|m| m[0] < -50.0).count();
    assert_eq!(far, 20);
    // Without scenes all nodes are shown; with an empty scene the splats are read too.
    scene.json["scenes"] = json!([]);
    scene.json.as_object_mut().unwrap().remove("scene");
    assert_eq!(scene.read().0.len(), 140);
    scene.json["scenes"] = json!([{"nodes": []}]);
    let (read, notes) = scene.read();
    assert_eq!(read.len(), 100);
    said(&notes, "no node of the scene shows");
    // Other content is named.
    scene.json["meshes"][0]["primitives"][0] = json!({"mode": 4, "attributes": {"POSITION": 0}});
    said(
        &scene.read().1,
        "1 primitives of the glTF file hold no splats",
    );
}

#[test]
fn circles_of_nodes_and_many_instances_are_refused() {
    let mut scene = Scene::plain(&crowd(20, 0));
    for (nodes, word) in [
        (json!([{"mesh": 0, "children": [0]}]), "below two nodes"),
        (
            json!([{"children": [1, 1]}, {"mesh": 0}]),
            "below two nodes",
        ),
        (json!([{"children": [7]}]), "no node 7"),
        (json!([{"mesh": 7}]), "mesh 7"),
        (
            json!([{"mesh": 0, "rotation": [0, 0, 0, 0]}]),
            "rotation of node 0",
        ),
        (
            json!([{"mesh": 0, "matrix": [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}]),
            "projection",
        ),
    ] {
        scene.json["nodes"] = nodes;
        scene.refused(word);
    }
    // A mesh in 3000 places, for which memory is some hundred times the file's bytes, and in too many.
    let nodes: Vec<_> = (0..3000).map(|_| json!({"mesh": 0})).collect();
    scene.json["scenes"] = json!([{"nodes": (0..nodes.len()).collect::<Vec<_>>()}]);
    scene.json["nodes"] = json!(nodes);
    assert_eq!(scene.read().0.len(), 60_000);
    let many = crowd(2000, 0);
    let mut scene = Scene::plain(&many);
    let nodes: Vec<_> = (0..40_000).map(|_| json!({"mesh": 0})).collect();
    scene.json["scenes"] = json!([{"nodes": (0..nodes.len()).collect::<Vec<_>>()}]);
    scene.json["nodes"] = json!(nodes);
    scene.refused("in many places");
    // The depth of a tree is limited only by memory.
    let mut nodes: Vec<_> = (1..100_000).map(|k| json!({"children": [k]})).collect();
    nodes.push(json!({"mesh": 0}));
    scene.json["nodes"] = json!(nodes);
    scene.json["scenes"] = json!([{"nodes": [0]}]);
    assert_eq!(scene.read().0.len(), 2000);
}

#[test]
fn stretched_mirrored_and_flattened_splats_are_told() {
    let splats = crowd(20, 1);
    let mut scene = Scene::plain(&splats);
    for (scale, count, word) in [
        (json!([1, 2, 1]), 20, "stretches"),
        (json!([-1, 1, 1]), 20, "mirrors"),
        (json!([1, 0, 1]), 0, "dropped"),
    ] {
        scene.json["nodes"] = json!([{"mesh": 0, "scale": scale}]);
        let (read, notes) = scene.read();
        assert_eq!(read.len(), count);
        said(&notes, word);
    }
    // So far away that floats cannot distinguish the splats.
    scene.json["nodes"] = json!([{"mesh": 0, "translation": [6_378_137.0, 0, 0]}]);
    said(&scene.read().1, "units from the origin");
    scene.json["animations"] = json!([{}]);
    scene.json["nodes"] = json!([{"mesh": 0, "extensions": {"EXT_mesh_gpu_instancing": {}}}]);
    let notes = scene.read().1;
    said(&notes, "animations");
    said(&notes, "EXT_mesh_gpu_instancing");
}
