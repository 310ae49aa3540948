// Time of every step: a line over the steps, and how often each time occurs.

function drawSteps({ profile }, body) {
  const { steps, step } = profile;
  if (!steps.length) return 'No step was recorded.';
  const values = steps.map((s) => s.duration_ns).filter(known);
  const pair = el('div', { class: 'pair' });
  pair.append(el('div', {}, el('h3', {}, 'Step time'), chart((width) => stepLine(steps, step, width), { 'aria-label': `Step time over ${steps.length} steps, median ${timeText(step.median)}` })),
    el('div', {}, el('h3', {}, 'How often'), chart((width) => histogram(values, step, width), { 'aria-label': 'Histogram of step times' })));
  body.append(pair);
  body.append(el('p', { class: 'note' }, steps.length === 1 ? `One step only: ${timeText(step.median)}.`
    : `${fixed(step.count, 0)} steps: median ${timeText(step.median)}, mean ${timeText(step.mean)}, std ${timeText(step.std)}, from ${timeText(step.min)} to ${timeText(step.max)}, p95 ${timeText(step.p95)}, p99 ${timeText(step.p99)}.`));
}

function stepLine(steps, stats, width) {
  const height = 240, left = 52, right = 8, top = 18, bottom = 34;
  const values = steps.map((s) => s.duration_ns);
  // One freak step must not flatten the rest: it is drawn as a mark at the upper edge.
  const high = Math.min(Math.max(...values.filter(known)), Math.max(stats.p99 * 1.25, stats.median * 1.5)) * 1.04 || 1;
  const x = (i) => left + (steps.length > 1 ? i / (steps.length - 1) : 0.5) * (width - left - right);
  const y = (ns) => height - bottom - (Math.min(ns, high) / high) * (height - top - bottom);
  const shapes = [];
  for (const mark of ticks(0, high / 1e6, 4)) {
    shapes.push(line(left, y(mark * 1e6), width - right, y(mark * 1e6), 'grid'), text(left - 7, y(mark * 1e6) + 4, plain(mark), 'end'));
  }
  shapes.push(text(left, 11, 'ms'));
  const whole = ticks(0, steps.length - 1, width < 420 ? 3 : 6).map(Math.round).filter((i, at, all) => all.indexOf(i) === at && steps[i]);
  for (const i of whole) shapes.push(text(x(i), height - bottom + 17, fixed(steps[i].step, 0), i === 0 && steps.length > 1 ? 'start' : 'middle'));
  shapes.push(text(width - right, height - 2, 'step', 'end'));
  if (steps.length > 1) {
    // As many points as pixels, the extremes of each: no outlier is lost.
    const bins = Math.min(steps.length, Math.max(2, Math.floor((width - left - right) / 1.5)));
    const points = [];
    for (let b = 0; b < bins; b++) {
      const from = Math.floor((b * steps.length) / bins), to = Math.floor(((b + 1) * steps.length) / bins);
      let least = from, most = from;
      for (let i = from; i < to; i++) { if (values[i] < values[least]) least = i; if (values[i] > values[most]) most = i; }
      for (const i of [...new Set(least < most ? [least, most] : [most, least])]) if (known(values[i])) points.push(`${x(i).toFixed(1)},${y(values[i]).toFixed(1)}`);
    }
    shapes.push(shape('polyline', { points: points.join(' '), fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.2, 'stroke-linejoin': 'round' }));
  }
  steps.forEach((s, i) => {
    const over = s.duration_ns > high;
    if (!over && steps.length > 60) return;
    shapes.push(over ? shape('path', { d: `M${x(i)} ${y(high) - 5}l4 7h-8z`, fill: 'var(--bad)' }, shape('title', {}, `step ${s.step}: ${timeText(s.duration_ns)}`))
      : shape('circle', { cx: x(i), cy: y(s.duration_ns), r: steps.length === 1 ? 4 : 2, fill: 'var(--accent)' }, shape('title', {}, `step ${s.step}: ${timeText(s.duration_ns)}`)));
  });
  for (const [name, value] of steps.length > 1 ? [['median', stats.median], ['p95', stats.p95]] : []) {
    shapes.push(shape('line', { x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: 'var(--ink)', 'stroke-width': 1, 'stroke-dasharray': name === 'median' ? null : '3 4', opacity: 0.65 }));
  }
  const apart = y(stats.median) - y(stats.p95);
  if (steps.length > 1) {
    shapes.push(text(width - right, y(stats.median) + 15, `median ${timeText(stats.median)}`, 'end', { class: 'strong' }));
    shapes.push(text(width - right, y(stats.p95) - (apart < 4 ? 9 : 6), `p95 ${timeText(stats.p95)}`, 'end', { class: 'strong' }));
  }
  return { height, shapes };
}

function histogram(values, stats, width) {
  const height = 240, left = 34, right = 8, top = 18, bottom = 34;
  const low = stats.min, high = Math.max(Math.min(stats.max, stats.p99 + (stats.p99 - low) * 0.15), low + 1);
  const bins = Math.max(1, Math.min(40, Math.ceil(Math.sqrt(values.length) * 1.5)));
  const counts = new Array(bins).fill(0);
  let beyond = 0;
  for (const v of values) {
    if (v > high) beyond++;
    else counts[Math.min(bins - 1, Math.floor(((v - low) / (high - low)) * bins))]++;
  }
  const most = Math.max(...counts, 1);
  const x = (ns) => left + ((ns - low) / (high - low)) * (width - left - right);
  const y = (n) => height - bottom - (n / most) * (height - top - bottom);
  const shapes = [text(left, 11, 'steps')];
  for (const mark of ticks(0, most, 3).filter(Number.isInteger)) shapes.push(line(left, y(mark), width - right, y(mark), 'grid'), text(left - 6, y(mark) + 4, fixed(mark, 0), 'end'));
  const span = (width - left - right) / bins;
  counts.forEach((n, i) => n && shapes.push(shape('rect', { x: left + i * span + 0.5, y: y(n), width: Math.max(1, span - 1), height: height - bottom - y(n), fill: 'var(--accent)' },
    shape('title', {}, `${n} × ${timeText(low + ((high - low) * i) / bins)} to ${timeText(low + ((high - low) * (i + 1)) / bins)}`))));
  if (values.length > 1) for (const mark of ticks(low / 1e6, high / 1e6, width < 300 ? 2 : 4)) shapes.push(text(x(mark * 1e6), height - bottom + 17, plain(mark), 'middle'));
  else shapes.push(text(left + span / 2, height - bottom + 17, ms(values[0]), 'middle'));
  shapes.push(text(width - right, height - 2, beyond ? `ms; ${beyond} above ${timeText(high)}` : 'ms', 'end'), line(left, height - bottom, width - right, height - bottom, 'axis'));
  return { height, shapes };
}
