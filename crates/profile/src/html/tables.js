// Tables that sort by their columns, and the stages, kernels, host, counters and comparison in them.

/**
 * A table in a box that scrolls by itself.
 * columns: { head, unit, name: left-aligned row heading, sort(row) -> number or string, show(row) -> node }
 */
function table(columns, rows, { hint, label, foot, sortable = true, keep = true } = {}) {
  const body = el('tbody');
  const heads = columns.map((column) => {
    const words = column.unit ? `${column.head}, ${column.unit}` : column.head;
    const inside = sortable && column.sort ? el('button', { type: 'button' }, words) : words;
    return el('th', { scope: 'col', class: column.name || column.words || column.left ? 'name' : null }, inside);
  });
  const show = (order) => body.replaceChildren(...order.map((row) => el('tr', {}, columns.map((column) => column.name
    ? el('th', { scope: 'row', class: 'name' }, column.show(row))
    : el('td', { class: column.words ? 'words' : column.picture ? 'picture left' : column.left ? 'left' : null }, column.show(row))))));
  heads.forEach((head, i) => head.querySelector('button')?.addEventListener('click', () => {
    // Largest first, then smallest first, then the original order.
    const turn = { none: 'descending', descending: 'ascending', ascending: 'none' }[head.getAttribute('aria-sort') || 'none'];
    heads.forEach((other) => other.removeAttribute('aria-sort'));
    if (turn === 'none') return show(rows);
    head.setAttribute('aria-sort', turn);
    const sign = turn === 'descending' ? -1 : 1;
    const key = (row) => { const k = columns[i].sort(row); return typeof k === 'string' || known(k) ? k : -Infinity; };
    show([...rows].sort((a, b) => (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : 0)));
  }));
  show(rows);
  return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': label },
    el('table', { class: keep ? 'keep' : null }, hint ? el('caption', { class: 'screen' }, hint) : null,
      el('thead', {}, el('tr', {}, heads)), body, foot ? el('tfoot', {}, foot) : null));
}
const bar = (share, phase) => el('span', { class: 'bar', style: phase ? `--phase: ${colour(phase)}` : null, 'aria-hidden': 'true' },
  el('i', { style: `width: ${Math.max(0, Math.min(1, share || 0)) * 100}%` }));
const code = (words) => el('code', {}, words);

const BOUNDS = { bandwidth: 'bandwidth', compute: 'arithmetic', latency: 'latency', launch: 'launch' };

function drawStages({ profile }, body) {
  const { stages } = profile;
  if (!stages.length) return 'No stage was recorded.';
  const most = Math.max(...stages.map((s) => s.time.max));
  const widest = Math.max(...stages.map((s) => s.share_of_step), 1e-9);
  const rates = stages.some((s) => s.roofline);
  const columns = [
    { head: 'Stage', name: true, sort: (s) => s.name, show: (s) => [swatch(s.phase), code(s.name)] },
    { head: 'Median', unit: 'ms', sort: (s) => s.time.median, show: (s) => ms(s.time.median, most) },
    { head: 'p95', unit: 'ms', sort: (s) => s.time.p95, show: (s) => ms(s.time.p95, most) },
    { head: 'Std', unit: 'ms', sort: (s) => s.time.std, show: (s) => ms(s.time.std, most) },
    { head: 'Of step', sort: (s) => s.share_of_step, show: (s) => [percent(s.share_of_step), bar(s.share_of_step / widest, s.phase)] },
    { head: 'Of phase', sort: (s) => s.share_of_phase, show: (s) => percent(s.share_of_phase) },
    stages.some((s) => known(s.dispatches)) && { head: 'Dispatches', sort: (s) => s.dispatches, show: (s) => brief(s.dispatches) },
    rates && { head: 'GB/s', sort: (s) => s.roofline?.bytes_per_second, show: (s) => (s.roofline ? fixed(s.roofline.bytes_per_second / 1e9, 0) : '–') },
    rates && { head: 'Of bandwidth', sort: (s) => s.roofline?.share_of_bandwidth, show: (s) => percent(s.roofline?.share_of_bandwidth) },
    rates && { head: 'GFLOP/s', sort: (s) => s.roofline?.flops_per_second, show: (s) => (s.roofline ? fixed(s.roofline.flops_per_second / 1e9, 0) : '–') },
    rates && { head: 'Of arithmetic', sort: (s) => s.roofline?.share_of_compute, show: (s) => percent(s.roofline?.share_of_compute) },
    rates && { head: 'Floor', unit: 'ms', sort: (s) => s.roofline?.floor_ns, show: (s) => ms(s.roofline?.floor_ns, most) },
    rates && { head: 'Bound by', sort: (s) => s.roofline?.bound, show: (s) => (s.roofline ? el('span', { class: 'tag' }, BOUNDS[s.roofline.bound] || s.roofline.bound) : '–') },
  ].filter(Boolean);
  body.append(table(columns, stages, { label: 'Stages', hint: 'Press a heading to sort by it.' }));
  if (rates) body.append(el('p', { class: 'note' }, 'Bytes and operations are counted by formula. Floor: the least time that the ceilings allow for them.'));
  if (!profile.method.device_timestamps) body.append(el('p', { class: 'note' }, 'This device has no timestamps: these are host times.'));
}

