//! The arguments of a program as typed, in which options are found, and filled by names in braces.

use schema::braces::{self, LaunchName, Piece};

use super::help::HelpOption;

/// Words, in which braces of the program's own are doubled.
pub(super) struct Arguments(Vec<String>);

impl Arguments {
    pub(super) fn new(typed: &[String]) -> Arguments {
        Arguments(typed.iter().map(|word| escaped(word)).collect())
    }

    pub(super) fn into_words(self) -> Vec<String> {
        self.0
    }

    /// Replaces the value of an option by a name in braces, and returns the value. An option that was not typed is added.
    pub(super) fn fill(&mut self, option: &HelpOption, name: &str) -> Option<String> {
        let Some((index, is_joined)) = self.find(option) else {
            self.0.extend([option.name.clone(), name.to_owned()]);
            return None;
        };
        if is_joined {
            let (spelling, value) = self.0[index].split_once('=')?;
            let (filled, value) = (format!("{spelling}={name}"), value.to_owned());
            self.0[index] = filled;
            return Some(value);
        }
        match self.0.get_mut(index + 1) {
            Some(value) => Some(std::mem::replace(value, name.to_owned())),
            None => {
                self.0.push(name.to_owned());
                None
            }
        }
    }

    /// Removes an option with its value. `None` if it was not typed, and `Some(None)` if it was typed without a value.
    pub(super) fn take(&mut self, option: &HelpOption) -> Option<Option<String>> {
        let (index, is_joined) = self.find(option)?;
        let word = self.0.remove(index);
        if is_joined {
            return Some(word.split_once('=').map(|(_, value)| value.to_owned()));
        }
        let is_value = |next: &String| !(option.is_flag_with_value && next.starts_with('-'));
        let has_value = option.takes_value && self.0.get(index).is_some_and(is_value);
        Some(has_value.then(|| self.0.remove(index)))
    }

    /// The place of an option, and whether its value is in the same word.
    fn find(&self, option: &HelpOption) -> Option<(usize, bool)> {
        self.0.iter().enumerate().find_map(|(index, word)| {
            let (spelling, is_joined) =
                word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
            option.spellings.iter().any(|known| known == spelling).then_some((index, is_joined))
        })
    }
}

/// A word with its braces doubled where they would stand for a value. Names of a launch stay.
fn escaped(word: &str) -> String {
    let is_filled = |name: &str| !name.is_empty() && name.parse::<LaunchName>().is_err();
    let text = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Name(name) => format!("{{{{{name}}}}}"),
    };
    braces::pieces(word, is_filled).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_replaced_where_they_were_typed_and_added_where_they_were_not() {
        let option = |name: &str, takes_value| HelpOption {
            name: name.into(),
            spellings: vec![name.into()],
            takes_value,
            ..HelpOption::default()
        };
        let words = ["--a", "1", "--b=2", "{x}", "{launch}", "--flag", "last"].map(str::to_owned);
        let mut arguments = Arguments::new(&words);
        assert_eq!(arguments.fill(&option("--a", true), "{a}").as_deref(), Some("1"));
        assert_eq!(arguments.fill(&option("--b", true), "{b}").as_deref(), Some("2"));
        assert_eq!(arguments.fill(&option("--c", true), "{c}"), None);
        assert_eq!(arguments.take(&option("--flag", false)), Some(None));
        assert_eq!(arguments.take(&option("--other", false)), None);
        let filled = ["--a", "{a}", "--b={b}", "{{x}}", "{launch}", "last", "--c", "{c}"];
        assert_eq!(arguments.into_words(), filled);
    }
}
