// Writes the dashboards as JSON for Grafana: `cargo xtask generate`.
// With `--check` it writes nothing, and fails if a file differs from its source.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { deadLetters } from './dead-letters.mjs';
import { otherMetrics } from './other-metrics.mjs';
import { overview } from './overview.mjs';
import { postgres } from './postgres.mjs';
import { queue } from './queue.mjs';

const folder = process.argv.slice(2).find((argument) => !argument.startsWith('--'))
  ?? fileURLToPath(new URL('..', import.meta.url));
const page = readFileSync(`${folder}/../crates/redrive-exporter/METRICS.md`, 'utf8');
const files = {
  'overview.json': overview(otherMetrics(page, [overview([]), queue, deadLetters, postgres])),
  'queue.json': queue,
  'dead-letters.json': deadLetters,
  'postgres.json': postgres,
};
const stale = [];
for (const [name, dashboard] of Object.entries(files)) {
  const path = `${folder}/${name}`;
  const text = `${JSON.stringify(dashboard, null, 2)}\n`;
  if (!process.argv.includes('--check')) {
    writeFileSync(path, text);
  } else if (readFileSync(path, 'utf8') !== text) {
    stale.push(name);
  }
}
if (stale.length > 0) {
  console.error(`out of date with source/: ${stale.join(', ')}\nRegenerate them: cargo xtask generate`);
  process.exit(1);
}