function drawKernels({ profile }, body) {
  const { kernels } = profile;
  if (!kernels.length) {
    return profile.method.device_timestamps ? 'Kernels were not timed alone in this profile.' : 'This device has no timestamps: kernels cannot be timed.';
  }
  const phase = new Map(profile.stages.map((s) => [s.name, s.phase]));
  const inStep = (k) => k.time.mean * k.per_step;
  const widest = Math.max(...kernels.map(inStep), 1e-9);
  const us = (ns) => (known(ns) ? fixed(ns / 1e3, 1) : '–');
  body.append(table([
    { head: 'Kernel', name: true, sort: (k) => k.name, show: (k) => [swatch(phase.get(k.stage)), code(k.name)] },
    { head: 'Stage', left: true, sort: (k) => k.stage, show: (k) => code(k.stage) },
    { head: 'Median', unit: 'µs', sort: (k) => k.time.median, show: (k) => us(k.time.median) },
    { head: 'p95', unit: 'µs', sort: (k) => k.time.p95, show: (k) => us(k.time.p95) },
    { head: 'Largest', unit: 'µs', sort: (k) => k.time.max, show: (k) => us(k.time.max) },
    { head: 'A step', sort: (k) => k.per_step, show: (k) => `${brief(k.per_step)} ×` },
    { head: 'In a step', unit: 'µs', sort: inStep, show: (k) => [us(inStep(k)), bar(inStep(k) / widest, phase.get(k.stage))] },
  ], kernels, { label: 'Kernels' }));
}

function drawHost({ profile }, body) {
  // Profiles from before this table was added have none.
  const spans = profile.host || [];
  if (!spans.length) {
    return profile.method.device_timestamps ? 'No span of the thread that drives the device was recorded.'
      : 'No device was timed: the host\u2019s spans are among the stages.';
  }
  const widest = Math.max(...spans.map((s) => s.share_of_step), 1e-9);
  const us = (ns) => (known(ns) ? fixed(ns / 1e3, 1) : '–');
  body.append(table([
    { head: 'Span', name: true, sort: (s) => s.name, show: (s) => [swatch(s.phase), code(s.name)] },
    { head: 'Steps with it', sort: (s) => s.time.count, show: (s) => fixed(s.time.count, 0) },
    { head: 'Median', unit: 'µs', sort: (s) => s.time.median, show: (s) => us(s.time.median) },
    { head: 'p95', unit: 'µs', sort: (s) => s.time.p95, show: (s) => us(s.time.p95) },
    { head: 'Largest', unit: 'µs', sort: (s) => s.time.max, show: (s) => us(s.time.max) },
    { head: 'Std', unit: 'µs', sort: (s) => s.time.std, show: (s) => us(s.time.std) },
    { head: 'Of wall', sort: (s) => s.share_of_step, show: (s) => [percent(s.share_of_step), bar(s.share_of_step / widest, s.phase)] },
  ], spans, { label: 'Host' }));
  body.append(el('p', { class: 'note' }, 'Mostly while the device works: these parts of wall time do not add up with the stages\u2019. The host holds the device up only for its row of the budget.'));
}

/** A line of values, small enough for a row. */
function spark(values, stroke = 'var(--accent)') {
  const [width, height] = [132, 26];
  const seen = values.filter(known);
  if (seen.length < 2) return '–';
  const [low, high] = [Math.min(...seen), Math.max(...seen)];
  // As many points as the width can show; each is the mean of its steps.
  const bins = Math.min(values.length, width);
  const points = [];
  for (let i = 0; i < bins; i++) {
    const part = values.slice(Math.floor((i * values.length) / bins), Math.floor(((i + 1) * values.length) / bins)).filter(known);
    if (!part.length) continue;
    const mean = part.reduce((a, b) => a + b, 0) / part.length;
    points.push(`${((i / Math.max(1, bins - 1)) * width).toFixed(1)},${(height - 3 - (high > low ? (mean - low) / (high - low) : 0.5) * (height - 6)).toFixed(1)}`);
  }
  return shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `from ${brief(seen[0])} to ${brief(seen[seen.length - 1])}` },
    shape('polyline', { points: points.join(' '), fill: 'none', stroke, 'stroke-width': 1.3, 'stroke-linejoin': 'round' }));
}

