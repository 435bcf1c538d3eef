-- Counts the rows that belong to no job or letter, once the queue has drained. Zero rows: there are none.
SELECT l.what, l.rows FROM (
    SELECT 'unique keys of jobs that are not live' AS what, count(*) AS rows
    FROM redrive.unique_keys k
    WHERE NOT EXISTS (SELECT FROM redrive.live_jobs j WHERE j.id = k.job_id)
    UNION ALL
    SELECT 'turns of jobs that are not live and of letters that are not open', count(*)
    FROM redrive.group_slots s
    WHERE CASE WHEN s.held_at IS NULL
        THEN NOT EXISTS (SELECT FROM redrive.live_jobs j WHERE j.id = s.job_id)
        ELSE NOT EXISTS (SELECT FROM redrive.dead_letters d WHERE d.id = s.job_id AND d.state IN ('open', 'quarantined'))
        END
    UNION ALL
    SELECT 'diverted groups without an open letter', count(*)
    FROM redrive.diverted_groups g
    WHERE NOT EXISTS (SELECT FROM redrive.dead_letters d
                      WHERE d.queue = g.queue AND d.group_key = g.group_key AND d.state IN ('open', 'quarantined'))
    UNION ALL
    SELECT 'redriving letters without a job', count(*)
    FROM redrive.dead_letters d
    WHERE d.state = 'redriving' AND NOT EXISTS (SELECT FROM redrive.live_jobs j WHERE j.id = d.id)
    UNION ALL
    SELECT 'versions of letters that are gone', count(*)
    FROM redrive.letter_versions v
    WHERE NOT EXISTS (SELECT FROM redrive.dead_letters d WHERE d.id = v.letter_id)
        AND NOT EXISTS (SELECT FROM redrive.archived_letters a WHERE a.id = v.letter_id)
) l
WHERE l.rows > 0
