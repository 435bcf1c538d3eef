// Queries and colours that the panels of redrive / PostgreSQL share.

import { painted } from './panel.mjs';
import { colour } from './palette.mjs';

// The five highest series.
export const top = (expr) => `topk(5, ${expr})`;
// Queries for the holders of the horizon.
export const HOLDERS = [
  // A vacuum holds nothing back, and a transaction that wrote holds the horizon without a snapshot.
  'SELECT pid, usename, state, xact_start, query FROM pg_stat_activity WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND datname = current_database() AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum) ORDER BY greatest(age(backend_xmin), age(backend_xid)) DESC',
  'SELECT gid, prepared, owner FROM pg_prepared_xacts',
  'SELECT slot_name, active, xmin, catalog_xmin FROM pg_replication_slots',
];
// The query for sessions that wait for locks.
export const WAITERS =
  "SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
// Known tables have the same colour on all panels; indexes and other tables take a free one.
export const TABLES = painted({
  jobs: colour.work,
  jobs_delayed: colour.later,
  leases: colour.running,
  dead_letters: colour.dead,
  attempts: colour.warning,
  failure_groups: colour.back,
  workers: colour.done,
});
