// The lint gate: the rules of grafana/dashboard-linter, and additional ones.
//
// A rule takes a dashboard and returns its violations, one per line. Queries are parsed with the grammar of
// Prometheus; names and labels are compared with the catalogue of redrive.

import { panelsOf, rowsOf, targetsOf } from './dashboards.mjs';
import { metricOf } from './metrics.mjs';
import { groupedBy, parse, selectorsOf } from './promql.mjs';

const RATES = new Set(['rate', 'irate', 'increase']);
const WINDOWS = new Set(['$__rate_interval', '$__range']);
// A comparison with the day before the range.
const DAY_BEFORE = '[1d] offset $__range';
const FILLED = /\$\{?datasource\}?/;
const WIDTH = 24;
const DESCRIPTION_PARTS = ['**Healthy:**', '**Otherwise:**', '**Type:** `'];
const COLOUR = /^(text|#[0-9A-F]{6})$/;
const COLOURS = 12;
// Labels that Prometheus adds.
const ADDED = new Set(['job', 'instance', 'le']);

const rules = {
  'template-datasource': ({ templating }) => {
    const sources = templating.list.filter(({ type }) => type === 'datasource');
    const [source] = sources;
    return sources.length === 1 && source.name === 'datasource' && source.label === 'Data source' && source.query === 'prometheus'
      ? []
      : ['there must be one variable of type datasource, named datasource, labelled "Data source"'];
  },
  'template-job': (dashboard) => templateRule(dashboard, 'job', 'Job'),
  'template-instance': (dashboard) => templateRule(dashboard, 'instance', 'Instance'),
  'template-queue': (dashboard) => {
    const usesIt = JSON.stringify(dashboard.panels).includes('$queue');
    return usesIt ? templateRule(dashboard, 'queue', 'Queue') : [];
  },
  'template-label-promql': ({ templating }) =>
    templating.list.filter(isQuery).flatMap(({ name, query }) => {
      const [, selector] = /^label_values\((.+), *\w+\)$/.exec(query.query) ?? [];
      return selector && parse(selector).broken === null ? [] : [`variable ${name}: ${query.query} is not label_values of a selector`];
    }),
  'template-on-time-change-reload': ({ templating }) =>
    templating.list.filter((variable) => isQuery(variable) && variable.refresh !== 2).map(({ name }) => `variable ${name} must refresh when the time changes`),
  'uneditable-dashboard': ({ editable }) => (editable === false ? [] : ['editable must be false']),
  'no-inputs': (dashboard) =>
    ['__inputs', '__requires', '__elements'].filter((key) => key in dashboard).map((key) => `${key}: provisioning never resolves it`),
  'stable-identity': ({ uid, id, tags, links, schemaVersion }) => [
    ...(/^redrive-[a-z-]+$/.test(uid) ? [] : [`the uid ${uid} does not start with redrive-`]),
    ...(id === undefined ? [] : ['a numeric id is valid in one Grafana only']),
    ...(tags?.includes('redrive') ? [] : ['the tag redrive is missing']),
    ...(links?.some((link) => link.type === 'dashboards' && link.tags.includes('redrive') && link.includeVars && link.keepTime)
      ? []
      : ['there is no link to the other dashboards']),
    ...(schemaVersion === 39 ? [] : ['schemaVersion must be 39']),
  ],
  'alert-annotations': ({ annotations }) =>
    annotations.list.some(({ expr }) => expr?.startsWith('ALERTS{alertname=~"Redrive.*"')) ? [] : ['the annotations do not include the alerts of redrive'],
  'panel-title-description': forPanels(({ title, description }) =>
    title && description ? [] : ['a panel needs a title and a description']),
  'panel-description': forPanels(({ description = '' }) =>
    DESCRIPTION_PARTS.filter((part) => !description.includes(part)).map((part) => `the description has no ${part}`)),
  'panel-units': forPanels(({ fieldConfig }) => (fieldConfig?.defaults?.unit ? [] : ['a panel needs a unit'])),
  'panel-no-targets': forPanels(({ targets }) => (targets?.length > 0 ? [] : ['a panel needs a target'])),
  'panel-datasource': forPanels(({ datasource, targets = [] }) =>
    [datasource, ...targets.map((target) => target.datasource)].every((one) => FILLED.test(one?.uid ?? '')) ? [] : ['the data source is not the variable']),
  'panel-least-interval': forPanels(({ interval }) => (interval === '15s' ? [] : ['the minimum interval must be 15s'])),
  'panel-links-and-names': (dashboard) => [
    ...duplicates(panelsOf(dashboard).map(({ id }) => id)).map((id) => `duplicate id ${id}`),
    ...rowsOf(dashboard).filter(({ title }) => !title).map(() => 'a row needs a name'),
  ],
  'panel-titles-differ': (dashboard) => duplicates(panelsOf(dashboard).map(({ title }) => title)).map((title) => `two panels have the title "${title}"`),
  'panel-places': (dashboard) => overlaps(dashboard),
  'panel-colours': (dashboard) => colourRule(dashboard),
  'panel-overrides': forPanels((panel) => overrideRule(panel)),
  'target-promql': forTargets(({ expr }) => {
    const { broken } = parse(expr);
    return broken === null ? [] : [`invalid PromQL at ${broken}: ${expr}`];
  }),
  'target-job': forSelectors(({ name, matchers }) => matcherRule(name, matchers, 'job')),
  'target-instance': forSelectors(({ name, matchers }) => (name === 'ALERTS' ? [] : matcherRule(name, matchers, 'instance'))),
  'target-queue': forSelectors(({ name, matchers }, { catalogue }) =>
    labelsOf(name, catalogue)?.includes('queue') ? matcherRule(name, matchers, 'queue') : []),
  'target-rate-interval': forTargets(({ expr }) =>
    selectorsOf(expr.replaceAll(DAY_BEFORE, '[$__range] offset $__range'))
      .filter(({ functions, range }) => range !== null && RATES.has(functions.at(-1)) && !WINDOWS.has(range))
      .map(({ name, range }) => `${name}[${range}] must be over $__rate_interval or $__range`)),
  'target-counter-agg': forSelectors(({ name, functions }, { catalogue }) => {
    const isCounter = /_(total|bucket|count|sum)$/.test(name) && typeOf(name, catalogue) !== 'gauge';
    return isCounter && !RATES.has(functions.at(-1)) ? [`${name} is a counter and needs rate or increase`] : [];
  }),
  'target-gauge': forSelectors(({ name, functions }, { catalogue }) =>
    typeOf(name, catalogue) === 'gauge' && RATES.has(functions.at(-1)) ? [`${name} is a gauge and has no rate`] : []),
  'target-in-catalogue': forSelectors(({ name, matchers }, { catalogue }) => {
    const labels = labelsOf(name, catalogue);
    if (name === 'ALERTS') {
      return [];
    }
    if (!labels) {
      return [`the catalogue has no ${name}`];
    }
    return matchers
      .filter(({ label }) => !labels.includes(label) && !ADDED.has(label))
      .map(({ label }) => `${name} has no label ${label}`);
  }),
  'target-groups': forTargets(({ expr }, { catalogue }) => {
    const known = new Set(selectorsOf(expr).flatMap(({ name }) => labelsOf(name, catalogue) ?? []));
    return [...groupedBy(expr)].filter((label) => !known.has(label) && !ADDED.has(label)).map((label) => `no series has the label ${label}: ${expr}`);
  }),
  'target-legend': forTargets(({ expr, legendFormat = '' }) => {
    const labels = groupedBy(expr);
    return [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)]
      .map(([, label]) => label)
      .filter((label) => labels.size > 0 && !labels.has(label))
      .map((label) => `the legend uses ${label}, which is aggregated away`);
  }),
};

