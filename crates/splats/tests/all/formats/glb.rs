//! Binary glTF: round trips, and files by hand.

use crate::formats::support::{Steps, assert_near, crowd};
use dapple_splats::splat_file::{self, Format, parse};

#[test]
fn what_is_written_is_read_and_y_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.glb");
    for degree in 0..=3 {
        let splats = crowd(100, degree);
        splat_file::write(&path, &splats, Format::Glb).unwrap();
        let (read, metadata) = splat_file::read(&path).unwrap();
        assert!(metadata.notes.is_empty());
        assert_near(&read, &splats, Steps::NONE, "glb");
        // The first numbers are the first centre, rotated by 180 degrees about z.
        let bytes = std::fs::read(&path).unwrap();
        let json = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let floats = bytes[28 + json..].as_chunks::<4>().0.iter();
        let first: Vec<f32> = floats.take(3).map(|b| f32::from_le_bytes(*b)).collect();
        let [x, y, z] = splats.means[0];
        assert_eq!(first, [-x, -y, z]);
    }
}

pub fn by_hand(json: &str, bin: &[u8]) -> Vec<u8> {
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

/// Returns one Gaussian in small integers, as the extension allows.
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
