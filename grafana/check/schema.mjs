// The schema gate: dashboards conform to the types of Grafana and have no unknown keys.
//
// It generates JSON schemas without unknown keys from the types of `@grafana/schema`: one for the
// dashboard and two per type of panel.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

import Ajv from 'ajv';
import { createGenerator } from 'ts-json-schema-generator';

import { panelsOf, rowsOf } from './dashboards.mjs';

const require = createRequire(import.meta.url);
const PACKAGE = dirname(require.resolve('@grafana/schema/package.json'));
const TYPES = join(PACKAGE, 'dist/types/raw');
const VERSION = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')).version;
// Panel types in dashboards, and their names in the package.
const PANELS = {
  heatmap: 'heatmap',
  stat: 'stat',
  table: 'table',
  timeseries: 'timeseries',
};
// Keys that Grafana writes but its published type lacks.
const UNPUBLISHED = {
  VariableModel: { definition: { type: 'string' } },
  AnnotationQuery: {
    expr: { type: 'string' },
    step: { type: 'string' },
    tagKeys: { type: 'string' },
    textFormat: { type: 'string' },
    titleFormat: { type: 'string' },
  },
};

export class SchemaGate {
  // `folder` caches the generated schemas.
  constructor(folder) {
    this.folder = folder;
    this.ajv = new Ajv({ allErrors: true, strict: false });
    const dashboard = this.generated('dashboard', 'dashboard/x/types.gen.d.ts', 'Dashboard');
    for (const [type, keys] of Object.entries(UNPUBLISHED)) {
      Object.assign(dashboard.definitions[type].properties, keys);
    }
    // Panels are checked one at a time, so that an error names its panel.
    const definition = dashboard.definitions.Dashboard;
    dashboard.definitions.Shell = {
      ...definition,
      properties: { ...definition.properties, panels: { type: 'array' } },
    };
    this.ajv.addSchema(dashboard, 'grafana');
    this.plugins = new Map();
  }

  // Returns the errors of a dashboard, one per line.
  check(dashboard) {
    const errors = this.errors('Shell', dashboard, 'the dashboard');
    for (const row of rowsOf(dashboard)) {
      errors.push(...this.errors('RowPanel', { ...row, panels: [] }, `row "${row.title}"`));
    }
    for (const panel of panelsOf(dashboard)) {
      const who = `panel "${panel.title}"`;
      errors.push(...this.errors('Panel', panel, who));
      if (!(panel.type in PANELS)) {
        errors.push(`${who}: unknown type ${panel.type}`);
        continue;
      }
      errors.push(...this.pluginErrors(panel.type, 'Options', panel.options, `${who}, options`));
      const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
      const own = defaults.custom ?? {};
      errors.push(...this.pluginErrors(panel.type, 'FieldConfig', own, `${who}, field options`));
      for (const { matcher, properties } of overrides) {
        const custom = properties
          .filter(({ id }) => id.startsWith('custom.'))
          .map(({ id, value }) => [id.slice('custom.'.length), value]);
        const merged = { ...own, ...Object.fromEntries(custom) };
        errors.push(...this.pluginErrors(panel.type, 'FieldConfig', merged, `${who}, override of ${matcher.options}`));
      }
    }
    return errors;
  }

  errors(type, value, who) {
    const validate = this.ajv.getSchema(`grafana#/definitions/${type}`);
    return validate(value) ? [] : told(validate.errors, who);
  }

  pluginErrors(type, part, value, who) {
    const key = `${type}.${part}`;
    if (!this.plugins.has(key)) {
      const path = `composable/${PANELS[type]}/panelcfg/x/types.gen.d.ts`;
      const has = new RegExp(`export (interface|type) ${part}\\b`).test(readFileSync(join(TYPES, path), 'utf8'));
      this.plugins.set(key, has ? this.ajv.compile(this.generated(key, path, part)) : null);
    }
    const validate = this.plugins.get(key);
    return !validate || validate(value) ? [] : told(validate.errors, who);
  }

  generated(name, path, type) {
    const kept = join(this.folder, `${name}-${VERSION}.json`);
    if (!existsSync(kept)) {
      const schema = createGenerator({
        path: join(TYPES, path),
        type,
        tsconfig: join(dirname(new URL(import.meta.url).pathname), 'tsconfig.json'),
        skipTypeCheck: true,
        additionalProperties: false,
        topRef: true,
      }).createSchema(type);
      mkdirSync(this.folder, { recursive: true });
      writeFileSync(kept, JSON.stringify(schema));
    }
    return JSON.parse(readFileSync(kept, 'utf8'));
  }
}

function told(errors, who) {
  return errors.map(({ instancePath, message, params }) => `${who}${instancePath}: ${message} ${JSON.stringify(params)}`);
}
