//! glTF, binary and as text: round trips, and files by hand.

use crate::support::{Steps, assert_near, crowd};
use dapple_scene::edit::transform::Similarity;
use dapple_scene::splat_file::{self, Format, WriteOptions, parse};
use dapple_scene::{SH_C0, Splats};
use serde_json::json;

#[test]
fn what_is_written_is_read_and_y_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.glb");
    for degree in 0..=3 {
        let splats = crowd(100, degree);
        splat_file::write(&path, &splats, Format::Glb).unwrap();
        let (read, aside) = splat_file::read(&path).unwrap();
        assert!(aside.notes.is_empty());
        assert_near(&read, &splats, Steps::NONE, "glb");
        // The first numbers are the first centre, turned half round z.
        let bytes = std::fs::read(&path).unwrap();
        let json = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let floats = bytes[28 + json..].as_chunks::<4>().0.iter();
        let first: Vec<f32> = floats.take(3).map(|b| f32::from_le_bytes(*b)).collect();
        let [x, y, z] = splats.means[0];
        assert_eq!(first, [-x, -y, z]);
    }
}

fn by_hand(json: &str, bin: &[u8]) -> Vec<u8> {
    let mut json = json.as_bytes().to_vec();
    json.resize(json.len().next_multiple_of(4), b' ');
    let mut out = b"glTF".to_vec();
    let words = [
        2,
        (28 + json.len() + bin.len()) as u32,
        json.len() as u32,
        0x4e4f_534a,
    ];
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    out.extend(json);
    out.extend(
        [bin.len() as u32, 0x004e_4942]
            .iter()
            .flat_map(|w| w.to_le_bytes()),
    );
    out.extend(bin);
    out
}

/// One Gaussian in small integers, as the extension allows.
fn small() -> (String, Vec<u8>) {
    let mut bin = Vec::new();
    for v in [1f32, 2.0, 3.0, 0.5, -0.5, 0.25] {
        bin.extend(v.to_le_bytes());
    }
    // Rotation as normalised i16: x 1. Scale as normalised u16. Opacity as normalised u8.
    for v in [32_767i16, 0, 0, 0] {
        bin.extend(v.to_le_bytes());
    }
    for v in [65_535u16, 0, 32_768] {
        bin.extend(v.to_le_bytes());
    }
    bin.extend([51, 0]);
    let e = "KHR_gaussian_splatting";
    let json = format!(
        r#"{{"meshes":[{{"primitives":[{{"mode":0,"extensions":{{"{e}":{{}}}},"attributes":{{"POSITION":0,
        "{e}:SH_DEGREE_0_COEF_0":1,"{e}:ROTATION":2,"{e}:SCALE":3,"{e}:OPACITY":4}}}}]}}],
        "accessors":[{{"bufferView":0,"componentType":5126,"count":1,"type":"VEC3"}},
        {{"bufferView":0,"byteOffset":12,"componentType":5126,"count":1,"type":"VEC3"}},
        {{"bufferView":1,"componentType":5122,"normalized":true,"count":1,"type":"VEC4"}},
        {{"bufferView":1,"byteOffset":8,"componentType":5123,"normalized":true,"count":1,"type":"VEC3"}},
        {{"bufferView":1,"byteOffset":14,"componentType":5121,"normalized":true,"count":1,"type":"SCALAR"}}],
        "bufferViews":[{{"buffer":0,"byteLength":24}},{{"buffer":0,"byteOffset":24,"byteLength":16}}],
        "nodes":[{{"mesh":0}}],"scenes":[{{"nodes":[0]}}]}}"#
    );
    (json, bin)
}

