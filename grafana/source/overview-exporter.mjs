// The row of redrive / Overview about the exporter: are the metrics complete and up to date?

import { folded, row } from './dashboard.mjs';
import { above, below, graph, painted, stat, words } from './panel.mjs';
import { colour } from './palette.mjs';

const COLLECTORS = {
  totals: colour.done,
  queues: colour.running,
  letters: colour.dead,
  operations: colour.later,
  server: colour.back,
  tables: colour.warning,
};

export const exporterHealth = folded(
  'Exporter health',
  stat({
    title: 'Version',
    queries: [{ expr: 'redrive_exporter_build_info{@}', legend: '{{version}}' }],
    text: 'name',
    w: 4,
    help: {
      about: 'The version of the exporter.',
      healthy: 'one version, the same as your workers.',
      otherwise: 'finish the rollout.',
      type: 'redrive-exporter --version',
    },
  }),
  stat({
    title: 'Schema',
    queries: [{ expr: 'max(redrive_schema_version{@})' }],
    unit: 'none',
    w: 4,
    help: {
      about: 'Migrations applied to the database.',
      healthy: 'the number of migrations in the latest release.',
      otherwise: 'migrate. Each release also works with the schema of the previous one.',
      type: ['redrive migrate --check', 'redrive migrate'],
    },
  }),
  stat({
    title: 'Schema known',
    queries: [{ expr: 'min(redrive_schema_compatible{@})' }],
    mappings: words({ 1: ['yes'], 0: ['no', colour.dead] }),
    thresholds: below(1),
    w: 4,
    help: {
      about: 'Whether the exporter knows the schema of its database.',
      healthy: 'yes.',
      otherwise: 'upgrade the exporter, or migrate the database. Alert: RedriveSchemaMismatch.',
      type: 'redrive migrate --check',
    },
  }),
  stat({
    title: 'Failing collectors',
    queries: [{ expr: 'count(redrive_collector_success{@} == 0) or vector(0)' }],
    mappings: words({ 0: ['none'] }),
    thresholds: above(1),
    w: 4,
    help: {
      about: 'Collectors whose last read failed. The exporter keeps publishing their last good values for 5 minutes.',
      healthy: 'none.',
      otherwise: 'find the SQLSTATE in the log of the exporter: 57014 is a timeout, 55P03 a lock, 42501 a missing grant. Alert: RedriveCollectorFailing.',
      type: 'redrive-exporter --check',
    },
  }),
  stat({
    title: 'Labels beyond the limit',
    queries: [{ expr: 'sum(redrive_series_folded{@})' }],
    thresholds: above(1),
    w: 8,
    help: {
      about: 'How many of the labels queue, kind, error class and source have values beyond the limit of names. These are summed in the series `__other__`.',
      healthy: '0.',
      otherwise: 'a program creates names at run time, such as a queue per customer or an id in an error class. Use a fixed set of names.',
      type: 'redrive dlq groups list --all',
    },
  }),
  graph({
    title: 'Read duration',
    queries: [{ expr: 'max by (collector) (redrive_collector_duration_seconds{@})', legend: '{{collector}}' }],
    unit: 's',
    overrides: painted(COLLECTORS),
    w: 8,
    help: {
      about: 'Duration of the last reading of the database, by collector.',
      healthy: 'tens of milliseconds, for any number of jobs.',
      otherwise: 'if one collector is slow, check its grants and locks. If all are, the database is slow: see the dashboard *PostgreSQL*.',
      type: 'redrive-exporter --check',
    },
  }),
  graph({
    title: 'Metric age',
    queries: [
      { expr: 'max(redrive_fold_age_seconds{@})', legend: 'oldest count not folded' },
      { expr: 'time() - min by (collector) (redrive_collector_last_success_timestamp_seconds{@} > 0)', legend: '{{collector}}' },
    ],
    unit: 's',
    scale: 'log',
    min: null,
    overrides: painted({ 'oldest count not folded': colour.work, ...COLLECTORS }),
    w: 8,
    help: {
      about: 'Age of the metrics of each collector.',
      healthy: 'seconds.',
      otherwise: 'if counts are not folded, start a worker: workers fold them. Alert: RedriveMetricsStale.',
      type: 'redrive stats',
    },
  }),
  graph({
    title: 'Counter regressions',
    queries: [{ expr: 'sum(increase(redrive_totals_regressions_total{@}[$__rate_interval]))', legend: 'fell' }],
    overrides: painted({ 'fell': colour.warning }),
    style: 'bars',
    decimals: 0,
    w: 8,
    help: {
      about: 'Counters that are lower in the database than before. The exporter continues from the higher value, so that no rate jumps.',
      healthy: 'none.',
      otherwise: 'a failover lost commits, or a backup was restored. Check the jobs of that time.',
      type: 'redrive audit counters',
    },
  }),
);
