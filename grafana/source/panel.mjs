// Builders for the types of panels that the dashboards use.

import { colour, plain } from './palette.mjs';

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

// `{@}` expands to the matchers of every selector, `{@q}` to those of series with a queue.
const matchers = {
  '@q': 'job=~"$job", instance=~"$instance", queue=~"$queue"',
  '@': 'job=~"$job", instance=~"$instance"',
};
const expand = (expr) =>
  expr.replace(/\s+/g, ' ').trim().replace(/@q|@/g, (which) => matchers[which]);

// The description of a panel: what it shows, what is healthy, what to do otherwise, and the command to
// type.
const describe = ({ about, healthy, otherwise, type }) =>
  [
    about,
    `**Healthy:** ${healthy}`,
    `**Otherwise:** ${otherwise}`,
    `**Type:** ${[type].flat().map((line) => `\`${line}\``).join(', ')}`,
  ].join('\n\n');

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

function targets(queries, more = {}) {
  return queries.map(({ expr, legend, ...own }, at) => ({
    datasource: DATASOURCE,
    editorMode: 'code',
    expr: expand(expr),
    legendFormat: legend ?? '__auto',
    range: true,
    refId: letters[at],
    ...more,
    ...own,
  }));
}

const steps = (base, ...rest) => ({
  mode: 'absolute',
  steps: [{ color: base, value: null }, ...rest.map(([value, color]) => ({ color, value }))],
});

// Thresholds for values where higher is worse.
export const above = (warning, critical) =>
  steps(
    plain,
    ...(warning === undefined ? [] : [[warning, colour.warning]]),
    ...(critical === undefined ? [] : [[critical, colour.dead]]),
  );
// Thresholds for values where lower is worse.
export const below = (critical, warning) =>
  warning === undefined
    ? steps(colour.dead, [critical, plain])
    : steps(colour.dead, [critical, colour.warning], [warning, plain]);
export const calm = steps(plain);

// Replaces values by words.
export const words = (texts) => [
  {
    type: 'value',
    options: Object.fromEntries(
      Object.entries(texts).map(([value, [text, color]], index) => [
        value,
        { text, index, ...(color && { color }) },
      ]),
    ),
  },
];

const fixed = (color) => ({ id: 'color', value: { mode: 'fixed', fixedColor: color } });
const named = (name, ...properties) => ({ matcher: { id: 'byName', options: name }, properties });
// Colours by series name.
export const painted = (names) =>
  Object.entries(names).map(([name, color]) => named(name, fixed(color)));
// A limit: a thin dashed line without a filled area.
export const limit = (name, color = colour.quiet) =>
  named(
    name,
    fixed(color),
    { id: 'custom.lineStyle', value: { fill: 'dash', dash: [6, 6] } },
    { id: 'custom.lineWidth', value: 1 },
    { id: 'custom.fillOpacity', value: 0 },
    { id: 'custom.stacking', value: { mode: 'none', group: 'limit' } },
  );
export { fixed, named };

const shell = (type, { title, w, h, help, links }) => ({
  type,
  title,
  description: describe(help),
  datasource: DATASOURCE,
  gridPos: { w, h, x: 0, y: 0 },
  interval: '15s',
  ...(links && { links }),
});

const VALUE_SIZE = 34;

// A single current value.
export function stat({
  queries, unit = 'short', decimals, thresholds = calm, mappings = [], none, text = 'auto',
  w = 3, h = 4, ...rest
}) {
  return {
    ...shell('stat', { w, h, ...rest }),
    fieldConfig: {
      defaults: {
        unit,
        ...(decimals !== undefined && { decimals }),
        ...(none !== undefined && { noValue: none }),
        color: { mode: 'thresholds' },
        mappings,
        thresholds,
      },
      overrides: [],
    },
    options: {
      colorMode: 'value',
      graphMode: 'none',
      justifyMode: 'center',
      orientation: 'auto',
      percentChangeColorMode: 'standard',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      showPercentChange: false,
      // One size for all, because Grafana otherwise enlarges short numbers.
      text: { valueSize: VALUE_SIZE },
      textMode: text,
      wideLayout: true,
    },
    targets: targets(queries, { instant: true, range: false }),
  };
}

const SCALES = {
  linear: { type: 'linear' },
  log: { type: 'log', log: 10 },
};

// A time series. `style` is `lines`, `stack` (stacked areas), `bars` (stacked bars, for rare events) or
// `steps` (states). `bridge` connects points across gaps, for series that have values only while
// something happens.
export function graph({
  queries, unit = 'short', decimals, min = 0, max, thresholds, style = 'lines', scale = 'linear', none,
  base, bridge = false, softMin, overrides = [], w = 8, h = 8, ...rest
}) {
  const isStacked = style === 'stack' || style === 'bars';
  return {
    ...shell('timeseries', { w, h, ...rest }),
    fieldConfig: {
      defaults: {
        unit,
        ...(decimals !== undefined && { decimals }),
        ...(min !== null && { min }),
        ...(max !== undefined && { max }),
        ...(none !== undefined && { noValue: none }),
        color: base ? { mode: 'fixed', fixedColor: base } : { mode: 'palette-classic' },
        custom: {
          axisBorderShow: false,
          axisPlacement: 'auto',
          // A logarithmic grid has too many lines.
          ...(scale === 'log' && { axisGridShow: false }),
          ...(softMin !== undefined && { axisSoftMin: softMin }),
          // Keeps a line of zeros at the bottom.
          ...(decimals === 0 && { axisSoftMax: 1 }),
          barAlignment: 0,
          barWidthFactor: 0.8,
          drawStyle: style === 'bars' ? 'bars' : 'line',
          fillOpacity: scale === 'log' ? 0 : { lines: 6, stack: 28, bars: 70, steps: 10 }[style],
          gradientMode: 'none',
          lineInterpolation: style === 'steps' ? 'stepAfter' : 'linear',
          lineWidth: style === 'bars' ? 0 : style === 'stack' ? 1 : 2,
          scaleDistribution: SCALES[scale],
          showPoints: 'never',
          spanNulls: bridge,
          stacking: { group: 'A', mode: isStacked ? 'normal' : 'none' },
          thresholdsStyle: { mode: thresholds ? 'dashed' : 'off' },
        },
        mappings: [],
        thresholds: thresholds ?? calm,
      },
      overrides,
    },
    options: {
      legend: {
        calcs: [],
        displayMode: 'list',
        placement: 'bottom',
        showLegend: true,
      },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: targets(queries),
  };
}

// A histogram over time. Darker cells have more jobs.
export function heatmap({ expr, unit, color = colour.work, none, w = 8, h = 8, ...rest }) {
  return {
    ...shell('heatmap', { w, h, ...rest }),
    fieldConfig: {
      defaults: {
        unit: 'short',
        ...(none !== undefined && { noValue: none }),
        custom: {
          hideFrom: { legend: false, tooltip: false, viz: false },
          scaleDistribution: { type: 'linear' },
        },
      },
      overrides: [],
    },
    options: {
      calculate: false,
      cellGap: 1,
      color: {
        mode: 'opacity',
        fill: color,
        scale: 'exponential',
        exponent: 0.5,
        scheme: 'Blues',
        steps: 64,
        reverse: false,
      },
      exemplars: { color: colour.warning },
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      showValue: 'never',
      tooltip: { mode: 'single', showColorScale: false, yHistogram: false },
      yAxis: { axisPlacement: 'left', reverse: false, unit },
    },
    targets: targets([{ expr, legend: '{{le}}' }], { format: 'heatmap' }),
  };
}

// A table with one row per value of the labels in `key`. Columns are `{name, expr, unit?, ...}`.
export function table({ key, columns, sort, none, w = 24, h = 8, overrides = [], ...rest }) {
  const value = (at) => `Value #${letters[at]}`;
  const order = [...Object.keys(key), ...columns.map((_, at) => value(at))];
  return {
    ...shell('table', { w, h, ...rest }),
    fieldConfig: {
      defaults: {
        unit: 'short',
        ...(none !== undefined && { noValue: none }),
        color: { mode: 'thresholds' },
        custom: { align: 'auto', minWidth: 80, cellOptions: { type: 'auto' }, filterable: false, inspect: false },
        mappings: [],
        thresholds: calm,
      },
      overrides: [
        ...columns.map(({ name, unit, decimals, thresholds, width, mappings, empty, cell }) =>
          named(
            name,
            { id: 'unit', value: unit ?? 'short' },
            ...(decimals === undefined ? [] : [{ id: 'decimals', value: decimals }]),
            ...(width === undefined ? [] : [{ id: 'custom.width', value: width }]),
            ...(mappings === undefined ? [] : [{ id: 'mappings', value: mappings }]),
            ...(empty === undefined ? [] : [{ id: 'noValue', value: empty }]),
            ...(cell ?? []),
            ...(thresholds === undefined
              ? []
              : [
                  { id: 'thresholds', value: thresholds },
                  { id: 'custom.cellOptions', value: { type: 'color-text' } },
                ]),
          ),
        ),
        ...overrides,
      ],
    },
    options: {
      cellHeight: 'sm',
      frameIndex: 0,
      showHeader: true,
      sortBy: sort ? [{ displayName: sort, desc: true }] : [],
    },
    targets: targets(columns, { format: 'table', instant: true, range: false }).map(
      ({ name, unit, decimals, thresholds, width, mappings, empty, cell, ...target }) => target,
    ),
    transformations: [
      { id: 'merge', options: {} },
      {
        id: 'organize',
        options: {
          excludeByName: { Time: true },
          indexByName: Object.fromEntries(order.map((name, at) => [name, at])),
          renameByName: {
            ...key,
            ...Object.fromEntries(columns.map(({ name }, at) => [value(at), name])),
          },
        },
      },
    ],
  };
}
