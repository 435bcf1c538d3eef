// The row of redrive / Queue about failed attempts and retries.

import { row } from './dashboard.mjs';
import { graph, heatmap, painted } from './panel.mjs';
import { colour } from './palette.mjs';

// The increase of a histogram, by bucket.
export const buckets = (metric) => `sum by (le) (increase(${metric}_bucket{@q}[$__rate_interval]))`;
// The share of the finished jobs that needed one attempt.
export const FIRST_TRY = (range) =>
  `sum(increase(redrive_job_attempts_to_success_bucket{@q, le=~"1|1[.]0"}${range}))
    / (sum(increase(redrive_job_attempts_to_success_count{@q}${range})) > 0)`;

export const failures = row(
  'Failures',
  graph({
    title: 'Failures by cause',
    queries: [{ expr: '60 * sum by (cause) (rate(redrive_job_attempts_failed_total{@q}[$__rate_interval])) > 0', legend: '{{cause}}' }],
    unit: 'cpm',
    style: 'bars',
    none: 'no failures',
    overrides: painted({
      error: colour.warning,
      rejected: colour.back,
      panic: colour.dead,
      timeout: colour.later,
      undecodable: colour.work,
      worker_lost: colour.quiet,
      outage: colour.done,
    }),
    help: {
      about: 'Failed attempts per minute. `outage` is a dependency that was down; it does not use up an attempt.',
      healthy: 'nothing, or a few errors that a retry fixes.',
      otherwise: '`panic` and `undecodable` point to a release, `worker_lost` to killed workers. Alert: RedriveRetryStorm.',
      type: ['redrive dlq groups list QUEUE', 'redrive breaker list'],
    },
  }),
  heatmap({
    title: 'Attempts until done',
    expr: buckets('redrive_job_attempts_to_success'),
    unit: 'short',
    color: colour.done,
    help: {
      about: 'Attempts that jobs needed until success, in their current generation.',
      healthy: 'almost all in the first row.',
      otherwise: 'a second row far up means that jobs barely succeed. Raise the attempts or fix the cause before they die.',
      type: 'redrive dlq groups list QUEUE',
    },
  }),
  heatmap({
    title: 'Delays before retries',
    expr: buckets('redrive_job_retry_delay_seconds'),
    unit: 's',
    color: colour.later,
    none: 'no retries',
    help: {
      about: 'Chosen delays before retries: backoff with jitter.',
      healthy: 'many short delays and few long ones.',
      otherwise: 'a single row is a backoff without jitter, so retries come all at once.',
      type: 'redrive stats QUEUE',
    },
  }),
  graph({
    title: 'Retried or dead',
    queries: [
      { expr: '60 * sum(rate(redrive_jobs_retried_total{@q}[$__rate_interval]))', legend: 'retried' },
      { expr: '60 * sum(rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval]))', legend: 'died' },
    ],
    unit: 'cpm',
    overrides: painted({ retried: colour.warning, died: colour.dead }),
    help: {
      about: 'Outcomes of failed attempts per minute: the job is retried, or it becomes a dead letter.',
      healthy: 'few retries, no deaths.',
      otherwise: 'see the causes on the dashboard *Dead letters*. Alerts: RedriveRetryStorm, RedriveDlqSpike.',
      type: ['redrive dlq groups list QUEUE', 'redrive dlq list QUEUE'],
    },
  }),
  graph({
    title: 'Snoozed, released, duplicates',
    queries: [
      { expr: '60 * sum(rate(redrive_jobs_snoozed_total{@q}[$__rate_interval]))', legend: 'snoozed' },
      { expr: '60 * sum(rate(redrive_jobs_released_total{@q}[$__rate_interval]))', legend: 'released' },
      { expr: '60 * sum(rate(redrive_enqueue_duplicates_total{@q}[$__rate_interval]))', legend: 'duplicates' },
    ],
    unit: 'cpm',
    overrides: painted({ snoozed: colour.later, released: colour.work, duplicates: colour.quiet }),
    help: {
      about: 'Per minute: jobs that a handler snoozed, jobs that workers released without running them, and unique jobs that were not enqueued because their key is in use.',
      healthy: '*released* only during deployments; *duplicates* as often as your producers repeat an enqueue.',
      otherwise: 'constant *released* means that workers keep restarting or getting lost.',
      type: 'redrive stats QUEUE',
    },
  }),
  graph({
    title: 'First-attempt success',
    queries: [{ expr: FIRST_TRY('[$__rate_interval]'), legend: 'share' }],
    unit: 'percentunit',
    min: null,
    max: 1,
    none: 'no success',
    overrides: painted({ share: colour.done }),
    help: {
      about: 'Share of the finished jobs that needed one attempt.',
      healthy: 'a flat line at the top.',
      otherwise: 'a dip shows a failing dependency at that time. Compare it with deployments.',
      type: 'redrive dlq groups list QUEUE',
    },
  }),
);