#[test]
fn integers_are_fractions() {
    let (json, bin) = small();
    let (splats, _) = parse(&by_hand(&json, &bin), Format::Glb).unwrap();
    assert_eq!(splats.means, [[-1.0, -2.0, 3.0]]);
    assert_eq!(splats.sh0, [[0.5, -0.5, 0.25]]);
    assert_eq!(splats.quats, [[0.0, -1.0, 0.0, 0.0]]);
    assert_eq!(splats.scales[0][..2], [0.0, -20.0]);
    assert!((splats.scales[0][2] - 0.5f32.ln()).abs() < 1e-4);
    assert!((splats.opacities[0] - 0.25f32.ln()).abs() < 1e-5);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let (json, bin) = small();
    for (from, to, word) in [
        (
            "\"count\":1,\"type\":\"VEC4\"",
            "\"count\":9,\"type\":\"VEC4\"",
            "needs",
        ),
        (
            "\"count\":1,\"type\":\"VEC4\"",
            "\"count\":18446744073709551615,\"type\":\"VEC4\"",
            "beyond the file",
        ),
        (
            "\"byteOffset\":24",
            "\"byteOffset\":18446744073709551615",
            "beyond the file",
        ),
        ("splatting:SCALE\":3", "splatting:SCALE\":77", "no numbers"),
        (
            "splatting:SCALE",
            "splatting:SIZE",
            "lack KHR_gaussian_splatting:SCALE",
        ),
        ("5123", "5125", "another type"),
        (
            "\"extensions\":{\"KHR",
            "\"extensions\":{\"EXT",
            "no primitive",
        ),
        ("\"meshes\":", "\"meshes\":7,\"x\":", "not understood"),
    ] {
        assert!(json.contains(from), "{from}");
        let error = parse(&by_hand(&json.replacen(from, to, 1), &bin), Format::Glb).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert!(error.place().is_some() && error.hint_text().is_some());
    }
}

const E: &str = "KHR_gaussian_splatting";

/// A scene in JSON that tests change: meshes of splats, each of all Gaussians given.
struct Scene {
    json: serde_json::Value,
    bin: Vec<u8>,
}

/// Attributes of splats in glTF's axes; `scale` and `colour` say how these are stored.
fn scene(splats: &Splats, scale: fn(f32) -> f32, colour: fn(f32) -> f32) -> Scene {
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
        // Of y, z and x.
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

/// A text file with its numbers in itself.
pub fn with_base64(splats: &Splats) -> Vec<u8> {
    use base64::Engine;
    let mut scene = Scene::plain(splats);
    let text = base64::engine::general_purpose::STANDARD.encode(&scene.bin);
    scene.json["buffers"][0]["uri"] = json!(format!("data:application/octet-stream;base64,{text}"));
    scene.json.to_string().into_bytes()
}

/// A binary file with an SPZ file in it, below a node that moves it.
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
    fn plain(splats: &Splats) -> Self {
        scene(splats, f32::exp, |c| c)
    }

    fn read(&self) -> (Splats, Vec<String>) {
        let (splats, aside) = parse(&self.bytes(), Format::Glb).unwrap();
        (splats, aside.notes)
    }

    fn bytes(&self) -> Vec<u8> {
        by_hand(&self.json.to_string(), &self.bin)
    }

    #[track_caller]
    fn refused(&self, word: &str) {
        let error = parse(&self.bytes(), Format::Glb).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert!(
            error.place().is_some() && error.hint_text().is_some(),
            "{error}"
        );
    }
}

#[track_caller]
fn said(notes: &[String], word: &str) {
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

/// The scene's nodes in glTF's axes as an edit's similarity in Dapple's.
#[test]
fn nodes_and_their_parents_place_the_splats() {
    let splats = crowd(50, 1);
    let mut scene = Scene::plain(&splats);
    let half = 0.5f64.sqrt();
    let turn = glam::DQuat::from_xyzw(0.0, half, 0.0, half);
    let outer = json!({"children": [1], "translation": [10, 0, 3], "rotation": [0, half, 0, half]});
    // The quarter turn about y stays in Dapple's axes, but for its direction.
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
    // Without scenes all nodes are shown; with a scene of nothing the splats are read all the same.
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
    // A mesh in so many places that memory takes some hundred times the file's bytes, and in too many.
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
    // A deep tree is no deeper than memory.
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
        (json!([1, 0, 1]), 0, "left out"),
    ] {
        scene.json["nodes"] = json!([{"mesh": 0, "scale": scale}]);
        let (read, notes) = scene.read();
        assert_eq!(read.len(), count);
        said(&notes, word);
    }
    // So far off that floats cannot tell the splats apart.
    scene.json["nodes"] = json!([{"mesh": 0, "translation": [6_378_137.0, 0, 0]}]);
    said(&scene.read().1, "units from the origin");
    scene.json["animations"] = json!([{}]);
    scene.json["nodes"] = json!([{"mesh": 0, "extensions": {"EXT_mesh_gpu_instancing": {}}}]);
    let notes = scene.read().1;
    said(&notes, "animations");
    said(&notes, "EXT_mesh_gpu_instancing");
}

