//! Content of glTF's splats: scales, colours, extensions, buffers, and counts.

use crate::formats::gltf::{E, Scene, said, scene};
use crate::formats::support::{Steps, assert_near, crowd};
use dapple_splats::SH_C0;
use dapple_splats::edit::Similarity;
use dapple_splats::splat_file::{self, Format, WriteOptions, parse};
use serde_json::json;

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
    // Both in one mesh of two, as one program wrote them.
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
    // Numbers that are in no view, and the extension that contains them.
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
        // A name that contains an escape itself.
        "100%2525.bin",
        "100%25.bin",
        &format!("data:application/octet-stream;base64,{}", base64(&bin)),
    ] {
        let (found, metadata) = read(uri, "\u{feff}").unwrap();
        assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
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
    // Truncated, and longer than declared.
    std::fs::write(inside.join("buffers/a.bin"), &bin[..bin.len() - 40]).unwrap();
    let error = read("buffers/a.bin", "").unwrap_err();
    assert!(error.to_string().contains("beyond the file"), "{error}");
    let longer = [&bin[..], &[0; 40]].concat();
    std::fs::write(inside.join("buffers/a.bin"), longer).unwrap();
    said(&read("buffers/a.bin", "").unwrap().1.notes, "buffer 0 has");
    // Binary under the name of text, and text under the name of binary.
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
        let (read, metadata) = parse(&bytes, Format::Glb).unwrap();
        assert_eq!(read.len(), 40);
        metadata.notes
    };
    let all = bytes.len();
    assert!(with(all, b"").is_empty());
    said(&with(all, b"these bytes follow"), "18 bytes follow");
    said(&with(all, &bytes), "follow the last chunk");
    said(&with(all + 18, b"these bytes follow"), "18 bytes follow");
    said(&with(0, b""), "says that it has 0 bytes");
    // A chunk of an unknown type is skipped.
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
