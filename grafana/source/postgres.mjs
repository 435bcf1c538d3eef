// redrive / PostgreSQL: early signs of the problems that slow down queues in PostgreSQL.

import { dashboard, row } from './dashboard.mjs';
import { above, graph, limit, painted, stat, table, words } from './panel.mjs';
import { colour } from './palette.mjs';
import { HOLDERS, TABLES, WAITERS, top } from './postgres-queries.mjs';
import { space, contention } from './postgres-space.mjs';

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
  description: 'The health of the database: horizon, vacuum, space, contention, safety.',
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
        help: {
          about: 'How long a session or a prepared transaction has kept vacuum from removing newer dead rows.',
          healthy: 'seconds.',
          otherwise: 'find the holder in *Horizon holders by time*. End the transaction, roll back the prepared one, or drop the slot; VACUUM does not help before that. Alert: RedriveVacuumBlockedByHorizon.',
          type: HOLDERS,
        },
      }),
      stat({
        title: 'Worst dead rows',
        queries: [{ expr: 'max(redrive_table_dead_rows_estimate{@} / on (job, instance, table) (redrive_table_autovacuum_threshold_rows{@} > 0))' }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: above(2, 5),
        help: {
          about: 'Dead rows of the worst table, relative to its autovacuum threshold.',
          healthy: 'below 200 %.',
          otherwise: 'if the horizon is held back, free it. Otherwise vacuum cannot keep up: allow more workers or a smaller cost delay. Alert: RedriveDeadRowsNotVacuumed.',
          type: ['VACUUM (VERBOSE) redrive.TABLE', HOLDERS[0]],
        },
      }),
      stat({
        title: 'Oldest transaction',
        queries: [{ expr: 'max(redrive_pg_oldest_transaction_age_seconds{@})' }],
        unit: 's',
        decimals: 0,
        thresholds: above(300, 900),
        help: {
          about: 'Age of the oldest transaction in this database, except vacuums.',
          healthy: 'seconds; minutes during a backup.',
          otherwise: 'find it, ask its owner, and end it.',
          type: [HOLDERS[0], 'SELECT pg_terminate_backend(PID)'],
        },
      }),
      stat({
        title: 'Waiting for locks',
        queries: [{ expr: 'sum(redrive_pg_lock_waiters{@})' }],
        thresholds: above(1, 10),
        help: {
          about: 'Backends of this database that are waiting for a lock.',
          healthy: '0.',
          otherwise: 'find the session that blocks them. A waiting migration blocks every session behind it. Alert: RedriveLockWaiters.',
          type: WAITERS,
        },
      }),
      stat({
        title: 'Connections used',
        queries: [{ expr: 'max(sum by (job, instance) (redrive_pg_connections{@}) / on (job, instance) redrive_pg_connections_limit{@})' }],
        unit: 'percentunit',
        decimals: 0,
        thresholds: above(0.7, 0.85),
        help: {
          about: 'Client connections, relative to the limit of the server.',
          healthy: 'below 70 %.',
          otherwise: 'reduce large pools. A redrive worker needs at most four connections. Alert: RedriveConnectionsNearLimit.',
          type: 'SELECT usename, application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC',
        },
      }),
      stat({
        title: 'WAL retained for slots',
        queries: [{ expr: 'max(redrive_pg_replication_slot_retained_wal_bytes{@})' }],
        unit: 'bytes',
        decimals: 1,
        thresholds: above(2 ** 30, 10 * 2 ** 30),
        none: 'no slots',
        help: {
          about: 'WAL that the server retains for the replication slot that is furthest behind.',
          healthy: 'megabytes.',
          otherwise: 'its consumer is gone or slow. Restart it, or drop the slot before the disk is full. Alert: RedriveSlotRetainsWal.',
          type: [HOLDERS[2], "SELECT pg_drop_replication_slot('SLOT')"],
        },
      }),
      stat({
        title: 'Freeze age',
        queries: [{ expr: 'max(redrive_pg_frozen_id_age{@})' }],
        decimals: 1,
        thresholds: above(500_000_000, 1_000_000_000),
        w: 6,
        help: {
          about: 'Age of the oldest unfrozen transaction or multixact ID of all databases. At two billion the server refuses writes.',
          healthy: 'below 200 million, or 400 million multixacts, where autovacuum starts to freeze.',
          otherwise: 'the horizon, or a table that is never vacuumed, prevents freezing. Alert: RedriveXidAgeHigh.',
          type: 'SELECT datname, age(datfrozenxid), mxid_age(datminmxid) FROM pg_database ORDER BY 2 DESC LIMIT 10',
        },
      }),
    ),
    row(
      'Horizon',
      graph({
        title: 'Horizon holders by time',
        queries: [{ expr: 'max by (holder) (redrive_pg_oldest_horizon_age_seconds{@})', legend: '{{holder}}' }],
        unit: 's',
        overrides: holders,
        help: {
          about: 'How long sessions and prepared transactions have held back the horizon. The server does not say it of slots and standbys, which *Horizon holders by transactions* shows.',
          healthy: 'near 0.',
          otherwise: 'a steady rise is a single holder. `backend`, `idle_in_transaction`: terminate it. `prepared`: ROLLBACK PREPARED. Alert: RedriveVacuumBlockedByHorizon.',
          type: HOLDERS,
        },
      }),
      graph({
        title: 'Horizon holders by transactions',
        queries: [{ expr: 'max by (holder) (redrive_pg_oldest_horizon_age_transactions{@})', legend: '{{holder}}' }],
        overrides: holders,
        help: {
          about: 'Transactions since the oldest one that each kind of holder keeps visible.',
          healthy: 'near 0.',
          otherwise: 'a steady rise is a single holder. `slot`: drop it. `standby_feedback`: check the standby. A steeper rise means a busier server, where the queue slows down sooner.',
          type: HOLDERS,
        },
      }),
      table({
        title: 'Replication slots',
        key: { slot: 'Slot' },
        columns: [
          {
            name: 'Consumer',
            expr: 'max by (slot) (redrive_pg_replication_slot_active{@})',
            mappings: words({ 0: ['none', colour.dead], 1: ['active'] }),
            thresholds: above(),
          },
          { name: 'Retains', expr: 'max by (slot) (redrive_pg_replication_slot_retained_wal_bytes{@})', unit: 'bytes', decimals: 1 },
        ],
        sort: 'Retains',
        none: '-',
        w: 8,
        help: {
          about: 'For each slot: whether it has a consumer, and how much WAL it retains.',
          healthy: 'each has a consumer and retains megabytes.',
          otherwise: 'restart the consumer, or drop the slot. Alert: RedriveSlotRetainsWal.',
          type: ['SELECT * FROM pg_replication_slots', "SELECT pg_drop_replication_slot('SLOT')"],
        },
      }),
    ),
    row(
      'Vacuum',
      graph({
        title: 'Dead rows relative to autovacuum',
        queries: [
          {
            expr: top('max by (table) (redrive_table_dead_rows_estimate{@} / on (job, instance, table) (redrive_table_autovacuum_threshold_rows{@} > 0))'),
            legend: '{{table}}',
          },
          { expr: 'vector(1)', legend: 'autovacuum threshold' },
        ],
        unit: 'percentunit',
        overrides: [...TABLES, limit('autovacuum threshold')],
        w: 12,
        help: {
          about: 'Dead rows relative to the autovacuum threshold of each table.',
          healthy: 'a sawtooth below the dashed line.',
          otherwise: 'a line that rises above it means that the horizon is held back, or that no autovacuum worker is free. Alert: RedriveDeadRowsNotVacuumed.',
          type: ['SELECT relid::regclass, phase FROM pg_stat_progress_vacuum', ...HOLDERS.slice(0, 1)],
        },
      }),
      graph({
        title: 'Dead rows',
        queries: [{ expr: top('max by (table) (redrive_table_dead_rows_estimate{@})'), legend: '{{table}}' }],
        overrides: TABLES,
        w: 12,
        help: {
          about: 'Dead rows that vacuum has not removed, from the statistics of the server, for the top five tables.',
          healthy: 'a sawtooth. Segments of jobs are truncated, which removes their dead rows at once.',
          otherwise: 'a steady rise: check the horizon.',
          type: 'SELECT relname, n_dead_tup, last_autovacuum FROM pg_stat_user_tables ORDER BY 2 DESC LIMIT 10',
        },
      }),
      table({
        title: 'Tables',
        key: { table: 'Table' },
        columns: [
          { name: 'Live rows', expr: 'max by (table) (redrive_table_live_rows_estimate{@})' },
          { name: 'Dead rows', expr: 'max by (table) (redrive_table_dead_rows_estimate{@})' },
          { name: 'Autovacuum at', expr: 'max by (table) (redrive_table_autovacuum_threshold_rows{@})' },
          { name: 'Heap', expr: 'sum by (table) (redrive_table_bytes{@, part="heap"})', unit: 'bytes', decimals: 1 },
          { name: 'Indexes', expr: 'sum by (table) (redrive_table_bytes{@, part="index"})', unit: 'bytes', decimals: 1 },
          { name: 'TOAST', expr: 'sum by (table) (redrive_table_bytes{@, part="toast"})', unit: 'bytes', decimals: 1 },
          { name: 'Bloat', expr: 'max by (table) (redrive_table_bloat_bytes_estimate{@})', unit: 'bytes', decimals: 1 },
        ],
        sort: 'Heap',
        none: '-',
        h: 9,
        help: {
          about: 'One line per table of redrive. `jobs` sums all segments of the ring.',
          healthy: 'dead rows below *Autovacuum at*, little bloat.',
          otherwise: 'if there are many dead rows, check the horizon. If there is much bloat and the horizon is free, vacuum and then rebuild the indexes.',
          type: ['VACUUM (VERBOSE) redrive.TABLE', 'REINDEX TABLE CONCURRENTLY redrive.TABLE'],
        },
      }),
    ),
    space,
    contention,
    row(
      'Safety',
      graph({
        title: 'Unfrozen transactions',
        queries: [{ expr: 'max by (instance, kind) (redrive_pg_frozen_id_age{@})', legend: '{{instance}} {{kind}}' }],
        base: colour.work,
        w: 12,
        help: {
          about: 'Age of the oldest unfrozen transaction and multixact ID of all databases.',
          healthy: 'a sawtooth below 200 million, or 400 million multixacts.',
          otherwise: 'a rise beyond that means that freezing does not succeed. Alert: RedriveXidAgeHigh.',
          type: 'VACUUM (FREEZE, VERBOSE) redrive.TABLE',
        },
      }),
      graph({
        title: 'WAL retained by slot',
        queries: [{ expr: 'max by (slot) (redrive_pg_replication_slot_retained_wal_bytes{@})', legend: '{{slot}}' }],
        unit: 'bytes',
        none: 'no slots',
        w: 12,
        help: {
          about: 'WAL that the server retains for each replication slot.',
          healthy: 'flat.',
          otherwise: 'a steady rise fills the disk. Restart the consumer or drop the slot. Alert: RedriveSlotRetainsWal.',
          type: HOLDERS[2],
        },
      }),
    ),
  ],
});
