//! A flamegraph (Gregg 2011) of stacks in one SVG, without anything from the network.
//!
//! 1. Folded stacks become a tree; equal beginnings are one frame, and siblings are sorted by name.
//! 2. The width of a frame is its part of all samples, and a frame is drawn above its caller. Frames too narrow to be
//!    visible are omitted.
//! 3. The crate or library at the beginning of a name gives the colour, so that the same code has the same colour in
//!    every picture.
//! 4. A short script zooms by a click and searches. Without the script the picture is complete, and a tooltip gives a
//!    frame's samples.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the picture; it scales with the page.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 17.0;
/// Height above the frames: the title and the note.
const HEAD: f64 = 58.0;
/// Height below the frames.
const FOOT: f64 = 14.0;
/// Narrower frames are omitted.
const THINNEST: f64 = 0.2;
/// Width of a character in the font of the frames.
const CHARACTER: f64 = 6.6;
/// Most frames above each other: an endless recursion must not make an endless picture.
const DEEPEST: usize = 400;

const STYLE: &str = "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#111}\
.title{font:bold 15px system-ui,sans-serif}.note{font:12px system-ui,sans-serif;fill:#555}\
.f{cursor:pointer}.f:hover rect{stroke:#000;stroke-width:1}.hit rect{fill:#c3f}.button{cursor:pointer;\
font:12px system-ui,sans-serif;fill:#06c}";

/// Zooming: every frame has its position (x, w: parts of the whole) and its level. Frames below and above the chosen
/// frame get the whole width. Searching marks names and adds up their samples.
const SCRIPT: &str = r#"(function(){
var svg=document.getElementById('dapple-flamegraph'),W=Number(svg.dataset.width),M=Number(svg.dataset.margin),C=Number(svg.dataset.character);
var frames=Array.prototype.slice.call(svg.querySelectorAll('.f'));
function fit(g,x,w){var r=g.querySelector('rect'),t=g.querySelector('text'),n=g.dataset.name,k=Math.floor((w-6)/C);
r.setAttribute('x',x);r.setAttribute('width',Math.max(w-0.4,0.2));t.setAttribute('x',x+3);t.textContent=k<3?'':n.length<=k?n:n.slice(0,k-2)+'..';}
function zoom(x0,w0,level){frames.forEach(function(g){var x=Number(g.dataset.x),w=Number(g.dataset.w),l=Number(g.dataset.l),e=1e-9;
var below=l<level&&x<=x0+e&&x+w>=x0+w0-e,inside=l>=level&&x>=x0-e&&x+w<=x0+w0+e;
g.style.display=below||inside?'':'none';g.style.opacity=below?0.5:1;
if(below)fit(g,M,W);else if(inside)fit(g,M+(x-x0)/w0*W,w/w0*W);});}
frames.forEach(function(g){g.addEventListener('click',function(){zoom(Number(g.dataset.x),Number(g.dataset.w),Number(g.dataset.l));});});
svg.querySelector('.reset').addEventListener('click',function(){zoom(0,1,0);});
svg.querySelector('.search').addEventListener('click',function(){var s=prompt('Part of a name (regular expression)');if(s===null)return;var e=null;
if(s){try{e=new RegExp(s,'i');}catch(x){return;}}var ends=[];
frames.forEach(function(g){var hit=e!==null&&e.test(g.dataset.name);g.classList.toggle('hit',hit);if(hit)ends.push([Number(g.dataset.x),Number(g.dataset.x)+Number(g.dataset.w)]);});
ends.sort(function(a,b){return a[0]-b[0];});var sum=0,end=0;ends.forEach(function(r){if(r[1]>end){sum+=r[1]-Math.max(r[0],end);end=r[1];}});
svg.querySelector('.found').textContent=e?(100*sum).toFixed(1)+' % of samples':'';});
})();"#;

/// A function as called by its parents.
#[derive(Default)]
struct Node<'a> {
    samples: u64,
    callees: BTreeMap<&'a str, Node<'a>>,
}

/// Returns the picture of folded stacks (functions, outermost first, `;` between them) with their counts. `title` is
/// above it, `note` below the title. Stacks without samples are omitted; without any samples the picture contains a
/// message.
pub fn svg<'a>(
    stacks: impl IntoIterator<Item = (&'a str, u64)>,
    title: &str,
    note: &str,
) -> String {
    let mut root = Node::default();
    for (stack, count) in stacks {
        if count == 0 {
            continue;
        }
        root.samples += count;
        let mut node = &mut root;
        for name in stack.split(';').take(DEEPEST) {
            node = node.callees.entry(name).or_default();
            node.samples += count;
        }
    }
    let rows = deepest(&root, 1.0) as f64;
    let height = HEAD + rows * ROW + FOOT;
    let inner = WIDTH - 2.0 * MARGIN;
    let mut out = format!(
        "<svg id=\"dapple-flamegraph\" xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" data-width=\"{inner}\" \
         data-margin=\"{MARGIN}\" data-character=\"{CHARACTER}\" role=\"img\">\n\
         <style>{STYLE}</style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"22\">{}</text>\n\
         <text class=\"note\" x=\"{MARGIN}\" y=\"42\">{}</text>\n\
         <text class=\"button reset\" x=\"1040\" y=\"22\">whole</text>\
         <text class=\"button search\" x=\"1100\" y=\"22\">search</text>\
         <text class=\"note found\" x=\"1040\" y=\"42\"></text>\n",
        escaped(title),
        escaped(if root.samples == 0 {
            "there are no samples"
        } else {
            note
        }),
    );
    let mut picture = Picture {
        out: &mut out,
        total: root.samples.max(1) as f64,
        bottom: height - FOOT,
    };
    picture.row(&root, 0, 0);
    let _ = write!(
        out,
        "<script>//<![CDATA[\n{SCRIPT}\n//]]></script>\n</svg>\n"
    );
    out
}

