//! The rows that others write, written and read past the adapters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use roundsman_core::Timestamp;
use roundsman_core::bots::{Meeting, MeetingId};
use roundsman_store::conformance::{Backdoor, Said};
use roundsman_testkit::TestDatabase;
use rusqlite::{Connection, params};
use tokio_postgres::Client;

/// Opens the file of a store beside it.
pub(crate) struct SqliteDoor {
    file: PathBuf,
}

impl SqliteDoor {
    pub(crate) fn new(folder: &Path) -> Self {
        SqliteDoor { file: folder.join("test.db") }
    }

    fn open(&self) -> Connection {
        let connection = Connection::open(&self.file).expect("the file");
        // The store may be writing; whoever comes second waits for it.
        connection.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
        connection
    }
}

#[async_trait]
impl Backdoor for SqliteDoor {
    async fn put_meeting(&self, meeting: Meeting) {
        let put = "INSERT INTO meetings (id, user_id, platform, platform_specific_id, status,
                       bot_container_id, start_time, end_time, data, created_at, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let row = params![
            meeting.id.get(),
            meeting.user_id.get(),
            meeting.platform,
            meeting.native_id,
            meeting.status,
            meeting.container_id,
            meeting.start_time.map(Timestamp::as_micros),
            meeting.end_time.map(Timestamp::as_micros),
            meeting.data.as_str(),
            meeting.created_at.as_micros(),
            meeting.updated_at.as_micros(),
        ];
        self.open().execute(put, row).expect("a meeting");
    }

    async fn put_session(&self, meeting: MeetingId, session_uid: &str, at: Timestamp) {
        let put = "INSERT INTO meeting_sessions (meeting_id, session_uid, session_start_time)
                   VALUES (?1, ?2, ?3)";
        let row = params![meeting.get(), session_uid, at.as_micros()];
        self.open().execute(put, row).expect("a session");
    }

    async fn sessions(&self, meeting: MeetingId) -> Vec<(String, Timestamp)> {
        let connection = self.open();
        let mut sessions = connection
            .prepare(
                "SELECT session_uid, session_start_time FROM meeting_sessions
                  WHERE meeting_id = ?1 ORDER BY id",
            )
            .expect("sessions");
        let rows = sessions.query_map([meeting.get()], |row| {
            Ok((row.get(0)?, Timestamp::from_micros(row.get(1)?)))
        });
        rows.and_then(Iterator::collect).expect("sessions")
    }

    async fn put_said(&self, meeting: MeetingId, said: Said) {
        let put = "INSERT INTO transcriptions
                       (meeting_id, start_time, end_time, text, speaker, language, session_uid,
                        created_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)";
        let Said { start, end, text, speaker, language, session_uid } = said;
        let row = params![meeting.get(), start, end, text, speaker, language, session_uid];
        self.open().execute(put, row).expect("a transcription");
    }

    async fn count_said(&self, meeting: MeetingId) -> usize {
        let count = "SELECT count(*) FROM transcriptions WHERE meeting_id = ?1";
        let count = self.open().query_row(count, [meeting.get()], |row| row.get::<_, i64>(0));
        usize::try_from(count.expect("a count")).expect("few")
    }

    async fn said(&self, meeting: MeetingId) -> Vec<(i64, Said)> {
        let connection = self.open();
        let mut said = connection
            .prepare(
                "SELECT id, start_time, end_time, text, speaker, language, session_uid
                   FROM transcriptions WHERE meeting_id = ?1 ORDER BY id",
            )
            .expect("transcriptions");
        let rows = said.query_map([meeting.get()], |row| {
            let said = Said {
                start: row.get(1)?,
                end: row.get(2)?,
                text: row.get(3)?,
                speaker: row.get(4)?,
                language: row.get(5)?,
                session_uid: row.get(6)?,
            };
            Ok((row.get(0)?, said))
        });
        rows.and_then(Iterator::collect).expect("transcriptions")
    }

    async fn traces(&self, word: &str) -> Vec<String> {
        let connection = self.open();
        let mut names = connection.prepare(TABLES).expect("the tables");
        let names = names.query_map([], |row| row.get::<_, String>(0));
        let names: Vec<String> = names.and_then(Iterator::collect).expect("the tables");
        let has_word = |table: &String| {
            // The index of words keeps no rows that could be read, only where words are.
            let condition = if table == "transcript_words" {
                "words MATCH ?1".to_owned()
            } else {
                let rows = connection.prepare(&format!("SELECT * FROM {table}")).expect("a table");
                let found = |column: &str| format!("instr(lower(\"{column}\"), ?1) > 0");
                rows.column_names().map(found).collect::<Vec<_>>().join(" OR ")
            };
            let find = format!("SELECT count(*) FROM {table} WHERE {condition}");
            connection.query_row(&find, [word], |row| row.get::<_, i64>(0)).expect(&find) > 0
        };
        names.into_iter().filter(has_word).collect()
    }
}

/// Tables with rows of their own: not those behind the index of words.
const TABLES: &str = "
    SELECT name FROM sqlite_master
     WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'transcript_words_%'";

