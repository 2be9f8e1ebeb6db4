//! Values that a user gives to names in braces in the commands of programs: `{lr}` stands for `0.1`.

use std::collections::BTreeMap;

use crate::{
    braces::{self, LaunchName, Piece},
    catalog,
};

/// Values by their names.
pub type Values = BTreeMap<String, String>;

/// Names that other parts of a definition fill in.
const RESERVED: [&str; 1] = ["words"];

/// Checks that a user may give a value to this name.
///
/// # Errors
/// The name cannot stand in braces, or the harness fills it in.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_lowercase() || c == '_';
    if name.is_empty() || !name.chars().all(is_legal) {
        return Err(format!("'{name}' is no name: use small letters and _, as in lr or weight_decay"));
    }
    let of_plan = catalog::is_number(name).then_some("the batch and the plan of the job give its number");
    let of_launch = name.parse::<LaunchName>().is_ok().then_some("it is filled in for each launch");
    let reserved = RESERVED.contains(&name).then_some("a definition uses it");
    match of_plan.or(of_launch).or(reserved) {
        Some(why) => Err(format!("the name {name} is taken: {why}; choose another")),
        None => Ok(()),
    }
}

/// Checks that a text can be a value. A value is a part of one word of a command, and of the name of a job.
///
/// # Errors
/// The text is empty, or has a character that would end the value or begin a name.
pub fn check_value(value: &str) -> Result<(), String> {
    let is_illegal = |c: char| c.is_whitespace() || c.is_control() || "{},".contains(c);
    if value.is_empty() || value.contains(is_illegal) {
        return Err(format!("'{value}' is no value: use one or more characters without spaces and braces"));
    }
    Ok(())
}

/// The values as rows and names of jobs have them: `lr=0.1 width=64`, in the order of their names. `None` without values.
pub fn text(values: &Values) -> Option<String> {
    let texts: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// The values that [`text`] has written.
pub fn read(text: &str) -> Values {
    let value = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    text.split_whitespace().filter_map(|word| word.split_once('=')).map(value).collect()
}

/// The text with these values filled in. Other names in braces stay as typed.
pub fn filled(text: &str, values: &Values) -> String {
    let piece = |piece| match piece {
        Piece::Text(text) => text,
        Piece::Name(name) => values[name].as_str(),
    };
    braces::pieces(text, |name| values.contains_key(name)).into_iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_and_other_names_stay() {
        let values: Values = [("lr", "0.1"), ("width", "64")].map(|(n, v)| (n.into(), v.into())).into();
        assert_eq!(filled("--lr={lr}{width}{launch} {{lr}} {x}", &values), "--lr=0.164{launch} {lr} {x}");
        assert_eq!(text(&values).as_deref(), Some("lr=0.1 width=64"));
        assert_eq!(read("lr=0.1 width=64"), values);
        assert_eq!(read("flag=--a=b"), [("flag".to_owned(), "--a=b".to_owned())].into());
        assert_eq!((text(&Values::new()), filled("{lr}", &Values::new())), (None, "{lr}".into()));
    }

    #[test]
    fn names_that_are_taken_and_values_of_several_words_are_refused() {
        let refused = |name| check_name(name).err().unwrap_or_default();
        for name in ["lr", "weight_decay", "workers"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, words) in [
            ("", "'' is no name"),
            ("Lr", "'Lr' is no name: use small letters and _"),
            ("ranks", "the name ranks is taken: the batch and the plan of the job give its number"),
            ("micro_batch", "the batch and the plan"),
            ("launch", "the name launch is taken: it is filled in for each launch"),
            ("repeat", "for each launch"),
            ("run", "for each launch"),
            ("checkpoint", "taken"),
            ("words", "taken"),
        ] {
            assert!(refused(name).contains(words), "{name}: {}", refused(name));
        }
        for value in ["0.1", "--amp", "1e+5", "a/b"] {
            assert_eq!(check_value(value), Ok(()), "{value}");
        }
        for value in ["", "a b", "{run}", "a\nb"] {
            assert!(check_value(value).is_err(), "{value}");
        }
    }
}
