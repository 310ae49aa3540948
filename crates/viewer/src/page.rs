//! The page: plain ES modules, in the binary. No build step, no request to any other host.

/// File of the page.
#[derive(Clone, Copy)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

/// Creates the asset of a module.
const fn module(path: &'static str, text: &'static str) -> Asset {
    Asset {
        path,
        kind: "text/javascript; charset=utf-8",
        text,
    }
}

/// All assets of the page.
pub(crate) const ASSETS: [Asset; 21] = [
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        text: include_str!("page/index.html"),
    },
    Asset {
        path: "/style.css",
        kind: "text/css; charset=utf-8",
        text: include_str!("page/style.css"),
    },
    module("/main.js", include_str!("page/main.js")),
    module("/controls.js", include_str!("page/controls.js")),
    module("/edit.js", include_str!("page/edit.js")),
    module("/vectors.js", include_str!("page/vectors.js")),
    module("/panel.js", include_str!("page/panel.js")),
    module("/run.js", include_str!("page/run.js")),
    module("/outline.js", include_str!("page/outline.js")),
    module("/path.js", include_str!("page/path.js")),
    module("/parts.js", include_str!("page/parts.js")),
    module("/plots.js", include_str!("page/plots.js")),
    module("/scale.js", include_str!("page/scale.js")),
    module("/here.js", include_str!("page/here.js")),
    module("/surface.js", include_str!("page/surface.js")),
    module("/export/mesh.js", include_str!("page/export/mesh.js")),
    module("/export/painter.js", include_str!("page/export/painter.js")),
    module("/export/spz.js", include_str!("page/export/spz.js")),
    module("/export/sorter.js", include_str!("page/export/sorter.js")),
    module("/export/draw.js", include_str!("page/export/draw.js")),
    module("/export/webgpu.js", include_str!("page/export/webgpu.js")),
];

/// Content security policy of the page: it may load its own files, connect to its own server, and sort in a thread
/// whose text the page makes.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src blob:; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
