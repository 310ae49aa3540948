//! Networks that LPIPS compares features of, and their convolutions.

use super::network::Window;
use dapple_scene::{Error, Result};

/// Network whose features are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backbone {
    /// AlexNet (Krizhevsky 2014, arXiv:1404.5997): fast; the paper's authors use it for scores.
    Alex,
    /// VGG-16 (Simonyan & Zisserman 2014, arXiv:1409.1556): the network of scores in 3DGS papers.
    Vgg,
}

/// A convolution of a network, with the max pooling before it and a rectifier after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Its number among torchvision's `features`.
    pub number: usize,
    /// Channels in and out.
    pub channels: [usize; 2],
    /// Window of the convolution.
    pub window: Window,
    /// Window of the pooling before it.
    pub pool: Option<Window>,
    /// True if LPIPS compares its output.
    pub is_looked_at: bool,
}

const fn window(size: usize, stride: usize, padding: usize) -> Window {
    Window {
        size,
        stride,
        padding,
    }
}

impl Backbone {
    /// Returns the display name: AlexNet, VGG-16.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alex => "AlexNet",
            Self::Vgg => "VGG-16",
        }
    }

    /// Returns the edge of the smallest image with a pixel in the last layer.
    pub const fn least_edge(self) -> usize {
        match self {
            // 31 -> 7 -> 3 -> 1.
            Self::Alex => 31,
            // Halved four times.
            Self::Vgg => 16,
        }
    }

    /// Returns the convolutions up to the last that LPIPS compares, in order.
    pub fn convolutions(self) -> Vec<Convolution> {
        match self {
            Self::Alex => {
                let pool = Some(window(3, 2, 0));
                [
                    (0, [3, 64], window(11, 4, 2), None),
                    (3, [64, 192], window(5, 1, 2), pool),
                    (6, [192, 384], window(3, 1, 1), pool),
                    (8, [384, 256], window(3, 1, 1), None),
                    (10, [256, 256], window(3, 1, 1), None),
                ]
                .map(|(number, channels, window, pool)| Convolution {
                    number,
                    channels,
                    window,
                    pool,
                    is_looked_at: true,
                })
                .into()
            }
            Self::Vgg => {
                // Convolutions in each of the five blocks, and their outputs.
                let blocks = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)];
                let (mut number, mut inputs) = (0, 3);
                let mut convolutions = Vec::new();
                for (block, (length, outputs)) in blocks.into_iter().enumerate() {
                    for i in 0..length {
                        convolutions.push(Convolution {
                            number,
                            channels: [inputs, outputs],
                            window: window(3, 1, 1),
                            pool: (block > 0 && i == 0).then_some(window(2, 2, 0)),
                            is_looked_at: i + 1 == length,
                        });
                        // A rectifier follows each, pooling each block.
                        number += 2;
                        inputs = outputs;
                    }
                    number += 1;
                }
                convolutions
            }
        }
    }

    /// # Errors
    /// An image too small for the network's strides.
    pub(super) fn check_size(self, width: usize, height: usize) -> Result<()> {
        let least = self.least_edge();
        if width >= least && height >= least {
            return Ok(());
        }
        Err(Error::input(format!(
            "LPIPS with {} needs images of {least} x {least} pixels, and this one has {width} x {height}",
            self.name()
        ))
        .hint("score larger photos, or omit LPIPS"))
    }
}
