// The lint of the alert rules. Their series, labels and values are those of the catalogue. A counter is read through a
// rate, and a gauge is not.

import { metricOf } from './metrics.mjs';
import { groupingsOf, selectorsOf } from './promql.mjs';

const RATES = new Set(['rate', 'increase']);
// Labels that Prometheus adds.
const ADDED = ['job', 'instance'];

// Defects that the lint must find in an expression, with a pattern for its message.
export const defects = [
  ['redrive_upp == 0', /no redrive_upp/],
  ['redrive_up{queue="a"} == 0', /no label queue/],
  ['sum by (job, colour) (redrive_up) == 0', /no label colour/],
  ['sum by (job, queue) (redrive_up) == 0 and on (job) redrive_queue_paused == 1', /redrive_up has no label queue/],
  ['redrive_queue_paused == 1 and on (job, queue) redrive_up == 0', /redrive_up has no label queue/],
  ['redrive_down{cause=~"schema|rain"} == 1', /never rain/],
  ['redrive_jobs_enqueued_total > 0', /needs a rate/],
  ['sum(max_over_time(redrive_jobs_enqueued_total[5m])) > 0', /needs a rate/],
  ['rate(redrive_queue_live_jobs[5m]) > 0', /has no rate/],
];

// Returns every violation, as texts. `rules` are those of a file, in order.
export function lintRules(rules, catalogue) {
  const recorded = new Map();
  return rules.flatMap(({ alert, record, expr }) => {
    const selectors = selectorsOf(expr).map((selector) => ({ ...selector, ...described(selector.name, catalogue, recorded) }));
    const groupings = groupingsOf(expr);
    if (record) {
      // A rule that only divides others has their labels.
      const kept = groupings.length > 0 ? groupings : selectors;
      recorded.set(record, kept.flatMap(({ labels }) => labels ?? []));
    }
    return [...selectors.flatMap(selectorRule), ...groupings.flatMap((grouping) => groupingRule(grouping, selectors))]
      .map((what) => `${alert ?? record}: ${what}`);
  });
}

function described(name, catalogue, recorded) {
  const metric = catalogue.get(metricOf(name, catalogue));
  const bucket = name.endsWith('_bucket') ? ['le'] : [];
  return {
    labels: metric ? [...metric.labels, ...bucket, ...ADDED] : (recorded.get(name) ?? (name === 'up' ? ADDED : null)),
    values: metric?.values ?? {},
    isCounter: metric !== undefined && metric.type !== 'gauge',
  };
}

function groupingRule({ labels, from, to }, selectors) {
  return selectors.filter(({ at, labels: known }) => known && at >= from && at < to).flatMap(({ name, labels: known }) =>
    labels.filter((label) => !known.includes(label)).map((label) => `${name} has no label ${label}`));
}

function selectorRule({ name, matchers, functions, labels, values, isCounter }) {
  if (!labels) {
    return [`the catalogue has no ${name}`];
  }
  const isRated = RATES.has(functions.at(-1));
  return [
    ...(isCounter && !isRated ? [`${name} is a counter and needs a rate`] : []),
    ...(isRated && !isCounter ? [`${name} is no counter and has no rate`] : []),
    ...matchers.flatMap(({ label, op, value }) => {
      if (!labels.includes(label)) {
        return [`${name} has no label ${label}`];
      }
      const all = op.includes('~') ? value.split('|') : [value];
      return all.filter((one) => values[label]?.includes(one) === false).map((one) => `${label} of ${name} is never ${one}`);
    }),
  ];
}