// Returns every violation of every rule, as `{rule, where}`.
export function lint(dashboard, catalogue) {
  return Object.entries(rules).flatMap(([rule, check]) =>
    check(dashboard, { catalogue }).map((where) => ({ rule, where })),
  );
}

export const RULES = Object.keys(rules);

function forPanels(check) {
  return (dashboard) => panelsOf(dashboard).flatMap((panel) => check(panel).map((what) => `panel "${panel.title}": ${what}`));
}

function forTargets(check) {
  return (dashboard, context) =>
    targetsOf(dashboard).flatMap(({ panel, target }) => check(target, context).map((what) => `panel "${panel.title}", ${target.refId}: ${what}`));
}

function forSelectors(check) {
  return forTargets((target, context) => selectorsOf(target.expr).flatMap((selector) => check(selector, context)));
}

function isQuery({ type }) {
  return type === 'query';
}

function templateRule({ templating }, name, label) {
  const variable = templating.list.find((one) => one.name === name);
  if (!variable) {
    return [`there is no variable ${name}`];
  }
  const wanted = { label, type: 'query', multi: true, includeAll: true, allValue: '.+' };
  return Object.entries(wanted)
    .filter(([key, value]) => variable[key] !== value)
    .map(([key, value]) => `variable ${name}: ${key} must be ${value}`);
}

