//! Finds the program before anything is started, so that a missing one is a refusal and not a bot
//! that exits at once.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for if the bots' environment does not say.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) fn find(command: &[String], env: &[(String, String)]) -> Result<PathBuf, String> {
    let Some(program) = command.first() else {
        return Err("no command is configured".to_owned());
    };
    let found = if program.contains('/') {
        std::path::absolute(program).ok().filter(|path| is_executable(path))
    } else {
        let path = env.iter().rev().find(|(key, _)| key == "PATH");
        let path = path.map_or(PATH_DEFAULT, |(_, value)| value);
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        folders.map(|folder| Path::new(folder).join(program)).find(|path| is_executable(path))
    };
    found.ok_or_else(|| format!("there is no program {program}"))
}

fn is_executable(path: &Path) -> bool {
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_path_or_in_the_configured_one() {
        let find = |program: &str, path: Option<&str>| {
            let env: Vec<_> = path.map(|p| ("PATH".to_owned(), p.to_owned())).into_iter().collect();
            find(&[program.to_owned()], &env)
        };
        assert_eq!(find("/bin/sh", None).unwrap(), Path::new("/bin/sh"));
        assert!(find("sh", None).is_ok() && find("sh", Some("/nowhere:/bin")).is_ok());
        for (program, path) in [
            ("sh", Some("/nowhere")),
            ("sh", Some(".:")),
            ("no-such-program", None),
            ("/no/such/program", None),
            ("/etc/passwd", None),
            ("/bin", None),
            ("", None),
        ] {
            assert!(find(program, path).is_err(), "{program}");
        }
        assert!(super::find(&[], &[]).is_err());
    }
}
