// The query gate: runs every query of every panel on a live Prometheus that has seen every scenario. Each
// query must be accepted and return data, even if its panel is empty on a healthy system.
//
//   node query.mjs --prometheus URL --from SECONDS --to SECONDS --scrape SECONDS
//                  DASHBOARD.json…

import { parseArgs } from 'node:util';

import { load, targetsOf } from './dashboards.mjs';
import { Ranges } from './ranges.mjs';

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    prometheus: { type: 'string' },
    from: { type: 'string' },
    to: { type: 'string' },
    scrape: { type: 'string', default: '15' },
  },
});
const ranges = new Ranges(options.prometheus, {
  from: Number(options.from),
  to: Number(options.to),
  scrape: Number(options.scrape),
});

// Returns why a target fails, or null.
async function complaintOf(panel, target) {
  const { status, error, data } = await ranges.ask({ target, interval: panel.interval });
  if (status !== 'success') {
    return `refused: ${error}`;
  }
  const values = data.result.flatMap((series) => (series.values ?? [series.value]).map(([, value]) => Number(value)));
  return values.some(Number.isFinite) ? null : `no data: ${target.expr}`;
}

let failed = 0;
for (const { file, dashboard } of files.map(load)) {
  const targets = targetsOf(dashboard);
  const complaints = await Promise.all(targets.map(({ panel, target }) => complaintOf(panel, target)));
  const wrong = targets.map((one, at) => ({ ...one, complaint: complaints[at] })).filter(({ complaint }) => complaint);
  console.log(`${file}: ${targets.length} queries, ${wrong.length} without data or refused`);
  for (const { panel, target, complaint } of wrong) {
    failed += 1;
    console.error(`    ${file}: panel "${panel.title}", ${target.refId}: ${complaint}`);
  }
}

// Negative controls: an unknown metric, an unknown label value, a broken query.
const controls = {
  'redrive_up_and_away{job=~"$job"}': /no data/,
  'redrive_up{job="no such job"}': /no data/,
  'sum(rate(redrive_jobs_enqueued_total[$__rate_interval])': /refused/,
};
for (const [expr, words] of Object.entries(controls)) {
  const complaint = await complaintOf({ interval: '15s' }, { expr, refId: 'A' });
  if (!words.test(complaint ?? '')) {
    failed += 1;
    console.error(`    negative control: ${expr} passes`);
  }
}
console.log(`${Object.keys(controls).length} planted queries`);
process.exit(failed > 0 ? 1 : 0);
