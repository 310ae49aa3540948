//! Selects where a scoring computes LPIPS: on the GPU of its engine, or on the CPU.

use super::Lpips;
use super::device::DeviceLpips;
use dapple_device::BoxedEngine;
use dapple_scene::Result;
use dapple_tensor::Context;

/// LPIPS for one scoring. Holds the weights on the engine's device.
pub(crate) struct Measure<'a> {
    lpips: &'a Lpips,
    device: Option<DeviceLpips>,
    /// Reason why the CPU computes although there is a GPU.
    note: Option<String>,
}

impl<'a> Measure<'a> {
    /// A measure on the device of this engine.
    pub(crate) fn new(lpips: &'a Lpips, engine: &BoxedEngine) -> Self {
        let mut measure = Self::on_host(lpips);
        if let Some(gpu) = engine.gpu() {
            match lpips.on(&Context::gpu(gpu)) {
                Ok(device) => measure.device = Some(device),
                Err(error) => measure.fall_back(error.what()),
            }
        }
        measure
    }

    /// A measure on the CPU.
    pub(crate) fn on_host(lpips: &'a Lpips) -> Self {
        Self {
            lpips,
            device: None,
            note: None,
        }
    }

    /// Computes [`Lpips::distance`]. After the first image that does not fit the device, the CPU computes the rest of
    /// this scoring.
    ///
    /// # Errors
    /// Images too small for the network's strides; a lost device.
    pub(crate) fn distance(
        &mut self,
        image: &[f32],
        target: &[f32],
        width: usize,
        height: usize,
        mask: Option<&[u8]>,
    ) -> Result<f64> {
        self.lpips.backbone().check_size(width, height)?;
        if let Some(device) = &mut self.device {
            match device.prepare(width, height) {
                Ok(()) => return device.distance(image, target, width, height, mask),
                Err(error) => self.fall_back(error.what()),
            }
        }
        self.lpips.distance(image, target, width, height, mask)
    }

    /// Returns the note to the user about where LPIPS was computed.
    pub(crate) fn note(self) -> Option<String> {
        self.note
    }

    fn fall_back(&mut self, why: &str) {
        self.device = None;
        self.note = Some(format!("LPIPS is computed on the CPU: {why}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::evaluate::lpips::backbone::Backbone;
    use crate::evaluate::lpips::network::{Layer, Window};

    /// One convolution that hands colours on.
    fn one_layer() -> Lpips {
        let weights = (0..9).map(|i| if i % 4 == 0 { 1.0 } else { 0.0 });
        Lpips {
            backbone: Backbone::Vgg,
            layers: vec![Layer {
                pool: None,
                window: Window {
                    size: 1,
                    stride: 1,
                    padding: 0,
                },
                inputs: 3,
                outputs: 3,
                weights: weights.collect(),
                bias: vec![3.0; 3],
                is_looked_at: true,
            }],
            linear: vec![vec![1.0; 3]],
        }
    }

    #[test]
    fn what_the_device_does_not_hold_the_processor_computes_and_says_so() {
        let lpips = one_layer();
        let (a, b) = (vec![0.25; 20 * 17 * 3], [0.5, 0.1, 0.9].repeat(20 * 17));
        let expected = lpips.distance(&a, &b, 20, 17, None).unwrap();
        assert!(expected > 0.01);
        for (most, falls_back) in [(20 * 17 * 12, false), (20 * 17 * 12 - 1, true)] {
            let mut device = lpips.on(&Context::cpu()).unwrap();
            device.binding_bytes = most;
            let mut measure = Measure {
                device: Some(device),
                ..Measure::on_host(&lpips)
            };
            // Too small for the network: not a fault of the device.
            assert!(measure.distance(&a, &b, 8, 17, None).is_err());
            assert!(measure.device.is_some());
            for _ in 0..2 {
                let distance = measure.distance(&a, &b, 20, 17, None).unwrap();
                assert!((distance - expected).abs() < 1e-6, "{distance}");
                assert_eq!(measure.device.is_none(), falls_back);
            }
            let note = measure.note();
            assert_eq!(note.is_some(), falls_back);
            assert!(
                note.is_none_or(|note| note.contains("4080 bytes") && note.contains("20 x 17"))
            );
        }
    }
}
