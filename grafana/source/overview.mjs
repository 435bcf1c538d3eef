// redrive / Overview: is everything alright, and if not, where?

import { dashboard, folded, row } from './dashboard.mjs';
import { above, below, calm, fixed, graph, named, painted, stat, table, words } from './panel.mjs';
import { colour } from './palette.mjs';

const quantile = (q, metric) =>
  // Without jobs a quantile is no number, which would upset the axis.
  `histogram_quantile(${q}, sum by (le) (rate(${metric}_bucket{@q}[$__rate_interval]))) >= 0`;
const shades = painted({ p50: colour.quiet, p95: colour.work, p99: colour.warning });
const IN_VIEW = '[$__range]';
const COLLECTORS = {
  totals: colour.done,
  queues: colour.running,
  letters: colour.dead,
  operations: colour.later,
  server: colour.back,
  tables: colour.warning,
  bloat: colour.quiet,
};

export const overview = dashboard({
  uid: 'redrive-overview',
  title: 'redrive / Overview',
  description: 'All queues at a glance: is work done, does it wait, does it die?',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Alerts that fire',
        queries: [{ expr: 'count(ALERTS{alertname=~"Redrive.*", alertstate="firing", job=~"$job|"}) or vector(0)' }],
        mappings: words({ 0: ['none'] }),
        thresholds: above(undefined, 1),
        story: {
          about: 'Alerts of redrive that fire now. The red marks on the graphs are their beginnings.',
          healthy: 'none.',
          otherwise: 'open the alert: its runbook has the first three steps.',
          type: 'redrive dlq',
        },
      }),
      stat({
        title: 'Longest wait',
        queries: [{ expr: 'max(redrive_queue_oldest_ready_age_seconds{@q})' }],
        unit: 's',
        thresholds: above(60, 600),
        story: {
          about: 'For how long the first job in line has been ready, in the worst of the chosen queues.',
          healthy: 'below a minute. 0 means that nothing waits.',
          otherwise: 'are there workers, and are their slots busy? Busy: add workers. Idle: is a breaker open, is the database slow? Alert: RedriveQueueLatencyHigh.',
          type: ['redrive stats', 'redrive breaker list'],
        },
      }),
      stat({
        title: 'Pending depth',
        queries: [{ expr: 'sum(redrive_queue_live_jobs{@q})' }],
        story: {
          about: 'Live jobs in all states: ready, delayed, leased. Exact.',
          healthy: 'it comes back to where it was after each burst.',
          otherwise: 'see below, *Pending depth by queue*, which one grows; add workers there or find out who enqueues. Alert: RedriveBacklogNotDraining.',
          type: 'redrive stats',
        },
      }),
      stat({
        title: 'Slots busy',
        queries: [{ expr: 'sum(redrive_worker_slots_busy{@q}) / (sum(redrive_worker_slots{@q}) > 0)' }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: above(0.9),
        none: 'no slots',
        story: {
          about: 'Share of the slots of living workers in which a handler runs.',
          healthy: 'below 90 % on average, so that a burst finds room.',
          otherwise: 'add slots or workers, or look at the run time: a slow dependency fills slots too.',
          type: 'redrive stats',
        },
      }),
      stat({
        title: 'Workers',
        queries: [{ expr: 'sum(redrive_workers{@q, state!="expired"})' }],
        thresholds: below(1),
        none: '0',
        story: {
          about: 'Workers that are alive: they renewed in time.',
          healthy: 'as many as you deployed.',
          otherwise: 'look at the processes: killed, out of memory, cannot reach the database? Their jobs come back by themselves. Alert: RedriveNoWorkers.',
          type: 'redrive stats',
        },
      }),
      stat({
        title: 'Deaths in view',
        queries: [{ expr: `sum(increase(redrive_jobs_dead_lettered_total{@q}${IN_VIEW}))` }],
        unit: 'locale',
        decimals: 0,
        story: {
          about: 'Jobs that became dead letters in the time range of the dashboard, by whatever path.',
          healthy: 'few, and each of them looked at.',
          otherwise: 'see what they died of, fix it, send them back. Alerts: RedriveDlqSpike, RedriveDeadLetterBudgetBurnFast.',
          type: ['redrive dlq groups', 'redrive dlq redrive QUEUE --canary 10'],
        },
      }),
      stat({
        title: 'Open letters',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="open"})' }],
        unit: 'locale',
        story: {
          about: 'Dead letters that wait for a decision: redrive, edit or discard. Exact.',
          healthy: 'it falls to nothing between incidents.',
          otherwise: 'open the dashboard *Dead letters*, take the largest group first. Alert: RedriveDlqUnattended.',
          type: ['redrive dlq', 'redrive dlq groups'],
        },
      }),
      stat({
        title: 'Database',
        queries: [{ expr: 'min(redrive_up{@})' }],
        mappings: words({ 1: ['up'], 0: ['away', colour.dead] }),
        thresholds: below(1),
        none: 'no exporter',
        story: {
          about: 'Whether the database answered the last scrape of the exporter.',
          healthy: 'up.',
          otherwise: 'while it says *away* the other numbers are the last good ones. Try psql as the role of the exporter; workers wait and go on by themselves. Alerts: RedriveDatabaseUnreachable, RedriveExporterDown.',
          type: ['redrive stats --no-wait', 'redrive-exporter --check'],
        },
      }),
    ),
    row(
      'Flow',
      graph({
        title: 'Jobs in and out',
        queries: [
          { expr: 'sum(rate(redrive_jobs_enqueued_total{@q}[$__rate_interval]))', legend: 'enqueued' },
          { expr: 'sum(rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))', legend: 'done' },
          { expr: 'sum(rate(redrive_jobs_retried_total{@q}[$__rate_interval]))', legend: 'retried' },
        ],
        unit: 'cps',
        overrides: painted({ enqueued: colour.work, done: colour.done, retried: colour.warning }),
        story: {
          about: 'Jobs a second: what comes in, what is done, what has to be tried again.',
          healthy: '*done* follows *enqueued*; *retried* is a small share of both.',
          otherwise: 'done below enqueued: the queue grows, add workers. Many retries: a dependency is in trouble, see the causes on the dashboard *Queue*. Alert: RedriveRetryStorm.',
          type: ['redrive stats', 'redrive breaker list'],
        },
      }),
      graph({
        title: 'Pending depth by queue',
        queries: [{ expr: 'sum by (queue) (redrive_queue_live_jobs{@q})', legend: '{{queue}}' }],
        style: 'stack',
        story: {
          about: 'Live jobs of each queue, exact.',
          healthy: 'hills that end. A slope that goes on is work that nobody does.',
          otherwise: 'open the dashboard *Queue* for the one that grows.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Deaths and redrives',
        queries: [
          { expr: '60 * sum(rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval]))', legend: 'died' },
          { expr: '60 * sum(rate(redrive_dlq_redriven_total{@q}[$__rate_interval]))', legend: 'redriven' },
          { expr: '60 * sum(rate(redrive_dlq_recovered_total{@q}[$__rate_interval]))', legend: 'recovered' },
        ],
        unit: 'cpm',
        overrides: painted({ died: colour.dead, redriven: colour.back, recovered: colour.done }),
        story: {
          about: 'Letters a minute: jobs that died, letters sent back, letters whose jobs were done then. Counters, so a redrive never looks like fewer deaths.',
          healthy: 'no deaths; after a fix *recovered* follows *redriven*.',
          otherwise: 'died and redriven together mean that they die again: stop the run, the fix is not there yet. Alert: RedriveRedriveLoop.',
          type: ['redrive dlq groups', 'redrive dlq runs list'],
        },
      }),
    ),
    row(
      'Latency',
      graph({
        title: 'Wait until claimed',
        queries: [
          { expr: quantile('0.50', 'redrive_job_queue_wait_seconds'), legend: 'p50' },
          { expr: quantile('0.95', 'redrive_job_queue_wait_seconds'), legend: 'p95' },
          { expr: quantile('0.99', 'redrive_job_queue_wait_seconds'), legend: 'p99' },
        ],
        unit: 's',
        scale: 'log',
        min: null,
        overrides: shades,
        w: 6,
        story: {
          about: 'From the moment a job could be claimed to its claim, every attempt.',
          healthy: 'milliseconds while slots are free.',
          otherwise: 'all quantiles rise: too few slots. Only p99: bursts, or one queue of several. Alert: RedriveLatencyBudgetBurn.',
          type: 'redrive stats',
        },
      }),
      graph({
        title: 'Run time',
        queries: [
          { expr: quantile('0.50', 'redrive_job_run_seconds'), legend: 'p50' },
          { expr: quantile('0.95', 'redrive_job_run_seconds'), legend: 'p95' },
          { expr: quantile('0.99', 'redrive_job_run_seconds'), legend: 'p99' },
        ],
        unit: 's',
        scale: 'log',
        min: null,
        overrides: shades,
        w: 6,
        story: {
          about: 'How long handlers ran, failures included.',
          healthy: 'flat, and far below the deadline of a job.',
          otherwise: 'what the handlers call has become slow. A breaker keeps the queue from making it worse.',
          type: 'redrive breaker open DEPENDENCY --for 10m',
        },
      }),
      graph({
        title: 'End to end',
        queries: [
          { expr: quantile('0.50', 'redrive_job_end_to_end_seconds'), legend: 'p50' },
          { expr: quantile('0.95', 'redrive_job_end_to_end_seconds'), legend: 'p95' },
          { expr: quantile('0.99', 'redrive_job_end_to_end_seconds'), legend: 'p99' },
        ],
        unit: 's',
        scale: 'log',
        min: null,
        overrides: shades,
        w: 6,
        story: {
          about: 'From the first enqueue to success, with all waiting, retries and redrives: what users feel.',
          healthy: 'p50 is about wait and run time together; p99 shows the retries.',
          otherwise: 'after a redrive it jumps, because the letters were old: that is no fault. Otherwise see wait and run time.',
          type: 'redrive stats',
        },
      }),
      graph({
        title: 'Claimed within a minute',
        queries: [
          {
            expr: `sum(rate(redrive_job_queue_wait_seconds_bucket{@q, le=~"60|60[.]0"}[$__rate_interval]))
              / (sum(rate(redrive_job_queue_wait_seconds_count{@q}[$__rate_interval])) > 0)`,
            legend: 'within a minute',
          },
          { expr: 'vector(0.99)', legend: 'objective' },
        ],
        unit: 'percentunit',
        decimals: 1,
        min: null,
        max: 1,
        softMin: 0.95,
        none: 'nothing was claimed',
        overrides: [
          named('within a minute', fixed(colour.work)),
          named(
            'objective',
            fixed(colour.quiet),
            { id: 'custom.lineStyle', value: { fill: 'dash', dash: [6, 6] } },
            { id: 'custom.lineWidth', value: 1 },
            { id: 'custom.fillOpacity', value: 0 },
          ),
        ],
        w: 6,
        story: {
          about: 'Share of claims that came within 60 s, and the objective of 99 %.',
          healthy: 'above the dashed line.',
          otherwise: 'the budget burns: at 14 times the allowed speed RedriveLatencyBudgetBurn pages. Add workers, or move bulk work to a queue of its own or a lower priority.',
          type: 'redrive stats',
        },
      }),
    ),
    row(
      'Queues',
      table({
        title: 'Queues',
        key: { queue: 'Queue' },
        columns: [
          { name: 'Longest wait', expr: 'max by (queue) (redrive_queue_oldest_ready_age_seconds{@q})', unit: 's', thresholds: above(60, 600) },
          { name: 'Depth', expr: 'sum by (queue) (redrive_queue_live_jobs{@q})', unit: 'locale' },
          { name: 'Ready', expr: 'sum by (queue) (redrive_queue_jobs{@q, state="ready"})', unit: 'locale' },
          { name: 'In', expr: 'sum by (queue) (rate(redrive_jobs_enqueued_total{@q}[$__rate_interval]))', unit: 'cps', decimals: 1 },
          { name: 'Done', expr: 'sum by (queue) (rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))', unit: 'cps', decimals: 1 },
          {
            name: 'Empty in',
            expr: `sum by (queue) (redrive_queue_live_jobs{@q})
              / ((sum by (queue) (rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))
                + sum by (queue) (rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval]))
                - sum by (queue) (rate(redrive_jobs_enqueued_total{@q}[$__rate_interval]))) > 0)
              or sum by (queue) (redrive_queue_live_jobs{@q}) == 0
              or sum by (queue) (redrive_queue_live_jobs{@q}) * 0 - 1`,
            unit: 's',
            decimals: 0,
            mappings: words({ '-1': ['not at this rate'] }),
          },
          { name: 'Slots busy', expr: 'sum by (queue) (redrive_worker_slots_busy{@q}) / (sum by (queue) (redrive_worker_slots{@q}) > 0)', unit: 'percentunit', decimals: 0, thresholds: above(0.9), empty: 'no slots' },
          { name: 'Died in view', expr: `sum by (queue) (increase(redrive_jobs_dead_lettered_total{@q}${IN_VIEW}))`, unit: 'locale', decimals: 0 },
          { name: 'Open letters', expr: 'sum by (queue) (redrive_dlq_letters{@q, state="open"})', unit: 'locale' },
          { name: 'Oldest letter', expr: 'max by (queue) (redrive_dlq_oldest_age_seconds{@q})', unit: 's', decimals: 1, thresholds: above(3 * 86400) },
          { name: 'Last done', expr: 'time() - max by (queue) (redrive_queue_last_success_timestamp_seconds{@q} > 0)', unit: 's', decimals: 0, empty: 'never' },
        ],
        sort: 'Longest wait',
        none: '-',
        h: 8,
        overrides: [
          named('Queue', {
            id: 'links',
            value: [
              {
                title: 'The queue ${__value.text}',
                url: '/d/redrive-queue?var-datasource=${datasource}&var-queue=${__value.text}&${job:queryparam}&${instance:queryparam}&${__url_time_range}',
              },
            ],
          }),
        ],
        story: {
          about: 'A line a queue; its name leads to the dashboard *Queue*. *Empty in* is the depth divided by what leaves less what comes in.',
          healthy: 'short waits, something done just now, no old letters.',
          otherwise: 'the first line is the one that waits longest. *Last done* long ago with jobs ready: it stalls. Alert: RedriveQueueStalled.',
          type: ['redrive stats', 'redrive dlq list QUEUE'],
        },
      }),
    ),
    folded(
      'Exporter: can these numbers be trusted?',
      stat({
        title: 'Version',
        queries: [{ expr: 'redrive_exporter_build_info{@}', legend: '{{version}}' }],
        text: 'name',
        w: 4,
        story: {
          about: 'The version of the exporter.',
          healthy: 'one version, that of your workers.',
          otherwise: 'finish the rollout.',
          type: 'redrive-exporter --version',
        },
      }),
      stat({
        title: 'Schema',
        queries: [{ expr: 'max(redrive_schema_version{@})' }],
        unit: 'none',
        w: 4,
        story: {
          about: 'Migrations applied to the database.',
          healthy: 'what the latest release brings.',
          otherwise: 'migrate; every release can work on the schema of the one before.',
          type: ['redrive migrate --check', 'redrive migrate'],
        },
      }),
      stat({
        title: 'Schema known',
        queries: [{ expr: 'min(redrive_schema_compatible{@})' }],
        mappings: words({ 1: ['yes'], 0: ['no', colour.dead] }),
        thresholds: below(1),
        w: 4,
        story: {
          about: 'Whether the exporter knows the schema that it reads.',
          healthy: 'yes.',
          otherwise: 'upgrade the exporter, or migrate the database. Alert: RedriveSchemaMismatch.',
          type: 'redrive migrate --check',
        },
      }),
      stat({
        title: 'Collectors that fail',
        queries: [{ expr: 'count(redrive_collector_success{@} == 0) or vector(0)' }],
        mappings: words({ 0: ['none'] }),
        thresholds: above(1),
        w: 4,
        story: {
          about: 'Collectors that could not be read at their last turn; their last good values stay published.',
          healthy: 'none.',
          otherwise: 'the log of the exporter has the SQLSTATE: 57014 is a timeout, 55P03 a lock, 42501 a missing grant. Alert: RedriveCollectorFailing.',
          type: 'redrive-exporter --check',
        },
      }),
      stat({
        title: 'Drift of the counters',
        queries: [{ expr: 'sum(abs(redrive_counter_drift_jobs{@q}))' }],
        thresholds: above(undefined, 1),
        none: 'not audited yet',
        w: 4,
        story: {
          about: 'Rows less totals at the last audit of the counters, live jobs and letters together.',
          healthy: '0, always.',
          otherwise: 'it is a bug of redrive: please report it with the output of the command. Alert: RedriveCounterDrift.',
          type: 'redrive audit counters',
        },
      }),
      stat({
        title: 'Names beyond the limit',
        queries: [{ expr: 'sum(redrive_series_folded{@})' }],
        thresholds: above(1),
        w: 4,
        story: {
          about: 'Queues, kinds and error classes beyond the limit of names; their numbers are in the series `__other__`.',
          healthy: '0.',
          otherwise: 'somebody makes names at run time, such as a queue a customer or an id in an error class: give them a fixed set.',
          type: 'redrive dlq groups list --all',
        },
      }),
      graph({
        title: 'Time to read',
        queries: [
          { expr: 'max(redrive_scrape_duration_seconds{@})', legend: 'all together' },
          { expr: 'max by (collector) (redrive_collector_duration_seconds{@})', legend: '{{collector}}' },
        ],
        unit: 's',
        overrides: painted({ 'all together': colour.work, ...COLLECTORS }),
        w: 8,
        story: {
          about: 'How long the last reading of the database took, and each collector in it.',
          healthy: 'some ten milliseconds, whatever the number of jobs.',
          otherwise: 'one collector: see its grants and locks. All of them: the database is slow, see the dashboard *PostgreSQL*.',
          type: 'redrive-exporter --check',
        },
      }),
      graph({
        title: 'Age of the numbers',
        queries: [
          { expr: 'max(redrive_fold_age_seconds{@})', legend: 'oldest count not folded' },
          { expr: 'time() - min by (collector) (redrive_collector_last_success_timestamp_seconds{@} > 0)', legend: '{{collector}}' },
        ],
        unit: 's',
        scale: 'log',
        min: null,
        overrides: painted({ 'oldest count not folded': colour.work, ...COLLECTORS }),
        w: 8,
        story: {
          about: 'How old the numbers of each collector are. Tables are read once a minute, bloat once an hour, the others at every scrape.',
          healthy: 'seconds; tables below a minute, bloat below an hour.',
          otherwise: 'counts that are not folded need a running worker: folding is its chore. Alert: RedriveMetricsStale.',
          type: 'redrive stats',
        },
      }),
      graph({
        title: 'Counters that were lower than before',
        queries: [{ expr: 'sum(increase(redrive_counter_regressions_total{@}[$__rate_interval]))', legend: 'held at their last value' }],
        overrides: painted({ 'held at their last value': colour.warning }),
        style: 'bars',
        decimals: 0,
        w: 8,
        story: {
          about: 'Counters that the database told lower than before. The exporter keeps the higher value, so that no rate jumps.',
          healthy: 'none.',
          otherwise: 'a failover lost commits, or a backup was restored: the jobs of that moment are worth a check.',
          type: 'redrive audit counters',
        },
      }),
    ),
  ],
});
