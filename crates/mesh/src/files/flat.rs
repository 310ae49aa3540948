//! Vertices of formats with one texture place per vertex.

use crate::mesh::Mesh;
use glam::Vec2;
use std::collections::HashMap;

/// Vertices and triangles for a renderer.
#[derive(Debug, Default)]
pub struct Flat {
    /// Vertex of the mesh of each vertex.
    pub vertices: Vec<u32>,
    /// Place in the texture of each vertex; empty without a texture.
    pub places: Vec<Vec2>,
    /// Triangles.
    pub triangles: Vec<[u32; 3]>,
}

impl Flat {
    /// Splits vertices that have several places in the texture.
    pub fn from_mesh(mesh: &Mesh) -> Self {
        let Some(texture) = &mesh.texture else {
            return Self {
                vertices: (0..mesh.positions.len() as u32).collect(),
                places: Vec::new(),
                triangles: mesh.triangles.clone(),
            };
        };
        let mut flat = Self::default();
        let mut index = HashMap::new();
        for (triangle, places) in mesh.triangles.iter().zip(&texture.corners) {
            let mut corners = [0; 3];
            for k in 0..3 {
                let key = (triangle[k], places[k].x.to_bits(), places[k].y.to_bits());
                let next = flat.vertices.len() as u32;
                corners[k] = *index.entry(key).or_insert(next);
                if corners[k] == next {
                    flat.vertices.push(triangle[k]);
                    flat.places.push(places[k]);
                }
            }
            flat.triangles.push(corners);
        }
        flat
    }
}
