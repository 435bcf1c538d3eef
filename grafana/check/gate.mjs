// The gates that need no server (schema, units, lint) and their negative controls.
//
//   node gate.mjs --metrics METRICS.md --rules RULES.json --schemas FOLDER DASHBOARD.json…

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { controls } from './controls.mjs';
import { load, panelsOf } from './dashboards.mjs';
import { lint, RULES } from './lint.mjs';
import { metricsOf } from './metrics.mjs';
import { defects, lintRules } from './rules.mjs';
import { SchemaGate } from './schema.mjs';
import { checkUnits } from './units.mjs';
import { catalogueOf, otherMetrics } from '../source/other-metrics.mjs';
import { overview } from '../source/overview.mjs';

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { metrics: { type: 'string' }, rules: { type: 'string' }, schemas: { type: 'string', default: 'schemas' } },
});
const page = readFileSync(options.metrics, 'utf8');
const catalogue = new Map(catalogueOf(page).map((metric) => [metric.name, metric]));
const schema = new SchemaGate(options.schemas);

// Every error of every gate, as `{gate, what}`.
function errorsOf(dashboard) {
  return [
    ...schema.check(dashboard).map((what) => ({ gate: 'schema', what })),
    ...checkUnits(dashboard).map((what) => ({ gate: 'units', what })),
    ...lint(dashboard, catalogue).map(({ rule, where }) => ({ gate: rule, what: where })),
  ];
}

let failed = 0;
const report = (line) => {
  failed += 1;
  console.error(`    ${line}`);
};

const dashboards = files.map(load);
for (const { file, dashboard } of dashboards) {
  const errors = errorsOf(dashboard);
  console.log(`${file}: ${panelsOf(dashboard).length} panels, ${errors.length} errors`);
  errors.forEach(({ gate, what }) => report(`${file}: ${gate}: ${what}`));
}

const unshown = (all) => [...catalogue.keys()].filter((name) => !all.some((one) => metricsOf(one, catalogue).has(name)));
unshown(dashboards.map(({ dashboard }) => dashboard)).forEach((name) => report(`no dashboard shows ${name}`));

// A metric without a panel gets a generated one. Today none needs it, so we generate all of them.
const generated = overview(otherMetrics(page, []));
errorsOf(generated).forEach(({ gate, what }) => report(`generated panels: ${gate}: ${what}`));
unshown([generated]).forEach((name) => report(`no panel is generated for ${name}`));

const rules = JSON.parse(readFileSync(options.rules, 'utf8')).groups.flatMap((group) => group.rules);
lintRules(rules, catalogue).forEach((what) => report(`alerts: ${what}`));
for (const [expr, words] of defects) {
  if (!lintRules([{ alert: 'planted', expr }], catalogue).some((what) => words.test(what))) {
    report(`negative control: the lint of alerts accepts ${expr}`);
  }
}

// Each control is planted into a copy of the overview.
const [{ dashboard: whole }] = dashboards;
for (const [gate, words, what, plant] of controls) {
  const copy = structuredClone(whole);
  plant(copy);
  const isCaught = errorsOf(copy).some((one) => one.gate === gate && words.test(one.what));
  if (!isCaught) {
    report(`negative control: the gate ${gate} does not catch ${what}`);
  }
}
for (const rule of RULES.filter((name) => name !== 'template-queue' && !controls.some(([gate]) => gate === name))) {
  report(`negative control: the rule ${rule} has no control`);
}
console.log(`${controls.length} planted defects`);
process.exit(failed > 0 ? 1 : 0);
