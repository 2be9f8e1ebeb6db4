//! Divides many planes into figures.

/// The number of planes that a figure can show.
pub const MOST: usize = 12;

/// Divides things that become planes into figures, each with the text that tells it from the others.
pub fn in_figures<T>(things: Vec<T>) -> Vec<(String, Vec<T>)> {
    let figures = things.len().div_ceil(MOST);
    let mut things = things.into_iter();
    let part = |number: usize| if figures > 1 { format!("{number} of {figures}") } else { String::new() };
    (1..=figures).map(|number| (part(number), things.by_ref().take(MOST).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plane_is_lost_and_no_figure_has_too_many() {
        assert_eq!(in_figures(Vec::<u8>::new()), []);
        assert_eq!(in_figures(vec![7]), [(String::new(), vec![7])]);
        let parts = in_figures((0..25).collect());
        assert_eq!(parts.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["1 of 3", "2 of 3", "3 of 3"]);
        assert_eq!(
            parts.into_iter().flat_map(|(_, things)| things).collect::<Vec<_>>(),
            (0..25).collect::<Vec<_>>()
        );
    }
}
