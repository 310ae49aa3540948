//! The page: plain ES modules, in the binary. No build step, no request to any other host.

/// A file of the page.
#[derive(Clone, Copy)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All of them.
pub(crate) const ASSETS: [Asset; 7] = [
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
    Asset {
        path: "/main.js",
        kind: SCRIPT,
        text: include_str!("page/main.js"),
    },
    Asset {
        path: "/controls.js",
        kind: SCRIPT,
        text: include_str!("page/controls.js"),
    },
    Asset {
        path: "/vectors.js",
        kind: SCRIPT,
        text: include_str!("page/vectors.js"),
    },
    Asset {
        path: "/path.js",
        kind: SCRIPT,
        text: include_str!("page/path.js"),
    },
    Asset {
        path: "/plots.js",
        kind: SCRIPT,
        text: include_str!("page/plots.js"),
    },
];

/// What a browser lets the page do: load its own files, and talk to its own server.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
