// Builds the data frames of a panel as the Prometheus data source of Grafana does.

import { applyFieldOverrides, cacheFieldDisplayNames, FieldType, Registry, toDataFrame, transformDataFrame } from '@grafana/data';

const NAMES = {
  standard: ['unit', 'decimals', 'min', 'max', 'displayName', 'noValue', 'thresholds', 'mappings', 'color', 'links', 'fieldMinMax'],
};

// The allowed options of a field: those of Grafana and the custom options of the panels, which the schema
// gate checks.
export function fieldOptions(panels) {
  const own = new Set();
  for (const { fieldConfig = {} } of panels) {
    Object.keys(fieldConfig.defaults?.custom ?? {}).forEach((name) => own.add(name));
    for (const { properties } of fieldConfig.overrides ?? []) {
      properties.filter(({ id }) => id.startsWith('custom.')).forEach(({ id }) => own.add(id.slice(7)));
    }
  }
  const option = (id, path, isCustom) => ({
    id,
    path,
    name: path,
    isCustom,
    settings: {},
    process: (value) => value,
    shouldApply: () => true,
  });
  return new Registry(() => [
    ...NAMES.standard.map((name) => option(name, name, false)),
    ...[...own].map((name) => option(`custom.${name}`, name, true)),
  ]);
}

// Returns the frames of a panel. `ask(target)` returns the response of Prometheus.
export async function framesOf(panel, { ask, theme, options }) {
  const answers = await Promise.all(panel.targets.map(async (target) => [target, await ask(target, panel)]));
  const raw = answers.flatMap(([target, result]) => framesOfTarget(panel, target, result));
  const frames = await transformed(panel, raw);
  const shown = applyFieldOverrides({
    data: frames,
    fieldConfig: panel.fieldConfig,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: options,
  });
  cacheFieldDisplayNames(shown);
  return shown;
}

function framesOfTarget(panel, target, result) {
  if (target.format === 'table') {
    return result.length === 0 ? [] : [tableOf(target, result)];
  }
  if (target.format === 'heatmap') {
    return result.length === 0 ? [] : [bucketsOf(target, result)];
  }
  return result.map(({ metric, values, value }) => {
    const points = values ?? [value];
    const name = legend(target.legendFormat, metric, target.expr);
    return toDataFrame({
      refId: target.refId,
      name,
      fields: [
        { name: 'Time', type: FieldType.time, values: points.map(([time]) => time * 1000) },
        {
          name: 'Value',
          type: FieldType.number,
          labels: metric,
          config: { displayNameFromDS: name },
          values: points.map(([, number]) => Number(number)),
        },
      ],
    });
  });
}

function legend(format, metric, expr) {
  if (format && format !== '__auto') {
    return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');
  }
  const labels = Object.entries(metric).filter(([label]) => label !== '__name__');
  return labels.length === 0 ? metric.__name__ ?? expr : `{${labels.map(([k, v]) => `${k}="${v}"`).join(', ')}}`;
}

function tableOf(target, result) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].filter((name) => name !== '__name__');
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: result.map(({ metric }) => metric[label] ?? ''),
      })),
      {
        name: `Value #${target.refId}`,
        type: FieldType.number,
        values: result.map(({ value }) => Number(value[1])),
      },
    ],
  });
}

// One field per bucket, not cumulative, in the order of the bounds.
function bucketsOf(target, result) {
  const bound = (series) => (series.metric.le === '+Inf' ? Infinity : Number(series.metric.le));
  const rows = [...result].sort((a, b) => bound(a) - bound(b));
  const times = [...new Set(rows.flatMap(({ values }) => values.map(([time]) => time)))].sort((a, b) => a - b);
  const at = rows.map(({ values }) => new Map(values.map(([time, number]) => [time, Number(number)])));
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: times.map((time) => time * 1000) },
      ...rows.map((row, n) => ({
        name: row.metric.le,
        type: FieldType.number,
        labels: row.metric,
        values: times.map((time) => Math.max(0, (at[n].get(time) ?? 0) - (at[n - 1]?.get(time) ?? 0))),
      })),
    ],
  });
}

function transformed(panel, frames) {
  const steps = panel.transformations ?? [];
  if (steps.length === 0 || frames.length === 0) {
    return frames;
  }
  return new Promise((resolve, reject) => {
    transformDataFrame(steps, frames, { interpolate: (text) => text }).subscribe({ next: resolve, error: reject });
  });
}
