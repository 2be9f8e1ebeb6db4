//! Words that several parts of a report share.

/// The first of several names, at most this many, and how many more there are: `a; b; and 3 more`.
pub fn first_of(names: &[String], most: usize, separator: &str) -> String {
    let mut phrases: Vec<String> = names.iter().take(most).cloned().collect();
    if names.len() > most {
        phrases.push(format!("and {} more", names.len() - most));
    }
    phrases.join(separator)
}

/// `1 job`, `2 jobs`.
pub fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_most_are_counted() {
        let names = ["a", "b", "c"].map(str::to_owned);
        for (most, expected) in [(3, "a; b; c"), (2, "a; b; and 1 more"), (0, "and 3 more")] {
            assert_eq!(first_of(&names, most, "; "), expected);
        }
        assert_eq!(first_of(&[], 2, ", "), "");
        assert_eq!([0, 1, 2].map(|count| counted(count, "job")), ["0 jobs", "1 job", "2 jobs"]);
    }
}
