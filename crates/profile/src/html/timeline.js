// Spans of the last steps on their tracks: drag, wheel, pinch, keys and buttons move and zoom.

const LANE = 22, HEAD = 26, LABEL = 19;

/** Rows within tracks: a span goes to the first row that is free, so inner spans are drawn below outer ones. */
function packRows(window) {
  const tracks = window.tracks.map((track) => ({ ...track, rows: [] }));
  const spans = window.spans.map(([track, name, phase, start, length, step]) => ({ track, name: window.names[name], phase: window.phases[phase], start, length, step }));
  for (const span of spans) {
    const { rows } = tracks[span.track];
    let row = rows.findIndex((end) => end <= span.start);
    if (row < 0) row = rows.push(0) - 1;
    rows[row] = span.start + span.length;
    span.row = row;
  }
  let top = HEAD;
  for (const track of tracks) {
    track.top = top;
    if (track.rows.length) top += LABEL + track.rows.length * LANE + 8;
  }
  return { tracks: tracks.filter((t) => t.rows.length), spans: spans.map((s) => ({ ...s, top: tracks[s.track].top + LABEL + s.row * LANE })), height: top + 4 };
}

/** Pointers, wheel and keys of the timeline. */
function control(canvas, { zoom, move, all, choose, find }) {
  // Pointers that are down: one drags, two pinch.
  const down = new Map();
  let travelled = 0, awake = false;
  const local = (event) => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  canvas.addEventListener('pointerdown', (event) => { down.set(event.pointerId, local(event)); travelled = 0; awake = true; canvas.setPointerCapture(event.pointerId); canvas.classList.add('held'); });
  canvas.addEventListener('pointermove', (event) => {
    const now = local(event), before = down.get(event.pointerId);
    if (!before) { if (event.pointerType === 'mouse') choose(find(now.x, now.y)); return; }
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    down.set(event.pointerId, now);
    travelled += Math.abs(now.x - before.x);
    if (other) {
      const spread = Math.max(12, Math.abs(before.x - other.x)) / Math.max(12, Math.abs(now.x - other.x));
      zoom(spread, (now.x + other.x) / 2 / canvas.clientWidth);
    } else move((before.x - now.x) / canvas.clientWidth);
  });
  const up = (event) => {
    if (down.delete(event.pointerId) && travelled < 5 && event.type === 'pointerup') { const at = local(event); choose(find(at.x, at.y)); }
    if (!down.size) canvas.classList.remove('held');
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('pointerleave', (event) => { if (event.pointerType === 'mouse') awake = document.activeElement === canvas && awake; });
  canvas.addEventListener('blur', () => { awake = false; });
  canvas.addEventListener('wheel', (event) => {
    // A page that is only scrolled past must not get stuck here: zooming wants a click first, or Ctrl.
    if (!awake && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / canvas.clientWidth);
    else zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 400), local(event).x / canvas.clientWidth);
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const act = { ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1 / 0.7), 0: all, Home: all, Escape: () => { awake = false; choose(null); } }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
  });
}

