// The scenario gate: in the scenes that the dashboards are checked with, every metric of the
// catalogue was above 0 once, for each value of its labels that is known. Otherwise "it has data"
// would mean "it is 0".
//
//   node moved.mjs --prometheus URL --from SECONDS --to SECONDS --catalogue CATALOGUE.json

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    prometheus: { type: 'string' },
    from: { type: 'string' },
    to: { type: 'string' },
    scrape: { type: 'string' },
    catalogue: { type: 'string' },
  },
});

// What stays 0, and why.
const STILL = {
  'redrive_jobs_dead_lettered_total reason=expired': 'no job expires yet',
  'redrive_jobs_dead_lettered_total reason=unhandled': 'no worker claims a kind that it has no handler for',
  'redrive_job_attempts_failed_total cause=unhandled': 'no worker claims a kind that it has no handler for',
  'redrive_counter_regressions_total': 'takes a failover that loses commits',
  'redrive_counter_drift_jobs set=live': 'anything else is a bug',
  'redrive_counter_drift_jobs set=dlq': 'anything else is a bug',
  'redrive_series_folded label=queue': 'takes more than a hundred queues',
  'redrive_series_folded label=kind': 'takes more than twenty kinds',
  'redrive_series_folded label=error_class': 'takes more than twenty classes',
  'redrive_queue_jobs_capped state=ready': 'takes more than ten thousand jobs',
  'redrive_queue_jobs_capped state=delayed': 'takes more than ten thousand jobs',
  'redrive_queue_jobs_capped state=leased': 'takes more than ten thousand jobs',
  'redrive_pg_in_recovery': 'takes a standby',
  'redrive_pg_oldest_horizon_age_seconds holder=standby_feedback': 'takes a standby',
  'redrive_pg_oldest_horizon_age_transactions holder=standby_feedback': 'takes a standby',
  'redrive_pg_oldest_horizon_age_seconds holder=slot': 'takes a standby that uses the slot',
  'redrive_pg_oldest_horizon_age_transactions holder=slot': 'takes a standby that uses the slot',
  'redrive_pg_replication_slot_active': 'nobody reads the slot',
  'redrive_pg_autovacuum_workers': 'comes when it likes',
  'redrive_table_vacuums_total kind=auto': 'comes when it likes',
  'redrive_table_last_vacuum_timestamp_seconds kind=auto': 'comes when it likes',
  'redrive_queue_overdue_leases': 'reaped within a second',
  'redrive_breakers state=half_open': 'over within a second',
  'redrive_run_letters_unsettled': 'over within a second, when nothing waits',
};

const catalogue = JSON.parse(readFileSync(options.catalogue, 'utf8'));
const range = `${Number(options.to) - Number(options.from)}s`;

async function most(name, type, label, value) {
  const series = type === 'histogram' ? `${name}_count` : name;
  const selector = label ? `${series}{${label}="${value}"}` : series;
  const query = `max(max_over_time(${selector}[${range}]))`;
  const response = await fetch(`${options.prometheus}/api/v1/query?time=${options.to}&query=${encodeURIComponent(query)}`);
  const { data } = await response.json();
  return Number(data.result[0]?.value[1] ?? NaN);
}

const wanted = catalogue.flatMap(({ name, type, values }) => {
  const known = Object.entries(values).flatMap(([label, all]) => all.map((value) => ({ name, type, label, value })));
  return known.length > 0 ? known : [{ name, type }];
});
const found = await Promise.all(wanted.map(({ name, type, label, value }) => most(name, type, label, value)));
let failed = 0;
wanted.forEach(({ name, label, value }, at) => {
  const who = label ? `${name} ${label}=${value}` : name;
  const isMoved = found[at] > 0;
  if (!isMoved && !(who in STILL)) {
    failed += 1;
    console.error(`    ${who} ${Number.isNaN(found[at]) ? 'is not there' : 'stayed 0'}`);
  } else if (Number.isNaN(found[at]) && who in STILL) {
    failed += 1;
    console.error(`    ${who} is not there`);
  }
});
// Negative control: what is not there must not count as moved.
if ((await most('redrive_nothing_of_the_kind', 'gauge')) > 0) {
  failed += 1;
  console.error('    negative control: a metric that is not there has moved');
}
console.log(`${wanted.length} series moved or are known to stay, ${failed} did not`);
process.exit(failed > 0 ? 1 : 0);
