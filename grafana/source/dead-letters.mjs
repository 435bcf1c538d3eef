// redrive / Dead letters: what died, of what, and what becomes of it.

import { dashboard, row } from './dashboard.mjs';
import { above, below, graph, heatmap, limit, painted, stat, table } from './panel.mjs';
import { colour } from './palette.mjs';

const perMinute = (metric) => `60 * sum(rate(${metric}{@q}[$__rate_interval]))`;
const inView = (metric) => `sum(increase(${metric}{@q}[$__range]))`;
const top = (expr) => `topk(10, ${expr})`;
const recovery = (range) =>
  `sum(increase(redrive_dlq_recovered_total{@q}${range}))
    / (sum(increase(redrive_dlq_recovered_total{@q}${range}))
      + sum(increase(redrive_jobs_dead_lettered_again_total{@q}${range})) > 0)`;
const residence = (q, exit) =>
  `histogram_quantile(${q}, sum by (le) (increase(redrive_dlq_residence_seconds_bucket{@q, exit="${exit}"}[$__rate_interval]))) >= 0`;

export const deadLetters = dashboard({
  uid: 'redrive-dead-letters',
  title: 'redrive / Dead letters',
  description: 'The dead letter queue: what died and why, how long it waits, what comes back and whether it recovers.',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Open letters',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="open"})' }],
        unit: 'locale',
        story: {
          about: 'Letters that wait for a decision: redrive, edit or discard. Exact.',
          healthy: 'it falls to nothing between incidents.',
          otherwise: 'take the largest group first. Alert: RedriveDlqUnattended.',
          type: ['redrive dlq', 'redrive dlq groups'],
        },
      }),
      stat({
        title: 'Oldest letter',
        queries: [{ expr: 'max(redrive_dlq_oldest_age_seconds{@q})' }],
        unit: 's',
        decimals: 1,
        thresholds: above(3 * 86400),
        story: {
          about: 'Time since the death of the oldest open letter; 0 when none is open.',
          healthy: 'below three days.',
          otherwise: 'somebody has to decide. Letters are kept until told otherwise. Alert: RedriveDlqUnattended.',
          type: "redrive dlq list 'died>3d'",
        },
      }),
      stat({
        title: 'Deaths in view',
        queries: [{ expr: inView('redrive_jobs_dead_lettered_total') }],
        unit: 'locale',
        decimals: 0,
        story: {
          about: 'Jobs that became letters in the time range of the dashboard, by whatever path.',
          healthy: 'few, and each looked at.',
          otherwise: 'see *Deaths by reason* and *by error class* below. Alerts: RedriveDlqSpike, RedriveDeadLetterBudgetBurnFast.',
          type: 'redrive dlq groups',
        },
      }),
      stat({
        title: 'Redriven in view',
        queries: [{ expr: inView('redrive_dlq_redriven_total') }],
        unit: 'locale',
        decimals: 0,
        story: {
          about: 'Letters that were sent back as jobs in the time range of the dashboard.',
          healthy: 'as many as were fixed.',
          otherwise: 'letters and no redrive: validate them, then send a canary.',
          type: ['redrive dlq validate QUEUE', 'redrive dlq redrive QUEUE --canary 10'],
        },
      }),
      stat({
        title: 'Recovered in view',
        queries: [{ expr: inView('redrive_dlq_recovered_total') }],
        unit: 'locale',
        decimals: 0,
        story: {
          about: 'Letters whose jobs were done after a redrive, in the time range of the dashboard.',
          healthy: 'near what was redriven.',
          otherwise: 'see *Of those redriven, how many recover*.',
          type: 'redrive dlq runs list',
        },
      }),
      stat({
        title: 'Redrive success',
        queries: [{ expr: recovery('[$__range]') }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: below(0.5, 0.9),
        none: 'no redrive',
        story: {
          about: 'Of the redriven letters with an outcome, those that recovered; in the time range of the dashboard.',
          healthy: 'above 90 %.',
          otherwise: 'stop the run: the fix is not there, or not for all. Alert: RedriveRedriveLoop.',
          type: ['redrive dlq runs list', 'redrive dlq runs pause RUN'],
        },
      }),
      stat({
        title: 'Quarantined',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="quarantined"})' }],
        thresholds: above(1),
        story: {
          about: 'Letters that died of the same thing after three redrives. Only force with a reason moves them.',
          healthy: '0.',
          otherwise: 'look at one, edit it or discard it; force only what you have fixed.',
          type: ['redrive dlq list --state quarantined', "redrive dlq redrive QUEUE --force --why 'TEXT'"],
        },
      }),
      stat({
        title: 'Regressions in view',
        queries: [{ expr: inView('redrive_group_regressions_total') }],
        unit: 'locale',
        decimals: 0,
        thresholds: above(undefined, 1),
        story: {
          about: 'Failure groups that were resolved and in which a job died again.',
          healthy: '0.',
          otherwise: 'a fix was lost: compare the versions of the letters before and after.',
          type: 'redrive dlq groups',
        },
      }),
    ),
    row(
      'In and out',
      graph({
        title: 'Deaths against exits',
        queries: [
          { expr: perMinute('redrive_jobs_dead_lettered_total'), legend: 'died' },
          { expr: perMinute('redrive_dlq_redriven_total'), legend: 'redriven' },
          { expr: perMinute('redrive_dlq_discarded_total'), legend: 'discarded' },
          { expr: perMinute('redrive_dlq_pruned_total'), legend: 'pruned' },
        ],
        unit: 'cpm',
        overrides: painted({
          died: colour.dead,
          redriven: colour.back,
          discarded: colour.quiet,
          pruned: colour.later,
        }),
        w: 12,
        story: {
          about: 'Letters a minute: jobs that died; letters sent back, closed by an operator, deleted or archived by age.',
          healthy: 'no deaths, and exits only where somebody decided.',
          otherwise: '*died* above the exits: the queue of letters grows. *pruned* that nobody expects: see the retention.',
          type: ['redrive dlq groups', 'redrive dlq retention list', 'redrive audit --since 1d'],
        },
      }),
      graph({
        title: 'Letters by state',
        queries: [
          { expr: 'sum(redrive_dlq_letters{@q, state="open"})', legend: 'open' },
          { expr: 'sum(redrive_dlq_letters{@q, state="redriving"})', legend: 'redriving' },
          { expr: 'sum(redrive_dlq_letters{@q, state="quarantined"})', legend: 'quarantined' },
        ],
        style: 'stack',
        overrides: painted({ open: colour.warning, redriving: colour.back, quarantined: colour.dead }),
        w: 12,
        story: {
          about: 'Letters that are not over: open, on their way back, quarantined.',
          healthy: 'nothing, or a hill that a redrive takes down.',
          otherwise: '*redriving* that stays: their jobs wait or retry, see the dashboard *Queue*.',
          type: ['redrive dlq', 'redrive dlq list --state redriving'],
        },
      }),
    ),
    row(
      'Why they died',
      graph({
        title: 'Deaths by reason',
        queries: [{ expr: '60 * sum by (reason) (rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval])) > 0', legend: '{{reason}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'nothing died',
        overrides: painted({
          exhausted: colour.dead,
          rejected: colour.back,
          undecodable: colour.work,
          unhandled: colour.running,
          timeout: colour.later,
          worker_lost: colour.quiet,
          expired: colour.warning,
          captured: colour.done,
          manual: '#A8A292',
        }),
        story: {
          about: 'Deaths a minute. `exhausted`: all attempts failed. `rejected`: the handler said never again. `undecodable`: payload and release do not fit. `worker_lost`: it killed its process. `captured`: a failure from elsewhere.',
          healthy: 'nothing.',
          otherwise: '`exhausted` is a dependency, `rejected` is data, `undecodable` is a release. Alert: RedriveDlqSpike.',
          type: 'redrive dlq list --reason REASON',
        },
      }),
      graph({
        title: 'Deaths by error class',
        queries: [{ expr: top('60 * sum by (error_class) (rate(redrive_dlq_errors_total{@q}[$__rate_interval])) > 0'), legend: '{{error_class}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'nothing died',
        story: {
          about: 'Deaths a minute by error class, the ten with most.',
          healthy: 'nothing.',
          otherwise: 'fix the first, check that the letters would pass now, send them back with a canary.',
          type: ['redrive dlq list class=CLASS', 'redrive dlq redrive QUEUE class=CLASS --canary 10'],
        },
      }),
      heatmap({
        title: 'Attempts at death',
        expr: 'sum by (le) (increase(redrive_job_attempts_at_dead_letter_bucket{@q}[$__rate_interval]))',
        unit: 'short',
        color: colour.dead,
        none: 'nothing died',
        story: {
          about: 'Attempts of this generation that jobs had when they died.',
          healthy: 'no cells.',
          otherwise: 'at 1: rejected or undecodable, a retry would not help. At the limit: exhausted, a longer backoff might have.',
          type: 'redrive dlq groups',
        },
      }),
      table({
        title: 'Error classes that are new',
        key: { queue: 'Queue', error_class: 'Error class' },
        columns: [
          {
            name: 'Deaths',
            // The first death of a class makes its series, so it has no increase: what counts is
            // that there was none.
            expr: `sum by (queue, error_class) (max_over_time(redrive_dlq_errors_total{@q}[$__range]))
              unless on (queue, error_class) sum by (queue, error_class) (max_over_time(redrive_dlq_errors_total{@q}[1d] offset $__range))`,
            unit: 'locale',
            decimals: 0,
          },
        ],
        sort: 'Deaths',
        none: 'none',
        w: 12,
        h: 7,
        story: {
          about: 'Error classes in the time range of the dashboard of which nothing had died in the day before it.',
          healthy: 'none.',
          otherwise: 'what was deployed since? Compare the versions of the letters.',
          type: ['redrive dlq list class=CLASS', 'redrive dlq show ID'],
        },
      }),
      graph({
        title: 'Failure groups',
        queries: [{ expr: 'sum by (state) (redrive_failure_groups{@q})', legend: '{{state}}' }],
        style: 'stack',
        decimals: 0,
        overrides: painted({
          open: colour.warning,
          acknowledged: colour.work,
          resolved: colour.done,
          ignored: colour.quiet,
        }),
        w: 6,
        h: 7,
        story: {
          about: 'Failure groups by state: letters that died of the same thing are one.',
          healthy: 'no open ones: each has an owner, or is over.',
          otherwise: 'acknowledge what you work on, resolve what is fixed: only then is a regression told.',
          type: ['redrive dlq groups', 'redrive dlq groups ack GROUP'],
        },
      }),
      graph({
        title: 'Deaths after a redrive',
        queries: [
          { expr: perMinute('redrive_jobs_dead_lettered_again_total'), legend: 'died again' },
          { expr: perMinute('redrive_dlq_recovered_total'), legend: 'recovered' },
        ],
        unit: 'cpm',
        overrides: painted({ 'died again': colour.dead, recovered: colour.done }),
        w: 6,
        h: 7,
        story: {
          about: 'Outcomes of redriven letters a minute, whoever sent them.',
          healthy: '*recovered* only.',
          otherwise: 'stop the run; the letters that died again are open, or quarantined after three times. Alert: RedriveRedriveLoop.',
          type: ['redrive dlq runs list', 'redrive dlq groups'],
        },
      }),
    ),
    row(
      'How long they wait',
      graph({
        title: 'Oldest open letter against retention',
        queries: [
          { expr: 'max by (queue) (redrive_dlq_oldest_age_seconds{@q})', legend: '{{queue}}' },
          { expr: 'min by (queue) (redrive_dlq_retention_seconds{@q} > 0)', legend: '{{queue}}: deleted at' },
        ],
        unit: 's',
        w: 6,
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
        story: {
          about: 'Age of the oldest open letter of each queue, and the age at which a rule of retention deletes or archives open ones. Without such a rule, the default, there is no dashed line.',
          healthy: 'far below the dashed line.',
          otherwise: 'letters are about to go: export them, or change the rule. Alert: RedriveDlqRetentionNear.',
          type: ['redrive dlq export QUEUE', 'redrive dlq retention list'],
        },
      }),
      graph({
        title: 'Open letters by age',
        queries: [
          { expr: 'sum(redrive_dlq_letters_older_than{@q, age="1h"})', legend: 'over 1 h' },
          { expr: 'sum(redrive_dlq_letters_older_than{@q, age="1d"})', legend: 'over 1 d' },
          { expr: 'sum(redrive_dlq_letters_older_than{@q, age="7d"})', legend: 'over 7 d' },
        ],
        overrides: painted({ 'over 1 h': colour.quiet, 'over 1 d': colour.warning, 'over 7 d': colour.dead }),
        decimals: 0,
        w: 6,
        story: {
          about: 'Open letters that died longer ago than this; counted to 10 000 a queue.',
          healthy: 'nothing over a day.',
          otherwise: 'old letters lose their worth: decide, or discard with a reason.',
          type: ["redrive dlq list 'died>1d'", "redrive dlq discard 'died>7d' --why 'TEXT'"],
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
        none: 'no letter left',
        bridge: true,
        overrides: painted({
          'until redriven, p50': colour.back,
          'until redriven, p95': colour.later,
          'until discarded, p50': colour.quiet,
        }),
        w: 6,
        story: {
          about: 'From a death to its redrive or discard.',
          healthy: 'hours: how fast your team repairs.',
          otherwise: 'days: give the groups owners, and let a policy redrive what heals by itself.',
          type: ['redrive dlq groups own GROUP NAME', 'redrive dlq policies list'],
        },
      }),
      graph({
        title: 'Closed letters that are kept',
        queries: [
          { expr: 'sum(redrive_dlq_letters{@q, state="recovered"})', legend: 'recovered' },
          { expr: 'sum(redrive_dlq_letters{@q, state="discarded"})', legend: 'discarded' },
        ],
        style: 'stack',
        overrides: painted({ recovered: colour.done, discarded: colour.quiet }),
        w: 6,
        story: {
          about: 'Letters that are over and still there, to be read.',
          healthy: 'flat, once a rule of retention deletes them by age.',
          otherwise: 'it only grows: set a rule.',
          type: ['redrive dlq retention set recovered 30d', 'redrive prune --dry-run'],
        },
      }),
    ),
    row(
      'Redrive',
      graph({
        title: 'Of those redriven, how many recover',
        queries: [{ expr: recovery('[$__rate_interval]'), legend: 'recovered' }],
        unit: 'percentunit',
        min: 0,
        max: 1,
        none: 'no redrive',
        bridge: true,
        overrides: painted({ recovered: colour.done }),
        w: 6,
        story: {
          about: 'Of the redriven letters with an outcome, those that recovered.',
          healthy: 'a line at the top while a run goes on.',
          otherwise: 'a line that falls: the canary should have stopped it. Pause the run. Alert: RedriveRedriveLoop.',
          type: 'redrive dlq runs pause RUN',
        },
      }),
      graph({
        title: 'Outcomes of runs',
        queries: [{ expr: '60 * sum by (outcome) (rate(redrive_run_outcomes_total{@}[$__rate_interval])) > 0', legend: '{{outcome}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no run',
        overrides: painted({
          recovered: colour.done,
          died_alike: colour.dead,
          died_differently: colour.warning,
        }),
        w: 6,
        story: {
          about: 'What became of the letters that redrive runs sent, a minute; all queues.',
          healthy: '`recovered`.',
          otherwise: '`died_alike`: the cause is still there. `died_differently`: something else is next.',
          type: 'redrive dlq runs show RUN',
        },
      }),
      graph({
        title: 'Runs',
        queries: [{ expr: 'sum by (state) (redrive_runs{@})', legend: '{{state}}' }],
        style: 'steps',
        decimals: 0,
        overrides: painted({ running: colour.back, paused: colour.quiet, halted: colour.dead }),
        w: 6,
        story: {
          about: 'Redrive runs that are not over; all queues. A halted one stopped by itself, because too many died again.',
          healthy: 'none, or one that runs.',
          otherwise: 'halted: read its report, fix, resume or cancel.',
          type: ['redrive dlq runs list', 'redrive dlq runs resume RUN'],
        },
      }),
      graph({
        title: 'Letters of runs',
        queries: [
          { expr: 'sum(redrive_run_letters_waiting{@})', legend: 'to be sent' },
          { expr: 'sum(redrive_run_letters_unsettled{@})', legend: 'sent, no outcome yet' },
        ],
        overrides: painted({ 'to be sent': colour.work, 'sent, no outcome yet': colour.back }),
        decimals: 0,
        w: 6,
        story: {
          about: 'Letters that runs have still to send, and those whose jobs have no outcome yet; all queues.',
          healthy: 'the first falls steadily, the second stays small.',
          otherwise: 'the second grows: the workers cannot follow; pause the run, or start it again with a lower rate.',
          type: ['redrive dlq runs show RUN', 'redrive dlq redrive QUEUE --rate 20'],
        },
      }),
    ),
  ],
});
