//! Refusal of panoramas.

use crate::Error;

/// Returns the refusal of a camera model that shows all directions.
pub(crate) fn panorama_refused(model: &str) -> Option<Error> {
    let name = model.to_ascii_uppercase();
    let words = ["EQUIRECT", "SPHERICAL", "PANORAM", "OMNIDIRECTIONAL"];
    words.iter().any(|word| name.contains(word)).then(|| {
        Error::unsupported(format!(
            "the photos are panoramas (camera model {model}), which Dapple does not train on"
        ))
        .hint(
            "cut each panorama into perspective views and find their poses: COLMAP's example panorama_sfm.py does both; \
             `ns-process-data images --camera-type equirectangular --images-per-equirect 8 --data PANORAMAS --output-dir \
             OUT` (Nerfstudio) too",
        )
    })
}
