-- Work that outside generators do for projects. Times are microseconds since 1970.

CREATE TABLE tasks (
    no               INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id          INTEGER NOT NULL,
    project_id       TEXT NOT NULL,
    task_type        TEXT NOT NULL,
    status           TEXT NOT NULL,
    -- What it waits for: waiting, sending, polling, collecting, over.
    stage            TEXT NOT NULL,
    -- As the user gave them, JSON.
    params           TEXT NOT NULL,
    node_id          TEXT,
    external_service TEXT NOT NULL,
    external_task_id TEXT,
    -- What it is sent under, the same however often.
    submit_key       TEXT NOT NULL,
    result_url       TEXT,
    result_data      TEXT,
    -- What is kept of its files, as JSON.
    files            TEXT NOT NULL,
    -- Opens them to whoever has it.
    result_key       TEXT NOT NULL UNIQUE,
    error_code       TEXT,
    error_message    TEXT,
    retry_count      INTEGER NOT NULL,
    max_retries      INTEGER NOT NULL,
    polls            INTEGER NOT NULL,
    retry_of         INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    completed_at     INTEGER,
    deadline_at      INTEGER NOT NULL,
    next_poll_at     INTEGER,
    hinted_at        INTEGER,
    -- When the document of the project was told of its end.
    applied_at       INTEGER,
    version          INTEGER NOT NULL,
    CHECK ((stage = 'over') = (status IN ('completed', 'failed', 'cancelled'))),
    CHECK ((stage = 'over') = (completed_at IS NOT NULL)),
    CHECK ((stage = 'polling') = (next_poll_at IS NOT NULL))
) STRICT;
CREATE INDEX tasks_project ON tasks (project_id, no);
CREATE INDEX tasks_user ON tasks (user_id, no);
-- Those that somebody waits for.
CREATE INDEX tasks_active ON tasks (project_id, no) WHERE stage <> 'over';
CREATE INDEX tasks_unfinished ON tasks (no, status) WHERE stage <> 'over';
-- Those that take a slot of their service.
CREATE INDEX tasks_slots ON tasks (external_service) WHERE stage IN ('sending', 'polling');
CREATE INDEX tasks_external ON tasks (external_service, external_task_id)
 WHERE external_task_id IS NOT NULL;
-- Those that are forgotten one day: documents link to the files of the others.
CREATE INDEX tasks_ended ON tasks (completed_at, no)
 WHERE stage = 'over' AND files = '[]' AND applied_at IS NOT NULL;
CREATE INDEX tasks_untold ON tasks (no) WHERE stage = 'over' AND applied_at IS NULL;