#[test]
fn logarithms_of_any_sign_are_read_as_such() {
    let mut splats = crowd(50, 0);
    for larger in [0.0, 4.0] {
        splats
            .scales
            .iter_mut()
            .flatten()
            .for_each(|s| *s += larger);
        let (read, notes) = scene(&splats, |s| s, |c| c).read();
        said(&notes, "logarithms");
        assert_near(&read, &splats, Steps::NONE, "logarithms");
    }
    // In one mesh of two: both, as one program wrote them.
    let mut scene = scene(&splats, |s| s + 8.0, |c| c);
    let own = Scene::plain(&splats);
    assert!(scene.read().1.is_empty());
    let at = scene.bin.len();
    scene
        .bin
        .extend((0..50 * 3).flat_map(|_| (-1f32).to_le_bytes()));
    let length = scene.bin.len() - at;
    scene.json["buffers"][0]["byteLength"] = json!(scene.bin.len());
    let push = |list: &mut serde_json::Value, value| list.as_array_mut().unwrap().push(value);
    push(
        &mut scene.json["bufferViews"],
        json!({"buffer": 0, "byteOffset": at, "byteLength": length}),
    );
    push(
        &mut scene.json["accessors"],
        json!({"bufferView": 5, "componentType": 5126, "count": 50, "type": "VEC3"}),
    );
    let mut second = own.json["meshes"][0].clone();
    second["primitives"][0]["attributes"][format!("{E}:SCALE")] = json!(5);
    push(&mut scene.json["meshes"], second);
    scene.json["nodes"] = json!([{"mesh": 0, "children": [1]}, {"mesh": 1}]);
    let (read, notes) = scene.read();
    said(&notes, "logarithms");
    assert_eq!(read.scales[0][0], splats.scales[0][0] + 8.0);
    assert_eq!(read.scales[60][0], -1.0);
}

#[test]
fn linear_colours_become_those_of_a_display() {
    fn linear(dc: f32) -> f32 {
        let c = 0.5 + SH_C0 * dc;
        let linear = if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        };
        (linear - 0.5) / SH_C0
    }
    let splats = crowd(50, 0);
    let mut scene = scene(&splats, f32::exp, linear);
    scene.json["meshes"][0]["primitives"][0]["extensions"][E]["colorSpace"] =
        json!("lin_rec709_display");
    let (read, notes) = scene.read();
    said(&notes, "linear");
    assert_near(
        &read,
        &splats,
        Steps {
            sh0: 1e-4,
            ..Steps::NONE
        },
        "linear",
    );
}

#[test]
fn what_is_not_known_is_told_or_refused_by_name() {
    let splats = crowd(20, 0);
    let mut scene = Scene::plain(&splats);
    for (key, value) in [
        ("kernel", "triangle_surfel"),
        ("colorSpace", "lin_rec2020_scene"),
        ("projection", "orthographic"),
        ("sortingMethod", "none"),
    ] {
        let mut other = Scene {
            json: scene.json.clone(),
            bin: scene.bin.clone(),
        };
        other.json["meshes"][0]["primitives"][0]["extensions"][E][key] = json!(value);
        let (read, notes) = other.read();
        assert_eq!(read.len(), 20);
        said(&notes, value);
        assert_eq!(notes.len(), 1);
    }
    scene.json["extensionsRequired"] = json!([E, "KHR_materials_unlit", "KHR_mesh_quantization"]);
    assert!(scene.read().1.is_empty());
    for name in [
        "EXT_meshopt_compression",
        "KHR_draco_mesh_compression",
        "EXT_splats_of_tomorrow",
    ] {
        scene.json["extensionsRequired"] = json!([E, name]);
        scene.refused(name);
    }
    // Numbers that are in no view, and the extension that must have them.
    let mut packed = Scene {
        json: scene.json.clone(),
        bin: Vec::new(),
    };
    packed.json["extensionsRequired"] = json!([]);
    let inner = json!({"KHR_gaussian_splatting_compression_of_tomorrow": {"bufferView": 0}});
    packed.json["meshes"][0]["primitives"][0]["extensions"][E]["extensions"] = inner;
    for accessor in packed.json["accessors"].as_array_mut().unwrap() {
        accessor.as_object_mut().unwrap().remove("bufferView");
    }
    packed.refused("compression_of_tomorrow");
    scene.json["extensionsRequired"] = json!([]);
    scene.json["bufferViews"][0]["extensions"] = json!({"EXT_meshopt_compression": {}});
    scene.refused("EXT_meshopt_compression");
}

