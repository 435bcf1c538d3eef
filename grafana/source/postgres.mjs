// redrive / PostgreSQL: what kills queues in PostgreSQL, before it does.

import { dashboard, row } from './dashboard.mjs';
import { above, graph, limit, painted, stat, table, words } from './panel.mjs';
import { colour } from './palette.mjs';

const top = (expr) => `topk(5, ${expr})`;
// Who holds the horizon, and how to make them let go.
const HOLDERS = [
  'SELECT pid, usename, state, xact_start, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC',
  'SELECT gid, prepared, owner FROM pg_prepared_xacts',
  'SELECT slot_name, active, xmin, catalog_xmin FROM pg_replication_slots',
];
const WAITERS =
  "SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
// Tables that are known have one colour on all panels; indexes and other tables take what is free.
const TABLES = painted({
  jobs: colour.work,
  jobs_delayed: colour.later,
  leases: colour.running,
  dead_letters: colour.dead,
  attempts: colour.warning,
  failure_groups: colour.back,
  workers: colour.done,
});
const holders = painted({
  backend: colour.work,
  idle_in_transaction: colour.warning,
  prepared: colour.dead,
  slot: colour.back,
  standby_feedback: colour.later,
});

export const postgres = dashboard({
  uid: 'redrive-postgres',
  title: 'redrive / PostgreSQL',
  description: 'The health of the database under the queues: horizon, vacuum, space, contention, safety.',
  tags: ['postgresql'],
  variables: ['job', 'instance'],
  rows: [
    row(
      'Now',
      stat({
        title: 'Horizon held for',
        queries: [{ expr: 'max(redrive_pg_oldest_horizon_age_seconds{@})' }],
        unit: 's',
        decimals: 0,
        thresholds: above(300, 900),
        story: {
          about: 'For how long somebody has kept vacuum from removing dead rows.',
          healthy: 'seconds.',
          otherwise: 'see *Who holds the horizon*: end that transaction, roll the prepared one back, drop the slot. VACUUM does not help before that. Alert: RedriveVacuumBlockedByHorizon.',
          type: HOLDERS,
        },
      }),
      stat({
        title: 'Dead rows, worst',
        queries: [{ expr: 'max(redrive_table_dead_rows_estimate{@} / on (job, instance, table) (redrive_table_autovacuum_threshold_rows{@} > 0))' }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: above(2, 5),
        story: {
          about: 'Dead rows of the worst table as a share of the number at which autovacuum comes.',
          healthy: 'below 200 %.',
          otherwise: 'is the horizon held? Then free it. Otherwise vacuum cannot follow: more workers, a smaller cost delay. Alert: RedriveDeadRowsNotVacuumed.',
          type: ['VACUUM (VERBOSE) redrive.TABLE', HOLDERS[0]],
        },
      }),
      stat({
        title: 'Oldest transaction',
        queries: [{ expr: 'max(redrive_pg_oldest_transaction_age_seconds{@})' }],
        unit: 's',
        decimals: 0,
        thresholds: above(300, 900),
        story: {
          about: 'Age of the oldest transaction in this database.',
          healthy: 'seconds; minutes during a backup.',
          otherwise: 'find it, ask its owner, end it.',
          type: [HOLDERS[0], 'SELECT pg_terminate_backend(PID)'],
        },
      }),
      stat({
        title: 'Waiting for locks',
        queries: [{ expr: 'sum(redrive_pg_lock_waiters{@})' }],
        thresholds: above(1, 10),
        story: {
          about: 'Backends of this database that wait for a lock.',
          healthy: '0.',
          otherwise: 'find who blocks them; a migration that waits blocks everybody behind it. Alert: RedriveLockWaiters.',
          type: WAITERS,
        },
      }),
      stat({
        title: 'Connections used',
        queries: [{ expr: 'max(sum by (job, instance) (redrive_pg_connections{@}) / on (job, instance) redrive_pg_connections_limit{@})' }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: above(0.7, 0.85),
        story: {
          about: 'Client connections as a share of those that the server allows.',
          healthy: 'below 70 %.',
          otherwise: 'whose pools are too big? A worker of redrive needs four. Alert: RedriveConnectionsNearLimit.',
          type: 'SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC',
        },
      }),
      stat({
        title: 'WAL kept for slots',
        queries: [{ expr: 'max(redrive_pg_replication_slot_retained_wal_bytes{@})' }],
        unit: 'bytes',
        decimals: 1,
        thresholds: above(2 ** 30, 10 * 2 ** 30),
        none: 'no slots',
        story: {
          about: 'WAL that the server keeps for the replication slot that is furthest behind.',
          healthy: 'megabytes.',
          otherwise: 'its reader is gone or slow: revive it, or drop the slot before the disk is full. Alert: RedriveSlotRetainsWal.',
          type: [HOLDERS[2], "SELECT pg_drop_replication_slot('SLOT')"],
        },
      }),
      stat({
        title: 'Freeze age',
        queries: [{ expr: 'max(redrive_pg_frozen_xid_age{@})' }],
        decimals: 1,
        thresholds: above(500_000_000, 1_000_000_000),
        story: {
          about: 'Transactions since the oldest one that is not frozen. At two billion the server stops writing.',
          healthy: 'below 200 million, where autovacuum freezes by itself.',
          otherwise: 'something keeps freezing from happening: the horizon, or a table that is never vacuumed. Alert: RedriveXidAgeHigh.',
          type: 'SELECT relname, age(relfrozenxid) FROM pg_class WHERE relkind = \'r\' ORDER BY 2 DESC LIMIT 10',
        },
      }),
      stat({
        title: 'Role of the server',
        queries: [{ expr: 'max(redrive_pg_in_recovery{@})' }],
        mappings: words({ 0: ['primary'], 1: ['standby', colour.warning] }),
        story: {
          about: 'Whether the exporter reads a primary or a standby.',
          healthy: 'primary.',
          otherwise: 'on a standby redrive cannot work, and the statistics of tables are those of the standby.',
          type: 'SELECT pg_is_in_recovery()',
        },
      }),
    ),
    row(
      'Horizon: who keeps vacuum from its work',
      graph({
        title: 'Who holds the horizon, in time',
        queries: [{ expr: 'max by (holder) (redrive_pg_oldest_horizon_age_seconds{@})', legend: '{{holder}}' }],
        unit: 's',
        overrides: holders,
        story: {
          about: 'For how long each kind of holder has kept vacuum from dead rows; of slots and standbys since it was first seen.',
          healthy: 'near the bottom.',
          otherwise: 'a slope is one holder. `backend`, `idle_in_transaction`: terminate it. `prepared`: ROLLBACK PREPARED. `slot`: drop it. `standby_feedback`: look at the standby. Alert: RedriveVacuumBlockedByHorizon.',
          type: HOLDERS,
        },
      }),
      graph({
        title: 'Who holds the horizon, in transactions',
        queries: [{ expr: 'max by (holder) (redrive_pg_oldest_horizon_age_transactions{@})', legend: '{{holder}}' }],
        overrides: holders,
        story: {
          about: 'Transactions since the oldest one that each kind of holder keeps visible: what it costs.',
          healthy: 'near the bottom.',
          otherwise: 'the steeper the slope, the busier the server, and the sooner it hurts.',
          type: HOLDERS,
        },
      }),
      table({
        title: 'Replication slots',
        key: { slot: 'Slot' },
        columns: [
          {
            name: 'Reader',
            expr: 'max by (slot) (redrive_pg_replication_slot_active{@})',
            mappings: words({ 0: ['none', colour.dead], 1: ['there'] }),
            thresholds: above(),
          },
          { name: 'Keeps', expr: 'max by (slot) (redrive_pg_replication_slot_retained_wal_bytes{@})', unit: 'bytes', decimals: 1 },
          { name: 'Left until lost', expr: 'min by (slot) (redrive_pg_replication_slot_safe_wal_bytes{@})', unit: 'bytes', decimals: 1, empty: 'no limit' },
        ],
        sort: 'Keeps',
        none: '-',
        w: 8,
        story: {
          about: 'Each slot: is it read, how much WAL is kept for it, how much may still be written until it is lost (with max_slot_wal_keep_size).',
          healthy: 'each has a reader and keeps megabytes.',
          otherwise: 'revive the reader, or drop the slot. Alert: RedriveSlotRetainsWal.',
          type: ['SELECT * FROM pg_replication_slots', "SELECT pg_drop_replication_slot('SLOT')"],
        },
      }),
    ),
    row(
      'Vacuum: does it follow?',
      graph({
        title: 'Dead rows against autovacuum',
        queries: [
          {
            expr: top('max by (table) (redrive_table_dead_rows_estimate{@} / on (job, instance, table) (redrive_table_autovacuum_threshold_rows{@} > 0))'),
            legend: '{{table}}',
          },
          { expr: 'vector(1)', legend: 'autovacuum comes' },
        ],
        unit: 'percentunit',
        overrides: [...TABLES, limit('autovacuum comes')],
        story: {
          about: 'Dead rows as a share of the number at which autovacuum comes, by the settings of each table.',
          healthy: 'saw teeth that end at the dashed line.',
          otherwise: 'lines that climb through it: the horizon is held, or autovacuum has no worker free. Alert: RedriveDeadRowsNotVacuumed.',
          type: ['SELECT relid::regclass, phase FROM pg_stat_progress_vacuum', ...HOLDERS.slice(0, 1)],
        },
      }),
      graph({
        title: 'Dead rows',
        queries: [{ expr: top('max by (table) (redrive_table_dead_rows_estimate{@})'), legend: '{{table}}' }],
        overrides: TABLES,
        story: {
          about: 'Dead rows that vacuum has not removed, by the statistics of the server, the five tables with most.',
          healthy: 'saw teeth. The segments of jobs are truncated, so theirs go at once.',
          otherwise: 'a slope that does not end: see the horizon.',
          type: 'SELECT relname, n_dead_tup, last_autovacuum FROM pg_stat_user_tables ORDER BY 2 DESC LIMIT 10',
        },
      }),
      graph({
        title: 'Autovacuum workers',
        queries: [
          { expr: 'max(redrive_pg_autovacuum_workers{@})', legend: 'running' },
          { expr: 'min(redrive_pg_autovacuum_workers_limit{@})', legend: 'allowed' },
        ],
        decimals: 0,
        style: 'steps',
        overrides: [...painted({ running: colour.running }), limit('allowed')],
        story: {
          about: 'Autovacuum workers that run now, and how many the server allows, for all databases.',
          healthy: 'they come and go.',
          otherwise: 'always at the limit: allow more, or let them work faster.',
          type: ['SELECT pid, query FROM pg_stat_activity WHERE backend_type = \'autovacuum worker\'', 'ALTER SYSTEM SET autovacuum_vacuum_cost_delay = 0'],
        },
      }),
      table({
        title: 'Tables',
        key: { table: 'Table' },
        columns: [
          { name: 'Live rows', expr: 'max by (table) (redrive_table_live_rows_estimate{@})' },
          { name: 'Dead rows', expr: 'max by (table) (redrive_table_dead_rows_estimate{@})' },
          { name: 'Autovacuum at', expr: 'max by (table) (redrive_table_autovacuum_threshold_rows{@})' },
          { name: 'Autovacuums', expr: 'sum by (table) (increase(redrive_table_vacuums_total{@, kind="auto"}[$__range]))', decimals: 0 },
          { name: 'Last vacuum', expr: 'time() - max by (table) (redrive_table_last_vacuum_timestamp_seconds{@} > 0)', unit: 's', decimals: 0, empty: 'never' },
          { name: 'Heap', expr: 'sum by (table) (redrive_table_bytes{@, part="heap"})', unit: 'bytes', decimals: 1 },
          { name: 'Indexes', expr: 'sum by (table) (redrive_table_bytes{@, part="index"})', unit: 'bytes', decimals: 1 },
          { name: 'TOAST', expr: 'sum by (table) (redrive_table_bytes{@, part="toast"})', unit: 'bytes', decimals: 1 },
          { name: 'Bloat', expr: 'max by (table) (redrive_table_bloat_bytes_estimate{@})', unit: 'bytes', decimals: 1 },
          {
            name: 'Updates in place',
            expr: `sum by (table) (increase(redrive_table_rows_hot_updated_total{@}[$__range]))
              / (sum by (table) (increase(redrive_table_rows_updated_total{@}[$__range])) > 0)`,
            unit: 'percentunit',
            decimals: 0,
            empty: 'none',
          },
        ],
        sort: 'Heap',
        none: '-',
        h: 9,
        story: {
          about: 'A line a table of redrive; `jobs` are all segments of the ring together. *Updates in place* need no new index entry.',
          healthy: 'dead rows below *Autovacuum at*, a vacuum now and then, little bloat.',
          otherwise: 'many dead rows and a vacuum long ago: the horizon is held. Much bloat with a free horizon: vacuum, then rebuild the indexes.',
          type: ['VACUUM (VERBOSE) redrive.TABLE', 'REINDEX TABLE CONCURRENTLY redrive.TABLE'],
        },
      }),
    ),
    row(
      'Space',
      graph({
        title: 'Size of the tables',
        queries: [{ expr: top('sum by (table) (redrive_table_bytes{@})'), legend: '{{table}}' }],
        overrides: TABLES,
        unit: 'bytes',
        style: 'stack',
        story: {
          about: 'Heap, indexes and TOAST of the five largest tables.',
          healthy: '`jobs` rises and falls with the ring; letters grow with what you keep.',
          otherwise: '`jobs` only rises: the ring cannot truncate, see *Ring of segments*.',
          type: ['redrive stats', 'redrive dlq retention list'],
        },
      }),
      graph({
        title: 'Bytes a live row',
        queries: [
          {
            expr: top('sum by (table) (redrive_table_bytes{@}) / (sum by (table) (redrive_table_live_rows_estimate{@}) > 100)'),
            legend: '{{table}}',
          },
        ],
        unit: 'bytes',
        none: 'no table has 100 rows',
        overrides: TABLES,
        story: {
          about: 'Size on disk for each live row, of the five tables with most; tables with less than a hundred rows do not count.',
          healthy: 'flat: what your payloads take, and their index entries.',
          otherwise: 'it climbs: space that holds nothing. See the bloat.',
          type: 'VACUUM (VERBOSE) redrive.TABLE',
        },
      }),
      graph({
        title: 'Bloat, estimated',
        queries: [{ expr: top('max by (table, method) (redrive_table_bloat_bytes_estimate{@})'), legend: '{{table}} ({{method}})' }],
        unit: 'bytes',
        style: 'steps',
        story: {
          about: 'Bytes that dead rows and empty space take up in the heap, of the five tables with most; read once an hour, by statistics or by pgstattuple when it is installed.',
          healthy: 'small against the table.',
          otherwise: 'free the horizon first, then vacuum; for what is left, pg_repack. Alert: RedriveTableBloated.',
          type: ['VACUUM (VERBOSE) redrive.TABLE', 'CREATE EXTENSION pgstattuple'],
        },
      }),
      graph({
        title: 'Ring of segments',
        queries: [
          { expr: 'time() - max(redrive_ring_turned_timestamp_seconds{@} > 0)', legend: 'since it turned' },
          { expr: 'time() - max(redrive_ring_truncated_timestamp_seconds{@} > 0)', legend: 'since a truncation' },
        ],
        unit: 's',
        none: 'it never turned',
        overrides: painted({ 'since it turned': colour.work, 'since a truncation': colour.done }),
        story: {
          about: 'Time since the ring of segments turned, and since a drained segment was truncated: this is how redrive gives space back without vacuum.',
          healthy: 'saw teeth while jobs flow; a slope on an idle queue is no fault.',
          otherwise: 'truncation falls behind: a long reader such as pg_dump has a lock on a segment.',
          type: WAITERS,
        },
      }),
      graph({
        title: 'Largest indexes',
        queries: [{ expr: top('max by (index) (redrive_index_bytes{@})'), legend: '{{index}}' }],
        unit: 'bytes',
        story: {
          about: 'The five largest indexes.',
          healthy: 'they follow their tables.',
          otherwise: 'an index larger than its table is bloated: rebuild it.',
          type: 'REINDEX INDEX CONCURRENTLY redrive.INDEX',
        },
      }),
      graph({
        title: 'Updates in place',
        queries: [
          {
            expr: `bottomk(5, sum by (table) (rate(redrive_table_rows_hot_updated_total{@}[$__rate_interval]))
              / (sum by (table) (rate(redrive_table_rows_updated_total{@}[$__rate_interval])) > 0))`,
            legend: '{{table}}',
          },
        ],
        unit: 'percentunit',
        max: 1,
        none: 'no updates',
        overrides: TABLES,
        story: {
          about: 'Share of updates that needed no new index entry (HOT), of the five tables with least.',
          healthy: 'near 100 % of the small tables that are updated: workers, leases, totals.',
          otherwise: 'it falls while the horizon is held, because pages are full of dead rows.',
          type: HOLDERS[0],
        },
      }),
    ),
    row(
      'Contention',
      graph({
        title: 'Backends that wait for locks',
        queries: [{ expr: 'sum(redrive_pg_lock_waiters{@})', legend: 'waiting' }],
        decimals: 0,
        overrides: painted({ waiting: colour.dead }),
        w: 6,
        story: {
          about: 'Backends of this database that wait for a lock.',
          healthy: '0, with single blips.',
          otherwise: 'find who blocks them. Alert: RedriveLockWaiters.',
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
        w: 6,
        story: {
          about: 'Client connections of the server by state, and how many it allows.',
          healthy: 'far below the dashed line, few idle in a transaction.',
          otherwise: 'smaller pools, or a pooler. Alert: RedriveConnectionsNearLimit.',
          type: 'SELECT state, count(*) FROM pg_stat_activity GROUP BY 1',
        },
      }),
      graph({
        title: 'Sequential scans',
        queries: [{ expr: top('60 * sum by (table) (rate(redrive_table_sequential_scans_total{@}[$__rate_interval])) > 0'), legend: '{{table}}' }],
        unit: 'cpm',
        none: 'no scans',
        overrides: TABLES,
        w: 6,
        story: {
          about: 'Sequential scans a minute, the five tables with most. redrive itself makes none of jobs and letters; tables of a few rows are read that way and that is right.',
          healthy: 'none of `jobs` and `dead_letters`.',
          otherwise: 'somebody counts or searches without an index: find the query.',
          type: "SELECT pid, query FROM pg_stat_activity WHERE state = 'active'",
        },
      }),
      graph({
        title: 'Rows written',
        queries: [
          { expr: 'sum(rate(redrive_table_rows_inserted_total{@}[$__rate_interval]))', legend: 'inserted' },
          { expr: 'sum(rate(redrive_table_rows_updated_total{@}[$__rate_interval]))', legend: 'updated' },
          { expr: 'sum(rate(redrive_table_rows_deleted_total{@}[$__rate_interval]))', legend: 'deleted' },
        ],
        unit: 'rowsps',
        overrides: painted({ inserted: colour.work, updated: colour.warning, deleted: colour.quiet }),
        w: 6,
        story: {
          about: 'Rows inserted, updated and deleted a second, all tables of redrive.',
          healthy: 'inserted and deleted follow the jobs; updates are few.',
          otherwise: 'much more than the jobs explain: another program writes to these tables.',
          type: 'SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY 2 DESC LIMIT 10',
        },
      }),
    ),
    row(
      'Safety',
      graph({
        title: 'Transactions not frozen',
        queries: [{ expr: 'max by (instance) (redrive_pg_frozen_xid_age{@})', legend: '{{instance}}' }],
        base: colour.work,
        story: {
          about: 'Transactions since the oldest one in this database that is not frozen.',
          healthy: 'saw teeth below 200 million.',
          otherwise: 'a slope beyond that: freezing does not come through. Alert: RedriveXidAgeHigh.',
          type: 'VACUUM (FREEZE, VERBOSE) redrive.TABLE',
        },
      }),
      graph({
        title: 'WAL kept for each slot',
        queries: [{ expr: 'max by (slot) (redrive_pg_replication_slot_retained_wal_bytes{@})', legend: '{{slot}}' }],
        unit: 'bytes',
        none: 'no slots',
        story: {
          about: 'WAL that the server keeps for each replication slot.',
          healthy: 'flat.',
          otherwise: 'a slope ends with a full disk: revive the reader or drop the slot. Alert: RedriveSlotRetainsWal.',
          type: HOLDERS[2],
        },
      }),
      stat({
        title: 'Server runs since',
        queries: [{ expr: '1000 * max(redrive_pg_start_timestamp_seconds{@})' }],
        unit: 'dateTimeFromNow',
        w: 4,
        h: 8,
        story: {
          about: 'When the server started.',
          healthy: 'when you restarted it last.',
          otherwise: 'it restarted by itself: read its log for a crash or a lack of memory.',
          type: 'SELECT pg_postmaster_start_time()',
        },
      }),
      stat({
        title: 'Statistics since',
        queries: [{ expr: '1000 * max(redrive_pg_stats_reset_timestamp_seconds{@} > 0)' }],
        unit: 'dateTimeFromNow',
        none: 'never reset',
        w: 4,
        h: 8,
        story: {
          about: 'When the statistics of the server began. After a crash they begin anew, and dead rows read 0.',
          healthy: 'long ago.',
          otherwise: 'the numbers of *Vacuum* say little until the tables were analyzed again.',
          type: 'ANALYZE redrive.TABLE',
        },
      }),
    ),
  ],
});
