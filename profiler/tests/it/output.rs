//! Readers that are gone before all is printed.

use std::process::Stdio;

use crate::door::Door;

#[test]
fn a_reader_that_is_gone_ends_nothing() {
    let door = Door::new();
    for arguments in ["list", "list --json", "single vae --device cpu --steps 3 --dry-run --json"] {
        let mut command = door.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("profile starts");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it is ours").code(), Some(0), "{arguments}");
    }
}
