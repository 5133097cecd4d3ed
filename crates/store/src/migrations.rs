//! The migrations of both databases: numbered alike, forward only, and since the first release only
//! adding, because nodes of the release before work on while one after the other is replaced.

#[cfg(test)]
mod additive;

/// One step of the schema.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

macro_rules! migration {
    ($number:literal, $name:literal) => {
        Migration {
            number: $number,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
        }
    };
}

/// All steps, oldest first.
pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_foundation"),
    migration!(2, "0002_bots"),
    migration!(3, "0003_transcripts"),
    migration!(4, "0004_presence"),
    migration!(5, "0005_recordings"),
    migration!(6, "0006_process_locks"),
    migration!(7, "0007_audits"),
    migration!(8, "0008_gates"),
    migration!(9, "0009_schedules"),
    migration!(10, "0010_dead_jobs"),
    migration!(11, "0011_batches"),
    migration!(12, "0012_rooms"),
    migration!(13, "0013_tasks"),
    migration!(14, "0014_kept_presence"),
    migration!(15, "0015_audit_zones_and_keys"),
];

/// The newest schema this program knows.
pub const SCHEMA_KNOWN: u32 = MIGRATIONS[MIGRATIONS.len() - 1].number;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_up_from_one_and_begin_the_names() {
        for (migration, number) in MIGRATIONS.iter().zip(1u32..) {
            assert_eq!(migration.number, number);
            assert!(migration.name.starts_with(&format!("{number:04}_")), "{}", migration.name);
        }
    }
}
