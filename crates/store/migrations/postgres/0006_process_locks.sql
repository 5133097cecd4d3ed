-- Server processes that hold an advisory lock in their name for as long as they live.

CREATE TABLE roundsman.process_locks (
    process_no bigint PRIMARY KEY,
    locked_at  timestamptz NOT NULL,
    -- Since when nobody was seen to hold the lock; NULL: it was held when last looked at.
    free_since timestamptz
);
