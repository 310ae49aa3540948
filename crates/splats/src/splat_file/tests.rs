//! Names and contents of formats.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::ErrorKind;
use crate::Splats;
use std::path::Path;

#[test]
fn every_format_is_listed_once_and_found_by_its_name() {
    for format in Format::ALL {
        let name = match format {
            Format::SogFolder => "a/meta.JSON".to_owned(),
            Format::StreamedSog => "a/LOD-meta.json".to_owned(),
            _ => format!("some.{}", format.extension().to_uppercase()),
        };
        assert_eq!(Format::of_name(Path::new(&name)).unwrap(), format);
    }
    let error = Format::of_name(Path::new("a.spl")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .hint_text()
            .unwrap()
            .contains("meta.json, lod-meta.json, .gltf, .glb or .ksplat")
    );
}

#[test]
fn content_counts_where_it_has_a_mark_and_the_name_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut splats = Splats::empty(1);
    splats.means.push([1.0, 2.0, 3.0]);
    splats.scales.push([0.0; 3]);
    splats.quats.push([1.0, 0.0, 0.0, 0.0]);
    splats.opacities.push(0.0);
    splats.sh0.push([0.0; 3]);
    splats.sh_rest = vec![0.5; 9];
    let [a, b, c] = ["a.splat", "b.splat", "c"].map(|name| folder.path().join(name));
    write(&a, &splats, Format::Splat).unwrap();
    assert_eq!(std::fs::metadata(&a).unwrap().len(), 32);
    // `.splat` has no view dependence.
    assert_eq!(read(&a).unwrap().0.sh_degree, 0);
    // A PLY file under another name is read as PLY.
    write(&b, &splats, Format::Ply).unwrap();
    assert_eq!(read(&b).unwrap().0.sh_rest, splats.sh_rest);
    // Without a known name and signature it is refused.
    std::fs::copy(&a, &c).unwrap();
    assert!(read(&c).unwrap_err().place().is_some());
    splats.quats.pop();
    assert_eq!(
        write(&a, &splats, Format::Splat).unwrap_err().kind(),
        ErrorKind::Internal
    );
}
