// Curves of a run, extended with each status.
// @ts-check

/** Most points of a curve; beyond them, every second point is removed. */
const MOST = 600;

export class Plot {
  /** @type {[number, number][]} */ points = [];
  /** Steps after which a further part of the run begins. @type {number[]} */ marks = [];

  /** @param {HTMLCanvasElement} canvas @param {string} title @param {(value: number) => string} text */
  constructor(canvas, title, text) {
    this.canvas = canvas;
    this.title = title;
    this.text = text;
    canvas.hidden = true;
  }

  /** Puts earlier points before those of this page. @param {[number, number][]} points */
  seed(points) {
    const last = points.at(-1);
    if (last === undefined) return;
    this.canvas.hidden = false;
    this.points = [...points, ...this.points.filter(([x]) => x > last[0])];
    this.draw();
  }

  /** @param {number} x @param {number | null} y */
  push(x, y) {
    if (y === null || !Number.isFinite(y)) return;
    this.canvas.hidden = false;
    const last = this.points.at(-1);
    if (last && last[0] === x) last[1] = y;
    else this.points.push([x, y]);
    if (this.points.length > MOST) this.points = this.points.filter((_, i) => i % 2 === 0);
    this.draw();
  }

  draw() {
    const canvas = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    if (!context || this.points.length === 0) return;
    context.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const ys = this.points.map(([, y]) => y);
    const [x0, x1] = [this.points[0][0], this.points.at(-1)?.[0] ?? 1];
    const [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    const at = (/** @type {[number, number]} */ [x, y]) => [
      4 + ((x - x0) / (x1 - x0 || 1)) * (width - 8),
      height - 4 - ((y - y0) / (y1 - y0 || 1)) * (height - 24),
    ];
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = context.strokeStyle = style.getPropertyValue("--dim");
    this.marks.filter((mark) => mark >= x0 && mark < x1).forEach((mark) => {
      const [x] = at([mark, y0]);
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(x, 18);
      context.lineTo(x, height);
      context.stroke();
      context.fillText(`${this.marks.indexOf(mark) + 2}`, x + 3, height - 4);
    });
    context.setLineDash([]);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.beginPath();
    for (const point of this.points) context.lineTo(...(/** @type {[number, number]} */ (at(point))));
    context.stroke();
    context.fillStyle = style.color;
    context.fillText(`${this.title} ${this.text(ys.at(-1) ?? 0)}`, 4, 13);
  }
}