/// Returns the number of rows for frames wide enough to be visible. `part` is the node's part of all samples.
fn deepest(node: &Node<'_>, part: f64) -> usize {
    let inner = WIDTH - 2.0 * MARGIN;
    let seen = node.callees.values().filter_map(|callee| {
        let part = part * callee.samples as f64 / node.samples.max(1) as f64;
        (part * inner >= THINNEST).then(|| 1 + deepest(callee, part))
    });
    seen.max().unwrap_or(0)
}

struct Picture<'a> {
    out: &'a mut String,
    total: f64,
    bottom: f64,
}

impl Picture<'_> {
    /// Draws the frames above a node, which begins after `before` samples, and all above them.
    fn row(&mut self, node: &Node<'_>, before: u64, level: usize) {
        let mut before = before;
        for (name, callee) in &node.callees {
            self.frame(name, callee.samples, before, level);
            self.row(callee, before, level + 1);
            before += callee.samples;
        }
    }

    fn frame(&mut self, name: &str, samples: u64, before: u64, level: usize) {
        let inner = WIDTH - 2.0 * MARGIN;
        let (at, part) = (before as f64 / self.total, samples as f64 / self.total);
        let (x, width) = (MARGIN + at * inner, part * inner);
        if width < THINNEST {
            return;
        }
        let y = self.bottom - (level + 1) as f64 * ROW;
        let [r, g, b] = colour(name);
        let _ = writeln!(
            self.out,
            "<g class=\"f\" data-x=\"{at:.9}\" data-w=\"{part:.9}\" data-l=\"{level}\" \
             data-name=\"{name}\"><title>{name}: {samples} samples, {:.2} %</title>\
             <rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" rx=\"1.5\" \
             fill=\"rgb({r},{g},{b})\"/><text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>",
            100.0 * part,
            (width - 0.4).max(0.2),
            ROW - 1.0,
            x + 3.0,
            y + 12.0,
            escaped(&fitted(name, width)),
            name = escaped(name),
        );
    }
}

/// Returns the part of a name that fits a frame of this width.
fn fitted(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).floor();
    if room < 3.0 {
        return String::new();
    }
    let room = room as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room - 2).chain("..".chars()).collect()
}

/// Returns a warm colour, light enough for black letters, by the crate at the beginning of the name.
fn colour(name: &str) -> [u8; 3] {
    let bare = name.trim_start_matches(['<', '&', '_']);
    let package = bare.split([':', ' ', '<']).next().unwrap_or_default();
    let hash = package.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let vary = |shift: u32, span: u32| ((hash >> shift) % span) as u8;
    [215 + vary(0, 40), 120 + vary(8, 110), 70 + vary(16, 70)]
}

/// Escapes text and attributes of XML, which cannot contain control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the width of the first frame of this name.
    fn width(svg: &str, name: &str) -> f64 {
        let frame = svg.split(&format!("data-name=\"{name}\"")).nth(1);
        let rect = frame.and_then(|rest| rest.split(" width=\"").nth(1));
        let number = rect.and_then(|rest| rest.split('"').next());
        number.and_then(|n| n.parse().ok()).unwrap_or(-1.0)
    }

    #[test]
    fn frames_are_as_wide_as_their_part_and_lie_on_their_callers() {
        let stacks = [
            ("main;a;b", 30),
            ("main;a", 10),
            ("main;c", 60),
            ("main;d", 0),
        ];
        let picture = svg(stacks, "A title", "a note");
        let inner = WIDTH - 2.0 * MARGIN;
        for (name, part) in [("main", 1.0), ("a", 0.4), ("b", 0.3), ("c", 0.6)] {
            let is = width(&picture, name);
            assert!((is - part * inner).abs() < 0.5, "{name}: {is}");
        }
        assert_eq!(picture.matches("class=\"f\"").count(), 4);
        assert!(picture.contains("data-l=\"2\" data-name=\"b\""));
        // Siblings are next to each other.
        assert!(picture.contains("data-x=\"0.400000000\" data-w=\"0.600000000\" data-l=\"1\""));
        assert!(picture.contains("<title>b: 30 samples, 30.00 %</title>"));
    }

    #[test]
    fn any_name_is_xml_and_nothing_is_no_broken_picture() {
        let picture = svg([("<&\"x\u{7}'>::f;\u{0}", 1)], "<t>", "&");
        assert!(picture.contains("data-name=\"&lt;&amp;&quot;x '&gt;::f\""));
        assert!(!picture.contains('\u{7}') && !picture.contains('\u{0}'));
        let empty = svg([], "none", "");
        assert!(empty.contains("there are no samples") && empty.ends_with("</svg>\n"));
    }

    #[test]
    fn a_recursion_without_end_ends() {
        let stack = vec!["again"; 100_000].join(";");
        let picture = svg([(stack.as_str(), 5)], "deep", "");
        assert_eq!(picture.matches("class=\"f\"").count(), DEEPEST);
    }
}
