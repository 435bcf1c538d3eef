// The rows of redrive / Dead letters about letters that leave: retention and redrives.

import { row } from './dashboard.mjs';
import { graph, painted } from './panel.mjs';
import { colour } from './palette.mjs';

// The share of the redriven letters with an outcome that recovered.
export const recovery = (range) =>
  `sum(increase(redrive_dlq_recovered_total{@q}${range}))
    / (sum(increase(redrive_dlq_recovered_total{@q}${range}))
      + sum(increase(redrive_jobs_dead_lettered_again_total{@q}${range})) > 0)`;
const residence = (q, exit) =>
  `histogram_quantile(${q}, sum by (le) (increase(redrive_dlq_residence_seconds_bucket{@q, exit="${exit}"}[$__rate_interval]))) >= 0`;

export const retention = row(
  'Age and retention',
  graph({
    title: 'Oldest open letter and retention',
    queries: [
      { expr: 'max by (queue) (redrive_dlq_oldest_age_seconds{@q})', legend: '{{queue}}' },
      { expr: 'min by (queue) (redrive_dlq_retention_seconds{@q} > 0)', legend: '{{queue}}: deleted at' },
    ],
    unit: 's',
    w: 10,
    overrides: [
      {
        matcher: { id: 'byRegexp', options: '.*: deleted at' },
        properties: [
          { id: 'color', value: { mode: 'fixed', fixedColor: colour.dead } },
          { id: 'custom.lineStyle', value: { fill: 'dash', dash: [6, 6] } },
          { id: 'custom.lineWidth', value: 1 },
          { id: 'custom.fillOpacity', value: 0 },
        ],
      },
    ],
    help: {
      about: 'Age of the oldest open letter of each queue. The dashed line is the age at which a retention rule archives open letters; by default there is none.',
      healthy: 'far below the dashed line.',
      otherwise: 'letters will soon be archived. Decide about them or change the rule. Alert: RedriveDlqRetentionNear.',
      type: ['redrive dlq export QUEUE', 'redrive dlq retention list'],
    },
  }),
  graph({
    title: 'Time in the dead letter queue',
    queries: [
      { expr: residence('0.5', 'redriven'), legend: 'until redriven, p50' },
      { expr: residence('0.95', 'redriven'), legend: 'until redriven, p95' },
      { expr: residence('0.5', 'discarded'), legend: 'until discarded, p50' },
    ],
    unit: 's',
    none: 'no exits',
    bridge: true,
    overrides: painted({
      'until redriven, p50': colour.back,
      'until redriven, p95': colour.later,
      'until discarded, p50': colour.quiet,
    }),
    w: 5,
    help: {
      about: 'Time from a death to its redrive or discard.',
      healthy: 'hours.',
      otherwise: 'if it takes days, give groups owners, and let a policy redrive transient failures.',
      type: ['redrive dlq groups set GROUP --owner NAME', 'redrive schedule list'],
    },
  }),
  graph({
    title: 'Closed letters',
    queries: [
      { expr: 'sum(redrive_dlq_letters{@q, state="recovered"})', legend: 'recovered' },
      { expr: 'sum(redrive_dlq_letters{@q, state="discarded"})', legend: 'discarded' },
    ],
    style: 'stack',
    overrides: painted({ recovered: colour.done, discarded: colour.quiet }),
    w: 5,
    help: {
      about: 'Recovered and discarded letters that are still stored.',
      healthy: 'flat, because a retention rule deletes them by age.',
      otherwise: 'if it only grows, set a retention rule.',
      type: ['redrive dlq retention set recovered 30d', 'redrive dlq retention list'],
    },
  }),
  graph({
    title: 'Held groups',
    queries: [
      { expr: 'sum by (queue) (redrive_held_groups{@q})', legend: '{{queue}}' },
      { expr: 'sum by (queue) (redrive_held_group_jobs{@q})', legend: '{{queue}}: jobs behind' },
    ],
    decimals: 0,
    none: 'no policy holds groups',
    w: 4,
    help: {
      about: 'Groups of jobs that a letter holds, and the jobs that wait behind them. Counts stop at 10 000 over all queues.',
      healthy: '0 groups and no jobs behind them.',
      otherwise: 'redrive or discard the letters, or release the groups. Alert: RedriveGroupHeld.',
      type: ['redrive queue groups held QUEUE', "redrive queue groups release QUEUE GROUP --reason 'TEXT'"],
    },
  }),
);

export const redrives = row(
  'Redrive',
  graph({
    title: 'Redrive success over time',
    queries: [{ expr: recovery('[$__rate_interval]'), legend: 'recovered' }],
    unit: 'percentunit',
    min: 0,
    max: 1,
    none: 'no redrives',
    bridge: true,
    overrides: painted({ recovered: colour.done }),
    w: 6,
    help: {
      about: 'Share of the redriven letters with an outcome that recovered.',
      healthy: 'close to 100 % during a run.',
      otherwise: 'if it falls, pause the run and use a canary next time. Alert: RedriveRedriveLoop.',
      type: 'redrive dlq runs pause RUN',
    },
  }),
  graph({
    title: 'Run outcomes',
    queries: [{ expr: '60 * sum by (outcome) (rate(redrive_run_outcomes_total{@}[$__rate_interval])) > 0', legend: '{{outcome}}' }],
    unit: 'cpm',
    style: 'bars',
    none: 'no runs',
    overrides: painted({
      recovered: colour.done,
      died_alike: colour.dead,
      died_differently: colour.warning,
    }),
    w: 6,
    help: {
      about: 'Outcomes per minute of the letters that redrive runs sent, for all queues.',
      healthy: '`recovered`.',
      otherwise: '`died_alike`: the cause is not fixed. `died_differently`: there is another error.',
      type: 'redrive dlq runs show RUN',
    },
  }),
  graph({
    title: 'Runs',
    queries: [{ expr: 'sum by (state) (redrive_runs{@})', legend: '{{state}}' }],
    style: 'steps',
    decimals: 0,
    overrides: painted({ unapproved: colour.warning, running: colour.back, paused: colour.quiet, halted: colour.dead }),
    w: 6,
    help: {
      about: 'Unfinished redrive runs, for all queues. A run halts when too many of its jobs die again.',
      healthy: 'none, or a running one.',
      otherwise: 'for a halted run, read its report, fix the cause, then resume or cancel it. An unapproved run waits for a second operator.',
      type: ['redrive dlq runs list', 'redrive dlq runs resume RUN', 'redrive dlq runs approve RUN'],
    },
  }),
  graph({
    title: 'Run progress',
    queries: [
      { expr: 'sum(redrive_run_letters_waiting{@})', legend: 'to be sent' },
      { expr: 'sum(redrive_run_letters_unsettled{@})', legend: 'sent, no outcome yet' },
    ],
    overrides: painted({ 'to be sent': colour.work, 'sent, no outcome yet': colour.back }),
    decimals: 0,
    w: 6,
    help: {
      about: 'Letters that runs have not sent yet, and sent letters without an outcome, for all queues.',
      healthy: '*to be sent* falls steadily, *no outcome yet* stays small.',
      otherwise: 'if letters without an outcome grow, workers cannot keep up. Pause the run, or start it with a lower rate.',
      type: ['redrive dlq runs show RUN', 'redrive dlq redrive QUEUE --rate 20'],
    },
  }),
);