function drawCounters({ profile }, body) {
  const rows = profile.counters.map((c, i) => ({ ...c, values: profile.steps.map((s) => s.counters[i]) }));
  const losses = profile.steps.map((s) => s.loss).filter(known);
  if (losses.length) {
    const sorted = [...losses].sort((a, b) => a - b);
    const rank = (p) => sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)];
    rows.unshift({ name: 'loss', unit: '', values: losses, stats: { median: median(losses), min: sorted[0], p95: rank(0.95), max: rank(1) } });
  }
  if (!rows.length) return 'Nothing was counted in this profile.';
  const of = (key) => ({ head: { median: 'Median', min: 'Smallest', p95: 'p95', max: 'Largest' }[key], show: (c) => brief(c.stats[key]) });
  body.append(table([
    { head: 'Counter', name: true, show: (c) => c.name },
    { head: 'Over the steps', picture: true, left: true, show: (c) => spark(c.values) },
    of('median'), of('min'), of('p95'), of('max'),
    { head: 'Unit', left: true, show: (c) => el('span', { class: 'dim' }, c.unit || '–') },
  ], rows, { label: 'Counters', sortable: false }));
}

function drawComparison({ comparison }, body) {
  if (!comparison) return 'No earlier profile was given. With --compare OLD.json this section shows what became faster or slower, and whether that is more than noise.';
  const { rows } = comparison;
  if (comparison.title) body.append(el('p', { class: 'verdict' }, comparison.title));
  if (comparison.warnings.length) body.append(el('ul', { class: 'warnings' }, comparison.warnings.map((w) => el('li', {}, w))));
  if (!rows.length) return 'The two profiles have nothing in common that could be compared.';
  // One scale for all rows, in powers, so that twice and half are equally far from 1.
  const ends = rows.flatMap((r) => [r.low, r.high, r.ratio]).filter((x) => known(x) && x > 0).map((x) => Math.abs(Math.log(x)));
  const reach = Math.min(Math.log(8), Math.max(Math.log(1.1), ...ends));
  const [width, height] = [190, 20];
  const place = (ratio) => width / 2 + (Math.max(-reach, Math.min(reach, Math.log(ratio))) / reach) * (width / 2 - 6);
  const kind = (r) => (!r.significant ? 'dim' : r.ratio < 1 ? 'better' : 'worse');
  const ink = (r) => ({ dim: 'var(--soft)', better: 'var(--good)', worse: 'var(--bad)' })[kind(r)];
  const whisker = (r) => shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
    line(width / 2, 0, width / 2, height, 'axis'),
    known(r.low) && known(r.high) && r.low > 0 ? shape('line', { x1: place(r.low), x2: place(r.high), y1: height / 2, y2: height / 2, stroke: ink(r), 'stroke-width': 2 }) : null,
    r.ratio > 0 ? shape('circle', { cx: place(r.ratio), cy: height / 2, r: 4, fill: ink(r) }) : null);
  const most = Math.max(...rows.flatMap((r) => [r.old_ms, r.new_ms]).filter(known)) * 1e6;
  body.append(table([
    { head: 'What', name: true, sort: (r) => r.name, show: (r) => code(r.name) },
    { head: 'Old', unit: 'ms', sort: (r) => r.old_ms, show: (r) => ms(r.old_ms * 1e6, most) },
    { head: 'New', unit: 'ms', sort: (r) => r.new_ms, show: (r) => ms(r.new_ms * 1e6, most) },
    { head: 'Ratio', sort: (r) => r.ratio, show: (r) => el('span', { class: kind(r) }, `${fixed(r.ratio, 3)} ×`) },
    { head: 'Interval', show: (r) => (known(r.low) && known(r.high) ? `${fixed(r.low, 3)} … ${fixed(r.high, 3)}` : '–') },
    { head: 'Faster ◂ 1 ▸ slower', picture: true, left: true, show: whisker },
    { head: 'Verdict', left: true, sort: (r) => (r.significant ? r.ratio : 1), show: (r) => el('span', { class: kind(r) }, { dim: known(r.low) ? 'within noise' : 'not known', better: 'faster', worse: 'slower' }[kind(r)]) },
  ], rows, { label: 'Comparison' }));
}
