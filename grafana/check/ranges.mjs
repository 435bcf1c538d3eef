// Runs the query of a panel as Grafana does: with variables replaced, and a step that fits the width.

// The value of a variable with "All" selected.
const ALL = '.+';
// Grafana's default minimum step.
const LEAST_POINTS = 100;

export class Ranges {
  constructor(prometheus, { from, to, scrape }) {
    this.prometheus = prometheus;
    this.from = from;
    this.to = to;
    this.scrape = scrape;
  }

  // Runs a target of a panel that is `points` wide and has the minimum step `interval`.
  async ask({ target, interval, points = LEAST_POINTS }) {
    const step = Math.max(seconds(interval ?? '1s'), Math.ceil((this.to - this.from) / Math.max(points, LEAST_POINTS)));
    const query = this.filled(target.expr, step);
    const when = target.instant
      ? `query?time=${this.to}`
      : // Steps are aligned to multiples of themselves, so that panels agree.
        `query_range?start=${Math.ceil(this.from / step) * step}&end=${Math.floor(this.to / step) * step}&step=${step}`;
    const response = await fetch(`${this.prometheus}/api/v1/${when}&query=${encodeURIComponent(query)}`);
    return response.json();
  }

  filled(expr, step) {
    const values = {
      job: ALL,
      instance: ALL,
      queue: ALL,
      __rate_interval: `${Math.max(step + this.scrape, 4 * this.scrape)}s`,
      __range: `${this.to - this.from}s`,
      __interval: `${step}s`,
    };
    return expr.replace(/\$\{?(\w+)\}?/g, (whole, name) => values[name] ?? whole);
  }
}

export function seconds(text) {
  const [, number, unit] = /^(\d+)(ms|s|m|h)$/.exec(text);
  return Number(number) * { ms: 0.001, s: 1, m: 60, h: 3600 }[unit];
}