/// Speaks to the database of a store on a connection of its own.
pub(crate) struct PostgresDoor(pub(crate) Arc<TestDatabase>);

impl PostgresDoor {
    async fn open(&self) -> Client {
        self.0.connect().await.expect("a connection")
    }
}

/// Times go as microseconds, so that nothing but the adapter decides about zones.
const PUT_MEETING: &str = "
    INSERT INTO public.meetings (id, user_id, platform, platform_specific_id, status,
        bot_container_id, start_time, end_time, data, created_at, updated_at)
    VALUES ($1::bigint, $2::bigint, $3, $4, $5, $6,
        timestamp 'epoch' + $7::bigint * interval '1 microsecond',
        timestamp 'epoch' + $8::bigint * interval '1 microsecond', $9::text::jsonb,
        timestamp 'epoch' + $10::bigint * interval '1 microsecond',
        timestamp 'epoch' + $11::bigint * interval '1 microsecond')";

const PUT_SESSION: &str = "
    INSERT INTO public.meeting_sessions (meeting_id, session_uid, session_start_time)
    VALUES ($1::bigint, $2, timestamptz 'epoch' + $3::bigint * interval '1 microsecond')";

const SESSIONS: &str = "
    SELECT session_uid, (extract(epoch FROM session_start_time) * 1000000)::bigint
      FROM public.meeting_sessions WHERE meeting_id = $1::bigint ORDER BY id";

const PUT_SAID: &str = "
    INSERT INTO public.transcriptions
        (meeting_id, start_time, end_time, text, speaker, language, session_uid)
    VALUES ($1::bigint, $2, $3, $4, $5, $6, $7)";

const SAID: &str = "
    SELECT id::bigint, start_time, end_time, text, speaker, language, session_uid
      FROM public.transcriptions WHERE meeting_id = $1::bigint ORDER BY id";

const ALL_TABLES: &str = "
    SELECT schemaname || '.' || tablename FROM pg_tables
     WHERE schemaname IN ('public', 'roundsman') ORDER BY 1";

const COUNT_SAID: &str = "SELECT count(*) FROM public.transcriptions WHERE meeting_id = $1::bigint";

#[async_trait]
impl Backdoor for PostgresDoor {
    async fn put_meeting(&self, meeting: Meeting) {
        let written = self
            .open()
            .await
            .execute(
                PUT_MEETING,
                &[
                    &meeting.id.get(),
                    &meeting.user_id.get(),
                    &meeting.platform,
                    &meeting.native_id,
                    &meeting.status,
                    &meeting.container_id,
                    &meeting.start_time.map(Timestamp::as_micros),
                    &meeting.end_time.map(Timestamp::as_micros),
                    &meeting.data.as_str(),
                    &meeting.created_at.as_micros(),
                    &meeting.updated_at.as_micros(),
                ],
            )
            .await;
        written.expect("a meeting");
    }

    async fn put_session(&self, meeting: MeetingId, session_uid: &str, at: Timestamp) {
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&meeting.get(), &session_uid, &at.as_micros()];
        self.open().await.execute(PUT_SESSION, &row).await.expect("a session");
    }

    async fn sessions(&self, meeting: MeetingId) -> Vec<(String, Timestamp)> {
        let rows = self.open().await.query(SESSIONS, &[&meeting.get()]).await.expect("sessions");
        rows.iter().map(|row| (row.get(0), Timestamp::from_micros(row.get(1)))).collect()
    }

    async fn put_said(&self, meeting: MeetingId, said: Said) {
        let Said { start, end, text, speaker, language, session_uid } = said;
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&meeting.get(), &start, &end, &text, &speaker, &language, &session_uid];
        self.open().await.execute(PUT_SAID, &row).await.expect("a transcription");
    }

    async fn count_said(&self, meeting: MeetingId) -> usize {
        let row = self.open().await.query_one(COUNT_SAID, &[&meeting.get()]).await;
        usize::try_from(row.expect("a count").get::<_, i64>(0)).expect("few")
    }

    async fn said(&self, meeting: MeetingId) -> Vec<(i64, Said)> {
        let rows = self.open().await.query(SAID, &[&meeting.get()]).await.expect("transcriptions");
        let said = rows.iter().map(|row| {
            let said = Said {
                start: row.get(1),
                end: row.get(2),
                text: row.get(3),
                speaker: row.get(4),
                language: row.get(5),
                session_uid: row.get(6),
            };
            (row.get(0), said)
        });
        said.collect()
    }

    async fn traces(&self, word: &str) -> Vec<String> {
        let client = self.open().await;
        let tables = client.query(ALL_TABLES, &[]).await.expect("the tables");
        let mut found = Vec::new();
        for table in tables {
            let table: String = table.get(0);
            let find =
                format!("SELECT count(*) FROM {table} r WHERE strpos(lower(r::text), $1) > 0");
            let count: i64 = client.query_one(&find, &[&word]).await.expect(&find).get(0);
            if count > 0 {
                found.push(table);
            }
        }
        found
    }
}
