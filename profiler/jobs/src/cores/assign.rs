//! Assigns cores to ranks, as a pure function of the machine and the requests.

/// A core with its hyperthreads: their processor numbers in the kernel, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core(pub Vec<u16>);

/// The cores that one rank requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The processors near its GPU; empty if no core is nearer than another.
    pub near: Vec<u16>,
    pub cores: usize,
}

impl Wish {
    fn is_near(&self, core: &Core) -> bool {
        self.near.is_empty() || core.0.iter().all(|cpu| self.near.contains(cpu))
    }
}

/// Gives each rank as many cores as it requests, or all if it requests more. Ranks have separate cores while there are any
/// left, first those near their GPU, and neighbouring ones if possible. After that, cores with the fewest ranks are shared.
///
/// Cores are assigned in their order. A rank has the processors of its cores, ascending.
pub fn assign(cores: &[Core], wishes: &[Wish]) -> Vec<Vec<u16>> {
    let mut given: Vec<Vec<usize>> = vec![Vec::new(); wishes.len()];
    let everyone: Vec<usize> = (0..wishes.len()).collect();
    for wish in wishes.iter().filter(|wish| !wish.near.is_empty()) {
        let alike: Vec<usize> =
            everyone.iter().copied().filter(|&rank| wishes[rank].near == wish.near).collect();
        let near = free(cores.len(), &given).filter(|&core| wish.is_near(&cores[core])).collect();
        hand_out(near, &alike, wishes, &mut given);
    }
    hand_out(free(cores.len(), &given).collect(), &everyone, wishes, &mut given);
    for (rank, wish) in wishes.iter().enumerate() {
        while given[rank].len() < wish.cores.min(cores.len()) {
            let users = |core: usize| given.iter().filter(|of_rank| of_rank.contains(&core)).count();
            let others = (0..cores.len()).filter(|core| !given[rank].contains(core));
            let next = others.min_by_key(|&core| (users(core), !wish.is_near(&cores[core])));
            given[rank].extend(next);
        }
    }
    given.into_iter().map(|of_rank| processors(cores, &of_rank)).collect()
}

/// The cores that no rank has.
fn free(cores: usize, given: &[Vec<usize>]) -> impl Iterator<Item = usize> {
    (0..cores).filter(|core| !given.iter().any(|of_rank| of_rank.contains(core)))
}

/// Deals cores to these ranks one at a time, so that no rank is short because of an earlier one, and gives each a contiguous
/// stretch.
fn hand_out(free: Vec<usize>, ranks: &[usize], wishes: &[Wish], given: &mut [Vec<usize>]) {
    let mut open: Vec<usize> =
        ranks.iter().map(|&rank| wishes[rank].cores.saturating_sub(given[rank].len())).collect();
    let mut stretches = vec![0; ranks.len()];
    for place in (0..ranks.len()).cycle().take(free.len() * ranks.len()) {
        if open[place] > 0 && stretches.iter().sum::<usize>() < free.len() {
            open[place] -= 1;
            stretches[place] += 1;
        }
    }
    let mut free = free.into_iter();
    for (&rank, stretch) in ranks.iter().zip(stretches) {
        given[rank].extend(free.by_ref().take(stretch));
    }
}

fn processors(cores: &[Core], chosen: &[usize]) -> Vec<u16> {
    let mut processors: Vec<u16> = chosen.iter().flat_map(|&core| cores[core].0.clone()).collect();
    processors.sort_unstable();
    processors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores `0..count`, each with the hyperthread `count` higher where there are such.
    fn machine(count: u16, has_hyperthreads: bool) -> Vec<Core> {
        let core = |number| Core(if has_hyperthreads { vec![number, number + count] } else { vec![number] });
        (0..count).map(core).collect()
    }

    fn given(cores: &[Core], wishes: &[(&[u16], usize)]) -> String {
        let wishes: Vec<Wish> =
            wishes.iter().map(|(near, cores)| Wish { near: near.to_vec(), cores: *cores }).collect();
        let names =
            assign(cores, &wishes).into_iter().map(|cores| schema::device::Device::Cpu(cores).to_string());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ranks_have_cores_of_their_own_near_their_gpu_for_as_long_as_there_are_any() {
        // Two sockets of four cores; a processor is near by its number, its hyperthread's too.
        let sockets: [&[u16]; 2] = [&[0, 1, 2, 3, 8, 9, 10, 11], &[4, 5, 6, 7, 12, 13, 14, 15]];
        let [left, right] = sockets;
        let (plain, smt) = (machine(8, false), machine(8, true));
        for (what, cores, wishes, expected) in [
            ("alone", &plain, &[(right, 2)][..], "cpu:4-5"),
            ("each at its own socket", &plain, &[(right, 3), (left, 3)], "cpu:4-6 cpu:0-2"),
            ("two GPUs at one node", &plain, &[(right, 2), (right, 2)], "cpu:4-5 cpu:6-7"),
            ("the node is too small for both", &plain, &[(right, 3), (right, 3)], "cpu:0+4-5 cpu:1+6-7"),
            ("the other GPU's cores come first", &plain, &[(right, 6), (left, 2)], "cpu:2-7 cpu:0-1"),
            ("hyperthreads stay together", &smt, &[(left, 2), (right, 1)], "cpu:0-1+8-9 cpu:4+12"),
            ("nothing is nearer", &plain, &[(&[], 2), (&[], 3)], "cpu:0-1 cpu:2-4"),
        ] {
            assert_eq!(given(cores, wishes), expected, "{what}");
        }
    }

    #[test]
    fn where_cores_are_too_few_the_least_used_are_shared() {
        for (what, cores, wishes, expected) in [
            ("a rank too many", 2, &[1, 1, 1][..], "cpu:0 cpu:1 cpu:0"),
            ("one core", 1, &[1, 1], "cpu:0 cpu:0"),
            ("more than there are", 2, &[3], "cpu:0-1"),
            ("more together than there are", 3, &[2, 2], "cpu:0-1 cpu:0+2"),
            ("no core", 0, &[1], "cpu:"),
        ] {
            let wishes: Vec<(&[u16], usize)> = wishes.iter().map(|cores| (&[][..], *cores)).collect();
            assert_eq!(given(&machine(cores, false), &wishes), expected, "{what}");
        }
    }
}
