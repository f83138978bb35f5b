"""Views for operators, made and remade by migrations."""

VIEWS = {
    "v_window_log": "SELECT * FROM job_log WHERE latest = 1",
    # Kettle's latest-status view. By id, not by time: two runs may begin in the same second.
    # The names are found by one step in an index each, not by reading the history.
    "v_table_log": """
        WITH RECURSIVE names (job_name) AS (
            SELECT MIN(job_name) FROM job_log
            UNION ALL
            SELECT (SELECT MIN(l.job_name) FROM job_log l WHERE l.job_name > names.job_name)
            FROM names WHERE names.job_name IS NOT NULL
        )
        SELECT j.job_name, j.job_id, j.data_range_start, j.data_range_end,
               j.job_start_time AS begin_dttm, j.job_end_time AS end_dttm, j.status,
               COALESCE((SELECT SUM(s.success_count) FROM step_log s WHERE s.job_id = j.job_id), 0)
                   AS row_count,
               j.error_count
        FROM names n
        JOIN job_log j
          ON j.job_id = (SELECT MAX(l.job_id) FROM job_log l WHERE l.job_name = n.job_name)
    """,
    # Kettle's v_etl_kjb_log; by id as well. Two projects may share a log: the code says which.
    "v_job_log": """
        WITH RECURSIVE codes (job_code) AS (
            SELECT MIN(job_code) FROM job_run
            UNION ALL
            SELECT (SELECT MIN(l.job_code) FROM job_run l WHERE l.job_code > codes.job_code)
            FROM codes WHERE codes.job_code IS NOT NULL
        )
        SELECT r.job_name, r.job_run_id, r.job_type, r.begin_time AS begin_dttm,
               r.end_time AS end_dttm, r.status, r.error
        FROM codes c
        JOIN job_run r
          ON r.job_run_id = (SELECT MAX(l.job_run_id) FROM job_run l WHERE l.job_code = c.job_code)
    """,
}
"""Views for operators: the latest attempt at each window and of each table, and of each job."""
