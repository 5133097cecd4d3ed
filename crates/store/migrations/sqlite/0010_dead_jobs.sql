-- Failed jobs are searched, counted and pruned by themselves. Jobs that went well are not in these.
CREATE INDEX job_finished_dead ON job_finished (id) WHERE state = 4;
CREATE INDEX job_finished_dead_user ON job_finished (user_id, id) WHERE state = 4;
CREATE INDEX job_finished_dead_kind ON job_finished (kind, finished_at) WHERE state = 4;
