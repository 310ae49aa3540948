//! Material of a surface at a point.

use glam::Vec3A;

/// Reflection of light by a surface.
#[derive(Debug, Clone, Copy)]
pub(super) struct Material {
    /// Diffuse reflectance, linear.
    pub(super) albedo: Vec3A,
    /// Strength of the highlight (Phong 1975); 0 is matt.
    pub(super) gloss: f32,
    /// Exponent of the highlight.
    pub(super) shininess: f32,
}

impl Material {
    pub(super) fn matt(albedo: Vec3A) -> Self {
        Self {
            albedo,
            gloss: 0.0,
            shininess: 1.0,
        }
    }
}

/// Converts an sRGB colour to linear light.
pub(super) fn srgb(r: f32, g: f32, b: f32) -> Vec3A {
    // Gamma 2 is a sufficient approximation for colours.
    Vec3A::new(r * r, g * g, b * b)
}