// Alerts may aggregate a label away, so its value may be empty.
function matcherRule(name, matchers, label) {
  const value = name === 'ALERTS' ? `$${label}|` : `$${label}`;
  return matchers.some((one) => one.label === label && one.op === '=~' && one.value === value) ? [] : [`${name} has no matcher ${label}=~"${value}"`];
}

function labelsOf(series, catalogue) {
  return catalogue.get(metricOf(series, catalogue))?.labels;
}

function typeOf(series, catalogue) {
  return catalogue.get(metricOf(series, catalogue))?.type;
}

function duplicates(values) {
  return values.filter((value, at) => values.indexOf(value) !== at);
}

function overlaps(dashboard) {
  const taken = new Map();
  const errors = [];
  for (const panel of [...dashboard.panels.filter(({ type }) => type !== 'row'), ...rowsOf(dashboard)]) {
    const { x, y, w, h } = panel.gridPos;
    if (![x, y, w, h].every(Number.isInteger)) {
      return [`panel "${panel.title}" has no position`];
    }
    if (x < 0 || x + w > WIDTH) {
      errors.push(`panel "${panel.title}" is outside the grid`);
    }
    for (let column = x; column < x + w; column += 1) {
      for (let line = y; line < y + h; line += 1) {
        const other = taken.get(`${column} ${line}`);
        if (other && other !== panel.title) {
          return [...errors, `panels "${other}" and "${panel.title}" overlap`];
        }
        taken.set(`${column} ${line}`, panel.title);
      }
    }
  }
  return errors;
}

// One small palette of hexadecimal colours and `text`. Named greens and reds are not safe for
// colour-blind readers.
function colourRule(dashboard) {
  const used = new Set();
  const walk = (value, key) => {
    if (typeof value === 'string' && /^(color|fixedColor|fill|iconColor)$/.test(key)) {
      used.add(value);
    } else if (value && typeof value === 'object') {
      Object.entries(value).forEach(([inner, one]) => walk(one, inner));
    }
  };
  walk(dashboard.panels, 'panels');
  used.delete('dash');
  const odd = [...used].filter((colour) => !COLOUR.test(colour)).map((colour) => `the colour ${colour} is not in the palette`);
  return used.size > COLOURS ? [...odd, `${used.size} colours; the limit is ${COLOURS}`] : odd;
}

// An override that matches no series is a typo.
function overrideRule({ type, targets = [], transformations = [], fieldConfig = {} }) {
  const renamed = transformations.flatMap(({ options }) => Object.values(options.renameByName ?? {}));
  const legends = targets.map(({ legendFormat = '' }) => legendFormat);
  const isOpen = legends.some((legend) => legend.includes('{{') || legend === '__auto');
  return (fieldConfig.overrides ?? [])
    .filter(({ matcher }) => matcher.id === 'byName')
    .filter(({ matcher }) => !renamed.includes(matcher.options) && !legends.includes(matcher.options) && (type === 'table' || !isOpen))
    .map(({ matcher }) => `no series is named "${matcher.options}"`);
}
