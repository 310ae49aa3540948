'use strict';
// Shared by all drawings: errors that the page itself reports, elements, formatted numbers.

const root = document.documentElement;
const errors = [];
function fail(what) {
  errors.push(String(what));
  root.dataset.errors = JSON.stringify(errors);
}
root.dataset.errors = '[]';
addEventListener('error', (event) => fail(event.message || 'an element could not be loaded'), true);
addEventListener('unhandledrejection', (event) => fail(event.reason));
document.addEventListener('securitypolicyviolation', (event) => fail(`forbidden request: ${event.violatedDirective} ${event.blockedURI}`));

// --- elements: always built, never parsed, so that names cannot become markup.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'style') element.style.cssText = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) => fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// --- phases: a name and a colour each, the same everywhere.

const PHASES = {
  forward: 'Forward', loss: 'Loss', backward: 'Backward', update: 'Update',
  transfer: 'Transfer', exchange: 'Exchange', input: 'Input', host: 'Host', gaps: 'Gaps', unexplained: 'Unexplained',
};
const colour = (phase) => (phase in PHASES ? `var(--${phase})` : 'var(--soft)');
/** Returns the class for text on the colour of a phase. */
const onPhase = (phase) => (phase === 'loss' || phase === 'gaps' ? `on-${phase}` : 'on-phase');
const swatch = (phase) => el('span', { class: phase === 'unexplained' ? 'swatch unexplained' : 'swatch', style: `--phase: ${colour(phase)}`, 'aria-hidden': 'true' });
/** Returns the value of a colour variable, for canvases. */
const ink = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const phaseLegend = (phases) => el('ul', { class: 'legend' }, phases.map((phase) => el('li', {}, swatch(phase), PHASES[phase])));

// --- numbers. Values that are not numbers are shown as a dash.

const THIN = '\u202f';
const known = (x) => typeof x === 'number' && Number.isFinite(x);
function fixed(x, digits) {
  if (!known(x)) return '–';
  const [whole, fraction] = Math.abs(x).toFixed(digits).split('.');
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
  const sign = x < 0 && Number(x.toFixed(digits)) !== 0 ? '−' : '';
  return sign + grouped + (fraction ? '.' + fraction : '');
}
/** Formats a number of any size to three digits. */
function brief(x) {
  if (!known(x)) return '–';
  const size = Math.abs(x);
  if (size === 0) return '0';
  if (size >= 1e7 || size < 1e-4) return x.toExponential(2).replace('-', '−');
  return fixed(x, Number.isInteger(x) ? 0 : Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size)))));
}
/** Formats a number to three digits without zeros at the end, for axes and counts. */
const plain = (x) => brief(x).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
/** Milliseconds without their unit, for columns; `of` is the largest of the column. */
const msDigits = (of) => (of >= 1e9 ? 1 : of >= 1e8 ? 2 : 3);
const ms = (ns, of = ns) => (known(ns) ? fixed(ns / 1e6, msDigits(of)) : '–');
/** A time as [number, unit]. */
function time(ns) {
  if (!known(ns)) return ['–', ''];
  const size = Math.abs(ns);
  if (size < 1e3) return [brief(ns), 'ns'];
  if (size < 1e5) return [brief(ns / 1e3), 'µs'];
  if (size < 1e10) return [brief(ns / 1e6), 'ms'];
  return [brief(ns / 1e9), 's'];
}
const timeText = (ns) => time(ns).join(' ').trim();
const percent = (x, digits = 1) => (known(x) ? `${fixed(x * 100, digits)} %` : '–');
/** Any amount as [number, unit] with a decimal prefix. */
function scaled(x, unit) {
  if (!known(x)) return ['–', ''];
  const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  for (const [size, prefix] of steps) if (Math.abs(x) >= size) return [brief(x / size), prefix + unit];
  return [brief(x), unit];
}
const median = (values) => {
  const sorted = values.filter(known).sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length ? (sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2) : NaN;
};

/** Returns round numbers from `low` to `high`, about `about` of them. */
function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const marks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) marks.push(i * step);
  return marks;
}

function readings(list, into = el('dl', { class: 'readings' })) {
  into.append(...list.filter(Boolean).map(([name, [value, unit], note], i) => el('div', { class: i === 0 ? 'first' : null },
    el('dt', {}, name), el('dd', {}, value, unit ? el('span', { class: 'unit' }, unit) : null, note ? el('small', {}, note) : null))));
  return into;
}
const factList = (facts) => el('dl', { class: 'list' }, facts.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));

// --- charts draw for the width they have, and again when it changes.

const redraws = [];
/** A box whose SVG `draw(width)` makes; it fits itself to paper by its view box. */
function chart(draw, attributes) {
  const box = el('div', { class: 'chart' });
  let drawn = 0;
  const again = (force) => {
    const width = Math.round(box.clientWidth);
    if (!width || (width === drawn && !force)) return;
    drawn = width;
    const { height, shapes } = draw(width);
    box.querySelector(':scope > svg')?.remove();
    box.append(shape('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', ...attributes }, shapes));
  };
  redraws.push(again);
  return box;
}
const text = (x, y, words, anchor = 'start', more = {}) => shape('text', { x, y, 'text-anchor': anchor, ...more }, words);
const line = (x1, y1, x2, y2, kind) => shape('line', { x1, y1, x2, y2, class: kind });
