// Asks a Prometheus what a panel asks, as Grafana would: variables put in, a step by the width.

// Everything: what the variables are when all is chosen.
const ALL = '.+';
// The least that Grafana asks for by itself.
const LEAST_POINTS = 100;

export class Ranges {
  constructor(prometheus, { from, to, scrape }) {
    this.prometheus = prometheus;
    this.from = from;
    this.to = to;
    this.scrape = scrape;
  }

  // A target of a panel that is `points` wide and whose least step is `interval`.
  async ask({ target, interval, points = LEAST_POINTS }) {
    const step = Math.max(seconds(interval ?? '1s'), Math.ceil((this.to - this.from) / Math.max(points, LEAST_POINTS)));
    const query = this.filled(target.expr, step);
    const when = target.instant
      ? `query?time=${this.to}`
      : // Steps lie on multiples of themselves, so that neighbours agree.
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
