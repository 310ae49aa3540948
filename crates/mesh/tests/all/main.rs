//! Tests of fusion, surface, files and comparison on shapes with known depths.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod broken;
mod corners;
mod files;
mod fusion;
mod glb;
mod judge;
mod obj;
mod refine;
mod shapes;
mod texture;
