//! The options that a program describes in the output of `--help`, as argparse, click and most other parsers write it.

/// An option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HelpOption {
    /// The first long spelling, as `--batch-size`, or the only one.
    pub(super) name: String,
    /// All spellings.
    pub(super) spellings: Vec<String>,
    pub(super) takes_value: bool,
    /// Whether it is a flag that may have a value, as in `--bf16 [BF16]`.
    pub(super) is_flag_with_value: bool,
    /// The values that it may have, if all are named.
    pub(super) choices: Vec<String>,
    pub(super) default: Option<String>,
}

/// The options in a text, in its order. A line that begins with `-` describes one, and lines that are indented further go on with it.
pub(super) fn options(text: &str) -> Vec<HelpOption> {
    let mut options: Vec<(usize, String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if indent > 0 && words.starts_with('-') && !words.starts_with("---") {
            let (head, rest) = words.split_once("  ").unwrap_or((words, ""));
            options.push((indent, head.to_owned(), rest.trim().to_owned()));
        } else if let Some((own, _, description)) = options.last_mut()
            && indent > *own
        {
            description.push(' ');
            description.push_str(words);
        }
    }
    options.into_iter().filter_map(|(_, head, description)| option(&head, &description)).collect()
}

/// An option from its spellings with its value, and from its description.
fn option(head: &str, description: &str) -> Option<HelpOption> {
    let mut option = HelpOption { default: default(description), ..HelpOption::default() };
    for word in head.split_whitespace() {
        let word = word.trim_end_matches(',');
        if !word.starts_with('-') {
            let is_separator = ["/", "|", ""].contains(&word);
            if !is_separator {
                option.take_value(word);
            }
            continue;
        }
        let (spelling, value) =
            word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        option.spellings.push(spelling.trim_end_matches([':', '[']).to_owned());
        if let Some(value) = value {
            option.take_value(value);
        }
    }
    let long = option.spellings.iter().find(|spelling| spelling.starts_with("--"));
    option.name = long.or(option.spellings.first())?.clone();
    Some(option)
}

impl HelpOption {
    /// A value as the help shows it: `N`, `[N]` if it may be left out, or `{a,b}` and `[a|b]` with all values.
    fn take_value(&mut self, shown: &str) {
        self.takes_value = true;
        let inner = shown.trim_matches(['[', ']', '{', '}']);
        let separator = if inner.contains('|') { '|' } else { ',' };
        if inner.contains(separator) {
            self.choices = inner.split(separator).map(|word| word.trim().to_owned()).collect();
        } else {
            self.is_flag_with_value = shown.starts_with('[');
        }
    }
}

/// The default that a description names: `(default: 16)`, `[default: 16]`, `default=16`.
fn default(description: &str) -> Option<String> {
    let (_, after) = description.split_once("default")?;
    let after = after.strip_prefix(['s', ':', '=', ' '])?.trim_start_matches([':', '=', ' ']);
    let word = after.split([')', ']', ',', ';', ' ']).next()?.trim_matches(['\'', '"', '`', '.']);
    (!word.is_empty()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, bool, Vec<String>, Option<String>)> {
        options(text)
            .into_iter()
            .map(|option| (option.name, option.takes_value, option.choices, option.default))
            .collect()
    }

    #[test]
    fn options_of_argparse_have_their_values_choices_and_defaults() {
        let text = "usage: train.py [-h] [--batch-size N]
                [--amp]

options:
  -h, --help            show this help message and exit
  --batch-size N, -b N  samples of a rank (default: 16)
  --dtype {float32,bfloat16}
                        precision of the model, with a long text
                        (default: float32)
  --amp, --no-amp       mixed precision
  --bf16 [BF16]         Whether to use bf16. (default: False)
";
        let none = Vec::new;
        assert_eq!(
            found(text),
            [
                ("--help".into(), false, none(), None),
                ("--batch-size".into(), true, none(), Some("16".into())),
                ("--dtype".into(), true, vec!["float32".into(), "bfloat16".into()], Some("float32".into())),
                ("--amp".into(), false, none(), None),
                ("--bf16".into(), true, none(), Some("False".into())),
            ]
        );
        assert!(options(text)[4].is_flag_with_value);
        assert_eq!(options(text)[1].spellings, ["--batch-size", "-b"]);
    }

    #[test]
    fn options_of_click_and_of_other_parsers_are_read_too() {
        let text = "Options:
  -b, --batch-size INTEGER   samples  [default: 4]
  --precision [32|bf16]
  --fast / --slow
  --lr=RATE                  the rate, default=0.1
 -s
";
        let names: Vec<_> = found(text).into_iter().map(|(name, takes, ..)| (name, takes)).collect();
        let expected =
            [("--batch-size", true), ("--precision", true), ("--fast", false), ("--lr", true), ("-s", false)];
        assert_eq!(names, expected.map(|(name, takes)| (name.to_owned(), takes)));
        assert_eq!(options(text)[1].choices, ["32", "bf16"]);
        assert_eq!(
            (&options(text)[0].default, &options(text)[3].default),
            (&Some("4".into()), &Some("0.1".into()))
        );
        assert_eq!(options("no options\n- a list\n"), []);
    }
}
