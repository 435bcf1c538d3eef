// A panel for each metric of the catalogue that no other panel shows, so that a new metric is visible at
// once. Empty if every metric has a better panel.

import { folded } from './dashboard.mjs';
import { graph, heatmap } from './panel.mjs';

const ROW = /^\| `(redrive_\w+)` \| (\w+) \| (.*?) \| \w+ \| (.*) \|$/gm;
const UNITS = [[/_seconds$/, 's'], [/_bytes$/, 'bytes'], [/_total$/, 'cps']];

// Reads the metrics from METRICS.md. `values` has the labels whose values are known.
export function catalogueOf(page) {
  return [...page.matchAll(ROW)].map(([, name, type, columns, help]) => {
    const labels = [...columns.matchAll(/`(\w+)`(?: \((.*?)\))?/g)];
    const known = labels.filter(([, , values]) => values).map(([, label, values]) => [label, values.split(', ')]);
    return { name, type, help, labels: labels.map(([, label]) => label), values: Object.fromEntries(known) };
  });
}

// `page` is METRICS.md, `dashboards` are those that have panels already.
export function otherMetrics(page, dashboards) {
  const shown = JSON.stringify(dashboards);
  const panels = catalogueOf(page)
    .filter(({ name }) => !new RegExp(`\\b${name}(_bucket|_count|_sum)?\\{`).test(shown))
    .map(panel);
  return panels.length > 0 ? [folded('Other metrics', ...panels)] : [];
}

function panel({ name, type, labels, help }) {
  const own = labels.includes('queue') ? '@q' : '@';
  const unit = UNITS.find(([suffix]) => suffix.test(name))?.[1] ?? 'short';
  const shared = {
    title: name,
    unit,
    help: { about: help, healthy: 'depends on your jobs.', otherwise: 'compare it with the time before the change.', type: 'redrive stats' },
  };
  if (type === 'histogram') {
    return heatmap({ ...shared, expr: `sum by (le) (rate(${name}_bucket{${own}}[$__rate_interval]))` });
  }
  const by = labels.length > 0 ? ` by (${labels[0]})` : '';
  const expr = type === 'counter' ? `sum${by} (rate(${name}{${own}}[$__rate_interval]))` : `max${by} (${name}{${own}})`;
  return graph({ ...shared, queries: [{ expr, legend: labels.length > 0 ? `{{${labels[0]}}}` : name }] });
}
