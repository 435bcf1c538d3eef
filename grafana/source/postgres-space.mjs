// The rows of redrive / PostgreSQL about space and contention.

import { row } from './dashboard.mjs';
import { graph, limit, painted } from './panel.mjs';
import { colour } from './palette.mjs';
import { HOLDERS, TABLES, WAITERS, top } from './postgres-queries.mjs';

export const space = row(
  'Space',
  graph({
    title: 'Table size',
    queries: [{ expr: top('sum by (table) (redrive_table_bytes{@})'), legend: '{{table}}' }],
    overrides: TABLES,
    unit: 'bytes',
    style: 'stack',
    help: {
      about: 'Heap, indexes and TOAST of the five largest tables.',
      healthy: '`jobs` rises and falls with the ring; `dead_letters` grows with the letters you keep.',
      otherwise: 'if `jobs` only rises, segments are not truncated: see *Ring of segments*.',
      type: ['redrive stats', 'redrive dlq retention list'],
    },
  }),
  graph({
    title: 'Bytes per live row',
    queries: [
      {
        expr: top('sum by (table) (redrive_table_bytes{@}) / (sum by (table) (redrive_table_live_rows_estimate{@}) > 100)'),
        legend: '{{table}}',
      },
    ],
    unit: 'bytes',
    none: 'no table with 100 rows',
    overrides: TABLES,
    help: {
      about: 'Size on disk per live row, for the top five tables with more than 100 rows.',
      healthy: 'flat: the size of a payload and its index entries.',
      otherwise: 'a rise is empty space. See the bloat.',
      type: 'VACUUM (VERBOSE) redrive.TABLE',
    },
  }),
  graph({
    title: 'Estimated bloat',
    queries: [{ expr: top('max by (table) (redrive_table_bloat_bytes_estimate{@})'), legend: '{{table}}' }],
    unit: 'bytes',
    style: 'steps',
    help: {
      about: 'Dead rows and empty space in the heap, for the top five tables. Estimated from the statistics of the server.',
      healthy: 'small compared with the table.',
      otherwise: 'free the horizon first, then vacuum. Use pg_repack for the rest. Alert: RedriveTableBloated.',
      type: ['VACUUM (VERBOSE) redrive.TABLE'],
    },
  }),
  graph({
    title: 'Ring of segments',
    queries: [
      { expr: 'time() - max(redrive_ring_turned_timestamp_seconds{@} > 0)', legend: 'since it turned' },
      { expr: 'time() - max(redrive_ring_truncated_timestamp_seconds{@} > 0)', legend: 'since a truncation' },
    ],
    unit: 's',
    none: 'never turned',
    overrides: painted({ 'since it turned': colour.work, 'since a truncation': colour.done }),
    help: {
      about: 'Time since the ring of segments turned, and since a drained segment was truncated. Truncation frees space without vacuum.',
      healthy: 'a sawtooth while jobs flow. A steady rise on an idle queue is normal.',
      otherwise: 'if truncation falls behind, a long transaction such as pg_dump locks a segment. If no segment is clean, backlogs fill the ring. Alerts: RedriveRingNotTruncated, RedriveRingFull.',
      type: WAITERS,
    },
  }),
);

export const contention = row(
  'Contention',
  graph({
    title: 'Lock waiters',
    queries: [{ expr: 'sum(redrive_pg_lock_waiters{@})', legend: 'waiting' }],
    decimals: 0,
    overrides: painted({ waiting: colour.dead }),
    w: 12,
    help: {
      about: 'Backends of this database that are waiting for a lock.',
      healthy: '0, with rare short spikes.',
      otherwise: 'find the session that blocks them. Alert: RedriveLockWaiters.',
      type: WAITERS,
    },
  }),
  graph({
    title: 'Connections',
    queries: [
      { expr: 'sum by (state) (redrive_pg_connections{@})', legend: '{{state}}' },
      { expr: 'sum(redrive_pg_connections_limit{@})', legend: 'allowed' },
    ],
    style: 'stack',
    decimals: 0,
    overrides: [
      ...painted({
        active: colour.running,
        idle: colour.quiet,
        'idle in transaction': colour.warning,
        'idle in transaction (aborted)': colour.dead,
      }),
      limit('allowed'),
    ],
    w: 12,
    help: {
      about: 'Client connections of the server by state, and its limit.',
      healthy: 'far below the dashed line, few idle in transaction.',
      otherwise: 'use smaller pools, or a pooler. Alert: RedriveConnectionsNearLimit.',
      type: 'SELECT state, count(*) FROM pg_stat_activity GROUP BY 1',
    },
  }),
);
