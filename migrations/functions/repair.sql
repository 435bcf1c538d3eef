-- Purpose: Finding and fixing what points at a job that is gone, and counters that disagree with the rows.

-- Finds what a row deleted by hand, a partial restore or a restore into a migrated schema leaves behind, and fixes it
-- unless `dry_run`. Each row is a kind of fault with the number of its places and the first ten of them:
--   `sequence`   ids are in use that a sequence would give again: it moves past them;
--   `letter`     a letter is redriving and its job is gone: it opens again;
--   `unique_key` a key is held by a job that is gone: it is freed;
--   `group_slot` the turn of a group belongs to a job that is gone: it passes on;
--   `run`        a run waits for the outcome of a letter that its job no longer decides: it counts as skipped;
--   `schedule`   a schedule has had no next tick for a minute: an interval starts again, and a worker reads a cron line;
--   `group_count`, `counter` totals differ from the rows: they are corrected.
-- `deaths` of a group and `failure_hours` are history: they count letters that are deleted, or in another group since.
-- Every kind that it fixes is one audit record.
CREATE OR REPLACE FUNCTION redrive.repair(dry_run boolean DEFAULT true, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS TABLE (kind text, places bigint, examples text[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    event   CONSTANT jsonb := redrive.act_event('repaired', person, repair.reason);
    lost    bigint[];
    letters bigint[];
    freed   bigint[];
    names   text[];
    queues  text[];
    keys    text[];
    fault   text;
    counted record;
    highest bigint;
BEGIN
    PERFORM redrive.require_read_committed('repair'), redrive.flag_of('dry_run', dry_run);
    WHILE redrive.fold_metrics() > 0 LOOP END LOOP;
    -- A later statement reads them; see is_drained.
    LOCK TABLE redrive.jobs, redrive.leases, redrive.metric_deltas, redrive.metric_values IN ACCESS SHARE MODE;
    lost := ARRAY(
        SELECT l.id FROM redrive.dead_letters l WHERE l.state = 'redriving'
        UNION SELECT k.job_id FROM redrive.unique_keys k
        -- A letter that holds its group has no job until a redrive, which may commit meanwhile.
        UNION SELECT s.job_id FROM redrive.group_slots s WHERE s.held_at IS NULL
        EXCEPT SELECT j.id FROM redrive.live_jobs j);
    IF NOT dry_run THEN
        -- All that it changes at once, in the order in which every session locks letters.
        PERFORM FROM redrive.dead_letters l
        WHERE l.id = ANY (lost) AND l.state = 'redriving'
        ORDER BY l.id FOR UPDATE;
    END IF;
    FOREACH fault IN ARRAY
        '{sequence,letter,unique_key,group_slot,run,schedule,group_count,counter}'::text[]
    LOOP
        names := NULL;
        CASE fault
        WHEN 'sequence' THEN
            FOR counted IN
                SELECT 'redrive.job_id' AS sequence, 'SELECT max(u.id) FROM ('
                    'SELECT max(l.id) AS id FROM redrive.dead_letters l'
                    ' UNION ALL SELECT max(a.id) FROM redrive.archived_letters a'
                    ' UNION ALL SELECT max(j.id) FROM redrive.jobs j'
                    ' UNION ALL SELECT max(d.id) FROM redrive.jobs_delayed d'
                    ' UNION ALL SELECT max(i.id) FROM redrive.leases l CROSS JOIN LATERAL unnest(l.ids) AS i (id)) u' AS asked
                UNION ALL
                SELECT pg_get_serial_sequence(c.name, a.attname), format('SELECT max(%I) FROM %s', a.attname, c.name)
                FROM pg_attribute a
                CROSS JOIN LATERAL (SELECT a.attrelid::regclass::text AS name) c
                WHERE a.attidentity <> '' AND starts_with(c.name, 'redrive.')
            LOOP
                EXECUTE counted.asked INTO highest;
                CONTINUE WHEN coalesce(highest, 0) <= coalesce(pg_sequence_last_value(counted.sequence::regclass), 0);
                names := names || concat(counted.sequence, ' ', highest);
                IF NOT dry_run THEN
                    PERFORM setval(counted.sequence::regclass, highest);
                END IF;
            END LOOP;
        WHEN 'letter' THEN
            -- One that was redriven again meanwhile has a job.
            letters := ARRAY(
                SELECT l.id FROM redrive.dead_letters l
                WHERE l.id = ANY (lost) AND l.state = 'redriving' AND l.changed_at < statement_timestamp()
                ORDER BY l.id);
            names := letters;
            IF NOT dry_run THEN
                -- Not from `redriving` to `open`, which is a death, and not as an outcome of its run.
                UPDATE redrive.dead_letters l SET state = 'quarantined', run_ordinal = NULL WHERE l.id = ANY (letters);
                UPDATE redrive.dead_letters l
                SET state = 'open', changed_at = clock_timestamp(), events = redrive.add_event(l.events, event),
                    retry_after = CASE WHEN l.cause = 'captured' THEN clock_timestamp() END
                WHERE l.id = ANY (letters);
            END IF;
        WHEN 'unique_key' THEN
            SELECT array_agg(k.key ORDER BY k.job_id), coalesce(array_agg(k.job_id), '{}') INTO names, freed
            FROM redrive.unique_keys k
            WHERE k.job_id = ANY (lost) AND NOT EXISTS (
                SELECT FROM redrive.dead_letters l
                WHERE l.id = k.job_id AND l.state = 'redriving' AND l.id <> ALL (letters));
            IF NOT dry_run THEN
                DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (freed);
            END IF;
        WHEN 'group_slot' THEN
            SELECT array_agg(s.queue || ' ' || s.group_key ORDER BY s.job_id), coalesce(array_agg(s.job_id), '{}'),
                   array_agg(s.queue::text), array_agg(s.group_key::text)
            INTO names, freed, queues, keys
            FROM redrive.group_slots s
            WHERE CASE
                -- A letter that opens again passes its turn on.
                WHEN s.held_at IS NULL THEN s.job_id = ANY (lost) AND s.job_id <> ALL (letters)
                ELSE NOT EXISTS (
                    SELECT FROM redrive.dead_letters l WHERE l.id = s.job_id AND l.state IN ('open', 'quarantined')) END;
            IF NOT dry_run THEN
                DELETE FROM redrive.group_slots s WHERE s.job_id = ANY (freed);
                PERFORM redrive.wake(g.queue) FROM unnest(queues) AS g (queue);
                PERFORM redrive.hold_diverted(d.queue, d.group_key)
                FROM redrive.diverted_groups d WHERE (d.queue, d.group_key) IN (SELECT * FROM unnest(queues, keys));
            END IF;
        WHEN 'run' THEN
            SELECT array_agg(m.run_id || ' ' || m.letter_id ORDER BY m.run_id, m.ordinal) INTO names
            FROM redrive.run_letters m
            JOIN redrive.redrive_runs r ON r.id = m.run_id AND m.ordinal <= r.cursor
            WHERE m.outcome IS NULL
                AND NOT EXISTS (
                    SELECT FROM redrive.run_chunks c
                    WHERE c.run_id = r.id AND m.ordinal > c.cursor AND m.ordinal <= c.upto)
                AND NOT EXISTS (
                    SELECT FROM redrive.dead_letters l
                    WHERE l.id = m.letter_id AND l.state = 'redriving' AND l.run_id = r.id AND l.id <> ALL (letters));
            IF NOT dry_run THEN
                WITH told AS (
                    UPDATE redrive.run_letters m SET outcome = 'skipped_gone'
                    WHERE m.run_id || ' ' || m.letter_id = ANY (names) AND m.outcome IS NULL
                    RETURNING m.run_id
                )
                INSERT INTO redrive.run_deltas (run_id, sent, skipped)
                SELECT t.run_id, -count(*), count(*) FROM told t GROUP BY t.run_id;
            END IF;
        WHEN 'schedule' THEN
            SELECT array_agg(s.name ORDER BY s.name) INTO names
            FROM redrive.schedules s
            WHERE s.next_at IS NULL AND s.paused_at IS NULL AND s.changed_at < statement_timestamp() - interval '1 minute';
            IF NOT dry_run AND names IS NOT NULL THEN
                UPDATE redrive.schedules s
                SET next_at = clock_timestamp() + s.every, retry_at = NULL
                WHERE s.name = ANY (names) AND s.next_at IS NULL;
                PERFORM pg_notify('redrive_schedule', '');
            END IF;
        WHEN 'group_count' THEN
            WITH differences AS (
                SELECT g.id, s.state, coalesce(n.letters, 0) - s.letters AS more
                FROM redrive.failure_groups g
                CROSS JOIN LATERAL (VALUES
                    ('open', g.open), ('redriving', g.redriving), ('recovered', g.recovered), ('discarded', g.discarded),
                    ('quarantined', g.quarantined)) AS s (state, letters)
                LEFT JOIN (
                    SELECT l.group_id, l.state, count(*) AS letters FROM redrive.dead_letters l GROUP BY 1, 2
                ) n ON n.group_id = g.id AND n.state = s.state
                WHERE coalesce(n.letters, 0) <> s.letters
            ),
            fixed AS (
                INSERT INTO redrive.letter_deltas (group_id, state, letters)
                SELECT d.id, d.state, d.more FROM differences d WHERE NOT dry_run
            )
            SELECT array_agg(DISTINCT d.id ORDER BY d.id) INTO names FROM differences d;
        WHEN 'counter' THEN
            WITH differences AS (
                SELECT c.queue, c.state, c.rows - c.total AS more,
                       CASE WHEN c.set = 'dlq' THEN 'letters' WHEN c.rows > c.total THEN 'returned' ELSE 'ended' END AS key
                FROM redrive.count_rows() c
                WHERE c.rows <> c.total
            ),
            fixed AS (
                INSERT INTO redrive.metric_deltas (queue, keys, labels, counts)
                -- In rows of at most a billion; see `counts`.
                SELECT d.queue, ARRAY[d.key], ARRAY[nullif(d.state, '')],
                       ARRAY[CASE WHEN d.key = 'letters' AND d.more < 0 THEN -1 ELSE 1 END
                           * least(1000000000, abs(d.more) - p.place * 1000000000)]
                FROM differences d
                CROSS JOIN generate_series(0, (abs(d.more) - 1) / 1000000000) AS p (place)
                WHERE NOT dry_run
            )
            SELECT array_agg(concat_ws(' ', d.queue, CASE d.key WHEN 'letters' THEN d.state ELSE 'live' END,
                       to_char(d.more, 'FMSG999999999999')) ORDER BY d.queue, d.key, d.state)
            INTO names FROM differences d;
        END CASE;
        CONTINUE WHEN coalesce(cardinality(names), 0) = 0;
        kind := fault;
        places := cardinality(names);
        examples := names[1:10];
        IF NOT dry_run THEN
            PERFORM redrive.record_act('repair', person, reason, NULL,
                CASE fault WHEN 'letter' THEN places ELSE 0 END,
                jsonb_build_object('finding', fault, 'places', places, 'examples', to_jsonb(examples)));
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
