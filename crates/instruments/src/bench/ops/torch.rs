//! PyTorch's times for the same operation: rows of its own benchmark, found by operation and shape.
//!
//! The file is one JSON object with `gpu`, `torch` (the device and the version) and `rows`, each with `op`, `shape`,
//! `dtype`, `mode` and `us`. Times are between two events of the device around consecutive calls, so they are
//! comparable with `replayed` only.

use super::Row;
use serde::Deserialize;

/// A file of PyTorch's times.
#[derive(Debug, Clone, Deserialize)]
pub struct Torch {
    /// Device.
    pub gpu: String,
    /// Version of PyTorch.
    pub torch: String,
    rows: Vec<TorchRow>,
}

#[derive(Debug, Clone, Deserialize)]
struct TorchRow {
    op: String,
    shape: Vec<usize>,
    dtype: String,
    mode: String,
    us: f64,
}

/// Modes that compute the same as Dapple: no 19-bit products, nothing compiled, ordinary pageable memory.
const MODES: [&str; 3] = ["eager", "ieee", "pageable"];

impl Torch {
    /// Returns the microseconds of the same operation.
    pub fn us(&self, row: &Row) -> Option<f64> {
        if row.mode != "replayed" && row.family != "transfer" {
            return None;
        }
        let (op, shape) = key(&row.name)?;
        let same = self.rows.iter().find(|torch| {
            torch.op == op
                && torch.shape == shape
                && torch.dtype == row.dtype
                && MODES.contains(&torch.mode.as_str())
        });
        same.map(|torch| torch.us)
    }
}

/// Parses `1 k`, `16 Mi`, `300`.
fn count(text: &str) -> Option<usize> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        _ => return None,
    };
    Some(number.parse::<usize>().ok()? * unit)
}

/// Parses `4096^2`, `64^3` to the sides.
fn sides(text: &str) -> Option<Vec<usize>> {
    let (side, power) = text.split_once('^')?;
    Some(vec![side.parse().ok()?; power.parse().ok()?])
}

/// Parses `[4, 16, 1024]` to rows.
fn rows(text: &str) -> Option<[usize; 2]> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    let sizes = inside.split(", ").map(str::parse::<usize>);
    let sizes = sizes.collect::<Result<Vec<_>, _>>().ok()?;
    let (last, before) = sizes.split_last()?;
    Some([before.iter().product(), *last])
}

