// Draws every section, checks the result, and writes it to attributes that tests read.

const DRAW = {
  summary: drawSummary, findings: drawFindings, comparison: drawComparison, steps: drawSteps, stages: drawStages,
  kernels: drawKernels, host: drawHost, device: drawDevice, timeline: drawTimeline, roofline: drawRoofline, heat: drawHeat,
  flamegraph: drawFlamegraph, counters: drawCounters, tables: drawTables, configuration: drawConfiguration, method: drawMethod,
};

/** Returns true if a canvas shows more than one colour. */
function painted(canvas) {
  if (!canvas.width || !canvas.height) return false;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 4; i < data.length; i += 4) if (data[i] !== data[0] || data[i + 1] !== data[1] || data[i + 2] !== data[2]) return true;
  return data[3] > 0 && canvas.width * canvas.height === 1;
}
/** Shapes of charts that have an extent. */
const visible = (svg) => [...svg.querySelectorAll('path, rect, circle, polyline')].some((s) => { const b = s.getBoundingClientRect(); return b.width > 0 && b.height > 0; });
const canvases = (body) => { const all = [...body.querySelectorAll('canvas')]; return all.length > 0 && all.every(painted); };
const charts = (body) => { const all = [...body.querySelectorAll('.chart')]; return all.length > 0 && all.every((c) => c.querySelector('svg') && visible(c)); };
const tabled = (body) => body.querySelectorAll('tbody tr').length > 0;
const listed = (body) => body.querySelectorAll('dl > div').length > 0;
/** Conditions for a section to count as filled. */
const FILLED = {
  summary: (b) => tabled(b) && b.querySelector('.stack > div')?.clientWidth > 0,
  findings: (b) => b.querySelector('.finding') || tabled(b), comparison: tabled, steps: charts, stages: tabled, kernels: tabled, host: tabled, device: listed,
  timeline: canvases, roofline: (b) => charts(b) || b.querySelector('.note code'), heat: canvases, flamegraph: (b) => Number(b.querySelector('iframe')?.dataset.boxes) > 0,
  counters: tabled, tables: listed, configuration: listed, method: listed,
};

async function drawAll() {
  const data = JSON.parse(document.getElementById('data').textContent);
  drawHead(data);
  const absent = new Map();
  for (const section of document.querySelectorAll('section[data-section]')) {
    const name = section.dataset.section, body = section.querySelector('.body');
    try {
      const reason = DRAW[name](data, body);
      absent.set(name, reason);
    } catch (error) {
      fail(`${name}: ${error.stack || error}`);
      absent.set(name, error);
      body.append(el('p', { class: 'absent failed' }, `This section could not be drawn: ${error.message}`));
    }
  }
  redraw();
  for (const section of document.querySelectorAll('section[data-section]')) {
    const name = section.dataset.section, body = section.querySelector('.body');
    const reason = await absent.get(name);
    if (typeof reason === 'string') {
      body.append(el('p', { class: 'absent' }, reason));
      section.querySelector('.lead')?.remove();
    }
    section.dataset.filled = reason instanceof Error ? 'error' : typeof reason === 'string' ? 'absent' : FILLED[name](body) ? 'true' : 'empty';
  }
}
function redraw(force) {
  for (const again of redraws) again(force);
}

/** Writes the measures of the page that tests read to its attributes. */
function measure() {
  root.dataset.width = root.scrollWidth;
  root.dataset.window = innerWidth;
  root.dataset.requests = performance.getEntriesByType('resource').filter((r) => !r.name.startsWith('data:')).length;
  const levels = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((h) => Number(h.tagName[1]));
  root.dataset.headings = levels.every((level, i) => level <= (levels[i - 1] || 0) + 1) ? 'ordered' : 'skipping';
}

let resizing = 0;
addEventListener('resize', () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(() => redraw()); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redraw(true));
// On paper everything is open and light.
let closed = [];
addEventListener('beforeprint', () => {
  root.classList.add('printing');
  closed = [...document.querySelectorAll('details:not([open])')];
  for (const details of closed) details.open = true;
  redraw(true);
});
addEventListener('afterprint', () => {
  root.classList.remove('printing');
  for (const details of closed) details.open = false;
  redraw(true);
});

drawAll().catch((error) => fail(error.stack || error)).finally(() => {
  measure();
  root.dataset.ready = 'true';
});
