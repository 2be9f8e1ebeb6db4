//! Words of a user's command that are filled in for each launch.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf, absolute},
};

use record::run_dir::RunDir;
use schema::spec::{LaunchSpec, Program};

/// A word in braces that has a meaning. All other braces are the program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// The folder for what this launch writes.
    Launch,
    /// The number of the repeat, as in the column `repeat`.
    Repeat,
    /// The directory of the run.
    Run,
}

impl Word {
    const ALL: [Word; 3] = [Word::Launch, Word::Repeat, Word::Run];

    fn typed(self) -> &'static str {
        match self {
            Word::Launch => "{launch}",
            Word::Repeat => "{repeat}",
            Word::Run => "{run}",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Word(Word),
}

/// The pieces of a text. A word in double braces is this word itself, in single braces.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(brace) = rest.find('{') {
        let (before, from) = rest.split_at(brace);
        pieces.push(Piece::Text(before));
        let begins = |word: &Word| from.starts_with(word.typed());
        let is_doubled = |word: &Word| {
            let inner = from.strip_prefix('{').and_then(|inner| inner.strip_prefix(word.typed()));
            inner.is_some_and(|after| after.starts_with('}'))
        };
        let (piece, length) = if let Some(word) = Word::ALL.into_iter().find(begins) {
            (Piece::Word(word), word.typed().len())
        } else if let Some(word) = Word::ALL.into_iter().find(is_doubled) {
            (Piece::Text(word.typed()), word.typed().len() + 2)
        } else {
            (Piece::Text("{"), 1)
        };
        pieces.push(piece);
        rest = &from[length..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Whether a text has a word that is filled in, so that its meaning is known only when a launch begins.
pub fn has_words(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Word(_)))
}

/// Checks that a shell leaves the paths in this command whole. `run` is the directory of the run.
///
/// # Errors
/// The command has a word for a path, and the path has characters that a shell reads.
pub fn check_shell(command: &str, run: &Path) -> io::Result<()> {
    let is_path = |piece: &Piece<'_>| matches!(piece, Piece::Word(Word::Launch | Word::Run));
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,=:@%".contains(c);
    if pieces(command).iter().any(is_path) && !absolute(run)?.to_string_lossy().chars().all(is_plain) {
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
}

impl Values {
    pub(super) fn for_launch(run: &RunDir, spec: &LaunchSpec) -> io::Result<Values> {
        let launch = absolute(run.output_path(&spec.launch))?;
        Ok(Values { launch, repeat: spec.block, run: absolute(run.path())? })
    }

    /// The text with its words filled in.
    pub(super) fn fill(&self, text: &str) -> OsString {
        let mut filled = OsString::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push(text),
                Piece::Word(Word::Launch) => filled.push(&self.launch),
                Piece::Word(Word::Repeat) => filled.push(self.repeat.to_string()),
                Piece::Word(Word::Run) => filled.push(&self.run),
            }
        }
        filled
    }

    /// A message of the launch with its words as typed in place of paths, which are private.
    pub(super) fn hide(&self, message: &str) -> String {
        let paths = [(&self.launch, Word::Launch), (&self.run, Word::Run)];
        paths.into_iter().fold(message.to_owned(), |message, (path, word)| {
            let path = path.to_string_lossy();
            let mut parts = message.split(&*path);
            let mut hidden = parts.next().unwrap_or_default().to_owned();
            for after in parts {
                // Another file may have a name that begins with this path.
                let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
                hidden.push_str(if is_whole { word.typed() } else { &path });
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
    texts.any(|text| pieces(text).contains(&Piece::Word(Word::Launch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_are_filled_in_and_all_other_braces_stay() {
        let values = Values { launch: "/r/outputs/0001-a".into(), repeat: 2, run: "/r".into() };
        for (text, filled) in [
            ("", ""),
            ("--out={launch}/out", "--out=/r/outputs/0001-a/out"),
            ("{run}/{repeat}{repeat}", "/r/22"),
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
        assert_eq!(values.hide("no /r/outputs/0001-a/x in /r, /run"), "no {launch}/x in {run}, /run");
    }
}