#[test]
fn text_files_find_their_numbers_and_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("scene");
    std::fs::create_dir_all(inside.join("buffers")).unwrap();
    let splats = crowd(30, 0);
    let mut scene = Scene::plain(&splats);
    for name in ["scene data.bin", "100%25.bin", "buffers/a.bin"] {
        std::fs::write(inside.join(name), &scene.bin).unwrap();
    }
    std::fs::write(folder.path().join("outside.bin"), &scene.bin).unwrap();
    let path = inside.join("a.gltf");
    let mut read = |uri: &str, mark: &str| {
        scene.json["buffers"][0]["uri"] = json!(uri);
        std::fs::write(&path, format!("{mark}{}", scene.json)).unwrap();
        splat_file::read(&path)
    };
    let base64 = |bytes: &[u8]| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let bin = Scene::plain(&splats).bin;
    for uri in [
        "scene%20data.bin",
        "scene data.bin",
        "./scene%20data.bin",
        "buffers/a.bin",
        "buffers\\a.bin",
        // A name that has an escape of its own.
        "100%2525.bin",
        "100%25.bin",
        &format!("data:application/octet-stream;base64,{}", base64(&bin)),
    ] {
        let (found, aside) = read(uri, "\u{feff}").unwrap();
        assert!(aside.notes.is_empty(), "{:?}", aside.notes);
        assert_near(&found, &splats, Steps::NONE, uri);
    }
    let absolute = folder.path().join("outside.bin").display().to_string();
    for (uri, word) in [
        ("../outside.bin", "leads out"),
        ("%2e%2e/outside.bin", "leads out"),
        ("..\\outside.bin", "leads out"),
        (absolute.as_str(), "leads out"),
        ("file:///etc/passwd", "not next to it"),
        ("https://example.com/a.bin", "not next to it"),
        ("missing.bin", "\"missing.bin\" is missing"),
        ("data:application/octet-stream;base64,????", "no base64"),
    ] {
        let error = read(uri, "").unwrap_err();
        assert!(error.to_string().contains(word), "{uri}: {error}");
        assert!(error.place().unwrap().contains("a.gltf") && error.hint_text().is_some());
    }
    // Cut, and longer than it says.
    std::fs::write(inside.join("buffers/a.bin"), &bin[..bin.len() - 40]).unwrap();
    let error = read("buffers/a.bin", "").unwrap_err();
    assert!(error.to_string().contains("beyond the file"), "{error}");
    let longer = [&bin[..], &[0; 40]].concat();
    std::fs::write(inside.join("buffers/a.bin"), longer).unwrap();
    said(&read("buffers/a.bin", "").unwrap().1.notes, "buffer 0 has");
    // Binary under the name of text, and text under that of binary.
    let mut scene = Scene::plain(&splats);
    std::fs::write(&path, scene.bytes()).unwrap();
    assert_eq!(splat_file::read(&path).unwrap().0.len(), 30);
    scene.json["buffers"][0]["uri"] = json!("scene data.bin");
    let path = inside.join("b.glb");
    std::fs::write(&path, scene.json.to_string()).unwrap();
    assert_eq!(splat_file::read(&path).unwrap().0.len(), 30);
    // Without a folder its files cannot be found.
    let error = parse(scene.json.to_string().as_bytes(), Format::Gltf).unwrap_err();
    assert!(error.to_string().contains("folder is not known"), "{error}");
}

