//! `roundsman backup`: one moment of the database in a file, while the server runs.

use std::path::Path;

use roundsman_store::sqlite::upkeep::{self, CopyReport};
use secrecy::ExposeSecret;
use serde_json::json;

use super::{postgres_tools, tell};
use crate::cli::BackupArgs;
use crate::config::{Config, DatabaseTarget};

pub(crate) async fn run(config: Config, args: BackupArgs) -> anyhow::Result<()> {
    match &config.database.target {
        DatabaseTarget::Sqlite(path) => {
            let (path, into) = (path.clone(), args.file.clone());
            let report =
                tokio::task::spawn_blocking(move || upkeep::backup(&path, &into)).await??;
            let text = format!("{} ({})", args.file.display(), summary(&report));
            tell(args.json, &as_json(&args.file, &report), &text)
        }
        DatabaseTarget::Postgres(url) => {
            postgres_tools::dump(url.expose_secret(), &args.file).await?;
            let bytes = std::fs::metadata(&args.file)?.len();
            let json = json!({"file": args.file, "bytes": bytes, "database": "postgresql"});
            tell(args.json, &json, &format!("{} ({bytes} bytes)", args.file.display()))
        }
    }
}

pub(super) fn summary(report: &CopyReport) -> String {
    let rows: i64 = report.rows.iter().map(|(_, rows)| rows).sum();
    let (bytes, schema) = (report.bytes, report.schema);
    format!("schema {schema}, {rows} rows in {} tables, {bytes} bytes", report.rows.len())
}

pub(super) fn as_json(file: &Path, report: &CopyReport) -> serde_json::Value {
    let rows: serde_json::Map<_, _> =
        report.rows.iter().map(|(table, rows)| (table.clone(), json!(rows))).collect();
    json!({
        "file": file,
        "bytes": report.bytes,
        "schema": report.schema,
        "rows": rows,
        "database": "sqlite",
    })
}
