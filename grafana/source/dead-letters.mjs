// redrive / Dead letters: which jobs died, why, and whether they recover.

import { dashboard, row } from './dashboard.mjs';
import { above, below, graph, heatmap, painted, stat, table } from './panel.mjs';
import { colour } from './palette.mjs';
import { recovery, retention, redrives } from './dead-letters-exits.mjs';

const perMinute = (metric) => `60 * sum(rate(${metric}{@q}[$__rate_interval]))`;
const inView = (metric) => `sum(increase(${metric}{@q}[$__range]))`;
const top = (expr) => `topk(10, ${expr})`;

export const deadLetters = dashboard({
  uid: 'redrive-dead-letters',
  title: 'redrive / Dead letters',
  description: 'The dead letter queue: which jobs died and why, how long letters wait, and whether redriven jobs recover.',
  variables: ['job', 'instance', 'queue'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Open letters',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="open"})' }],
        unit: 'locale',
        help: {
          about: 'Letters that need a decision: redrive, edit or discard. Exact.',
          healthy: 'it falls to 0 between incidents.',
          otherwise: 'start with the largest group. Alert: RedriveDlqUnattended.',
          type: ['redrive dlq', 'redrive dlq groups'],
        },
      }),
      stat({
        title: 'Oldest letter',
        queries: [{ expr: 'max(redrive_dlq_oldest_age_seconds{@q})' }],
        unit: 's',
        decimals: 1,
        thresholds: above(3 * 86400),
        help: {
          about: 'Time since the death of the oldest open letter; 0 when none is open.',
          healthy: 'below three days.',
          otherwise: 'decide what to do with it. Letters are kept until you redrive, discard or expire them. Alert: RedriveDlqUnattended.',
          type: "redrive dlq list 'age>3d'",
        },
      }),
      stat({
        title: 'Deaths in view',
        queries: [{ expr: inView('redrive_jobs_dead_lettered_total') }],
        unit: 'locale',
        decimals: 0,
        help: {
          about: 'Jobs that were dead-lettered in the time range of the dashboard, for any cause.',
          healthy: 'few.',
          otherwise: 'see *Deaths by cause* and *by error class* below. Alerts: RedriveDlqSpike, RedriveDeadLetterBudgetBurnFast.',
          type: 'redrive dlq groups',
        },
      }),
      stat({
        title: 'Redriven in view',
        queries: [{ expr: inView('redrive_dlq_redriven_total') }],
        unit: 'locale',
        decimals: 0,
        help: {
          about: 'Letters that were redriven in the time range of the dashboard.',
          healthy: 'as many as you fixed.',
          otherwise: 'if there are letters and no redrive, validate them and send a canary.',
          type: ['redrive dlq validate QUEUE', 'redrive dlq redrive QUEUE --canary 10'],
        },
      }),
      stat({
        title: 'Recovered in view',
        queries: [{ expr: inView('redrive_dlq_recovered_total') }],
        unit: 'locale',
        decimals: 0,
        help: {
          about: 'Letters whose jobs succeeded after a redrive, in the time range of the dashboard.',
          healthy: 'close to the number redriven.',
          otherwise: 'see *Redrive success over time*.',
          type: 'redrive dlq runs list',
        },
      }),
      stat({
        title: 'Redrive success',
        queries: [{ expr: recovery('[$__range]') }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: below(0.5, 0.9),
        none: 'no redrives',
        help: {
          about: 'Share of the redriven letters with an outcome that recovered, in the time range of the dashboard.',
          healthy: 'above 90 %.',
          otherwise: 'pause the run: the fix is missing or incomplete. Alert: RedriveRedriveLoop.',
          type: ['redrive dlq runs list', 'redrive dlq runs pause RUN'],
        },
      }),
      stat({
        title: 'Quarantined',
        queries: [{ expr: 'sum(redrive_dlq_letters{@q, state="quarantined"})' }],
        thresholds: above(1),
        help: {
          about: 'Letters that died of the same error after three redrives. Redriving them requires --force and a reason.',
          healthy: '0.',
          otherwise: 'inspect one, then edit or discard it. Force only what you have fixed.',
          type: ['redrive dlq list state=quarantined', "redrive dlq redrive QUEUE --force --reason 'TEXT'"],
        },
      }),
      stat({
        title: 'Regressions in view',
        queries: [{ expr: inView('redrive_group_regressions_total') }],
        unit: 'locale',
        decimals: 0,
        thresholds: above(undefined, 1),
        help: {
          about: 'Resolved failure groups in which a job died again.',
          healthy: '0.',
          otherwise: 'a fix was lost. Compare the versions of the letters before and after.',
          type: 'redrive dlq groups',
        },
      }),
    ),
    row(
      'Flow',
      graph({
        title: 'Deaths and exits',
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
        help: {
          about: 'Per minute: jobs that died, and letters that were redriven, discarded by an operator, or deleted or archived by age.',
          healthy: 'no deaths, and only exits that an operator decided.',
          otherwise: 'if *died* is above the exits, the dead letter queue grows. If *pruned* is unexpected, check the retention.',
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
        help: {
          about: 'Letters that are not closed: open, redriving, quarantined.',
          healthy: 'nothing, or a peak that a redrive clears.',
          otherwise: 'if *redriving* does not fall, the jobs wait or are retried. See the dashboard *Queue*.',
          type: ['redrive dlq', 'redrive dlq list state=redriving'],
        },
      }),
    ),
    row(
      'Causes of death',
      graph({
        title: 'Deaths by cause',
        queries: [{ expr: '60 * sum by (cause) (rate(redrive_jobs_dead_lettered_total{@q}[$__rate_interval])) > 0', legend: '{{cause}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no deaths',
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
          diverted: '#6F7B8A',
        }),
        help: {
          about: 'Deaths per minute. `exhausted`: all attempts failed. `rejected`: the handler rejected the job. `undecodable`: the payload does not match the release. `worker_lost`: the job killed its worker. `captured`: a failure captured from another system.',
          healthy: 'nothing.',
          otherwise: '`exhausted` points to a dependency, `rejected` to data, `undecodable` to a release. Alert: RedriveDlqSpike.',
          type: 'redrive dlq list cause=REASON',
        },
      }),
      graph({
        title: 'Deaths by error class',
        queries: [{ expr: top('60 * sum by (error_class) (rate(redrive_dlq_errors_total{@q}[$__rate_interval])) > 0'), legend: '{{error_class}}' }],
        unit: 'cpm',
        style: 'bars',
        none: 'no deaths',
        help: {
          about: 'Deaths per minute, for the top ten error classes.',
          healthy: 'nothing.',
          otherwise: 'fix the largest, validate its letters, and redrive them with a canary.',
          type: ['redrive dlq list class=CLASS', 'redrive dlq redrive QUEUE class=CLASS --canary 10'],
        },
      }),
      heatmap({
        title: 'Attempts at death',
        expr: 'sum by (le) (increase(redrive_job_attempts_at_dead_letter_bucket{@q}[$__rate_interval]))',
        unit: 'short',
        color: colour.dead,
        none: 'no deaths',
        help: {
          about: 'Attempts that jobs had used when they died, in their current generation.',
          healthy: 'no cells.',
          otherwise: 'deaths at 1 are rejected or undecodable jobs, which a retry cannot help. Deaths at the limit are exhausted jobs, which a longer backoff might save.',
          type: 'redrive dlq groups',
        },
      }),
      table({
        title: 'New error classes',
        key: { queue: 'Queue', error_class: 'Error class' },
        columns: [
          {
            name: 'Deaths',
            // A class appears with 0, so `increase` sees its first death.
            expr: `sum by (queue, error_class) (increase(redrive_dlq_errors_total{@q}[$__range])) > 0
              unless on (queue, error_class) sum by (queue, error_class) (increase(redrive_dlq_errors_total{@q}[1d] offset $__range)) > 0`,
            unit: 'locale',
            decimals: 0,
          },
        ],
        sort: 'Deaths',
        none: 'none',
        w: 12,
        h: 7,
        help: {
          about: 'Error classes in the time range of the dashboard that had no deaths in the day before.',
          healthy: 'none.',
          otherwise: 'check what was deployed. Compare the versions of the letters.',
          type: ['redrive dlq list class=CLASS', 'redrive dlq show ID'],
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
        w: 12,
        h: 7,
        help: {
          about: 'Outcomes of redriven letters per minute, from operators, runs and policies.',
          healthy: 'only *recovered*.',
          otherwise: 'pause the run. Letters that died again are open, or quarantined after three redrives. Alert: RedriveRedriveLoop.',
          type: ['redrive dlq runs list', 'redrive dlq groups'],
        },
      }),
    ),
    retention,
    redrives,
  ],
});