#[test]
fn spz_files_inside_are_read() {
    let splats = crowd(40, 1);
    let spz = splat_file::encode(&splats, Format::Spz, &WriteOptions::default()).unwrap();
    let (alone, _) = parse(&spz, Format::Spz).unwrap();
    for (outer, name) in [
        (Some(E), "KHR_gaussian_splatting_compression_spz_2"),
        (Some(E), "KHR_gaussian_splatting_compression_spz"),
        (None, "KHR_spz_gaussian_splats_compression"),
    ] {
        let packed = json!({name: {"bufferView": 0}});
        let extensions = match outer {
            Some(outer) => json!({outer: {"extensions": packed}}),
            None => packed,
        };
        let accessor = json!({"componentType": 5126, "count": 40, "type": "VEC3"});
        let json = json!({
            "asset": {"version": "2.0"}, "extensionsRequired": [name], "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0, "translation": [0, 0, 5]}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "extensions": extensions}]}],
            "accessors": [accessor], "bufferViews": [{"buffer": 0, "byteLength": spz.len()}],
            "buffers": [{"byteLength": spz.len()}],
        });
        let mut scene = Scene {
            json,
            bin: spz.clone(),
        };
        let (read, notes) = scene.read();
        assert!(notes.is_empty(), "{notes:?}");
        let mut moved = alone.clone();
        Similarity::translation([0.0, 0.0, 5.0]).apply(&mut moved);
        assert_eq!(read, moved, "{name}");
        scene.json["accessors"][0]["count"] = json!(39);
        said(&scene.read().1, "promise 39 Gaussians");
        scene.bin[40] ^= 0xff;
        scene.refused("SPZ");
    }
}

#[test]
fn counts_and_lengths_that_differ_are_told() {
    let splats = crowd(40, 0);
    let mut scene = Scene::plain(&splats);
    for accessor in scene.json["accessors"].as_array_mut().unwrap() {
        accessor["count"] = json!(30);
    }
    let (read, notes) = scene.read();
    assert_eq!(read.len(), 30);
    said(&notes, "10 rows more");
    let bytes = Scene::plain(&splats).bytes();
    let with = |length: usize, tail: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        bytes.extend(tail);
        let (read, aside) = parse(&bytes, Format::Glb).unwrap();
        assert_eq!(read.len(), 40);
        aside.notes
    };
    let all = bytes.len();
    assert!(with(all, b"").is_empty());
    said(&with(all, b"these bytes follow"), "18 bytes follow");
    said(&with(all, &bytes), "follow the last chunk");
    said(&with(all + 18, b"these bytes follow"), "18 bytes follow");
    said(&with(0, b""), "says that it has 0 bytes");
    // A chunk that is somebody else's is passed over.
    let chunk = [&4u32.to_le_bytes()[..], b"MINE", b"1234"].concat();
    assert!(with(all + 12, &chunk).is_empty());
}

#[test]
fn drafts_had_colours_and_opacities_of_points() {
    let splats = crowd(20, 0);
    let mut scene = Scene::plain(&splats);
    let at = scene.bin.len();
    for i in 0..20 {
        let alpha = 1.0 / (1.0 + (-splats.opacities[i]).exp());
        let rgb = splats.sh0[i].map(|c| 0.5 + SH_C0 * c);
        let row = rgb.into_iter().chain([alpha]);
        scene.bin.extend(row.flat_map(f32::to_le_bytes));
    }
    let view = json!({"buffer": 0, "byteOffset": at, "byteLength": 320});
    scene.json["bufferViews"].as_array_mut().unwrap().push(view);
    let accessor = json!({"bufferView": 5, "componentType": 5126, "count": 20, "type": "VEC4"});
    scene.json["accessors"]
        .as_array_mut()
        .unwrap()
        .push(accessor);
    scene.json["buffers"][0]["byteLength"] = json!(scene.bin.len());
    scene.json["meshes"][0]["primitives"][0]["attributes"] = json!({
        "POSITION": 0, "_ROTATION": 1, "_SCALE": 2, "COLOR_0": 5,
    });
    let (read, notes) = scene.read();
    said(&notes, "COLOR_0");
    assert_near(
        &read,
        &splats,
        Steps {
            sh0: 1e-4,
            ..Steps::NONE
        },
        "draft",
    );
}
