// Operations a byte against operations a second, both by powers: ceilings, and a point per stage.

function drawRoofline({ profile }, body) {
  const { ceilings, stages } = profile;
  if (!ceilings) return 'The ceilings of this hardware were not measured, so there is nothing to place stages under.';
  const placed = stages.filter((s) => s.roofline);
  const points = placed.filter((s) => s.roofline.intensity > 0 && s.roofline.flops_per_second > 0);
  const idle = placed.filter((s) => !points.includes(s));
  if (!placed.length) return 'No stage says how many bytes and operations it takes, so none can be placed.';
  if (points.length) body.append(chart((width) => roofline(ceilings, points, width), { 'aria-label': points.map((s) => `${s.name}: ${brief(s.roofline.intensity)} operations a byte, ${brief(s.roofline.flops_per_second / 1e9)} GFLOP/s`).join('; ') }));
  const seen = Object.keys(PHASES).filter((p) => points.some((s) => s.phase === p));
  body.append(phaseLegend(seen));
  if (idle.length) {
    body.append(el('p', { class: 'note' }, 'Without arithmetic, and so beside the plot: ', idle.map((s, i) => [i ? ', ' : '', code(s.name), ` at ${fixed(s.roofline.bytes_per_second / 1e9, 0)} GB/s (${percent(s.roofline.share_of_bandwidth, 0)} of the bandwidth)`]).flat(), '.'));
  }
  const missing = stages.filter((s) => !s.roofline).map((s) => s.name);
  if (missing.length) body.append(el('p', { class: 'note' }, `Not counted, so not placed: ${missing.join(', ')}.`));
  body.append(el('p', { class: 'note' }, `Ceilings: ${ceilings.source}. A stage far below both waits: for memory it cannot prefetch, for other threads, or for instructions that are not arithmetic.`));
}

