// The row of schedules on the overview.

import { row } from './dashboard.mjs';
import { graph, painted } from './panel.mjs';
import { colour } from './palette.mjs';

export const schedules = row(
  'Schedules',
  graph({
    title: 'Schedule lag',
    queries: [{ expr: 'max by (schedule) (redrive_schedule_lag_seconds{@})', legend: '{{schedule}}' }],
    unit: 's',
    none: 'no schedules',
    w: 8,
    help: {
      about: 'How late the next tick of each schedule is. A paused schedule is never late.',
      healthy: '0, with short peaks of a few seconds.',
      otherwise: 'no worker runs, or the tick fails. Alert: RedriveScheduleLate.',
      type: ['redrive schedule list', 'redrive stats'],
    },
  }),
  graph({
    title: 'Ticks',
    queries: [{ expr: '60 * sum by (outcome) (rate(redrive_schedule_ticks_total{@q}[$__rate_interval])) > 0', legend: '{{outcome}}' }],
    unit: 'cpm',
    style: 'bars',
    none: 'no ticks',
    overrides: painted({
      fired: colour.done,
      triggered: colour.work,
      overlapped: colour.quiet,
      missed: colour.warning,
    }),
    w: 8,
    help: {
      about: 'Ticks of schedules per minute, by outcome. An overlapped tick was skipped because an earlier job was live.',
      healthy: '`fired`.',
      otherwise: '`missed`: no worker ran when the tick was due. `overlapped`: the job takes longer than its interval.',
      type: ['redrive schedule history SCHEDULE', 'redrive schedule show SCHEDULE'],
    },
  }),
  graph({
    title: 'Scheduled jobs that died in a row',
    queries: [{ expr: 'max by (schedule) (redrive_schedule_deaths{@})', legend: '{{schedule}}' }],
    style: 'steps',
    decimals: 0,
    none: 'no schedules',
    w: 8,
    help: {
      about: 'How many of the latest jobs of each schedule are dead letters, one after the other.',
      healthy: '0.',
      otherwise: 'read the letter of the latest job. Alert: RedriveScheduleFailing.',
      type: ['redrive schedule history SCHEDULE', 'redrive dlq show ID'],
    },
  }),
);
