//! Region of interest of both kinds of rounds. See `shaders/shared/focus.wgsl`.

use bytemuck::{Pod, Zeroable};
use dapple_engine::DensityFocus;
use dapple_engine::focus::{FocusView, VIEWS};

/// Same layout as WGSL's `FocusView`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
struct View {
    centre: [f32; 3],
    least_cosine: f32,
    axis: [f32; 3],
    pad: u32,
}

impl From<FocusView> for View {
    fn from(view: FocusView) -> Self {
        Self {
            centre: view.centre,
            least_cosine: view.least_cosine,
            axis: view.axis,
            pad: 0,
        }
    }
}

/// Same layout as WGSL's `Focus`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Focus {
    rows: [[f32; 4]; 3],
    kind: u32,
    outside: u32,
    count: u32,
    pad: u32,
    views: [View; VIEWS],
}

const BALL: u32 = 1;
const BOX: u32 = 2;

impl From<Option<DensityFocus>> for Focus {
    fn from(focus: Option<DensityFocus>) -> Self {
        focus.map_or_else(Self::default, |focus| {
            let used = focus.views.iter().filter(|view| **view != FocusView::NONE);
            let mut views = [View::default(); VIEWS];
            let mut count = 0;
            for (place, view) in views.iter_mut().zip(used) {
                *place = (*view).into();
                count += 1;
            }
            Self {
                rows: focus.rows,
                kind: if focus.is_box { BOX } else { BALL },
                outside: focus.outside,
                count,
                pad: 0,
                views,
            }
        })
    }
}