function roofline(ceilings, stages, width) {
  const narrow = width < 520;
  const height = narrow ? 340 : 440, left = narrow ? 54 : 62, right = 14, top = 22, bottom = 42;
  const ridge = ceilings.flops_per_second / ceilings.bytes_per_second;
  const all = stages.map((s) => s.roofline);
  const log = Math.log10;
  const xLow = Math.floor(log(Math.min(ridge / 4, ...all.map((r) => r.intensity)) * 0.75)), xHigh = Math.ceil(log(Math.max(ridge * 4, ...all.map((r) => r.intensity)) * 1.2));
  const yHigh = log(ceilings.flops_per_second * 2.2), yLow = Math.min(log(Math.min(...all.map((r) => r.flops_per_second)) * 0.4), yHigh - 2);
  const x = (v) => left + ((log(v) - xLow) / (xHigh - xLow)) * (width - left - right);
  const y = (v) => height - bottom - ((log(v) - yLow) / (yHigh - yLow)) * (height - top - bottom);
  const shapes = [];
  for (let p = xLow; p <= xHigh; p++) shapes.push(line(x(10 ** p), top, x(10 ** p), height - bottom, 'grid'), text(x(10 ** p), height - bottom + 17, plain(10 ** p), p === xHigh ? 'end' : 'middle'));
  for (let p = Math.ceil(yLow); p <= yHigh; p++) shapes.push(line(left, y(10 ** p), width - right, y(10 ** p), 'grid'), text(left - 7, y(10 ** p) + 4, plain(10 ** (p - 9)), 'end'));
  shapes.push(text(left - 48, 12, 'GFLOP/s'), text(width - right, height - 4, 'operations a byte', 'end'));
  const start = Math.max(10 ** xLow, 10 ** yLow / ceilings.bytes_per_second);
  shapes.push(shape('path', { d: `M${x(start)} ${y(start * ceilings.bytes_per_second)}L${x(ridge)} ${y(ceilings.flops_per_second)}H${width - right}V${height - bottom}H${x(start)}Z`, fill: 'var(--panel)', stroke: 'none', opacity: 0.75 }));
  shapes.push(shape('path', { d: `M${x(start)} ${y(start * ceilings.bytes_per_second)}L${x(ridge)} ${y(ceilings.flops_per_second)}H${width - right}`, fill: 'none', stroke: 'var(--ink)', 'stroke-width': 1.6, 'stroke-linejoin': 'round' }));
  const angle = (Math.atan2(y(ceilings.flops_per_second) - y(start * ceilings.bytes_per_second), x(ridge) - x(start)) * 180) / Math.PI;
  // Stages gather near the ridge: the line is named towards its lower end.
  const middle = start * (ridge / start) ** 0.3;
  shapes.push(text(0, 0, scaled(ceilings.bytes_per_second, 'B/s').join(' '), 'middle', { class: 'strong', transform: `translate(${x(middle)} ${y(middle * ceilings.bytes_per_second) - 8}) rotate(${angle})` }));
  shapes.push(text(width - right, y(ceilings.flops_per_second) - 8, scaled(ceilings.flops_per_second, 'FLOP/s').join(' '), 'end', { class: 'strong' }));
  shapes.push(line(left, height - bottom, width - right, height - bottom, 'axis'), line(left, top, left, height - bottom, 'axis'));
  const taken = [];
  const largest = Math.max(...stages.map((s) => s.share_of_step), 1e-9);
  const dots = stages.map((s) => ({ s, cx: x(s.roofline.intensity), cy: y(s.roofline.flops_per_second), r: 4 + 9 * Math.sqrt(Math.max(0, s.share_of_step) / largest) }));
  for (const { cx, cy, r } of dots) taken.push([cx - r, cy - r, cx + r, cy + r]);
  for (const { s, cx, cy, r } of [...dots].sort((a, b) => b.r - a.r)) {
    const reach = y(Math.min(ceilings.flops_per_second, s.roofline.intensity * ceilings.bytes_per_second));
    shapes.push(shape('line', { x1: cx, x2: cx, y1: Math.min(cy - r, reach), y2: cy - r, stroke: colour(s.phase), 'stroke-width': 1, 'stroke-dasharray': '1 3' }));
    shapes.push(shape('circle', { cx, cy, r, fill: colour(s.phase), 'fill-opacity': 0.85, stroke: 'var(--paper)' },
      shape('title', {}, `${s.name}: ${brief(s.roofline.intensity)} operations a byte, ${brief(s.roofline.flops_per_second / 1e9)} GFLOP/s (${percent(s.roofline.share_of_compute)}), ${brief(s.roofline.bytes_per_second / 1e9)} GB/s (${percent(s.roofline.share_of_bandwidth)})`)));
  }
  for (const { s, cx, cy, r } of dots) {
    // The first place around the point where its name covers nothing; about 6.6 px a letter.
    const wide = s.name.length * 6.6 + 2;
    const places = [[cx + r + 5, cy + 4, 'start'], [cx + r + 3, cy + r + 11, 'start'], [cx - r - 5, cy + 4, 'end'], [cx, cy + r + 14, 'middle'], [cx, cy - r - 6, 'middle'], [cx + r + 3, cy - r - 3, 'start'], [cx - r - 3, cy + r + 11, 'end'], [cx - r - 3, cy - r - 3, 'end'], [cx, cy + r + 28, 'middle'], [cx, cy - r - 20, 'middle']];
    const boxOf = ([px, py, anchor]) => { const l = anchor === 'start' ? px : anchor === 'end' ? px - wide : px - wide / 2; return [l, py - 11, l + wide, py + 3]; };
    const clear = (b) => b[0] >= left && b[2] <= width - 2 && b[3] < height - bottom && taken.every((t) => b[2] < t[0] || b[0] > t[2] || b[3] < t[1] || b[1] > t[3]);
    const place = places.find((p) => clear(boxOf(p))) || places[0];
    taken.push(boxOf(place));
    shapes.push(text(place[0], place[1], s.name, place[2], { class: 'strong', 'paint-order': 'stroke', stroke: 'var(--panel)', 'stroke-width': 3 }));
  }
  return { height, shapes };
}
