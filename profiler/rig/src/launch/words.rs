//! Words of a user's command that are filled in for each launch.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf, absolute},
};

use record::run_dir::RunDir;
use schema::{
    braces::{self, LaunchName, Piece},
    spec::{LaunchSpec, Program},
};

/// The pieces of a text, in which names of a launch stand for values.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    braces::pieces(text, |name| name.parse::<LaunchName>().is_ok())
}

/// The names of a launch in a text.
fn names(text: &str) -> impl Iterator<Item = LaunchName> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Name(name) => name.parse().ok(),
        Piece::Text(_) => None,
    })
}

/// Whether a text has a word that is filled in, so that its meaning is known only when a launch begins.
pub fn has_words(text: &str) -> bool {
    names(text).next().is_some()
}

/// Checks that a shell leaves the paths in this command whole. `run` is the directory of the run.
///
/// # Errors
/// The command has a word for a path, and the path has characters that a shell reads.
pub fn check_shell(command: &str, run: &Path) -> io::Result<()> {
    let is_path = |name| name != LaunchName::Repeat;
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,=:@%".contains(c);
    if names(command).any(is_path) && !absolute(run)?.to_string_lossy().chars().all(is_plain) {
        let why = "the path of the run has characters that a shell reads; name another directory with --out";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

/// What the words of a launch stand for. Paths are absolute, because a program may run in another folder.
pub(super) struct Values {
    launch: PathBuf,
    repeat: u32,
    run: PathBuf,
    /// `None` for a program that defines no checkpoint.
    checkpoint: Option<PathBuf>,
}

impl Values {
    pub(super) fn for_launch(run: &RunDir, spec: &LaunchSpec) -> io::Result<Values> {
        let launch = absolute(run.output_path(&spec.launch))?;
        let checkpoint = spec.checkpoint.as_ref().map(|of| absolute(run.checkpoint_path(&of.folder)));
        Ok(Values {
            launch,
            repeat: spec.block,
            run: absolute(run.path())?,
            checkpoint: checkpoint.transpose()?,
        })
    }

    fn value(&self, name: LaunchName) -> OsString {
        match name {
            LaunchName::Launch => self.launch.clone().into(),
            LaunchName::Repeat => self.repeat.to_string().into(),
            LaunchName::Run => self.run.clone().into(),
            LaunchName::Checkpoint => match &self.checkpoint {
                Some(folder) => folder.clone().into(),
                None => format!("{{{name}}}").into(),
            },
        }
    }

    /// The text with its words filled in.
    pub(super) fn fill(&self, text: &str) -> OsString {
        let mut filled = OsString::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push(text),
                Piece::Name(name) => filled.push(self.value(name.parse().expect("it is known"))),
            }
        }
        filled
    }

    /// A message of the launch with its words as typed in place of paths, which are private.
    pub(super) fn hide(&self, message: &str) -> String {
        let checkpoint = self.checkpoint.as_ref().map(|path| (path, LaunchName::Checkpoint));
        let paths = [(&self.launch, LaunchName::Launch), (&self.run, LaunchName::Run)];
        checkpoint.into_iter().chain(paths).fold(message.to_owned(), |message, (path, name)| {
            let typed = format!("{{{name}}}");
            let path = path.to_string_lossy();
            let mut parts = message.split(&*path);
            let mut hidden = parts.next().unwrap_or_default().to_owned();
            for after in parts {
                // Another file may have a name that begins with this path.
                let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
                hidden.push_str(if is_whole { &typed } else { &path });
                hidden.push_str(after);
            }
            hidden
        })
    }
}

/// Whether a text of the launch names its folder for output, which is made only then.
pub(super) fn names_output(spec: &LaunchSpec) -> bool {
    let (Program::Command(argv), Some(surroundings)) = (&spec.program, &spec.surroundings) else {
        return false;
    };
    let mut texts = argv.iter().map(String::as_str).chain(surroundings.texts());
    texts.any(|text| names(text).any(|name| name == LaunchName::Launch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_words_are_filled_in_and_all_other_braces_stay() {
        let checkpoint = Some("/r/checkpoints/job-0003".into());
        let values = Values { launch: "/r/outputs/0001-a".into(), repeat: 2, run: "/r".into(), checkpoint };
        for (text, filled) in [
            ("", ""),
            ("--out={launch}/out", "--out=/r/outputs/0001-a/out"),
            ("{run}/{repeat}{repeat}", "/r/22"),
            ("{checkpoint}/last.pt", "/r/checkpoints/job-0003/last.pt"),
            ("{print $1}", "{print $1}"),
            (r#"{"seed": {repeat}, "dir": "{launch}"}"#, r#"{"seed": 2, "dir": "/r/outputs/0001-a"}"#),
            ("{} {x} {Launch} {launch {repeat", "{} {x} {Launch} {launch {repeat"),
            ("{{launch}} {{repeat}} {{run}}", "{launch} {repeat} {run}"),
            ("{{{repeat}}}", "{{repeat}}"),
            ("{{repeat}", "{2"),
            ("{{x}}", "{{x}}"),
            ("ä{repeat}ö{", "ä2ö{"),
        ] {
            assert_eq!(values.fill(text), filled, "{text}");
        }
        assert!(has_words("x{run}") && !has_words("{{run}}{x}"));
        let hidden = values.hide("no /r/outputs/0001-a/x in /r, /run, /r/checkpoints/job-0003");
        assert_eq!(hidden, "no {launch}/x in {run}, /run, {checkpoint}");
        let without = Values { checkpoint: None, ..values };
        assert_eq!(without.fill("{checkpoint}{repeat}"), "{checkpoint}2", "a command without a definition");
    }
}
