-- Purpose: Lists of jobs, and counts of live ones.

-- Lists jobs in the order of their ids: live ones, and finished ones that are kept if the filter asks for the state
-- `done`. `after` is the last id of the previous page.
CREATE OR REPLACE FUNCTION redrive.list_jobs(filter jsonb, after bigint DEFAULT NULL, max_jobs bigint DEFAULT 50)
    RETURNS SETOF redrive.live_jobs
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT j.* FROM redrive.' || CASE
            WHEN 'done' = ANY (redrive.filter_values(filter -> 'state')) THEN 'all_jobs'
            ELSE 'live_jobs' END
        || ' j WHERE ($2 IS NULL OR j.id > $2) AND ' || redrive.filter_jobs(filter)
        || ' ORDER BY j.id LIMIT $3'
        USING filter, after, max_jobs;
END
$$;

-- Counts the live jobs that match a filter, by state; `alike` is how many waiting ones have this priority.
-- Index: as in list_jobs.sql.
CREATE OR REPLACE FUNCTION redrive.count_jobs(
    filter jsonb, priority integer DEFAULT NULL, OUT ready bigint, OUT delayed bigint, OUT leased bigint, OUT alike bigint
)
    LANGUAGE plpgsql STABLE
AS $$
BEGIN
    EXECUTE
        'SELECT count(*) FILTER (WHERE j.state = ''ready''), count(*) FILTER (WHERE j.state = ''delayed''),'
        ' count(*) FILTER (WHERE j.state = ''leased''),'
        ' count(*) FILTER (WHERE j.state <> ''leased'' AND j.priority = $2) FROM redrive.live_jobs j WHERE '
        || redrive.filter_jobs(filter)
        INTO ready, delayed, leased, alike
        USING filter, priority;
END
$$;
