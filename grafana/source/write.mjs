// Writes the dashboards as JSON, as Grafana takes them: `node source/write.mjs`.
// With `--check` it writes nothing and fails when a file is not what it would write.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { deadLetters } from './dead-letters.mjs';
import { overview } from './overview.mjs';
import { postgres } from './postgres.mjs';
import { queue } from './queue.mjs';

const folder = process.argv.slice(2).find((argument) => !argument.startsWith('--'));
const files = {
  'overview.json': overview,
  'queue.json': queue,
  'dead-letters.json': deadLetters,
  'postgres.json': postgres,
};
const stale = [];
for (const [name, dashboard] of Object.entries(files)) {
  const path = folder ? `${folder}/${name}` : fileURLToPath(new URL(`../${name}`, import.meta.url));
  const text = `${JSON.stringify(dashboard, null, 2)}\n`;
  if (!process.argv.includes('--check')) {
    writeFileSync(path, text);
  } else if (readFileSync(path, 'utf8') !== text) {
    stale.push(name);
  }
}
if (stale.length > 0) {
  console.error(`not what source/ makes: ${stale.join(', ')}\nWrite them:  node grafana/source/write.mjs`);
  process.exit(1);
}
