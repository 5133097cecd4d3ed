-- The place by whose clock a recurring audit goes. An interval goes by none; a calendar without one goes by
-- UTC, as all of them did before.
ALTER TABLE recurring_audits ADD COLUMN time_zone TEXT;

-- A week used to begin on Monday here. It begins on Sunday now, as it does for schedules of jobs; those that
-- exist keep their day.
UPDATE recurring_audits SET schedule = '0 0 * * 1' WHERE schedule = '@weekly';