/// Returns operation and shape by their names in PyTorch's file.
fn key(name: &str) -> Option<(String, Vec<usize>)> {
    const PLAIN: [(&str, &str); 9] = [
        ("add + relu ", "add_relu"),
        ("mul + relu ", "mul_relu"),
        ("add ", "add"),
        ("mul ", "mul"),
        ("relu ", "relu"),
        ("gelu ", "gelu_tanh"),
        ("exp ", "exp"),
        ("sigmoid ", "sigmoid"),
        ("affine ", "affine"),
    ];
    const SQUARES: [(&str, &str); 5] = [
        ("sum of rows ", "sum_row"),
        ("sum of columns ", "sum_col"),
        ("variance of rows ", "var_row"),
        ("variance of columns ", "var_col"),
        ("matmul ", "matmul"),
    ];
    const NORMS: [(&str, &str); 6] = [
        ("softmax backward ", "softmax_backward"),
        ("layer norm backward ", "layer_norm_backward"),
        ("RMS norm backward ", "rms_norm_backward"),
        ("softmax ", "softmax"),
        ("layer norm ", "layer_norm"),
        ("RMS norm ", "rms_norm"),
    ];
    const LORA: [(&str, &str); 3] = [
        ("LoRA delta ", "delta"),
        ("base + LoRA ", "base+delta"),
        ("LoRA forward + backward ", "forward+backward"),
    ];
    for (ours, theirs) in PLAIN {
        if let Some(count) = name.strip_prefix(ours).and_then(count) {
            return Some((theirs.to_owned(), vec![count]));
        }
    }
    if let Some(count) = name.strip_prefix("sum ").and_then(count) {
        return Some(("sum_flat".to_owned(), vec![count]));
    }
    for (ours, theirs) in SQUARES {
        if let Some(sides) = name.strip_prefix(ours).and_then(sides) {
            return Some((theirs.to_owned(), sides));
        }
    }
    for (ours, theirs) in NORMS {
        if let Some(rows) = name.strip_prefix(ours).and_then(rows) {
            return Some((theirs.to_owned(), rows.to_vec()));
        }
    }
    for (ours, theirs) in LORA {
        let Some((shape, rank)) = name.strip_prefix(ours).and_then(|n| n.split_once(" r")) else {
            continue;
        };
        let [m, d] = rows(shape)?;
        return Some((theirs.to_owned(), vec![m, d, rank.parse().ok()?]));
    }
    if let Some(rest) = name.strip_prefix("MLP 32-64-64-3 on ") {
        return Some(match rest.strip_suffix(", with backward") {
            Some(pixels) => ("32-64-64-3_fwd+bwd".to_owned(), vec![count(pixels)?]),
            None => ("32-64-64-3".to_owned(), vec![count(rest)?]),
        });
    }
    if let Some(size) = name.strip_prefix("VGG-16 features of ") {
        let (w, h) = size.split_once('x')?;
        let shape = vec![h.parse().ok()?, w.parse().ok()?];
        return Some(("vgg16_features".to_owned(), shape));
    }
    for (ours, theirs) in [
        ("upload ", "host_to_device"),
        ("download ", "device_to_host"),
    ] {
        if let Some(count) = name.strip_prefix(ours).and_then(count) {
            return Some((theirs.to_owned(), vec![count]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::{Options, operations};
    use super::*;
    use dapple_tensor::{Context, DType};

    #[test]
    fn names_are_found_by_operation_and_shape() {
        let of = |name: &str| key(name).unwrap();
        assert_eq!(of("add 16 Mi"), ("add".to_owned(), vec![16 << 20]));
        assert_eq!(of("add + relu 1 k"), ("add_relu".to_owned(), vec![1000]));
        assert_eq!(of("sum 100 k"), ("sum_flat".to_owned(), vec![100_000]));
        assert_eq!(of("matmul 64^3"), ("matmul".to_owned(), vec![64; 3]));
        let norm = of("layer norm backward [4, 16, 1024]");
        assert_eq!(norm, ("layer_norm_backward".to_owned(), vec![64, 1024]));
        let lora = of("base + LoRA [4096, 1024] r8");
        assert_eq!(lora, ("base+delta".to_owned(), vec![4096, 1024, 8]));
        assert_eq!(of("MLP 32-64-64-3 on 1 Mi, with backward").1, [1 << 20]);
        assert_eq!(of("VGG-16 features of 1920x1080").1, [1080, 1920]);
        assert_eq!(key("AdamW 512^2"), None);
    }

    #[test]
    fn rows_that_are_measured_have_such_names() {
        let options = Options {
            most: 20_000,
            dtypes: vec![DType::F32],
            ..Options::default()
        };
        let context = Context::cpu();
        let cases = operations::cases(&options).unwrap();
        let names: Vec<String> = cases.iter().map(|make| make(&context).name).collect();
        for part in [
            "add 1 k",
            "add + relu 1 k",
            "sum 10 k",
            "LoRA delta [1, 512] r8",
        ] {
            assert!(names.iter().any(|name| name == part), "{part}: {names:?}");
        }
        let known = names.iter().filter(|name| key(name).is_some()).count();
        assert!(2 * known > names.len(), "{known} of {names:?}");
    }

    #[test]
    fn a_file_is_read_and_only_replays_are_compared() {
        let text = r#"{"gpu": "a device", "torch": "2.9", "seconds": 1.0, "skipped": [], "rows": [
            {"group": "elementwise", "op": "add", "shape": [1000], "dtype": "f32", "mode": "compile", "us": 1.0},
            {"group": "elementwise", "op": "add", "shape": [1000], "dtype": "f32", "mode": "eager", "us": 4.0}]}"#;
        let torch: Torch = serde_json::from_str(text).unwrap();
        let mut row: Row = serde_json::from_value(serde_json::json!({
            "family": "elements", "name": "add 1 k", "dtype": "f32", "mode": "replayed",
            "us": {"avg": 2.0, "min": 2.0, "max": 2.0, "median": 2.0, "p95": 2.0, "std": 0.0},
            "runs": 1, "kernels": 1, "bytes": 0.0, "flops": 0.0, "gb_per_s": 0.0, "gflop_per_s": 0.0,
            "runs_per_s": 0.0, "percent_of_copy": 0.0, "percent_of_flops": 0.0
        }))
        .unwrap();
        assert_eq!(torch.us(&row), Some(4.0));
        row.mode = "eager".to_owned();
        assert_eq!(torch.us(&row), None);
    }
}
