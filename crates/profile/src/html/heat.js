// A grid of loads over its picture, with a slider for the opacity.

// Dark to light and perceptually uniform, so that it is readable also in grey and for the colour-blind.
const HEAT = [[11, 9, 36], [66, 15, 102], [129, 37, 129], [187, 55, 84], [237, 105, 37], [251, 180, 26], [252, 255, 164]];
function heatColour(part) {
  const at = Math.max(0, Math.min(1, part)) * (HEAT.length - 1), i = Math.min(HEAT.length - 2, Math.floor(at));
  return HEAT[i].map((from, c) => Math.round(from + (HEAT[i + 1][c] - from) * (at - i)));
}

function drawHeat({ heat }, body) {
  if (!heat || !heat.columns || !heat.rows || !heat.values.some(known)) return 'No load per tile was recorded in this profile.';
  const { columns, rows, values } = heat;
  const sorted = values.filter(known).sort((a, b) => a - b);
  const rank = (p) => sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)];
  // The few heaviest tiles share the lightest colour, else they would darken all others.
  const top = rank(0.99) > 0 ? rank(0.99) : rank(1) || 1;
  const canvas = el('canvas', { width: columns, height: rows, role: 'img', 'aria-label': `${heat.title}: ${columns} by ${rows} tiles, median ${brief(median(values))}, largest ${brief(rank(1))}` });
  const pixels = new ImageData(columns, rows);
  for (let i = 0; i < columns * rows; i++) {
    if (!known(values[i])) continue;
    pixels.data.set([...heatColour(values[i] / top), 255], i * 4);
  }
  canvas.getContext('2d').putImageData(pixels, 0, 0);
  const stage = el('div', { class: heat.picture ? 'stage' : 'stage bare' });
  const slider = el('input', { type: 'range', min: '0', max: '100', value: '65', id: 'opacity' });
  const reading = el('p', { class: 'reading screen', 'aria-live': 'polite' }, el('span', { class: 'dim' }, 'Point at a tile, or tap it, to read it.'));
  let across = 1, down = 1;
  if (heat.picture) {
    const picture = el('img', { src: heat.picture, alt: 'The render that the tiles belong to' });
    picture.addEventListener('load', () => {
      // The last tiles may stick out of the picture: find the tile's size that fits both counts.
      const fit = [4, 8, 16, 32, 64, 128].find((t) => Math.ceil(picture.naturalWidth / t) === columns && Math.ceil(picture.naturalHeight / t) === rows);
      if (fit) { across = (columns * fit) / picture.naturalWidth; down = (rows * fit) / picture.naturalHeight; }
      canvas.style.width = `${across * 100}%`; canvas.style.height = `${down * 100}%`;
    });
    stage.append(picture);
    const fade = () => { canvas.style.opacity = slider.value / 100; };
    slider.addEventListener('input', fade);
    fade();
    body.append(el('div', { class: 'tools' }, el('label', { for: 'opacity' }, 'Opacity of the load'), slider));
  }
  stage.append(canvas);
  stage.addEventListener('pointermove', (event) => read(event));
  stage.addEventListener('pointerdown', (event) => read(event));
  function read(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns), row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const value = values[row * columns + column];
    if (column >= 0 && column < columns && row >= 0 && row < rows && known(value)) reading.replaceChildren(el('strong', {}, brief(value)), el('span', { class: 'dim' }, `  in the tile of column ${column}, row ${row}`));
  }
  body.append(el('h3', {}, heat.title), stage,
    el('div', { class: 'scale' }, '0', el('i', { style: `background: linear-gradient(90deg, ${HEAT.map((c) => `rgb(${c})`).join(', ')})`, 'aria-hidden': 'true' }), `${brief(top)}${top < rank(1) ? ' and more' : ''}`),
    el('p', { class: 'note' }, `${fixed(columns, 0)} × ${fixed(rows, 0)} tiles: median ${brief(median(values))}, p99 ${brief(rank(0.99))}, largest ${brief(rank(1))}; the largest is ${brief(rank(1) / Math.max(1e-9, sorted.reduce((a, b) => a + b, 0) / sorted.length))} times the mean.`), reading);
}
