//! The operator's token: configured, or made at the first start and shown once.
//!
//! Invariant: there always is one. A made token is kept as a hash in the data folder, so that it
//! goes on working after a restart and cannot be read from there. The configuration refuses to
//! listen beyond this machine without a configured token.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use roundsman_core::ports::Random;
use roundsman_engine::users::AdminToken;
use secrecy::ExposeSecret;

use crate::config::Config;

const HASH_FILE: &str = "admin-token.sha256";

/// The token in force.
pub(super) struct Loaded {
    pub(super) token: AdminToken,
    /// Its text, if it was made just now.
    pub(super) made: Option<String>,
}

pub(super) fn load_or_make(config: &Config, random: &dyn Random) -> anyhow::Result<Loaded> {
    if let Some(token) = &config.admin.token {
        return Ok(Loaded { token: AdminToken::new(token.expose_secret()), made: None });
    }
    let path = config.server.data.join(HASH_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let token = AdminToken::from_hash_hex(text.trim()).with_context(|| {
                format!("{} is damaged; delete it to get a new token", path.display())
            })?;
            Ok(Loaded { token, made: None })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut bytes = [0u8; 24];
            random.fill(&mut bytes);
            let text = format!("rma_{}", hex::encode(bytes));
            let token = AdminToken::new(&text);
            save(&config.server.data, &path, &token)?;
            Ok(Loaded { token, made: Some(text) })
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn save(folder: &Path, path: &Path, token: &AdminToken) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "{}", token.hash_hex())?;
    file.sync_all()?;
    Ok(())
}
