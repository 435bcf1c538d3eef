// Loads dashboards and lists their panels and targets.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

export function load(file) {
  return { file: basename(file), dashboard: JSON.parse(readFileSync(file, 'utf8')) };
}

// All panels except rows, including those in folded rows.
export function panelsOf({ panels = [] }) {
  return panels.flatMap((panel) => (panel.type === 'row' ? panelsOf(panel) : [panel]));
}

export function rowsOf({ panels = [] }) {
  return panels.filter(({ type }) => type === 'row');
}

// Each target, with its panel.
export function targetsOf(dashboard) {
  return panelsOf(dashboard).flatMap((panel) => (panel.targets ?? []).map((target) => ({ panel, target })));
}
