// The scenario gate: in the scenarios that the dashboards are checked with, every metric of the catalogue
// was above 0 once, for each known value of its labels. Without this, a panel could pass with zeros.
//
//   node moved.mjs --prometheus URL --from SECONDS --to SECONDS --metrics METRICS.md

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { catalogueOf } from '../source/other-metrics.mjs';

const { values: options } = parseArgs({
  options: {
    prometheus: { type: 'string' },
    from: { type: 'string' },
    to: { type: 'string' },
    scrape: { type: 'string' },
    metrics: { type: 'string' },
  },
});

// Metrics, and single values of a label, that stay 0, and why.
const STILL = {
  'redrive_jobs_dead_lettered_total cause=expired': 'no job has a deadline',
  'redrive_jobs_dead_lettered_total cause=diverted': 'no policy diverts groups',
  'redrive_jobs_dead_lettered_total cause=unhandled': 'workers claim only kinds that they handle',
  'redrive_job_attempts_failed_total cause=unhandled': 'workers claim only kinds that they handle',
  'redrive_down': 'the database answers, and no collector fails for 5 minutes',
  'redrive_totals_regressions_total': 'needs a failover that loses commits',
  'redrive_series_folded': 'needs more than a hundred queues',
  'redrive_queue_jobs_capped': 'needs more than ten thousand jobs',
  'redrive_rate_limit_empty': 'a job may find a token at each scrape',
  'redrive_pg_frozen_id_age kind=multixact': 'few rows are locked by two transactions',
  'redrive_pg_oldest_horizon_age_transactions holder=standby_feedback': 'needs a standby',
  'redrive_pg_oldest_horizon_age_transactions holder=slot': 'needs a standby that uses the slot',
  'redrive_pg_replication_slot_active': 'the slot has no consumer',
  'redrive_queue_overdue_leases': 'reaped within a second',
  'redrive_queue_unhandled_jobs': 'every kind has a worker',
  'redrive_breakers state=half_open': 'over within a second',
  'redrive_dlq_letters state=redriving': 'over within a second without a backlog',
  'redrive_run_letters_unsettled': 'over within a second without a backlog',
  'redrive_chore_failures_total': 'no chore fails',
  'redrive_schedule_lag_seconds': 'workers run ticks within milliseconds',
  'redrive_chore_seconds chore=compact': 'no table fills with dead rows in a minute',
  'redrive_chore_seconds chore=buckets': 'no group has a rate limit',
  'redrive_chore_seconds chore=unhandled': 'no worker buries unhandled jobs',
  'redrive_chore_seconds chore=age': 'no worker ages priorities',
};

const catalogue = catalogueOf(readFileSync(options.metrics, 'utf8'));
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
  const mayStay = name in STILL || who in STILL;
  if (Number.isNaN(found[at]) || (!isMoved && !mayStay)) {
    failed += 1;
    console.error(`    ${who} ${Number.isNaN(found[at]) ? 'is missing' : 'stayed 0'}`);
  }
});
// Negative control: a missing metric must not count as moved.
if ((await most('redrive_nothing_of_the_kind', 'gauge')) > 0) {
  failed += 1;
  console.error('    negative control: a missing metric counts as moved');
}
console.log(`${wanted.length} series moved or are known to stay 0, ${failed} did neither`);
process.exit(failed > 0 ? 1 : 0);
