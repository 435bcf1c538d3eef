// The unit gate: Grafana knows every unit.
//
// `units.json` lists the ids of `@grafana/data`, which is too large to install for that. The render gate
// installs it and compares.

import { readFileSync } from 'node:fs';

import { panelsOf } from './dashboards.mjs';

export const UNITS = new Set(JSON.parse(readFileSync(new URL('units.json', import.meta.url), 'utf8')));

export function checkUnits(dashboard) {
  return panelsOf(dashboard).flatMap((panel) =>
    unitsOf(panel)
      .filter((unit) => !UNITS.has(unit))
      .map((unit) => `panel "${panel.title}": Grafana has no unit ${unit}`),
  );
}

function unitsOf({ fieldConfig = {}, options = {} }) {
  const overridden = (fieldConfig.overrides ?? []).flatMap(({ properties }) =>
    properties.filter(({ id }) => id === 'unit').map(({ value }) => value),
  );
  return [fieldConfig.defaults?.unit, options.yAxis?.unit, ...overridden].filter((unit) => unit !== undefined);
}
