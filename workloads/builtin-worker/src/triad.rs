//! The STREAM triad (McCalpin, 1995), with which `profile calibrate` measures memory and `stress-memory`
//! loads it.

/// Bytes read and written per element: `b`, `c` and `a`.
pub const ELEMENT_BYTES: u64 = 3 * size_of::<f64>() as u64;

const SCALE: f64 = 3.0;

/// `a = b + 3 c`, element by element; `b` and `c` are as long as `a`, or longer.
pub fn triad(a: &mut [f64], b: &[f64], c: &[f64]) {
    // With equal lengths, no bounds checks are needed.
    let (b, c) = (&b[..a.len()], &c[..a.len()]);
    for i in 0..a.len() {
        a[i] = b[i] + SCALE * c[i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_triad_is_b_plus_three_times_c() {
        let mut a = [0.0; 4];
        triad(&mut a, &[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0, 30.0, 40.0]);
        assert_eq!(a, [31.0, 62.0, 93.0, 124.0]);
    }
}