function drawTimeline({ profile, timeline }, body) {
  if (!timeline.spans.length) return 'No spans were kept: run again with a trace to see when each ran.';
  const { tracks, spans, height } = packRows(timeline);
  const end = Math.max(...spans.map((s) => s.start + s.length), 1);
  const boundaries = profile.steps.map((s) => ({ step: s.step, at: s.end_ns - timeline.origin_ns })).filter((s) => s.at >= 0 && s.at <= end);
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': `Timeline of ${spans.length} spans on ${tracks.length} tracks over ${timeText(end)}. Arrow keys move, plus and minus zoom, 0 shows all.` });
  const reading = el('p', { class: 'reading screen', 'aria-live': 'polite' }, el('span', { class: 'dim' }, 'Point at a span, or tap it, to read it.'));
  const view = { from: 0, to: end };
  let width = 0, chosen = null;

  const clamp = () => {
    const length = Math.min(end * 1.04, Math.max(view.to - view.from, Math.min(end, 200)));
    const from = Math.max(-end * 0.02, Math.min(view.from, end * 1.02 - length));
    view.from = from; view.to = from + length;
  };
  const zoom = (factor, around = 0.5) => {
    const at = view.from + (view.to - view.from) * around;
    view.from = at - (at - view.from) * factor; view.to = at + (view.to - at) * factor;
    clamp(); paint();
  };
  const move = (part) => { const by = (view.to - view.from) * part; view.from += by; view.to += by; clamp(); paint(); };
  const all = () => { view.from = 0; view.to = end; clamp(); paint(); };
  const x = (ns) => ((ns - view.from) / (view.to - view.from)) * width;

  function paint() {
    width = canvas.clientWidth;
    if (!width) return;
    const dense = Math.max(1, Math.min(3, devicePixelRatio || 1));
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) { canvas.width = Math.round(width * dense); canvas.height = Math.round(height * dense); }
    const pen = canvas.getContext('2d');
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    const colours = Object.fromEntries([...Object.keys(PHASES), 'paper', 'panel', 'ink', 'soft', 'line', 'grid', 'on-phase', 'on-loss', 'on-gaps'].map((n) => [n, ink(n)]));
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, height);
    axis(pen, colours);
    pen.textBaseline = 'middle';
    for (const track of tracks) {
      pen.fillStyle = colours.panel; pen.fillRect(0, track.top + LABEL - 1, width, track.rows.length * LANE + 1);
      pen.font = '600 12px system-ui, sans-serif'; pen.fillStyle = colours.soft;
      pen.fillText(`${track.name}${track.device && !/device|gpu/i.test(track.name) ? ' (device)' : ''}`, 8, track.top + LABEL / 2);
    }
    pen.strokeStyle = colours.soft; pen.setLineDash([2, 3]); pen.globalAlpha = 0.6;
    for (const { at } of boundaries) { pen.beginPath(); pen.moveTo(Math.round(x(at)) + 0.5, HEAD); pen.lineTo(Math.round(x(at)) + 0.5, height); pen.stroke(); }
    pen.setLineDash([]); pen.globalAlpha = 1;
    pen.font = '12px system-ui, sans-serif';
    for (const span of spans) paintSpan(pen, span, colours);
  }
  function paintSpan(pen, span, colours) {
    const left = x(span.start), right = x(span.start + span.length);
    if (right < 0 || left > width) return;
    const from = Math.max(-2, left), wide = Math.max(1, Math.min(width + 2, right) - from - (right - left > 4 ? 1 : 0));
    if (span.phase) { pen.fillStyle = colours[span.phase]; pen.fillRect(from, span.top, wide, LANE - 3); } else {
      pen.fillStyle = colours.grid; pen.fillRect(from, span.top, wide, LANE - 3);
      if (wide > 4) { pen.strokeStyle = colours.line; pen.lineWidth = 1; pen.strokeRect(from + 0.5, span.top + 0.5, wide - 1, LANE - 4); }
    }
    if (span === chosen) { pen.strokeStyle = colours.ink; pen.lineWidth = 2; pen.strokeRect(from + 1, span.top + 1, Math.max(1, wide - 2), LANE - 5); }
    if (wide < 26) return;
    const room = wide - 9, full = pen.measureText(span.name).width;
    const letters = Math.floor((span.name.length * room) / full) - 1;
    if (full > room && letters < 4) return;
    pen.fillStyle = colours[span.phase ? onPhase(span.phase) : 'ink'];
    pen.fillText(full > room ? `${span.name.slice(0, letters)}…` : span.name, Math.max(from, 0) + 5, span.top + (LANE - 3) / 2 + 0.5);
  }
  function axis(pen, colours) {
    const [unit, size] = view.to - view.from > 2e10 ? ['s', 1e9] : view.to - view.from > 2e4 ? ['ms', 1e6] : ['µs', 1e3];
    pen.font = '12px system-ui, sans-serif'; pen.textBaseline = 'middle';
    for (const mark of ticks(view.from / size, view.to / size, width / 80)) {
      const at = Math.round(x(mark * size)) + 0.5;
      pen.strokeStyle = colours.grid; pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(at, HEAD - 5); pen.lineTo(at, height); pen.stroke();
      const label = `${Number(mark.toPrecision(10))} ${unit}`.replace('-', '−');
      const wide = pen.measureText(label).width;
      pen.fillStyle = colours.soft;
      if (at + wide / 2 < width && at - wide / 2 > -wide / 2) pen.fillText(label, Math.max(2, at - wide / 2), 11);
    }
  }

  const find = (px, py) => spans.findLast((s) => py >= s.top - 1 && py < s.top + LANE - 2 && x(s.start) - 2 <= px && x(s.start + s.length) + 2 >= px);
  function choose(span) {
    if (span === chosen) return;
    chosen = span || null;
    reading.replaceChildren(...(span ? [swatch(span.phase), el('strong', {}, code(span.name)), `  ${timeText(span.length)}`, el('span', { class: 'dim' },
      `  ${span.phase ? PHASES[span.phase].toLowerCase() + ', ' : ''}from ${ms(span.start)} ms to ${ms(span.start + span.length)} ms${span.step >= 0 ? `, step ${span.step}` : ''}, on ${timeline.tracks[span.track].name}`)] : [el('span', { class: 'dim' }, 'Point at a span, or tap it, to read it.')]));
    paint();
  }

  control(canvas, { zoom, move, all, choose, find });

  const button = (label, name, act) => { const b = el('button', { type: 'button', 'aria-label': name, title: name }, label); b.addEventListener('click', act); return b; };
  const lastStep = () => { const at = boundaries.slice(-2); if (at.length === 2) { view.from = at[0].at - (at[1].at - at[0].at) * 0.03; view.to = at[1].at + (at[1].at - at[0].at) * 0.03; clamp(); paint(); } };
  body.append(el('div', { class: 'tools' }, button('+', 'Zoom in', () => zoom(0.6)), button('−', 'Zoom out', () => zoom(1 / 0.6)), button('◂', 'Earlier', () => move(-0.3)), button('▸', 'Later', () => move(0.3)),
    button('All', 'Show all', all), boundaries.length > 1 ? button('Last step', 'Show the last step', lastStep) : null, el('span', { class: 'hint' }, 'Drag to move; click, then wheel to zoom; two fingers pinch.')), canvas, reading);
  const seen = Object.keys(PHASES).filter((p) => spans.some((s) => s.phase === p));
  if (seen.length) body.append(phaseLegend(seen));
  if (!tracks.some((t) => t.device)) body.append(el('p', { class: 'note' }, 'No track of a device: this device has no clock, or work ran on the host. Host times only.'));
  else if (known(profile.method.calibration_error_ns)) body.append(el('p', { class: 'note' }, `Device spans are placed on the host’s clock to within ${timeText(profile.method.calibration_error_ns)}. Dashed lines: where the host saw a step end.`));
  if (timeline.left_out) body.append(el('p', { class: 'note' }, `${fixed(timeline.left_out, 0)} earlier spans of these steps are omitted here; trace.json has all.`));
  clamp();
  redraws.push(paint);
}
