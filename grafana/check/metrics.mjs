// `node metrics.mjs DASHBOARD.json…` lists the metrics that dashboards show, one name per line, as in the
// catalogue.

import { pathToFileURL } from 'node:url';

import { load, targetsOf } from './dashboards.mjs';
import { selectorsOf } from './promql.mjs';

// A histogram has three series per metric.
const SERIES = /_(bucket|count|sum)$/;

export function metricsOf(dashboard, catalogue) {
  const names = new Set();
  for (const { target } of targetsOf(dashboard)) {
    for (const { name } of selectorsOf(target.expr)) {
      if (name.startsWith('redrive_')) {
        names.add(metricOf(name, catalogue));
      }
    }
  }
  return names;
}

// Returns the metric of a series. Without a catalogue, strips the suffixes of histograms.
export function metricOf(series, catalogue) {
  if (catalogue?.has(series)) {
    return series;
  }
  const name = series.replace(SERIES, '');
  return !catalogue || catalogue.get(name)?.type === 'histogram' ? name : series;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const names = new Set();
  for (const file of process.argv.slice(2)) {
    metricsOf(load(file).dashboard).forEach((name) => names.add(name));
  }
  [...names].sort().forEach((name) => console.log(name));
}
