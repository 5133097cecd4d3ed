-- Work that outside generators do for projects.
--
-- Of indexes that cost the same, as all do while a table is empty, the planner takes the one that was
-- made last: keys come after the indexes that only end with them.

CREATE TABLE roundsman.tasks (
    no               bigint GENERATED ALWAYS AS IDENTITY,
    user_id          bigint NOT NULL,
    project_id       text COLLATE "C" NOT NULL,
    task_type        text COLLATE "C" NOT NULL,
    status           text COLLATE "C" NOT NULL,
    -- What it waits for: waiting, sending, polling, collecting, over.
    stage            text COLLATE "C" NOT NULL,
    -- As the user gave them, JSON.
    params           text NOT NULL,
    node_id          text,
    external_service text COLLATE "C" NOT NULL,
    external_task_id text COLLATE "C",
    -- What it is sent under, the same however often.
    submit_key       text NOT NULL,
    result_url       text,
    result_data      text,
    -- What is kept of its files, as JSON.
    files            text NOT NULL,
    -- Opens them to whoever has it.
    result_key       text COLLATE "C" NOT NULL,
    error_code       text,
    error_message    text,
    retry_count      bigint NOT NULL,
    max_retries      bigint NOT NULL,
    polls            bigint NOT NULL,
    retry_of         bigint,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    completed_at     timestamptz,
    deadline_at      timestamptz NOT NULL,
    next_poll_at     timestamptz,
    hinted_at        timestamptz,
    -- When the document of the project was told of its end.
    applied_at       timestamptz,
    version          bigint NOT NULL,
    CHECK ((stage = 'over') = (status IN ('completed', 'failed', 'cancelled'))),
    CHECK ((stage = 'over') = (completed_at IS NOT NULL)),
    CHECK ((stage = 'polling') = (next_poll_at IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX tasks_project ON roundsman.tasks (project_id, no);
CREATE INDEX tasks_user ON roundsman.tasks (user_id, no);
ALTER TABLE roundsman.tasks ADD PRIMARY KEY (no), ADD UNIQUE (result_key);
-- Those that somebody waits for.
CREATE INDEX tasks_active ON roundsman.tasks (project_id, no) WHERE stage <> 'over';
CREATE INDEX tasks_unfinished ON roundsman.tasks (no, status) WHERE stage <> 'over';
-- Those that take a slot of their service.
CREATE INDEX tasks_slots ON roundsman.tasks (external_service)
 WHERE stage IN ('sending', 'polling');
CREATE INDEX tasks_external ON roundsman.tasks (external_service, external_task_id)
 WHERE external_task_id IS NOT NULL;
-- Those that are forgotten one day: documents link to the files of the others.
CREATE INDEX tasks_ended ON roundsman.tasks (completed_at, no)
 WHERE stage = 'over' AND files = '[]' AND applied_at IS NOT NULL;
CREATE INDEX tasks_untold ON roundsman.tasks (no) WHERE stage = 'over' AND applied_at IS NULL;

-- Whoever takes a slot of a service holds its row.
CREATE TABLE roundsman.task_slots (
    service text COLLATE "C" PRIMARY KEY
);
