// redrive / Queue: what a queue is doing, and why it is slow.

import { dashboard, row } from './dashboard.mjs';
import { above, below, graph, heatmap, limit, painted, stat, words } from './panel.mjs';
import { colour } from './palette.mjs';
import { FIRST_TRY, buckets, failures } from './queue-failures.mjs';

const top = (expr) => `topk(10, ${expr})`;

export const queue = dashboard({
  uid: 'redrive-queue',
  title: 'redrive / Queue',
  description: 'One queue, or the sum of the selected queues: where its jobs are, how long they take, why they fail.',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Longest wait',
        queries: [{ expr: 'max(redrive_queue_oldest_ready_age_seconds{@q})' }],
        unit: 's',
        thresholds: above(60, 600),
        help: {
          about: 'How long the oldest ready job has waited, of any priority. Jobs of unhandled kinds and those behind another job do not count.',
          healthy: 'below a minute. 0 means that no such job waits.',
          otherwise: 'if slots are busy, add workers. If they are idle, check for an open breaker or a pause. Alerts: RedriveQueueLatencyHigh, RedriveQueueStarved.',
          type: ['redrive stats QUEUE', 'redrive breaker list'],
        },
      }),
      stat({
        title: 'Ready',
        queries: [{ expr: 'sum(redrive_queue_jobs{@q, state="ready"})' }],
        help: {
          about: 'Jobs that can run now. The count stops at 10 000 over all queues; *Counted* shows whether it did.',
          healthy: 'near 0 between bursts.',
          otherwise: 'check in *Jobs in and out* whether more jobs come in or fewer are done.',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'Leased',
        queries: [{ expr: 'sum(redrive_queue_jobs{@q, state="leased"})' }],
        help: {
          about: 'Jobs that workers have claimed. They run, or wait for a slot.',
          healthy: 'above 0 while jobs are ready.',
          otherwise: '0 while jobs are ready means that no worker claims. Alert: RedriveQueueStalled.',
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
        help: {
          about: 'Share of the slots of live workers that run a handler.',
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
        none: 'no success',
        help: {
          about: 'Share of the finished jobs that needed one attempt, in the time range of the dashboard.',
          healthy: 'above 90 %.',
          otherwise: 'retries hide a fault that costs slots and time. See *Failures by cause*.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
      stat({
        title: 'Oldest lease',
        queries: [{ expr: 'max(redrive_queue_oldest_leased_age_seconds{@q})' }],
        unit: 's',
        help: {
          about: 'Age of the oldest lease; 0 when there is none.',
          healthy: 'not much longer than the longest run time. A worker keeps a lease as long as it renews.',
          otherwise: 'a handler hangs. Cancel the job, and give its kind a deadline.',
          type: ['redrive job show ID', 'redrive job cancel ID'],
        },
      }),
      stat({
        title: 'Breakers open',
        queries: [{ expr: 'sum(redrive_breakers{@q})' }],
        thresholds: above(1),
        mappings: words({ 0: ['none'] }),
        none: 'none',
        help: {
          about: 'Open and half-open breakers that hold back jobs of this queue.',
          healthy: 'none.',
          otherwise: 'a dependency is down, or an operator opened the breaker. It closes after a successful probe.',
          type: ['redrive breaker list', 'redrive breaker close NAME'],
        },
      }),
      stat({
        title: 'Last done',
        queries: [{ expr: 'time() - max(redrive_queue_last_success_timestamp_seconds{@q} > 0)' }],
        unit: 's',
        decimals: 0,
        none: 'never',
        help: {
          about: 'Time since the last success.',
          healthy: 'about the interval between your jobs.',
          otherwise: 'if jobs are ready, no worker runs or every job fails.',
          type: 'redrive stats QUEUE',
        },
      }),
    ),
    row(
      'Jobs',
      graph({
        title: 'Jobs by state',
        queries: [
          { expr: 'sum(redrive_queue_jobs{@q, state="leased"})', legend: 'leased' },
          { expr: 'sum(redrive_queue_jobs{@q, state="delayed"})', legend: 'delayed' },
          { expr: 'sum(redrive_queue_jobs{@q, state="ready"})', legend: 'ready' },
          { expr: 'sum(redrive_queue_live_jobs{@q})', legend: 'all, exact' },
          { expr: 'sum(redrive_queue_unhandled_jobs{@q})', legend: 'of unhandled kinds' },
          { expr: 'sum(redrive_queue_blocked_jobs{@q})', legend: 'behind another job' },
        ],
        style: 'stack',
        overrides: [
          ...painted({ leased: colour.running, delayed: colour.later, ready: colour.work }),
          limit('all, exact'),
          limit('of unhandled kinds'),
          limit('behind another job'),
        ],
        w: 10,
        help: {
          about: 'Live jobs by state: ready to run, delayed (scheduled or backing off), leased by a worker. The dashed line is their exact number from the totals; the areas are counted slightly later.',
          healthy: 'peaks of *ready* that drain; *delayed* matches what was scheduled.',
          otherwise: 'many *delayed* jobs after failures return in waves. See *Delays before retries*. No live worker handles the kinds of the ready jobs under *of unhandled kinds*; the command names them. Those *behind another job* wait for one of their group. Alert: RedriveJobsUnhandled.',
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
        help: {
          about: 'Jobs per second: enqueued, claimed (every attempt), done.',
          healthy: 'the three lines are close together.',
          otherwise: '*claimed* above *done* means failing attempts, *enqueued* above *claimed* too few slots. *claimed* at 0 with ready jobs means a stalled queue. Alert: RedriveQueueStalled.',
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
        help: {
          about: 'The depth divided by the net rate at which it falls.',
          healthy: 'a time that is acceptable for this queue.',
          otherwise: 'if a deep queue shows *not at this rate*, add workers or slow down the producers. Alert: RedriveBacklogNotDraining.',
          type: 'redrive stats QUEUE',
        },
      }),
      stat({
        title: 'Counted',
        h: 4,
        queries: [{ expr: 'max(redrive_queue_jobs_capped{@q})' }],
        mappings: words({ 0: ['in full'], 1: ['in part'] }),
        w: 4,
        help: {
          about: 'Jobs by state are counted up to 10 000 over all queues, so that a scrape never scans a large table.',
          healthy: 'in full.',
          otherwise: 'the dashed line of *Jobs by state* is always exact, and the command counts every row.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Ready jobs by kind',
        queries: [{ expr: top('sum by (kind) (redrive_queue_ready_jobs_by_kind{@q})'), legend: '{{kind}}' }],
        style: 'stack',
        w: 24,
        h: 6,
        help: {
          about: 'Ready jobs of the most frequent kinds, among those that *Jobs by state* counts. Kinds beyond 20 per queue are summed as `__other__`.',
          healthy: 'each kind drains.',
          otherwise: 'a kind that stays has too few workers that handle it, or an open breaker holds it back.',
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
        help: {
          about: 'Time from when a job becomes ready to its claim, for every attempt. Darker cells have more jobs.',
          healthy: 'a band at the bottom.',
          otherwise: 'a rising band is a backlog. Two bands are two priorities or two selected queues. Alert: RedriveLatencyBudgetBurn.',
          type: 'redrive stats QUEUE',
        },
      }),
      heatmap({
        title: 'Run time',
        expr: buckets('redrive_job_run_seconds'),
        unit: 's',
        color: colour.running,
        help: {
          about: 'How long handlers ran, failures included.',
          healthy: 'a stable band.',
          otherwise: 'a band at the top is timeouts: a dependency of the handlers hangs.',
          type: ['redrive dlq list QUEUE cause=timeout', 'redrive breaker list'],
        },
      }),
      heatmap({
        title: 'End to end',
        expr: buckets('redrive_job_end_to_end_seconds'),
        unit: 's',
        color: colour.done,
        help: {
          about: 'Time from the first enqueue to success, including waits, retries and redrives.',
          healthy: 'about wait plus run time.',
          otherwise: 'cells far above are jobs that were retried or redriven. See *Attempts until done*.',
          type: 'redrive dlq runs list',
        },
      }),
    ),
    failures,
    row(
      'Workers',
      graph({
        title: 'Workers',
        queries: [{ expr: 'sum by (state) (redrive_workers{@q})', legend: '{{state}}' }],
        style: 'stack',
        decimals: 0,
        overrides: painted({ busy: colour.done, waiting: colour.quiet, expired: colour.dead }),
        w: 4,
        help: {
          about: 'Workers by state: busy, waiting for jobs, or expired (not renewed in time).',
          healthy: 'as many as you deployed; *expired* for seconds only.',
          otherwise: 'expired workers were killed or cannot reach the database. Alert: RedriveNoWorkers.',
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
        w: 4,
        help: {
          about: 'Slots that run a handler, and all slots.',
          healthy: 'a gap between the two lines.',
          otherwise: 'if the lines touch, add slots if the handlers wait for other services, or workers if they compute.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Lost and overdue leases',
        queries: [
          { expr: 'sum(increase(redrive_leases_lost_total{@q}[$__rate_interval]))', legend: 'lost' },
          { expr: 'sum(increase(redrive_results_refused_total{@q}[$__rate_interval]))', legend: 'results rejected' },
          { expr: 'sum(redrive_queue_overdue_leases{@q})', legend: 'overdue now' },
        ],
        decimals: 0,
        overrides: painted({ lost: colour.dead, 'results rejected': colour.warning, 'overdue now': colour.later }),
        w: 4,
        help: {
          about: 'Leases whose worker was lost, results that were rejected because their lease was lost, and leases that are not reaped yet.',
          healthy: '0.',
          otherwise: 'workers are killed (check memory), paused (a debugger, a frozen machine), or cannot renew because the database is too slow. Alert: RedriveLeasesLost.',
          type: ['redrive dlq list QUEUE cause=worker_lost', 'redrive stats QUEUE'],
        },
      }),
      graph({
        title: 'Paused for',
        queries: [{ expr: 'max by (queue) (redrive_queue_paused_seconds{@q} > 0)', legend: '{{queue}}' }],
        unit: 's',
        none: 'not paused',
        w: 4,
        help: {
          about: 'How long an operator has paused the queue. No job of it starts in any process.',
          healthy: 'not paused.',
          otherwise: 'find out who paused it and why. Alert: RedriveQueuePausedLong.',
          type: ['redrive stats QUEUE', 'redrive queue resume QUEUE'],
        },
      }),
      graph({
        title: 'Rate limits in use',
        max: 1,
        queries: [
          { expr: 'max by (queue, limit) (redrive_rate_limit_use_ratio{@q})', legend: '{{queue}} {{limit}}' },
          { expr: 'max by (queue, limit) (redrive_rate_limit_empty{@q})', legend: '{{queue}} {{limit}}: no token' },
        ],
        unit: 'percentunit',
        none: 'no rate limits',
        w: 4,
        help: {
          about: 'Share of the tokens of each rate limit that is used up. A job needs a token to start.',
          healthy: '0 in a quiet queue; high while a burst starts.',
          otherwise: 'jobs wait for tokens. Alert: RedriveRateLimitBacklog.',
          type: ['redrive queue limits QUEUE', 'redrive queue limit QUEUE --rate 200/1s --reason TEXT'],
        },
      }),
      graph({
        title: 'Breakers and pauses',
        queries: [
          { expr: 'sum by (state) (redrive_breakers{@q})', legend: '{{state}}' },
          { expr: 'sum(redrive_queue_paused{@q, end="none"})', legend: 'paused' },
          { expr: 'sum(redrive_queue_paused{@q, end="planned"})', legend: 'paused until a time' },
        ],
        style: 'steps',
        decimals: 0,
        none: 'no open breakers',
        overrides: painted({ open: colour.dead, half_open: colour.later, paused: colour.warning, 'paused until a time': colour.quiet }),
        w: 4,
        help: {
          about: 'Breakers that hold back jobs, and pauses. A half-open breaker lets one job through as a probe; a pause lets none.',
          healthy: '0.',
          otherwise: 'find out which dependency is down, or who paused the queue. A breaker closes after a successful probe; a pause ends at its time or when the queue is resumed.',
          type: ['redrive breaker list', 'redrive breaker close NAME', 'redrive stats QUEUE'],
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
        help: {
          about: 'Finished jobs per second, for the top ten kinds.',
          healthy: 'the usual mix.',
          otherwise: 'if a kind is missing while its jobs wait, no worker has a handler for it.',
          type: 'redrive stats QUEUE',
        },
      }),
      graph({
        title: 'Failures by kind',
        queries: [{ expr: top('60 * sum by (kind) (rate(redrive_job_attempts_failed_total{@q}[$__rate_interval])) > 0'), legend: '{{kind}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no failures',
        help: {
          about: 'Failed attempts per minute, for the top ten kinds.',
          healthy: 'nothing, or very few.',
          otherwise: 'if one kind fails, check its handler and its dependency. If all fail, check what they share.',
          type: 'redrive dlq groups list QUEUE',
        },
      }),
      graph({
        title: 'Deaths by kind',
        queries: [{ expr: top('60 * sum by (kind) (rate(redrive_jobs_dead_lettered_by_kind_total{@q}[$__rate_interval])) > 0'), legend: '{{kind}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no deaths',
        help: {
          about: 'Deaths per minute, for the top ten kinds.',
          healthy: 'nothing.',
          otherwise: 'list the letters of that kind.',
          type: 'redrive dlq list QUEUE kind=KIND',
        },
      }),
    ),
  ],
});
