// redrive / Queue: what one queue does, and why it is slow.

import { dashboard, row } from './dashboard.mjs';
import { above, below, graph, heatmap, limit, painted, stat, words } from './panel.mjs';
import { colour } from './palette.mjs';

const buckets = (metric) => `sum by (le) (increase(${metric}_bucket{@q}[$__rate_interval]))`;
const top = (expr) => `topk(10, ${expr})`;
const FIRST_TRY = (range) =>
  `sum(increase(redrive_job_attempts_to_success_bucket{@q, le=~"1|1[.]0"}${range}))
    / (sum(increase(redrive_job_attempts_to_success_count{@q}${range})) > 0)`;

export const queue = dashboard({
  uid: 'redrive-queue',
  title: 'redrive / Queue',
  description: 'One queue, or the sum of those that are chosen: where its jobs are, how long they take, why they fail.',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Longest wait',
        queries: [{ expr: 'max(redrive_queue_oldest_ready_age_seconds{@q})' }],
        unit: 's',
        thresholds: above(60, 600),
        story: {
          about: 'For how long the first job in the order of claims has been ready.',
          healthy: 'below a minute. 0 means that nothing waits.',
          otherwise: 'slots busy: add workers. Slots idle: is a breaker open? Alert: RedriveQueueLatencyHigh.',
          type: ['redrive stats QUEUE', 'redrive breaker list'],
        },
      }),
      stat({
        title: 'Ready',
        queries: [{ expr: 'sum(redrive_queue_jobs{@q, state="ready"})' }],
        story: {
          about: 'Jobs that could run now. Counted to 10 000 a queue; *Counted* says whether that was reached.',
          healthy: 'near 0 between bursts.',
          otherwise: 'compare *Jobs in and out*: is more coming in, or less done?',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'Leased',
        queries: [{ expr: 'sum(redrive_queue_jobs{@q, state="leased"})' }],
        story: {
          about: 'Jobs that workers have claimed: they run, or wait for a slot of their worker.',
          healthy: 'above 0 while jobs are ready.',
          otherwise: '0 with jobs ready: nobody claims. Alert: RedriveQueueStalled.',
          type: ['redrive stats QUEUE', 'redrive breaker list'],
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
          healthy: 'below 90 % on average.',
          otherwise: 'add slots or workers, or make the handler faster.',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'First-try success',
        queries: [{ expr: FIRST_TRY('[$__range]') }],
        unit: 'percentunit',
        decimals: 1,
        thresholds: below(0.5, 0.9),
        none: 'none done',
        story: {
          about: 'Of the jobs that were done in the time range of the dashboard, those that needed one attempt.',
          healthy: 'above 90 %.',
          otherwise: 'retries hide a fault that costs slots and time: see *Failures by cause*.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
      stat({
        title: 'Oldest lease',
        queries: [{ expr: 'max(redrive_queue_oldest_leased_age_seconds{@q})' }],
        unit: 's',
        story: {
          about: 'Age of the oldest lease; 0 when there is none.',
          healthy: 'not much above the longest run time. A lease is kept as long as its worker renews.',
          otherwise: 'a handler hangs: cancel the job, and give its kind a deadline.',
          type: ['redrive job show ID', 'redrive job cancel ID'],
        },
      }),
      stat({
        title: 'Breakers open',
        queries: [{ expr: 'sum(redrive_breakers{@q})' }],
        thresholds: above(1),
        mappings: words({ 0: ['none'] }),
        none: 'none',
        story: {
          about: 'Breakers that hold jobs of this queue back, open and half open.',
          healthy: 'none.',
          otherwise: 'a dependency is down, or somebody opened it by hand. It closes by itself when a job that is tried succeeds.',
          type: ['redrive breaker list', 'redrive breaker close NAME'],
        },
      }),
      stat({
        title: 'Last done',
        queries: [{ expr: 'time() - max(redrive_queue_last_success_timestamp_seconds{@q} > 0)' }],
        unit: 's',
        decimals: 0,
        none: 'never',
        story: {
          about: 'Time since a job was done last.',
          healthy: 'about as long as the pauses between your jobs.',
          otherwise: 'with jobs ready: nobody works, or everything fails.',
          type: 'redrive stats QUEUE',
        },
      }),
    ),
    row(
      'Jobs',
      graph({
        title: 'Jobs by place',
        queries: [
          { expr: 'sum(redrive_queue_jobs{@q, state="leased"})', legend: 'leased' },
          { expr: 'sum(redrive_queue_jobs{@q, state="delayed"})', legend: 'delayed' },
          { expr: 'sum(redrive_queue_jobs{@q, state="ready"})', legend: 'ready' },
          { expr: 'sum(redrive_queue_live_jobs{@q})', legend: 'all, exact' },
        ],
        style: 'stack',
        overrides: [
          ...painted({ leased: colour.running, delayed: colour.later, ready: colour.work }),
          limit('all, exact'),
        ],
        w: 10,
        story: {
          about: 'Where the live jobs are: ready to run, delayed (scheduled, backing off), leased by a worker. The dashed line is their exact number from the totals; the areas are counted a moment later.',
          healthy: 'hills of *ready* that end; *delayed* is what was scheduled.',
          otherwise: 'much *delayed* after failures: they come back in waves, see *Delays before retries*.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Jobs in and out',
        queries: [
          { expr: 'sum(rate(redrive_jobs_enqueued_total{@q}[$__rate_interval]))', legend: 'enqueued' },
          { expr: 'sum(rate(redrive_jobs_claimed_total{@q}[$__rate_interval]))', legend: 'claimed' },
          { expr: 'sum(rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))', legend: 'done' },
        ],
        unit: 'cps',
        overrides: painted({ enqueued: colour.work, claimed: colour.running, done: colour.done }),
        w: 10,
        story: {
          about: 'Jobs a second: enqueued, claimed (every attempt), done.',
          healthy: 'the three lie together.',
          otherwise: '*claimed* above *done*: attempts fail. *enqueued* above *claimed*: too few slots. *claimed* at 0 with jobs ready: it stalls. Alert: RedriveQueueStalled.',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'Empty in',
        h: 4,
        queries: [
          {
            expr: `sum(redrive_queue_live_jobs{@q})
              / ((sum(rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))
                + sum(rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval]))
                - sum(rate(redrive_jobs_enqueued_total{@q}[$__rate_interval]))) > 0)
              or sum(redrive_queue_live_jobs{@q}) == 0
              or sum(redrive_queue_live_jobs{@q}) * 0 - 1`,
          },
        ],
        unit: 's',
        decimals: 0,
        mappings: words({ '-1': ['not at this rate'] }),
        w: 4,
        story: {
          about: 'The depth divided by what leaves less what comes in.',
          healthy: 'a time that you can wait.',
          otherwise: '*not at this rate* with a deep queue: add workers, or slow down who enqueues. Alert: RedriveBacklogNotDraining.',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'Counted',
        h: 4,
        queries: [{ expr: 'max(redrive_queue_jobs_capped{@q})' }],
        mappings: words({ 0: ['in full'], 1: ['to 10 000'] }),
        w: 4,
        story: {
          about: 'Jobs by place are counted to 10 000 a queue, so that a scrape never scans.',
          healthy: 'in full.',
          otherwise: 'the dashed line of *Jobs by place* is exact all the same; the command counts row by row.',
          type: 'redrive stats QUEUE',
        },
      }),
    ),
    row(
      'Latency',
      heatmap({
        title: 'Wait until claimed',
        expr: buckets('redrive_job_queue_wait_seconds'),
        unit: 's',
        story: {
          about: 'From the moment a job could be claimed to its claim, every attempt. The stronger a cell, the more jobs.',
          healthy: 'a band at the bottom.',
          otherwise: 'a band that climbs is a backlog. Two bands are two priorities, or a queue that is chosen too. Alert: RedriveLatencyBudgetBurn.',
          type: 'redrive stats QUEUE',
        },
      }),
      heatmap({
        title: 'Run time',
        expr: buckets('redrive_job_run_seconds'),
        unit: 's',
        color: colour.running,
        story: {
          about: 'How long handlers ran, failures included.',
          healthy: 'a band that stays where it is.',
          otherwise: 'a band at the top is timeouts: what the handlers call hangs.',
          type: ['redrive dlq list QUEUE --reason timeout', 'redrive breaker list'],
        },
      }),
      heatmap({
        title: 'End to end',
        expr: buckets('redrive_job_end_to_end_seconds'),
        unit: 's',
        color: colour.done,
        story: {
          about: 'From the first enqueue to success, with all waiting, retries and redrives.',
          healthy: 'near wait and run time together.',
          otherwise: 'cells far above are jobs that were retried or redriven: see *Attempts until done*.',
          type: 'redrive dlq runs list',
        },
      }),
    ),
    row(
      'Failures',
      graph({
        title: 'Failures by cause',
        queries: [{ expr: '60 * sum by (cause) (rate(redrive_job_attempts_failed_total{@q}[$__rate_interval])) > 0', legend: '{{cause}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no attempt failed',
        overrides: painted({
          error: colour.warning,
          rejected: colour.back,
          panic: colour.dead,
          timeout: colour.later,
          undecodable: colour.work,
          unhandled: colour.running,
          worker_lost: colour.quiet,
          outage: colour.done,
        }),
        story: {
          about: 'Attempts that failed, a minute. `outage` is a dependency that was down: it charges no attempt.',
          healthy: 'nothing, or a thin line of errors that a retry heals.',
          otherwise: '`panic`, `undecodable`: a release is at fault. `worker_lost`: workers are killed. Alert: RedriveRetryStorm.',
          type: ['redrive dlq groups list QUEUE', 'redrive breaker list'],
        },
      }),
      heatmap({
        title: 'Attempts until done',
        expr: buckets('redrive_job_attempts_to_success'),
        unit: 'short',
        color: colour.done,
        story: {
          about: 'Attempts of this generation that jobs needed until they were done.',
          healthy: 'almost all in the row of 1.',
          otherwise: 'a second row far up means that retries only just save them: raise the attempts or fix the cause before they die.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
      heatmap({
        title: 'Delays before retries',
        expr: buckets('redrive_job_retry_delay_seconds'),
        unit: 's',
        color: colour.later,
        none: 'no retry',
        story: {
          about: 'Delays that were chosen before retries: backoff with jitter.',
          healthy: 'a pyramid: many short ones, few long ones.',
          otherwise: 'a single row is a backoff without jitter: the retries will come all at once.',
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
        story: {
          about: 'What became of failed attempts, a minute: another one follows by itself, or the job is a dead letter now.',
          healthy: 'few retries, no deaths.',
          otherwise: 'see what they died of on the dashboard *Dead letters*. Alerts: RedriveRetryStorm, RedriveDlqSpike.',
          type: ['redrive dlq groups list QUEUE', 'redrive dlq list QUEUE'],
        },
      }),
      graph({
        title: 'Put off, given back, turned away',
        queries: [
          { expr: '60 * sum(rate(redrive_jobs_snoozed_total{@q}[$__rate_interval]))', legend: 'snoozed' },
          { expr: '60 * sum(rate(redrive_jobs_released_total{@q}[$__rate_interval]))', legend: 'released' },
          { expr: '60 * sum(rate(redrive_enqueue_duplicates_total{@q}[$__rate_interval]))', legend: 'duplicates' },
        ],
        unit: 'cpm',
        overrides: painted({ snoozed: colour.later, released: colour.work, duplicates: colour.quiet }),
        story: {
          about: 'Jobs a minute that a handler put off without a charge, that workers gave back unrun, and unique jobs that were not enqueued because their key is in use.',
          healthy: '*released* only around deployments; *duplicates* as your callers repeat themselves.',
          otherwise: '*released* all the time: workers are restarted or lost again and again.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Done at the first attempt',
        queries: [{ expr: FIRST_TRY('[$__rate_interval]'), legend: 'share' }],
        unit: 'percentunit',
        min: null,
        max: 1,
        none: 'none done',
        overrides: painted({ share: colour.done }),
        story: {
          about: 'Share of the jobs that needed one attempt, of those that were done.',
          healthy: 'a flat line at the top.',
          otherwise: 'a dip is a dependency in trouble, at that minute: compare the deployments.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
    ),
    row(
      'Workers',
      graph({
        title: 'Workers',
        queries: [{ expr: 'sum by (state) (redrive_workers{@q})', legend: '{{state}}' }],
        style: 'stack',
        decimals: 0,
        overrides: painted({ busy: colour.done, waiting: colour.quiet, expired: colour.dead }),
        w: 6,
        story: {
          about: 'Workers by state: busy, waiting for work, expired (they have not renewed in time).',
          healthy: 'as many as you deployed; *expired* for seconds only.',
          otherwise: 'expired ones were killed, or cannot reach the database. Alert: RedriveNoWorkers.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Slots',
        queries: [
          { expr: 'sum(redrive_worker_slots_busy{@q})', legend: 'busy' },
          { expr: 'sum(redrive_worker_slots{@q})', legend: 'all' },
        ],
        decimals: 0,
        overrides: [...painted({ busy: colour.running }), limit('all')],
        w: 6,
        story: {
          about: 'Slots in which a handler runs, and all there are.',
          healthy: 'room between the two lines.',
          otherwise: 'they touch: add slots when the handler waits for others, workers when it computes.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Leases in trouble',
        queries: [
          { expr: 'sum(increase(redrive_leases_lost_total{@q}[$__rate_interval]))', legend: 'lost' },
          { expr: 'sum(increase(redrive_results_refused_total{@q}[$__rate_interval]))', legend: 'results refused' },
          { expr: 'sum(redrive_queue_overdue_leases{@q})', legend: 'overdue now' },
        ],
        decimals: 0,
        overrides: painted({ lost: colour.dead, 'results refused': colour.warning, 'overdue now': colour.later }),
        w: 6,
        story: {
          about: 'Leases that ended because their worker was gone, results that came too late and were refused, and leases that wait to be reaped.',
          healthy: '0.',
          otherwise: 'workers are killed (memory?) or paused (a debugger, a frozen machine), or their database is too slow to renew. Alert: RedriveLeasesLost.',
          type: ['redrive dlq list QUEUE --reason worker_lost', 'redrive stats QUEUE'],
        },
      }),
      graph({
        title: 'Breakers',
        queries: [{ expr: 'sum by (state) (redrive_breakers{@q})', legend: '{{state}}' }],
        style: 'steps',
        decimals: 0,
        none: 'no breaker is open',
        overrides: painted({ open: colour.dead, half_open: colour.later }),
        w: 6,
        story: {
          about: 'Breakers that hold jobs back; half open: one job is tried.',
          healthy: '0.',
          otherwise: 'find out what is down. Once it is back the breaker closes by itself.',
          type: ['redrive breaker list', 'redrive breaker close NAME'],
        },
      }),
    ),
    row(
      'Kinds',
      graph({
        title: 'Done by kind',
        queries: [{ expr: top('sum by (kind) (rate(redrive_jobs_succeeded_total{@q}[$__rate_interval]))'), legend: '{{kind}}' }],
        unit: 'cps',
        style: 'stack',
        story: {
          about: 'Jobs done a second, the ten kinds with most.',
          healthy: 'the mix that you know.',
          otherwise: 'a kind that is missing while its jobs wait: no worker has a handler for it, so nobody claims them.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Failures by kind',
        queries: [{ expr: top('60 * sum by (kind) (rate(redrive_job_attempts_failed_total{@q}[$__rate_interval])) > 0'), legend: '{{kind}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no attempt failed',
        story: {
          about: 'Attempts that failed a minute, the ten kinds with most.',
          healthy: 'nothing, or a thin line.',
          otherwise: 'one kind alone: its handler or its dependency. All of them: what they share.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
      graph({
        title: 'Deaths by kind',
        queries: [{ expr: top('60 * sum by (kind) (rate(redrive_jobs_dead_lettered_by_kind_total{@q}[$__rate_interval])) > 0'), legend: '{{kind}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'nothing died',
        story: {
          about: 'Jobs that became dead letters a minute, the ten kinds with most.',
          healthy: 'nothing.',
          otherwise: 'look at the letters of that kind.',
          type: 'redrive dlq list QUEUE kind=KIND',
        },
      }),
    ),
  ],
});
