//! Groups what belongs into one plane, and divides many planes into figures.

/// The number of planes that a figure can show.
pub const MOST: usize = 12;

/// Divides things that become planes into figures, each with the text that tells it from the others.
pub fn in_figures<T>(things: Vec<T>) -> Vec<(String, Vec<T>)> {
    let figures = things.len().div_ceil(MOST);
    let mut things = things.into_iter();
    let part = |number: usize| if figures > 1 { format!("{number} of {figures}") } else { String::new() };
    (1..=figures).map(|number| (part(number), things.by_ref().take(MOST).collect())).collect()
}

/// Puts together what has an equal key, in order of first appearance. No group is empty.
pub fn grouped<T, K: PartialEq>(things: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for thing in things {
        let own = key(&thing);
        match groups.iter_mut().find(|(of, _)| *of == own) {
            Some((_, group)) => group.push(thing),
            None => groups.push((own, vec![thing])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
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

    #[test]
    fn groups_are_in_order_of_their_first() {
        assert_eq!(
            grouped([5, 12, 7, 31, 15], |number| number % 10),
            [vec![5, 15], vec![12], vec![7], vec![31]]
        );
    }
}
