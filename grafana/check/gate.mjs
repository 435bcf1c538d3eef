// The gates that need no server: schema, units, lint. And their negative controls.
//
//   node gate.mjs --catalogue CATALOGUE.json --schemas FOLDER DASHBOARD.json…
//
// CATALOGUE.json is the list of `{name, type, labels}` that `cargo xtask dashboards` writes.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { controls } from './controls.mjs';
import { load, panelsOf } from './dashboards.mjs';
import { lint, RULES } from './lint.mjs';
import { SchemaGate } from './schema.mjs';
import { checkUnits } from './units.mjs';

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { catalogue: { type: 'string' }, schemas: { type: 'string', default: 'schemas' } },
});
const catalogue = new Map(JSON.parse(readFileSync(options.catalogue, 'utf8')).map((metric) => [metric.name, metric]));
const schema = new SchemaGate(options.schemas);

// Every complaint of every gate, as `{gate, what}`.
function complaintsOf(dashboard) {
  return [
    ...schema.check(dashboard).map((what) => ({ gate: 'schema', what })),
    ...checkUnits(dashboard).map((what) => ({ gate: 'units', what })),
    ...lint(dashboard, catalogue).map(({ rule, where }) => ({ gate: rule, what: where })),
  ];
}

let failed = 0;
const complain = (line) => {
  failed += 1;
  console.error(`    ${line}`);
};

const dashboards = files.map(load);
for (const { file, dashboard } of dashboards) {
  const complaints = complaintsOf(dashboard);
  console.log(`${file}: ${panelsOf(dashboard).length} panels, ${complaints.length} complaints`);
  complaints.forEach(({ gate, what }) => complain(`${file}: ${gate}: ${what}`));
}

// Each control is planted into the first dashboard that has what it needs: the overview.
const [{ dashboard: whole }] = dashboards;
for (const [gate, words, what, plant] of controls) {
  const copy = structuredClone(whole);
  plant(copy);
  const isCaught = complaintsOf(copy).some((one) => one.gate === gate && words.test(one.what));
  if (!isCaught) {
    complain(`negative control: the gate ${gate} does not see ${what}`);
  }
}
for (const rule of RULES.filter((name) => name !== 'template-queue' && !controls.some(([gate]) => gate === name))) {
  complain(`negative control: the rule ${rule} has none`);
}
console.log(`${controls.length} planted defects`);
process.exit(failed > 0 ? 1 : 0);
