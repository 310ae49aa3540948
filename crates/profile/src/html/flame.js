// The flamegraph in a separate frame: its script and ids are isolated from this page's, and its script may only draw.

/** Resolves to the number of boxes that the frame reports, or to 0 after 10 s. */
function drawFlamegraph({ flamegraph }, body) {
  if (!flamegraph) return 'The host was not sampled in this profile.';
  const frame = el('iframe', { title: 'Flamegraph of the host’s threads', sandbox: 'allow-scripts allow-modals', height: '420' });
  // The height is read from the text: a frame that is not visible yet has no extent.
  // The drawing stores its zoom in the address, which a frame without an address forbids.
  const before = '<!doctype html><meta charset="utf-8"><style>html{background:#fff}body{margin:0}svg{display:block;width:100%}</style><script>history.replaceState=()=>{};addEventListener("error",(e)=>parent.postMessage({flameError:e.message},"*"))</scr' + 'ipt>';
  const after = '<script>addEventListener("load",()=>{const s=document.querySelector("svg");parent.postMessage({flame:document.querySelectorAll("svg rect, svg path").length,height:s?parseFloat(s.getAttribute("height"))||s.viewBox.baseVal?.height:0},"*")})</scr' + 'ipt>';
  const told = new Promise((resolve) => {
    const late = setTimeout(() => resolve(0), 10000);
    addEventListener('message', (event) => {
      if (event.source !== frame.contentWindow) return;
      if (event.data.flameError) fail(`flamegraph: ${event.data.flameError}`);
      if (!known(event.data.flame)) return;
      if (event.data.height > 40) frame.height = Math.ceil(Math.min(4000, event.data.height)) + 2;
      frame.dataset.boxes = event.data.flame;
      clearTimeout(late);
      resolve(event.data.flame);
    });
  });
  const start = flamegraph.indexOf('<svg');
  frame.srcdoc = before + flamegraph.slice(Math.max(0, start)) + after;
  body.append(frame);
  return told.then(() => null);
}
