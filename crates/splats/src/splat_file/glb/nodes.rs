//! The scene's nodes: where each mesh is shown.

use super::json::{Gltf, Node};
use super::refuse;
use crate::Result;
use glam::{DMat4, DQuat, DVec3};

/// A mesh at a place of the scene.
pub(super) struct Instance {
    pub mesh: usize,
    pub node: usize,
    /// Transform from the mesh to the scene, all parents included.
    pub world: DMat4,
}

/// Returns the meshes that the scene shows, in the order of its nodes. Without scenes: of all nodes.
pub(super) fn instances(gltf: &Gltf) -> Result<Vec<Instance>> {
    let mut roots = match (gltf.scene, gltf.scenes.is_empty()) {
        (None, true) => parentless(&gltf.nodes),
        (scene, _) => {
            let scene = scene.unwrap_or(0);
            let Some(scene) = gltf.scenes.get(scene) else {
                return refuse(format!("the glTF file has no scene {scene}"), "scene");
            };
            scene.nodes.clone()
        }
    };
    roots.reverse();
    let mut open: Vec<(usize, DMat4)> = roots.into_iter().map(|n| (n, DMat4::IDENTITY)).collect();
    let mut is_seen = vec![false; gltf.nodes.len()];
    let mut instances = Vec::new();
    while let Some((index, parent)) = open.pop() {
        let Some(node) = gltf.nodes.get(index) else {
            return refuse(format!("the glTF file has no node {index}"), "nodes");
        };
        // A tree has one path to each node; a cycle would not end.
        if std::mem::replace(&mut is_seen[index], true) {
            return refuse(
                format!("node {index} of the glTF file is below two nodes, or below itself"),
                "nodes",
            );
        }
        let world = parent * local(node, index)?;
        if let Some(mesh) = node.mesh {
            instances.push(Instance {
                mesh,
                node: index,
                world,
            });
        }
        open.extend(node.children.iter().rev().map(|&child| (child, world)));
    }
    Ok(instances)
}

/// Returns the nodes that are no other node's child.
fn parentless(nodes: &[Node]) -> Vec<usize> {
    let mut is_child = vec![false; nodes.len()];
    for &child in nodes.iter().flat_map(|node| &node.children) {
        if let Some(is_child) = is_child.get_mut(child) {
            *is_child = true;
        }
    }
    (0..nodes.len()).filter(|&k| !is_child[k]).collect()
}

/// Returns a node's own matrix.
fn local(node: &Node, index: usize) -> Result<DMat4> {
    if let Some(matrix) = node.matrix {
        let matrix = DMat4::from_cols_array(&matrix);
        let last = matrix.row(3);
        if last.truncate() != DVec3::ZERO || last.w != 1.0 {
            return refuse(
                format!("the matrix of node {index} of the glTF file is a projection"),
                "nodes",
            );
        }
        return Ok(matrix);
    }
    let [x, y, z, w] = node.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]);
    let rotation = DQuat::from_xyzw(x, y, z, w);
    if rotation.length() < 1e-9 {
        return refuse(
            format!("the rotation of node {index} of the glTF file is none"),
            "nodes",
        );
    }
    Ok(DMat4::from_scale_rotation_translation(
        node.scale.unwrap_or([1.0; 3]).into(),
        rotation.normalize(),
        node.translation.unwrap_or([0.0; 3]).into(),
    ))
}
