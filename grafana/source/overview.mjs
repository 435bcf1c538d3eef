// redrive / Overview: is everything healthy, and if not, which queue is not?

import { dashboard, row } from './dashboard.mjs';
import { above, below, fixed, graph, named, painted, stat, table, words } from './panel.mjs';
import { colour } from './palette.mjs';
import { exporterHealth } from './overview-exporter.mjs';
import { schedules } from './overview-schedules.mjs';

const quantile = (q, metric) =>
  // Without jobs a quantile is NaN, which breaks the axis; `>= 0` drops it.
  `histogram_quantile(${q}, sum by (le) (rate(${metric}_bucket{@q}[$__rate_interval]))) >= 0`;
const shades = painted({ p50: colour.quiet, p95: colour.work, p99: colour.warning });
const IN_VIEW = '[$__range]';

// `others` are rows of generated panels.
export const overview = (others) => dashboard({
  uid: 'redrive-overview',
  title: 'redrive / Overview',
  description: 'All queues at a glance: is work done, is it late, does it die?',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Firing alerts',
        queries: [{ expr: 'count(ALERTS{alertname=~"Redrive.*", alertstate="firing", job=~"$job|"}) or vector(0)' }],
        mappings: words({ 0: ['none'] }),
        thresholds: above(undefined, 1),
        help: {
          about: 'Alerts of redrive that are firing. The red marks on the graphs show when they started.',
          healthy: 'none.',
          otherwise: 'open the alert. Its runbook has the first three steps.',
          type: 'redrive dlq',
        },
      }),
      stat({
        title: 'Longest wait',
        queries: [{ expr: 'max(redrive_queue_oldest_ready_age_seconds{@q})' }],
        unit: 's',
        thresholds: above(60, 600),
        help: {
          about: 'How long the oldest ready job has waited, in the slowest of the selected queues. Jobs of unhandled kinds and those behind another job do not count.',
          healthy: 'below a minute. 0 means that no such job waits.',
          otherwise: 'if slots are busy, add workers. If they are idle, check for an open breaker, a pause or a slow database. Alerts: RedriveQueueLatencyHigh, RedriveQueueStarved.',
          type: ['redrive stats', 'redrive breaker list'],
        },
      }),
      stat({
        title: 'Pending depth',
        queries: [{ expr: 'sum(redrive_queue_live_jobs{@q})' }],
        help: {
          about: 'Live jobs in all states: ready, delayed, leased. Exact.',
          healthy: 'it returns to its usual level after each burst.',
          otherwise: 'find the growing queue in *Pending depth by queue*, then add workers or check its producers. Alert: RedriveBacklogNotDraining.',
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
        help: {
          about: 'Share of the slots of live workers that run a handler.',
          healthy: 'below 90 % on average, which leaves room for a burst.',
          otherwise: 'add slots or workers, or check the run time: a slow dependency also fills slots.',
          type: 'redrive stats',
        },
      }),
      stat({
        title: 'Workers',
        queries: [{ expr: 'sum(redrive_workers{@q, state!="expired"})' }],
        thresholds: below(1),
        none: '0',
        help: {
          about: 'Live workers: those that renewed in time, each once for each of its queues.',
          healthy: 'as many as you deployed, if each serves one queue.',
          otherwise: 'check whether the processes were killed, ran out of memory or cannot reach the database. Other workers retry their jobs. Alert: RedriveNoWorkers.',
          type: 'redrive stats',
        },
      }),
      stat({
        title: 'Deaths in view',
        queries: [{ expr: `sum(increase(redrive_jobs_dead_lettered_total{@q}${IN_VIEW}))` }],
        unit: 'locale',
        decimals: 0,
        help: {
          about: 'Jobs that were dead-lettered in the time range of the dashboard, for any cause.',
          healthy: 'few.',
          otherwise: 'find and fix the cause, then redrive the letters. Alerts: RedriveDlqSpike, RedriveDeadLetterBudgetBurnFast.',
          type: ['redrive dlq groups', 'redrive dlq redrive QUEUE --canary 10'],
        },
      }),
      stat({
        title: 'Open letters',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="open"})' }],
        unit: 'locale',
        help: {
          about: 'Dead letters that need a decision: redrive, edit or discard. Exact.',
          healthy: 'it falls to 0 between incidents.',
          otherwise: 'open the dashboard *Dead letters* and start with the largest group. Alert: RedriveDlqUnattended.',
          type: ['redrive dlq', 'redrive dlq groups'],
        },
      }),
      stat({
        title: 'Database',
        queries: [{ expr: 'min(redrive_up{@})' }],
        mappings: words({ 1: ['up'], 0: ['down', colour.dead] }),
        thresholds: below(1),
        none: 'no exporter',
        help: {
          about: 'Whether the database answered the last scrape of the exporter and its numbers can be trusted.',
          healthy: 'up.',
          otherwise: 'while it is *down*, all other panels show the last good values for 5 minutes and then nothing. Connect with psql as the role of the exporter. Workers wait and then continue. Alerts: RedriveDatabaseUnreachable, RedriveMetricsUntrusted, RedriveExporterDown.',
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
        help: {
          about: 'Jobs per second: enqueued, done, and retried.',
          healthy: '*done* follows *enqueued*; *retried* is a small share of both.',
          otherwise: 'if *done* is below *enqueued*, the queue grows: add workers. If retries are many, a dependency fails: see the causes on the dashboard *Queue*. Alert: RedriveRetryStorm.',
          type: ['redrive stats', 'redrive breaker list'],
        },
      }),
      graph({
        title: 'Pending depth by queue',
        queries: [{ expr: 'sum by (queue) (redrive_queue_live_jobs{@q})', legend: '{{queue}}' }],
        style: 'stack',
        help: {
          about: 'Live jobs of each queue. Exact.',
          healthy: 'peaks that drain. A steady rise is work that is not done.',
          otherwise: 'open the dashboard *Queue* for the queue that grows.',
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
        help: {
          about: 'Per minute: jobs that died, letters that were redriven, and letters whose jobs then succeeded. These are counters, so a redrive never looks like fewer deaths.',
          healthy: 'no deaths. After a fix, *recovered* follows *redriven*.',
          otherwise: 'if *died* follows *redriven*, the jobs die again: pause the run, because the cause is not fixed. Alert: RedriveRedriveLoop.',
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
        help: {
          about: 'Time from when a job becomes ready to its claim, for every attempt.',
          healthy: 'milliseconds while slots are free.',
          otherwise: 'if all quantiles rise, there are too few slots. If only p99 rises, the cause is bursts or a single queue. Alert: RedriveLatencyBudgetBurn.',
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
        help: {
          about: 'How long handlers ran, failures included.',
          healthy: 'flat, and far below the deadline of the jobs.',
          otherwise: 'a dependency of the handlers has become slow. Open a breaker so that the queue does not add load.',
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
        help: {
          about: 'Time from the first enqueue to success, including waits, retries and redrives. This is what users notice.',
          healthy: 'p50 is about wait plus run time; p99 shows the retries.',
          otherwise: 'see wait and run time. A jump after a redrive is normal, because the letters were old.',
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
        none: 'no claims',
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
        help: {
          about: 'Share of claims within 60 s, and the objective of 99 %.',
          healthy: 'above the dashed line.',
          otherwise: 'add workers, or move bulk work to a separate queue or a lower priority. RedriveLatencyBudgetBurn pages at 14 times the allowed share of late claims.',
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
        help: {
          about: 'One line per queue; its name links to the dashboard *Queue*. *Empty in* is the depth divided by the net rate at which it falls.',
          healthy: 'short waits, a recent success, no old letters.',
          otherwise: 'start with the first line, which has the longest wait. A queue with ready jobs whose *Last done* is long ago is stalled. Alert: RedriveQueueStalled.',
          type: ['redrive stats', 'redrive dlq list QUEUE'],
        },
      }),
    ),
    schedules,
    exporterHealth,
    ...others,
  ],
});
